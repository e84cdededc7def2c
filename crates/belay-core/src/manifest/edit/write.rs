//! New values as text.

use serde_json::Value;

use crate::manifest::yaml::{Style, double, plain_is_text};

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// Text; quoted where it would be read as something else.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// true or false.
    Boolean(bool),
    /// Keys with values, in this order.
    Mapping(Vec<(String, New)>),
    /// Items.
    List(Vec<New>),
}

/// The surroundings of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// Lines.
    Lines,
    /// Brackets.
    Brackets,
    /// Brackets of JSON.
    Json,
}

impl New {
    /// Returns the value as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            New::Text(text) => Value::String(text.clone()),
            New::Integer(number) => Value::from(*number),
            New::Boolean(value) => Value::Bool(*value),
            New::Mapping(entries) => entries.iter().map(|(key, value)| (key.clone(), value.to_value())).collect(),
            New::List(items) => items.iter().map(New::to_value).collect(),
        }
    }

    /// Returns the value as it is written behind a key, on one line; quoted where it would be read as something else.
    #[must_use]
    pub fn on_one_line(&self) -> String {
        self.inline(Between::Lines, None)
    }

    /// Returns the value on one line. A single value keeps the style that it had, if that can hold it.
    pub(super) fn inline(&self, between: Between, style: Option<Style>) -> String {
        match self {
            New::Text(text) => written(text, between, style),
            New::Integer(number) => number.to_string(),
            New::Boolean(value) => value.to_string(),
            New::Mapping(entries) => {
                let inner = if between == Between::Json { Between::Json } else { Between::Brackets };
                let entry = |(key, value): &(String, New)| {
                    format!("{}: {}", written(key, inner, None), value.inline(inner, None))
                };
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            New::List(items) => {
                let inner = if between == Between::Json { Between::Json } else { Between::Brackets };
                format!("[{}]", items.iter().map(|item| item.inline(inner, None)).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns the value over several lines, from behind its key's `:` or its item's `-`: begins with a blank or a line
    /// end, and ends without one. `indent` is where the key or the dash stands.
    pub(super) fn lines(&self, indent: usize, line_end: &str, behind: Behind) -> String {
        match self {
            New::Mapping(entries) if !entries.is_empty() => {
                let inner = indent + 2;
                let mut text = String::new();
                for (at, (key, value)) in entries.iter().enumerate() {
                    if at == 0 && behind == Behind::Dash {
                        text.push(' ');
                    } else {
                        text.push_str(line_end);
                        text.push_str(&" ".repeat(inner));
                    }
                    text.push_str(&written(key, Between::Lines, None));
                    text.push(':');
                    text.push_str(&value.lines(inner, line_end, Behind::Key));
                }
                text
            }
            New::List(items) if !items.is_empty() => {
                // As kubectl writes lists: the dash below the key.
                let inner = if behind == Behind::Key { indent } else { indent + 2 };
                let item = |item: &New| {
                    format!("{line_end}{}-{}", " ".repeat(inner), item.lines(inner, line_end, Behind::Dash))
                };
                items.iter().map(item).collect()
            }
            other => format!(" {}", other.inline(Between::Lines, None)),
        }
    }
}

/// The text before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// A key and its `:`.
    Key,
    /// The `-` of an item.
    Dash,
}

/// Returns a text, quoted where it must be.
pub(super) fn written(text: &str, between: Between, style: Option<Style>) -> String {
    let printable =
        text.chars().all(|c| c >= ' ' && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}'));
    match style {
        _ if between == Between::Json => double(text),
        Some(Style::Single) if printable => format!("'{}'", text.replace('\'', "''")),
        Some(Style::Single | Style::Double) => double(text),
        _ if printable && plain(text, between) => text.to_owned(),
        _ => double(text),
    }
}

/// Returns true when a text may stand without quotes, and nobody takes it for anything else.
fn plain(text: &str, between: Between) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let begins = first.is_alphanumeric() || matches!(first, '/' | '_' | '.' | '$' | '(' | '+');
    let fine =
        |c: char| c.is_alphanumeric() || " /_.$()+:@-=~^;".contains(c) || (between == Between::Lines && c == ',');
    let indicators = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    // Base 60 and times are text to kubectl, but not to every tool.
    let time = first.is_ascii_digit()
        && text.contains(':')
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.'));
    let dots = text.starts_with("...");
    begins && text.chars().all(fine) && !indicators && !time && !dots && plain_is_text(text)
}
