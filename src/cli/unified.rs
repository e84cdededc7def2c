//! A change of a file, as `diff -u` shows it. What stands beside it in a Secret is not shown.

use std::collections::BTreeSet;

use anstyle::{AnsiColor, Color, Style};
use similar::{ChangeTag, TextDiff};

use super::diff::{ADDED, REMOVED, heading, paint, without_end};
use crate::manifest::yaml;

const PLACE: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));

/// The lines that show what becomes of a file.
pub(super) fn lines(path: &str, before: &str, after: &str, new: bool) -> Vec<String> {
    let from = if new { "/dev/null".to_owned() } else { format!("a/{path}") };
    let mut lines = vec![heading(&format!("--- {from}")), heading(&format!("+++ b/{path}"))];
    let secret = secret_lines(before);
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        lines.push(paint(PLACE, hunk.header().to_string().trim_end()));
        for change in hunk.iter_changes() {
            let line = without_end(change.value());
            lines.push(match change.tag() {
                ChangeTag::Delete => paint(REMOVED, &format!("-{line}")),
                ChangeTag::Insert => paint(ADDED, &format!("+{line}")),
                ChangeTag::Equal if change.old_index().is_some_and(|index| secret.contains(&index)) => {
                    " (a line of a Secret)".to_owned()
                }
                ChangeTag::Equal => format!(" {line}"),
            });
        }
    }
    lines
}

/// The lines, from 0, of documents that hold a Secret, or that can't be read.
fn secret_lines(text: &str) -> BTreeSet<usize> {
    let (documents, complaints) = yaml::documents(text);
    let line_of = |offset: usize| text[..text.floor_char_boundary(offset)].matches('\n').count();
    let mut lines = BTreeSet::new();
    for document in &documents {
        let range = document.range();
        let mentions = text.get(range.clone()).is_none_or(|part| part.contains("Secret"));
        if mentions {
            lines.extend(line_of(range.start)..=line_of(range.end));
        }
    }
    for lost in complaints.iter().filter_map(|complaint| complaint.lost.clone()) {
        lines.extend(line_of(lost.start)..=line_of(lost.end));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_beside_a_change_is_not_shown() {
        let before = "kind: Secret\nstringData: {password: hunter2}\n---\na: 1\nb: 2\n";
        let shown = lines("a.yaml", before, &before.replace("b: 2", "b: 3"), false);
        let plain: Vec<String> = shown.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert!(plain.contains(&"-b: 2".to_owned()) && plain.contains(&"+b: 3".to_owned()), "{plain:?}");
        assert!(!plain.concat().contains("hunter2"), "{plain:?}");
    }
}
