//! A message as Slack's incoming webhooks take it: JSON with `text`, in Slack's own marks.
//!
//! The texts of commits, clusters and people are shown as code, in which neither Slack nor compatible programs see
//! names, channels or links, and with the characters replaced that Slack gives a meaning.

use serde_json::{Value, json};

use super::message::Notification;
use super::message_text::{Style, text};
use crate::plain_line::plain_line;

/// The number of characters of a text from elsewhere that are shown.
const TEXT: usize = 300;
/// The style of texts in Slack.
const STYLE: Style = Style { quoted: code, strong: |text| format!("*{text}*"), link };

/// Returns the body.
pub(super) fn body(notification: &Notification) -> Value {
    json!({"text": text(notification, &STYLE), "unfurl_links": false, "unfurl_media": false})
}

/// Returns a text from elsewhere, in one line, as code.
pub(super) fn code(text: &str) -> String {
    // A backtick would end the code.
    let plain = plain_line(text, TEXT).replace('`', "'");
    if plain.is_empty() { "`?`".to_owned() } else { format!("`{}`", escaped(&plain)) }
}

fn link(url: &str, name: &str) -> String {
    format!("<{}|{name}>", escaped(url))
}

/// Returns the three characters that Slack wants written so.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
