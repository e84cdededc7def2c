//! Values to text: YAML that kubectl, and every other reader of YAML 1.1 or 1.2, reads as the same values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::Serialize;
use serde_json::Value;

use super::scalar::{plain_is_text, timestamp};

/// The longest key that may stand before its `:` without a `?`, in bytes.
const SIMPLE_KEY: usize = 1000;

/// A value whose keys keep the order in which they were written.
enum Ordered {
    Mapping(Vec<(String, Ordered)>),
    List(Vec<Ordered>),
    Scalar(Value),
}

/// Writes a value as kubectl writes YAML; the fields of a struct keep their order.
///
/// # Errors
/// Fails for a value without a form in JSON: a key that is no text, or too many levels.
pub fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let ordered: Ordered = serde_json::from_str(&serde_json::to_string(value)?)?;
    let mut writer = Writer { text: String::new() };
    writer.whole(&ordered);
    Ok(writer.text)
}

struct Writer {
    text: String,
}

impl Writer {
    fn whole(&mut self, value: &Ordered) {
        match value {
            Ordered::Mapping(entries) if !entries.is_empty() => self.mapping(entries, 0),
            Ordered::List(items) if !items.is_empty() => self.list(items, 0),
            single => {
                self.text.push_str(&single.behind(2));
                self.text.push('\n');
            }
        }
    }

    /// Writes entries. The first stands where the text ends.
    fn mapping(&mut self, entries: &[(String, Ordered)], indent: usize) {
        for (at, (key, value)) in entries.iter().enumerate() {
            self.begin(at, indent);
            let key = on_one_line(key);
            if key.len() > SIMPLE_KEY {
                self.text.push_str(&format!("? {key}\n"));
                self.indent(indent);
            } else {
                self.text.push_str(&key);
            }
            self.text.push(':');
            match value {
                Ordered::Mapping(inner) if !inner.is_empty() => {
                    self.text.push('\n');
                    self.indent(indent + 2);
                    self.mapping(inner, indent + 2);
                }
                // The dash stands below the key.
                Ordered::List(items) if !items.is_empty() => {
                    self.text.push('\n');
                    self.indent(indent);
                    self.list(items, indent);
                }
                single => self.single(single, indent),
            }
        }
    }

    /// Writes items. The first stands where the text ends.
    fn list(&mut self, items: &[Ordered], indent: usize) {
        for (at, item) in items.iter().enumerate() {
            self.begin(at, indent);
            self.text.push('-');
            match item {
                Ordered::Mapping(inner) if !inner.is_empty() => {
                    self.text.push(' ');
                    self.mapping(inner, indent + 2);
                }
                Ordered::List(inner) if !inner.is_empty() => {
                    self.text.push(' ');
                    self.list(inner, indent + 2);
                }
                single => self.single(single, indent),
            }
        }
    }

    /// Writes a value behind its key or dash.
    fn single(&mut self, value: &Ordered, indent: usize) {
        self.text.push(' ');
        self.text.push_str(&value.behind(indent + 2));
        self.text.push('\n');
    }

    fn begin(&mut self, at: usize, indent: usize) {
        if at > 0 {
            self.indent(indent);
        }
    }

    fn indent(&mut self, indent: usize) {
        self.text.extend(std::iter::repeat_n(' ', indent));
    }
}

impl Ordered {
    /// Returns a single value, or an empty collection. The lines of a text are indented.
    fn behind(&self, indent: usize) -> Cow<'_, str> {
        match self {
            Ordered::Mapping(_) => "{}".into(),
            Ordered::List(_) => "[]".into(),
            Ordered::Scalar(Value::String(text)) if text.contains('\n') => lines(text, indent),
            Ordered::Scalar(Value::String(text)) => on_one_line(text),
            Ordered::Scalar(other) => other.to_string().into(),
        }
    }
}

/// Returns a text of several lines as a block, if a block can hold it.
fn lines(text: &str, indent: usize) -> Cow<'_, str> {
    let holds = !text.starts_with([' ', '\n']) && !text.contains(" \n") && !text.ends_with(' ') && is_printable(text);
    if !holds {
        return double(text).into();
    }
    let content = text.trim_end_matches('\n');
    let header = match text.len() - content.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    let mut block = header.to_owned();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        block.push('\n');
        if !line.is_empty() {
            block.extend(std::iter::repeat_n(' ', indent));
            block.push_str(line);
        }
    }
    block.into()
}

/// Returns a text on one line: without quotes where nobody takes it for anything else.
fn on_one_line(text: &str) -> Cow<'_, str> {
    if !is_printable(text) || text.contains('\n') {
        return double(text).into();
    }
    if text.is_empty() || !plain_is_text(text) || timestamp(text) || is_of_base_60(text) {
        return format!("\"{text}\"").into();
    }
    if is_plain(text) { text.into() } else { format!("'{}'", text.replace('\'', "''")).into() }
}

/// Returns true when a text can stand without quotes.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let second = text.chars().nth(1).unwrap_or(' ');
    let indicator = ",[]{}#&*!|>'\"%@` ".contains(first) || ("?:-".contains(first) && second == ' ');
    let inside = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    !indicator && !inside && !text.starts_with("---") && !text.starts_with("...")
}

/// Returns true for a number of base 60 or a time, which is a number to some readers of YAML 1.1.
fn is_of_base_60(text: &str) -> bool {
    let number = text.strip_prefix(['-', '+']).unwrap_or(text);
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.contains(':')
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | '_'))
}

/// Returns true when quotes or lines can hold a text as it is.
fn is_printable(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || is_odd(c)))
}

/// Returns true for characters that end a line, begin a file or are no character to readers of YAML.
fn is_odd(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Returns a text in double quotes, with the escapes that YAML and JSON share.
pub(in crate::manifest) fn double(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || is_odd(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Ordered, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Ordered::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered::Mapping(entries))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::documents;
    use super::*;

    fn read(text: &str) -> Value {
        let (read, complaints) = documents(text);
        assert!(complaints.is_empty(), "{complaints:?} in\n{text}");
        read.first().map_or(Value::Null, |document| document.read().0.unwrap().into_value())
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn what_yaml_1_1_reads_otherwise_is_quoted() {
        for text in [
            "yes",
            "No",
            "ON",
            "off",
            "y",
            "Y",
            "n",
            "N",
            "true",
            "False",
            "null",
            "~",
            "Null",
            "1",
            "1_000",
            "-1",
            "+1",
            "0x1F",
            "0o17",
            "0b1",
            "017",
            "1.5",
            ".5",
            "1e3",
            "1.",
            ".inf",
            "-.INF",
            ".NaN",
            "<<",
            "",
            "2026-11-26",
            "2026-11-26T20:00:00Z",
            "1:30",
            "12:30:45",
            "190:20:30.15",
        ] {
            let written = to_text(&json!({"a": text, text: "b"})).unwrap();
            assert!(
                written.contains(&format!("a: \"{text}\"\n")) && written.contains(&format!("\"{text}\": b\n")),
                "{written}"
            );
            assert_eq!(read(&written), json!({"a": text, text: "b"}));
        }
        for text in [
            "web",
            "a b",
            "v1.2.3",
            "1.2.3",
            "1Gi",
            "50%x",
            "http://a:80/b?c=d",
            "-a",
            "?a",
            ":a",
            "a#b",
            "a: 1".split(':').next().unwrap(),
        ] {
            assert_eq!(to_text(text).unwrap(), format!("{text}\n"));
        }
        for (text, written) in [
            ("a: b", "'a: b'"),
            ("a #b", "'a #b'"),
            ("- a", "'- a'"),
            ("*", "'*'"),
            ("@it's", "'@it''s'"),
            ("a:", "'a:'"),
            (" a", "' a'"),
            ("---", "'---'"),
            ("a\tb", "\"a\\tb\""),
            ("a\u{2028}", "\"a\\u2028\""),
        ] {
            assert_eq!(to_text(text).unwrap(), format!("{written}\n"));
        }
    }

    #[test]
    fn collections_are_written_as_kubectl_writes_them() {
        let value =
            json!({"a": {"b": [1, {"c": "d", "e": []}, [true, null], "x\ny\n"]}, "f": {}, "g": "l\n\nm", "h": "n\n\n"});
        let text = "a:\n  b:\n  - 1\n  - c: d\n    e: []\n  - - true\n    - null\n  - |\n    x\n    y\nf: {}\ng: |-\n  l\n\n  m\nh: |+\n  n\n\n";
        assert_eq!(to_text(&value).unwrap(), text);
        assert_eq!(read(text), value);
        assert_eq!(to_text("a\nb\n").unwrap(), "|\n  a\n  b\n");
    }

    #[test]
    fn the_fields_of_a_struct_keep_their_order() {
        #[derive(serde::Serialize)]
        struct Pair {
            z: u8,
            a: u8,
        }
        assert_eq!(to_text(&[Pair { z: 1, a: 2 }]).unwrap(), "- z: 1\n  a: 2\n");
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["\\PC{0,6}", "[-+.:0-9_a-fxoTZ]{1,8}", "[ \\n\\t#:'\"\\\\|>a-c]{0,8}", any::<String>()];
        let single = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        single.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_read_back(value in value()) {
            let written = to_text(&json!({"a": value})).unwrap();
            prop_assert_eq!(read(&written), json!({"a": value}), "{}", written);
        }
    }
}
