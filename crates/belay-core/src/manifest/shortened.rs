//! Texts from elsewhere, cut before they are shown or kept.

use std::borrow::Cow;

/// Returns a text of at most `longest` characters; an ellipsis as the last one shows that it was cut.
#[must_use]
pub fn shortened(text: &str, longest: usize) -> Cow<'_, str> {
    if text.char_indices().nth(longest).is_none() {
        return Cow::Borrowed(text);
    }
    let last = longest.saturating_sub(1);
    let end = text.char_indices().nth(last).map_or(text.len(), |(end, _)| end);
    Cow::Owned(text[..end].chars().chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_is_not_longer_than_it_may_be() {
        for (text, longest, expected) in
            [("", 3, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("äöüß", 3, "äö…"), ("äöü", 3, "äöü"), ("ab", 1, "…")]
        {
            assert_eq!(shortened(text, longest), expected, "{text:?}, {longest}");
        }
    }
}
