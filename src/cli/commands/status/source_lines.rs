//! The lines about the sources above the workloads.

use crate::cli::output::answer::{SourceAnswer, TroubleAnswer};
use crate::cli::output::{age, plain};
use crate::clock::Clock;
use belay_core::rollout::{CommitId, SourceState};

/// The author and the subject of a commit, if it is known.
pub(super) type AuthoredSubject = Option<(String, String)>;

/// Returns a line or more for each source, and the line that says which cluster the rows are of.
pub(super) fn lines(
    answers: &[SourceAnswer],
    told: impl Fn(&CommitId) -> AuthoredSubject,
    here: Option<&str>,
    has_rows: bool,
) -> Vec<String> {
    let mut lines: Vec<String> = answers.iter().flat_map(|answer| lines_of(answer, &told, here)).collect();
    lines.extend(here.filter(|_| has_rows).map(|server| format!("The workloads of {server}:")));
    lines
}

/// Returns a line for a source, and its obstacles in the next lines.
fn lines_of(answer: &SourceAnswer, told: impl Fn(&CommitId) -> AuthoredSubject, here: Option<&str>) -> Vec<String> {
    let SourceAnswer { source, head, state, summary, waits_for, cluster, trouble, troubles, .. } = answer;
    let is_at = head.as_ref().map_or_else(|| "is at no commit yet".to_owned(), |head| at(told(head), head));
    let elsewhere = cluster.as_deref().filter(|cluster| here.is_some_and(|here| here != *cluster));
    let elsewhere = elsewhere.map(|cluster| format!("  its cluster is {cluster}, whose workloads are not shown here"));
    // The summary of a source that only waits says for which one.
    let waits_for = waits_for.as_ref().filter(|_| *state != SourceState::Waiting).map(|waits| format!("  {waits}"));
    let troubles = troubles.iter().map(|(place, message)| format!("  {place}: {message}"));
    let warnings = answer.warning_lines().map(|warning| format!("  {warning}"));
    let first = format!("{source} {is_at}: {summary}");
    let lines = std::iter::once(first).chain(elsewhere).chain(waits_for).chain(trouble.as_ref().map(in_the_way));
    lines.chain(troubles).chain(warnings).map(|line| plain(&line)).collect()
}

/// Returns `is at 1a2b3c4 Serve HTTP/2 (Ada)`
fn at(told: AuthoredSubject, head: &CommitId) -> String {
    let told = told.map(|(author, subject)| format!(" {subject} ({author})")).unwrap_or_default();
    format!("is at {}{told}", head.short())
}

/// Returns the obstacle, and its age.
fn in_the_way(trouble: &TroubleAnswer) -> String {
    let age = age(trouble.since, Clock::system().now());
    format!("  nothing newer is rolled out ({age}): {}", trouble.message)
}
