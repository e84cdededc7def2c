//! The items of a list, one by one as they arrive: however much a list holds, one item of it is in memory at a time.

/// The most bytes of one item: several times the size of one object in etcd.
pub(super) const ITEM_LIMIT: usize = 16 * 1024 * 1024;
/// The bytes that are kept of an item that is too long, to tell which it is.
pub(super) const BEGINNING: usize = 1024 * 1024;
/// The most bytes of a list without its items.
const REST_LIMIT: usize = 1024 * 1024;
/// The longest key at the list's own level that is compared in full.
const KEY_LIMIT: usize = 64;

/// An item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Whole(&'a [u8]),
    /// The beginning of one that has more than [`ITEM_LIMIT`] bytes.
    TooLong(&'a [u8]),
}

impl<'a> Item<'a> {
    /// The text, as far as it was kept.
    pub(super) fn text(self) -> &'a [u8] {
        let (Item::Whole(text) | Item::TooLong(text)) = self;
        text
    }
}

/// What is wrong with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    #[error("the list has more than {REST_LIMIT} bytes besides its objects")]
    Rest,
}

/// Takes a list apart while it is read. It does not check for valid JSON: the parser of an item, or of the rest, does
/// that.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The list without its items.
    rest: Vec<u8>,
    /// The bytes of the present item so far.
    item: Vec<u8>,
    /// True when it has more bytes than it may have; `item` is its beginning then.
    is_too_long: bool,
    /// How deep the next byte is: 1 in the list itself, 2 between the items.
    depth: u32,
    /// The newest text at depth 1, which may turn out to be a key.
    text: Vec<u8>,
    in_text: bool,
    escaped: bool,
    in_items: bool,
}

impl Items {
    /// Takes what has arrived, and hands on the items that are whole by it.
    pub(super) fn push(&mut self, bytes: &[u8], mut whole: impl FnMut(Item<'_>)) -> Result<(), TooMuch> {
        for &byte in bytes {
            if self.in_items { self.item_byte(byte, &mut whole)? } else { self.own_byte(byte)? }
        }
        Ok(())
    }

    /// Returns the list without its items.
    pub(super) fn rest(&self) -> &[u8] {
        &self.rest
    }

    fn own_byte(&mut self, byte: u8) -> Result<(), TooMuch> {
        if self.rest.len() >= REST_LIMIT {
            return Err(TooMuch::Rest);
        }
        self.rest.push(byte);
        if self.in_text {
            let ends = self.ends_text(byte);
            if !ends && self.depth == 1 && self.text.len() < KEY_LIMIT {
                self.text.push(byte);
            }
            return Ok(());
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.text.clear();
            }
            b'{' => self.depth += 1,
            b'[' => {
                self.depth += 1;
                self.in_items = self.depth == 2 && self.text == b"items";
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    fn item_byte(&mut self, byte: u8, whole: &mut impl FnMut(Item<'_>)) -> Result<(), TooMuch> {
        let between = self.depth == 2 && !self.in_text;
        if between {
            match byte {
                b']' => {
                    self.hand_on(whole);
                    self.in_items = false;
                    self.depth = 1;
                    self.rest.push(byte);
                    return Ok(());
                }
                b',' => {
                    self.hand_on(whole);
                    return Ok(());
                }
                byte if byte.is_ascii_whitespace() => return Ok(()),
                _ => {}
            }
        }
        if self.item.len() >= ITEM_LIMIT {
            self.is_too_long = true;
            self.item.truncate(BEGINNING);
            self.item.shrink_to_fit();
        }
        if !self.is_too_long {
            self.item.push(byte);
        }
        if self.in_text {
            self.ends_text(byte);
            return Ok(());
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    /// Returns true when the present text ends with this byte.
    fn ends_text(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_text = false,
            _ => {}
        }
        !self.in_text
    }

    fn hand_on(&mut self, whole: &mut impl FnMut(Item<'_>)) {
        if !self.item.is_empty() {
            whole(if self.is_too_long { Item::TooLong(&self.item) } else { Item::Whole(&self.item) });
            self.is_too_long = false;
            self.item.clear();
            self.item.shrink_to(64 * 1024);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns the parts of a list that arrives in pieces of this size.
    fn apart(text: &str, size: usize) -> (Vec<Value>, Value) {
        let (mut items, mut found) = (Items::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut take = |item: Item<'_>| match item {
                Item::Whole(item) => found.push(serde_json::from_slice(item).unwrap()),
                Item::TooLong(_) => panic!("none is too long"),
            };
            items.push(piece, &mut take).unwrap();
        }
        (found, serde_json::from_slice(items.rest()).unwrap())
    }

    #[test]
    fn a_list_comes_apart_wherever_it_is_cut() {
        let all = [
            json!({"metadata": {"name": "a"}, "items": [1, {"items": []}], "text": "\\\"]},[{ \u{e4}"}),
            json!({}),
            json!({"data": {"x]": "[\\\\"}}),
        ];
        let list = json!({"kind": "List", "metadata": {"continue": "x\"items\"", "items": [7]}, "items": all});
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for size in [1, 2, 3, 7, 64, 10_000] {
                let (found, rest) = apart(&text, size);
                assert_eq!(found, all, "{size}");
                assert_eq!(rest["metadata"], list["metadata"]);
                assert_eq!(rest["items"], json!([]));
            }
        }
    }

    #[test]
    fn what_is_no_list_has_no_items() {
        for text in ["{\"items\": null}", "{\"kind\":\"items\",\"a\":[1]}", "[{\"items\":[1]}]", "\"items\"", "3"] {
            let (found, rest) = apart(text, 2);
            assert!(found.is_empty(), "{text}");
            assert_eq!(rest, serde_json::from_str::<Value>(text).unwrap());
        }
        let (found, _) = apart("{\"items\": [1, \"a,]\", [2, 3]]}", 3);
        assert_eq!(found, [json!(1), json!("a,]"), json!([2, 3])]);
    }

    #[test]
    fn what_is_too_much_is_not_kept() {
        let (mut items, mut found) = (Items::default(), Vec::new());
        let mut take = |item: Item<'_>| {
            found.push(match item {
                Item::Whole(item) => String::from_utf8_lossy(item).into_owned(),
                Item::TooLong(item) => format!("{} bytes", item.len()),
            });
        };
        items.push(b"{\"items\":[\"", &mut take).unwrap();
        items.push(&vec![b'a'; ITEM_LIMIT + 1], &mut take).unwrap();
        items.push(b"],\", 2]}", &mut take).unwrap();
        assert!(items.item.capacity() <= BEGINNING, "{}", items.item.capacity());
        assert_eq!(found, [format!("{BEGINNING} bytes"), "2".to_owned()], "the others are read all the same");
        let mut items = Items::default();
        assert_eq!(items.push(&vec![b' '; REST_LIMIT + 1], |_| {}), Err(TooMuch::Rest));
    }
}
