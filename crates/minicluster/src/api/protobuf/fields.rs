//! The messages and their fields: `fields.txt`, which is read from a real API server's Go types. A line is a message: its
//! name, then the number and the name of each field, `~` if its content is in the JSON of the message around it. A field
//! has its type behind a colon only if it is another than in the facts.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use kube_facts::{Scalar, Type, facts};

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

/// A line of `fields.txt`, which is read when its message is first needed.
struct Line {
    fields: &'static str,
    message: OnceLock<Message>,
}

static LINES: LazyLock<BTreeMap<&str, Line>> = LazyLock::new(|| {
    let lines = include_str!("fields.txt").lines();
    let parts = lines.map(|line| line.split_once(' ').unwrap_or((line, "")));
    parts.map(|(name, fields)| (name, Line { fields, message: OnceLock::new() })).collect()
});

/// Returns a message by its name in OpenAPI.
pub fn message(name: &str) -> Option<&'static Message> {
    let (name, line) = LINES.get_key_value(name)?;
    Some(line.message.get_or_init(|| read(name, line.fields)))
}

fn read(message: &str, fields: &'static str) -> Message {
    let words: Vec<&'static str> = fields.split(' ').collect();
    words.chunks_exact(2).filter_map(|pair| field(message, pair[0], pair[1])).collect()
}

fn field(message: &str, number: &str, text: &'static str) -> Option<(u32, Field)> {
    let (name, of) = match text.split_once(':') {
        Some((name, of)) => (name, of_text(of)),
        None => (text, of_facts(&facts().named(message)?.at(&[text])?.ty)?),
    };
    Some((number.parse().ok()?, Field { name: (name != "~").then_some(name), of }))
}

/// Returns the content of a field of which the facts know the type.
fn of_facts(ty: &'static Type) -> Option<Of> {
    Some(match ty {
        Type::Named(name) => Of::Message(name),
        Type::List(list) => Of::List(Box::new(of_facts(&list.items)?)),
        Type::Map(map) => Of::Map(Box::new(of_facts(&map.values)?)),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => Of::String,
            Scalar::Bytes => Of::Bytes,
            Scalar::Int32 | Scalar::Int64 => Of::Int,
            Scalar::Number => Of::Double,
            Scalar::Boolean => Of::Bool,
            Scalar::IntOrString => Of::Message("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            Scalar::Quantity => Of::Message("io.k8s.apimachinery.pkg.api.resource.Quantity"),
            Scalar::Time => Of::Message("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
            Scalar::MicroTime => Of::Message("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
        },
        Type::Struct(_) | Type::Any => return None,
    })
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
