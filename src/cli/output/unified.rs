//! A change of a file, as `diff -u` shows it. The unchanged lines of a Secret are not shown.

use anstyle::{AnsiColor, Color, Style};
use similar::{ChangeTag, TextDiff};

use super::diff::{ADDED, REMOVED, heading, paint, without_end};
use super::plain;
use belay_core::manifest::secret_lines;

const PLACE: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));

/// Returns the lines that show the change of a file.
pub(in crate::cli) fn lines(path: &str, before: &str, after: &str, new: bool) -> Vec<String> {
    let from = if new { "/dev/null".to_owned() } else { format!("a/{path}") };
    let mut lines = vec![heading(&format!("--- {from}")), heading(&format!("+++ b/{path}"))];
    let secret = [secret_lines(before), secret_lines(after)];
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        lines.push(paint(PLACE, hunk.header().to_string().trim_end()));
        for change in hunk.iter_changes() {
            let sides = [change.old_index(), change.new_index()];
            let hidden = sides.iter().zip(&secret).any(|(index, lines)| index.is_some_and(|at| lines.contains(&at)));
            let line = if hidden { "(a line of a Secret)".to_owned() } else { plain(without_end(change.value())) };
            lines.push(match change.tag() {
                ChangeTag::Delete => paint(REMOVED, &format!("-{line}")),
                ChangeTag::Insert => paint(ADDED, &format!("+{line}")),
                ChangeTag::Equal => format!(" {line}"),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_beside_a_change_is_not_shown() {
        for before in [
            "kind: Secret\nstringData: {password: hunter2}\n---\na: 1\nb: 2\n",
            "# kind: Secret\n# stringData: {password: hunter2}\n---\na: 1\nb: 2\n",
            "kind: List\nitems:\n- kind: Secret\n  # was: hunter2\n  data: {a: hunter2}\n- kind: Pod\n  a: 1\nb: 2\n",
            "a: 1\nb: 2\n--- # Secret\nstringData: {password: hunter2\n",
        ] {
            let shown = stripped(before, &before.replace("b: 2", "b: 3"));
            assert!(shown.contains(&"-b: 2".to_owned()) && shown.contains(&"+b: 3".to_owned()), "{shown:?}");
            assert!(!shown.concat().contains("hunter2"), "{shown:?}");
        }
    }

    #[test]
    fn what_a_kustomization_makes_a_secret_of_is_not_shown() {
        let generator = "secretGenerator:\n# was: hunter2\n- name: keys\n  literals: [password=hunter2]\n";
        let patch = "patches:\n- patch: |-\n    kind: Secret\n    stringData: {password: hunter2}\n";
        for kind in ["", "kind: Kustomization\n"] {
            for field in [generator, patch] {
                for before in [
                    format!("{kind}resources: [secret.yaml]\nimages:\n- newTag: b2\n{field}"),
                    format!("{kind}{field}namespace: x\nimages:\n- newTag: b2\n"),
                ] {
                    let shown = stripped(&before, &before.replace("b2", "b3"));
                    assert!(shown.contains(&"-- newTag: b2".to_owned()), "{shown:?}");
                    assert!(!shown.concat().contains("hunter2"), "{shown:?}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_holds_both_is_not_shown() {
        let before = "{kind: List, items: [{kind: Secret, data: {a: hunter2}}, {kind: Pod, b: 2}]}\n";
        let shown = stripped(before, &before.replace("b: 2", "b: 3"));
        assert!(shown.contains(&"-(a line of a Secret)".to_owned()), "{shown:?}");
        assert!(!shown.concat().contains("hunter2"), "{shown:?}");
    }

    fn stripped(before: &str, after: &str) -> Vec<String> {
        let shown = lines("a.yaml", before, after, false);
        shown.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }
}
