//! A message as Slack's incoming webhooks take it: JSON with `text`, in Slack's own marks.
//!
//! What commits, clusters and people say is shown as code, in which neither Slack nor what is compatible with it sees names,
//! channels or links, and with the characters replaced that Slack gives a meaning.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::message::{NoticeEvent, Notification, WrongObject};
use super::plain_line::plain_line;
use crate::config::NotifyEvent;

/// How many characters of a text from elsewhere are shown.
const TEXT: usize = 300;
/// How many objects are named.
const OBJECTS: usize = 10;

/// The body.
pub(super) fn body(notification: &Notification) -> Value {
    json!({"text": text(notification), "unfurl_links": false, "unfurl_media": false})
}

fn text(notification: &Notification) -> String {
    let (Some(source), Some(commit)) = (&notification.source, &notification.commit) else {
        return "A test of belay: messages arrive here.".to_owned();
    };
    let mut text = format!("{} *{}*: {}", mark(notification.event), code(source), notification.event.word());
    let _ = write!(text, " {}", code(commit.short()));
    if let Some(subject) = &notification.subject {
        let _ = write!(text, " {}", code(subject));
    }
    if let Some(author) = &notification.author {
        let _ = write!(text, " by {}", code(&author.name));
    }
    for wrong in notification.wrong.iter().take(OBJECTS) {
        let _ = write!(text, "\n• {}", object(wrong));
    }
    let named = notification.wrong.len().min(OBJECTS);
    let more = notification.more + u64::try_from(notification.wrong.len() - named).unwrap_or_default();
    if more > 0 {
        let _ = write!(text, "\n• and {more} more");
    }
    let counts: Vec<String> =
        notification.objects.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
    let _ = write!(text, "\nObjects: {}", counts.join(", "));
    if !notification.is_final {
        text.push_str(" (not through yet)");
    }
    let links = [(&notification.page, "what belay saw"), (&notification.forge, "the commit")];
    for (url, name) in links.into_iter().filter_map(|(url, name)| Some((url.as_ref()?, name))) {
        let _ = write!(text, "\n<{}|{name}>", escaped(url));
    }
    text
}

fn object(wrong: &WrongObject) -> String {
    let mut text = format!("{} {}", code(&wrong.object.to_string()), wrong.state.word());
    if let Some(reason) = &wrong.reason {
        let _ = write!(text, ": {}", code(&reason.message));
    }
    if let Some(runs) = &wrong.runs_now {
        text.push_str("; now runs");
        if let Some(commit) = &runs.commit {
            let _ = write!(text, " {}", code(commit.short()));
        }
        if let Some(subject) = &runs.subject {
            let _ = write!(text, " {}", code(subject));
        }
        if let Some(revision) = runs.revision {
            let _ = write!(text, " (revision {revision})");
        }
    }
    text
}

fn mark(event: NoticeEvent) -> &'static str {
    match event {
        NoticeEvent::Commit(NotifyEvent::Complete) | NoticeEvent::Test(_) => "✓",
        NoticeEvent::Commit(NotifyEvent::Superseded | NotifyEvent::Held | NotifyEvent::Waiting) => "–",
        NoticeEvent::Commit(_) => "✗",
    }
}

/// A text from elsewhere, in one line, as code.
pub(super) fn code(text: &str) -> String {
    // A backtick would end the code.
    let plain = plain_line(text, TEXT).replace('`', "'");
    if plain.is_empty() { "`?`".to_owned() } else { format!("`{}`", escaped(&plain)) }
}

/// The three characters that Slack wants written so.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
