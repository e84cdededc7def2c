//! Differences, as people read them: the fields that differ, old above new, the part of a text that differs marked.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::output::say;
use crate::rollout::{Change, presentable};

const REMOVED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
const ADDED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// The lines of a difference.
pub(super) struct Unified(Vec<String>);

/// A line above a difference.
pub(super) fn heading(text: &str) -> String {
    let bold = Style::new().bold();
    format!("{bold}{text}{bold:#}")
}

impl Unified {
    /// A whole new object.
    pub(super) fn of_new(object: &Value) -> Unified {
        Unified(yaml(&presentable(object)).lines().map(|line| paint(ADDED, &format!("+ {line}"))).collect())
    }

    /// Fields that differ.
    pub(super) fn of_changes(changes: &[Change]) -> Unified {
        let mut lines = Vec::new();
        for change in changes {
            match (&change.before, &change.after) {
                (Some(Value::String(before)), Some(Value::String(after))) => {
                    texts(&change.path, before, after, &mut lines)
                }
                (before, after) => {
                    lines.extend(before.iter().flat_map(|value| side("-", REMOVED, &change.path, value)));
                    lines.extend(after.iter().flat_map(|value| side("+", ADDED, &change.path, value)));
                }
            }
        }
        Unified(lines)
    }

    /// Prints it.
    pub(super) fn say(&self) {
        self.0.iter().for_each(say);
    }
}

/// Two texts: one line each with the words that differ marked, or, where they have several lines, line by line.
fn texts(path: &str, before: &str, after: &str, lines: &mut Vec<String>) {
    if before.contains('\n') || after.contains('\n') {
        lines.push(format!("  {path}: |"));
        for change in TextDiff::from_lines(before, after).iter_all_changes() {
            let line = change.value().trim_end_matches('\n');
            match change.tag() {
                ChangeTag::Delete => lines.push(paint(REMOVED, &format!("-   {line}"))),
                ChangeTag::Insert => lines.push(paint(ADDED, &format!("+   {line}"))),
                ChangeTag::Equal => lines.push(format!("    {line}")),
            }
        }
        return;
    }
    let words = TextDiff::from_unicode_words(before, after);
    for (sign, tag, style) in [("-", ChangeTag::Delete, REMOVED), ("+", ChangeTag::Insert, ADDED)] {
        let marked = style.bold();
        let text: String = words
            .iter_all_changes()
            .filter(|change| change.tag() == tag || change.tag() == ChangeTag::Equal)
            .map(|change| match change.tag() == tag {
                true => format!("{style:#}{marked}{}{marked:#}{style}", change.value()),
                false => change.value().to_owned(),
            })
            .collect();
        lines.push(format!("{style}{sign} {path}: {text}{style:#}"));
    }
}

fn side(sign: &str, style: Style, path: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(_) | Value::Array(_) => {
            let first = [paint(style, &format!("{sign} {path}:"))];
            first.into_iter().chain(yaml(value).lines().map(|line| paint(style, &format!("{sign}   {line}")))).collect()
        }
        scalar => vec![paint(style, &format!("{sign} {path}: {}", yaml(scalar).trim_end()))],
    }
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

fn yaml(value: &Value) -> String {
    // Every JSON value can be written as YAML.
    serde_yaml::to_string(value).unwrap_or_else(|_| value.to_string())
}
