//! Base64 as Go reads it, with the place of the first mistake.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the text without line breaks, its last bits cleared.
///
/// # Errors
/// `illegal base64 data at input byte 4`
pub fn canonical(text: &str) -> Result<String, String> {
    let bytes = decode(text.as_bytes()).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    Ok(STANDARD.encode(bytes))
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    let mut group = Vec::with_capacity(4);
    while at < text.len() {
        let letter = text[at];
        at += 1;
        if matches!(letter, b'\r' | b'\n') {
            continue;
        }
        if letter == b'=' {
            end(text, at, &group)?;
            flush(&group, &mut bytes);
            return Ok(bytes);
        }
        group.push(sextet(letter).ok_or(at - 1)?);
        if group.len() == 4 {
            flush(&group, &mut bytes);
            group.clear();
        }
    }
    if group.is_empty() { Ok(bytes) } else { Err(text.len() - group.len()) }
}

/// Checks the text after the first `=`, which stands before `at`.
fn end(text: &[u8], mut at: usize, group: &[u8]) -> Result<(), usize> {
    let skip = |mut at: usize| {
        while matches!(text.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    match group.len() {
        0 | 1 => return Err(at - 1),
        2 => {
            at = skip(at);
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        _ => {}
    }
    at = skip(at);
    if at < text.len() { Err(at) } else { Ok(()) }
}

fn sextet(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn flush(group: &[u8], bytes: &mut Vec<u8>) {
    let bits = group.iter().fold(0_u32, |bits, sextet| bits << 6 | u32::from(*sextet)) << (6 * (4 - group.len()));
    let [_, first, second, third] = bits.to_be_bytes();
    bytes.extend([first, second, third].iter().take(group.len().saturating_sub(1)));
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn mistakes_are_placed_as_go_places_them() {
        for (text, at) in
            [("a", 0), ("abc", 0), ("abcd=", 4), ("ab=c", 2), ("ab==x", 4), ("a b=", 1), ("äbcd", 0), ("ab=", 3)]
        {
            assert_eq!(canonical(text).unwrap_err(), format!("illegal base64 data at input byte {at}"), "{text}");
        }
        assert_eq!(canonical("aGVs\nbG8=").unwrap(), "aGVsbG8=");
        assert_eq!(canonical("aGVsbG9=").unwrap(), "aGVsbG8=");
        assert_eq!(canonical("").unwrap(), "");
    }
}
