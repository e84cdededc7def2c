//! The wire: fields with a number, each a number of seven bits a byte, eight bytes, or bytes with their length in front.

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Raw<'a> {
    /// A whole number; negative ones in two's complement.
    Number(u64),
    /// Eight bytes, little end first.
    Eight([u8; 8]),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// Reads the fields of a message, in the order in which they come.
///
/// # Errors
/// The text breaks off, or is no valid message.
pub fn fields(message: &[u8]) -> Result<Vec<(u32, Raw<'_>)>, String> {
    let mut left = message;
    let mut fields = Vec::new();
    while !left.is_empty() {
        let key = number(&mut left)?;
        let field = u32::try_from(key >> 3).map_err(|_| "proto: illegal tag".to_owned())?;
        if field == 0 {
            return Err("proto: illegal tag 0".to_owned());
        }
        let raw = match key & 7 {
            0 => Raw::Number(number(&mut left)?),
            1 => {
                let (eight, rest) = left.split_first_chunk().ok_or_else(broken)?;
                left = rest;
                Raw::Eight(*eight)
            }
            2 => {
                let length = usize::try_from(number(&mut left)?).map_err(|_| broken())?;
                let (bytes, rest) = left.split_at_checked(length).ok_or_else(broken)?;
                left = rest;
                Raw::Bytes(bytes)
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        fields.push((field, raw));
    }
    Ok(fields)
}

fn broken() -> String {
    "unexpected EOF".to_owned()
}

fn number(left: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = left.split_first().ok_or_else(broken)?;
        *left = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

/// Writes a field with a number.
pub fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put(out, u64::from(field) << 3);
    put(out, value);
}

/// Writes a field with eight bytes.
pub fn put_eight(out: &mut Vec<u8>, field: u32, value: [u8; 8]) {
    put(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value);
}

/// Writes a field with text, bytes or a message.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put(out, u64::from(field) << 3 | 2);
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        put_number(&mut out, 1, u64::MAX);
        put_bytes(&mut out, 200, b"text");
        put_eight(&mut out, 3, 1.5_f64.to_le_bytes());
        let expected =
            vec![(1, Raw::Number(u64::MAX)), (200, Raw::Bytes(b"text")), (3, Raw::Eight(1.5_f64.to_le_bytes()))];
        assert_eq!(fields(&out).unwrap(), expected);
        for end in 1..out.len() - 1 {
            // A text that breaks off between two fields is only shorter.
            drop(fields(&out[..end]));
        }
        assert!(fields(&out[..5]).is_err() && fields(&[0x0f]).is_err() && fields(&[0xff; 12]).is_err());
    }
}
