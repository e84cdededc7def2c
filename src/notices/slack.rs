//! A message as Slack's incoming webhooks take it: JSON with `text`, in Slack's own marks.
//!
//! What commits, clusters and people say is shown as code, in which neither Slack nor what is compatible with it sees names,
//! channels or links, and with the characters replaced that Slack gives a meaning.

use serde_json::{Value, json};

use super::message::Notification;
use super::message_text::{Style, text};
use super::plain_line::plain_line;

/// How many characters of a text from elsewhere are shown.
const TEXT: usize = 300;
/// How Slack shows a text.
const STYLE: Style = Style { quoted: code, strong: |text| format!("*{text}*"), link };

/// The body.
pub(super) fn body(notification: &Notification) -> Value {
    json!({"text": text(notification, &STYLE), "unfurl_links": false, "unfurl_media": false})
}

/// A text from elsewhere, in one line, as code.
pub(super) fn code(text: &str) -> String {
    // A backtick would end the code.
    let plain = plain_line(text, TEXT).replace('`', "'");
    if plain.is_empty() { "`?`".to_owned() } else { format!("`{}`", escaped(&plain)) }
}

fn link(url: &str, name: &str) -> String {
    format!("<{}|{name}>", escaped(url))
}

/// The three characters that Slack wants written so.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
