//! Sends outcomes of commits to receivers elsewhere: the history holds the notices, and the progress of each
//! receiver. It reads, and notes sent notices; nothing waits for it.

mod address;
mod bounded_stream;
mod delivery;
mod encryption;
mod forge;
mod links;
mod lookup;
mod mail;
mod message;
mod message_text;
mod receiver;
mod send;
mod signature;
mod slack;
#[cfg(test)]
mod tests;

pub use address::{is_public, shown_host};
pub use delivery::{Delivery, HttpAnswer, Post, SendError};
pub use links::Links;
pub use message::{NoticeEvent, Notification, Person, Runs, SourceNotice, WrongObject, schema};
pub use receiver::{Receiver, Settings, tell};
pub use send::Http;
