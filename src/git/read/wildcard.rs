//! Patterns with `*` and `?`, as those of tags.

/// Tells whether a text fits a pattern.
pub(in crate::git) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                // Back to the last star, which takes one byte more.
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patterns_match_as_simply_as_can_be(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn simply(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern.split_first(), text.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), None) => simply(rest, text),
                    (Some((b'*', rest)), Some((_, less))) => simply(rest, text) || simply(pattern, less),
                    (Some((p, rest)), Some((t, less))) => (*p == b'?' || p == t) && simply(rest, less),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), simply(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
