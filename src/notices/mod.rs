//! Sends outcomes of commits to receivers elsewhere, and their traces to a collector: the history holds the notices, and the
//! progress of each recipient. It reads, and notes sent notices; nothing waits for it.

mod address;
mod bounded_stream;
mod collector;
mod commit_trace;
mod delivery;
mod digest;
mod encryption;
mod forge;
mod links;
mod lookup;
mod mail;
mod message;
mod message_text;
mod otlp;
mod receiver;
mod recipient;
mod send;
mod sender;
mod signature;
mod slack;
#[cfg(test)]
mod tests;

pub use address::{is_public, shown_host};
pub use collector::Collector;
pub use delivery::{Delivery, HttpAnswer, Post, SendError};
pub use links::Links;
pub use message::{NoticeEvent, Notification, Person, Runs, SourceNotice, WrongObject, schema};
pub use receiver::Receiver;
pub use recipient::Settings;
pub use send::Http;
pub use sender::tell;
