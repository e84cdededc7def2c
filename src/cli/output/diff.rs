//! Differences, as people read them: the fields that differ, old above new, the part of a text that differs marked.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{plain, say};
use belay_core::manifest::yaml::to_text;
use belay_core::rollout::{Change, presentable};

/// The style of removed text.
pub(in crate::cli) const REMOVED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
/// The style of added text.
pub(in crate::cli) const ADDED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// The number of unchanged lines that are shown before and after those of a text that differ.
const AROUND: usize = 3;

/// The lines of a difference.
pub(in crate::cli) struct Unified(Vec<String>);

/// Returns a line above a difference.
pub(in crate::cli) fn heading(text: &str) -> String {
    paint(Style::new().bold(), &plain(text))
}

impl Unified {
    /// Returns a whole new object.
    pub(in crate::cli) fn of_new(object: &Value) -> Unified {
        Unified(yaml(&presentable(object)).lines().map(|line| paint(ADDED, &format!("+ {}", plain(line)))).collect())
    }

    /// Fields that differ.
    pub(in crate::cli) fn of_changes(changes: &[Change]) -> Unified {
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

    /// Returns the lines, with their colours.
    pub(in crate::cli) fn lines(&self) -> &[String] {
        &self.0
    }

    /// Prints it.
    pub(in crate::cli) fn say(&self) {
        self.0.iter().for_each(say);
    }
}

/// Shows two texts: one line each with the words that differ marked, or, if they have several lines, line by line.
fn texts(path: &str, before: &str, after: &str, lines: &mut Vec<String>) {
    let path = plain(path);
    if before.contains('\n') || after.contains('\n') {
        lines.push(format!("  {path}: |"));
        folded(&TextDiff::from_lines(before, after), lines);
        return;
    }
    let words = TextDiff::from_unicode_words(before, after);
    for (sign, tag, style) in [("-", ChangeTag::Delete, REMOVED), ("+", ChangeTag::Insert, ADDED)] {
        let marked = style.bold();
        let text: String = words
            .iter_all_changes()
            .filter(|change| change.tag() == tag || change.tag() == ChangeTag::Equal)
            .map(|change| match change.tag() == tag {
                true => format!("{style:#}{marked}{}{marked:#}{style}", plain(change.value())),
                false => plain(change.value()),
            })
            .collect();
        lines.push(format!("{style}{sign} {path}: {text}{style:#}"));
    }
}

/// Shows the lines that differ, with some around them; the number of left out lines stands in their place.
fn folded(diff: &TextDiff<'_, '_, str>, lines: &mut Vec<String>) {
    let mut shown = 0;
    let fold = |from: usize, to: usize| {
        let style = Style::new().dimmed();
        (to > from).then(|| paint(style, &format!("    … {} unchanged lines", to - from)))
    };
    for group in diff.grouped_ops(AROUND) {
        let begins = group.first().map_or(shown, |op| op.old_range().start);
        lines.extend(fold(shown, begins));
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = plain(without_end(change.value()));
            match change.tag() {
                ChangeTag::Delete => lines.push(paint(REMOVED, &format!("-   {line}"))),
                ChangeTag::Insert => lines.push(paint(ADDED, &format!("+   {line}"))),
                ChangeTag::Equal => lines.push(format!("    {line}")),
            }
        }
        shown = group.last().map_or(shown, |op| op.old_range().end);
    }
    lines.extend(fold(shown, diff.old_len()));
}

fn side(sign: &str, style: Style, path: &str, value: &Value) -> Vec<String> {
    let path = plain(path);
    match value {
        Value::Object(_) | Value::Array(_) => {
            let first = [paint(style, &format!("{sign} {path}:"))];
            let lines = yaml(value);
            let lines = lines.lines().map(|line| paint(style, &format!("{sign}   {}", plain(line))));
            first.into_iter().chain(lines).collect()
        }
        scalar => vec![paint(style, &format!("{sign} {path}: {}", plain(yaml(scalar).trim_end())))],
    }
}

/// Returns a line without its line end.
pub(in crate::cli) fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

/// Returns a text in a style.
pub(in crate::cli) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

fn yaml(value: &Value) -> String {
    // Every JSON value can be written as YAML.
    to_text(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Characters that turn the direction of writing, have no width or steer a terminal stand nowhere: not in keys, in
    /// values, in lines of texts.
    #[test]
    fn nothing_of_a_value_steers_a_terminal() {
        let odd = "a\u{202e}b\u{200b}c\u{1b}[2Jd";
        let change = |path: &str, before: Value, after: Value| Change {
            path: path.to_owned(),
            before: Some(before),
            after: Some(after),
        };
        let changes = [
            change(&format!("data.{odd}"), json!(odd), json!("b")),
            change("text", json!(format!("x\n{odd}\n")), json!(format!("y\n{odd}\n{odd}z\n"))),
            change("list", json!([odd]), json!({odd: odd})),
            change("scalar", json!(1), json!(odd)),
        ];
        let lines = Unified::of_changes(&changes).0.into_iter().chain(Unified::of_new(&json!({odd: [odd]})).0);
        let lines: Vec<String> = lines.map(|line| anstream::adapter::strip_str(&line).to_string()).collect();
        assert!(lines.iter().all(|line| !line.chars().any(belay_core::manifest::is_hidden)), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains('\u{fffd}')), "{lines:?}");
    }

    #[test]
    fn what_is_unchanged_in_a_text_is_folded() {
        let text = |changed: &str| -> String {
            (1..=20).map(|n| if n == 10 { format!("{changed}\n") } else { format!("{n}\n") }).collect()
        };
        let (before, after) = (text("a"), text("b"));
        let change = Change { path: "data.all".to_owned(), before: Some(json!(before)), after: Some(json!(after)) };
        let lines: Vec<String> = Unified::of_changes(&[change])
            .lines()
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect();
        let wanted = [
            "  data.all: |",
            "    … 6 unchanged lines",
            "    7",
            "    8",
            "    9",
            "-   a",
            "+   b",
            "    11",
            "    12",
            "    13",
            "    … 7 unchanged lines",
        ];
        assert_eq!(lines, wanted);
    }
}
