//! A plan as a comment under a pull request: GitHub's Markdown, and never longer than a comment may be.

use anstream::adapter::strip_str;

use super::plan_text::{PlanNotes, what};
use super::{orphaned, plan_text};
use crate::cli::output::diff::Unified;
use belay_core::manifest::{Colour, Complaint, render};
use belay_core::rollout::{Plan, PlanStep, Planned};

/// The longest comment, in characters: a comment on GitHub has 65,536, GitLab's and Gitea's have more.
const LIMIT: usize = 65_000;
/// The room for the list of objects whose difference does not fit.
const FOR_THE_REST: usize = 5_000;
/// The width of complaints.
const WIDTH: usize = 100;

/// Returns the plan, under a line that sums it up, and a warning about all of it.
pub(in crate::cli) fn plan(
    plan: &Plan,
    complaints: &[Complaint],
    notes: &PlanNotes,
    summary: &str,
    warning: Option<&str>,
) -> String {
    let mut text = format!("### belay plan: {}\n", escaped(summary.trim_end_matches('.')));
    if let Some(warning) = warning {
        text.push_str(&format!("\n**Warning:** {}\n", escaped(warning)));
    }
    let mut left_out = Vec::new();
    let complained = complaints.iter().map(|complaint| (escaped(&complaint.message), block("", &drawn(complaint))));
    let planned = plan.planned.iter().filter(|planned| !matches!(planned.step, PlanStep::Unchanged)).map(|planned| {
        let (title, body) = step(planned);
        let notes: String = notes.on(&planned.wanted.key).map(|note| format!("- {}\n", escaped(&note))).collect();
        (title, if notes.is_empty() { body } else { format!("{body}\n\n{notes}") })
    });
    for (title, body) in complained.chain(planned) {
        let section = if body.is_empty() {
            format!("\n- {title}\n")
        } else {
            format!("\n<details><summary>{title}</summary>\n\n{body}\n</details>\n")
        };
        if text.chars().count() + section.chars().count() > LIMIT - FOR_THE_REST {
            left_out.push(title);
        } else {
            text.push_str(&section);
        }
    }
    if !left_out.is_empty() {
        text.push_str("\nThere is no room here for the differences of:\n\n");
        let mut listed = 0;
        for title in &left_out {
            if text.chars().count() + title.chars().count() > LIMIT - 200 {
                break;
            }
            text.push_str(&format!("- {title}\n"));
            listed += 1;
        }
        match left_out.len() - listed {
            0 => {}
            more => text.push_str(&format!("- and {more} more; `belay plan` shows all\n")),
        }
    }
    text
}

/// Returns the line about one object, and its difference.
fn step(planned: &Planned) -> (String, String) {
    let key = escaped(&planned.wanted.key.to_string());
    let place = escaped(&planned.wanted.manifest.place.to_string());
    let waits = escaped(&plan_text::waits(planned));
    let of = |diff: Unified| block("diff", &diff.lines().join("\n"));
    match &planned.step {
        PlanStep::Unchanged | PlanStep::Resume(_) | PlanStep::RollBack { .. } => {
            (format!("{key} is unchanged"), String::new())
        }
        PlanStep::Apply(apply) if apply.creates => {
            (format!("<b>{key}</b> is new ({place}){waits}"), of(Unified::of_new(&apply.body.read())))
        }
        PlanStep::Apply(apply) => {
            (format!("<b>{key}</b> {} ({place}){waits}", what(apply)), of(Unified::of_changes(&apply.changes)))
        }
        PlanStep::Held(hold) => (format!("<b>{key}</b> is held: {}", escaped(&hold.reason)), String::new()),
        PlanStep::Suspended(why) => (format!("<b>{key}</b> is suspended: {}", escaped(why)), String::new()),
        PlanStep::Rejected(reason, _) if orphaned(&planned.step).is_some() => {
            (format!("<b>{key}</b> is orphaned: {}", escaped(&reason.message)), String::new())
        }
        PlanStep::Rejected(reason, complaints) => {
            let drawn: Vec<String> = complaints.iter().map(drawn).collect();
            (format!("<b>{key}</b> is refused: {}", escaped(&reason.message)), block("", &drawn.join("\n\n")))
        }
        PlanStep::Wait(reason) => (format!("<b>{key}</b> has to wait: {}", escaped(&reason.message)), String::new()),
        PlanStep::Prune => (format!("<b>{key}</b> is deleted"), String::new()),
    }
}

fn drawn(complaint: &Complaint) -> String {
    render(complaint, Colour::Off, WIDTH).trim_end().to_owned()
}

/// Returns a block of code, fenced so that nothing in it can end it.
fn block(language: &str, code: &str) -> String {
    let code = strip_str(code).to_string();
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{code}\n{fence}")
}

/// Returns a text of somebody else's inside HTML, where it can be no tag, no link and nobody's name.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '`' | '*' | '_' | '[' | ']' | '#' | '|' | '\\' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if belay_core::manifest::is_hidden(c) => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_block_or_becomes_a_tag() {
        assert_eq!(block("diff", "a ```` b"), "`````diff\na ```` b\n`````");
        assert_eq!(block("", "a"), "```\na\n```");
        assert_eq!(escaped("<b>@ada [x](y)\n"), "&lt;b&gt;&#64;ada \\[x\\](y) ");
    }
}
