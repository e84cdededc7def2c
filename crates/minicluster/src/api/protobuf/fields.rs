//! The messages and their fields: `fields.txt`, which is read from a real API server's Go types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A message: its fields by number.
pub type Message = BTreeMap<u32, Field>;

/// A field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON; nothing if its content is in the JSON of the message around it.
    pub name: Option<&'static str>,
    /// The content.
    pub of: Of,
}

/// The content of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    /// true or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// Text.
    String,
    /// Bytes: base64 in JSON.
    Bytes,
    /// A message, by name.
    Message(&'static str),
    /// Any number of one thing.
    List(Box<Of>),
    /// Names with one thing each.
    Map(Box<Of>),
    /// A list that is a message of its own.
    Items(Box<Of>),
}

/// Returns a message by its name in OpenAPI.
pub fn message(name: &str) -> Option<&'static Message> {
    static MESSAGES: LazyLock<BTreeMap<&str, Message>> = LazyLock::new(|| read(include_str!("fields.txt")));
    MESSAGES.get(name)
}

fn read(text: &'static str) -> BTreeMap<&'static str, Message> {
    let mut messages: BTreeMap<&str, Message> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (line.starts_with(' '), words.next(), words.next(), words.next()) {
            (false, Some(name), ..) => {
                current = name;
                messages.insert(name, Message::new());
            }
            (true, Some(number), Some(name), Some(of)) => {
                let field = Field { name: (name != "~").then_some(name), of: of_text(of) };
                if let (Some(message), Ok(number)) = (messages.get_mut(current), number.parse()) {
                    message.insert(number, field);
                }
            }
            _ => {}
        }
    }
    messages
}

fn of_text(text: &'static str) -> Of {
    let inner = |rest| Box::new(of_text(rest));
    match text {
        "bool" => Of::Bool,
        "int" => Of::Int,
        "double" => Of::Double,
        "string" => Of::String,
        "bytes" => Of::Bytes,
        _ => match (text.strip_prefix("items:[]"), text.strip_prefix("[]"), text.strip_prefix("{}")) {
            (Some(rest), ..) => Of::Items(inner(rest)),
            (_, Some(rest), _) => Of::List(inner(rest)),
            (.., Some(rest)) => Of::Map(inner(rest)),
            _ => Of::Message(text),
        },
    }
}
