//! A message as people read it, in the style of its display.

use std::fmt::Write as _;

use super::message::{NoticeEvent, Notification, Test, WrongObject};
use crate::config::NotifyEvent;

/// The number of objects that are named.
const OBJECTS: usize = 10;

/// The style of a text.
pub(super) struct Style {
    /// The form of texts of commits, clusters and people.
    pub(super) quoted: fn(&str) -> String,
    /// The form of the most important text.
    pub(super) strong: fn(&str) -> String,
    /// A link with its name.
    pub(super) link: fn(&str, &str) -> String,
}

/// Returns the message, in this style.
pub(super) fn text(notification: &Notification, style: &Style) -> String {
    if notification.event == NoticeEvent::Test(Test::Test) {
        return "A test of belay: messages arrive here.".to_owned();
    }
    let quoted = style.quoted;
    let mut text = headline(notification, style);
    for wrong in notification.wrong.iter().take(OBJECTS) {
        let _ = write!(text, "\n• {}", object(wrong, notification, style));
    }
    for source in notification.sources.iter().take(OBJECTS) {
        let _ = write!(text, "\n• {}", quoted(&source.source));
        let reason = source.reason.as_ref().map(|reason| format!(": {}", quoted(reason)));
        text.push_str(&reason.unwrap_or_else(|| " can be reached again".to_owned()));
    }
    let named = notification.wrong.len().min(OBJECTS) + notification.sources.len().min(OBJECTS);
    let all = notification.wrong.len() + notification.sources.len();
    let more = notification.more + u64::try_from(all - named).unwrap_or_default();
    if more > 0 {
        let _ = write!(text, "\n• and {more} more");
    }
    let counts: Vec<String> =
        notification.objects.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
    if !counts.is_empty() {
        let _ = write!(text, "\nObjects: {}", counts.join(", "));
    }
    if !notification.is_final {
        text.push_str(" (not through yet)");
    }
    let links = [(&notification.page, "the evidence"), (&notification.forge, "the commit")];
    for (url, name) in links.into_iter().filter_map(|(url, name)| Some((url.as_ref()?, name))) {
        let _ = write!(text, "\n{}", (style.link)(url, name));
    }
    text
}

/// Returns the first line: source, event, beginning, commit.
fn headline(notification: &Notification, style: &Style) -> String {
    let quoted = style.quoted;
    let source = notification.source.as_deref().map_or_else(|| "several sources".to_owned(), quoted);
    let source = (style.strong)(&source);
    let mut text = format!("{} {source}: {}", mark(notification.event), notification.event.word());
    if let Some(since) = notification.since {
        let _ = write!(text, " since {}", since.strftime("%Y-%m-%d %H:%M UTC"));
    }
    if let Some(commit) = &notification.commit {
        let before = if notification.past { " in commits before" } else { "" };
        let _ = write!(text, "{before} {}", quoted(commit.short()));
    }
    if let Some(subject) = &notification.subject {
        let _ = write!(text, " {}", quoted(subject));
    }
    if let Some(author) = &notification.author {
        let _ = write!(text, " by {}", quoted(&author.name));
    }
    text
}

fn object(wrong: &WrongObject, notification: &Notification, style: &Style) -> String {
    let quoted = style.quoted;
    let mut text = format!("{} {}", quoted(&wrong.object.to_string()), wrong.state.word());
    if notification.past || notification.commit.is_none() {
        let _ = write!(text, " ({})", quoted(wrong.commit.short()));
    }
    if let Some(cause) = &wrong.cause {
        let _ = write!(text, ": {}", quoted(cause));
    }
    if let Some(runs) = &wrong.runs_now {
        text.push_str("; now runs");
        if let Some(commit) = &runs.commit {
            let _ = write!(text, " {}", quoted(commit.short()));
        }
        if let Some(subject) = &runs.subject {
            let _ = write!(text, " {}", quoted(subject));
        }
        if let Some(revision) = runs.revision {
            let _ = write!(text, " (revision {revision})");
        }
    }
    text
}

fn mark(event: NoticeEvent) -> &'static str {
    match event {
        NoticeEvent::Commit(NotifyEvent::Complete | NotifyEvent::Unblocked) | NoticeEvent::Test(_) => "✓",
        NoticeEvent::Commit(NotifyEvent::Superseded | NotifyEvent::Held | NotifyEvent::Waiting) => "–",
        NoticeEvent::Commit(_) => "✗",
    }
}
