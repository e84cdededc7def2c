//! A commit's status at its forge: GitHub's, GitLab's, and Gitea's API, which Forgejo has too.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};

use super::delivery::HttpAnswer;
use super::message::{NoticeEvent, Notification};
use crate::config::{NotifyEvent, NotifyKind};
use crate::plain_line::plain_line;

/// The number of characters that GitHub takes of a description.
const GITHUB: usize = 140;
/// The same of the others.
const OTHERS: usize = 255;

/// The state of a commit's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitState {
    Pending,
    Success,
    Failure,
    /// A newer commit took its place: neither.
    Superseded,
}

impl CommitState {
    pub(super) fn of(event: NoticeEvent) -> CommitState {
        match event {
            NoticeEvent::Commit(NotifyEvent::Complete) | NoticeEvent::Test(_) => CommitState::Success,
            NoticeEvent::Commit(NotifyEvent::Superseded) => CommitState::Superseded,
            NoticeEvent::Commit(_) => CommitState::Failure,
        }
    }

    fn word(self, kind: NotifyKind) -> &'static str {
        let gitlab = kind == NotifyKind::Gitlab;
        match self {
            CommitState::Pending => "pending",
            CommitState::Success => "success",
            CommitState::Failure if gitlab => "failed",
            CommitState::Failure => "failure",
            CommitState::Superseded if gitlab => "canceled",
            CommitState::Superseded => "error",
        }
    }
}

/// Returns the address of the status of a commit, in the repository with this address; of the repository where no
/// commit is named.
pub(super) fn address(repository: &str, commit: Option<&str>) -> String {
    let repository = repository.trim().trim_end_matches('/');
    commit.map_or_else(|| repository.to_owned(), |commit| format!("{repository}/statuses/{commit}"))
}

/// Returns the method of the request: a repository is only read.
pub(super) fn method(commit: Option<&str>) -> Method {
    if commit.is_some() { Method::POST } else { Method::GET }
}

/// Returns the headers that show the token to the forge.
pub(super) fn headers(kind: NotifyKind, token: &str) -> Vec<(&'static str, String)> {
    match kind {
        NotifyKind::Gitlab => vec![("private-token", token.to_owned())],
        NotifyKind::Gitea => vec![("authorization", format!("token {token}"))],
        _ => vec![
            ("authorization", format!("Bearer {token}")),
            ("accept", "application/vnd.github+json".to_owned()),
            ("x-github-api-version", "2022-11-28".to_owned()),
        ],
    }
}

/// Returns the status.
pub(super) fn body(kind: NotifyKind, state: CommitState, notification: &Notification, branch: Option<&str>) -> Value {
    let longest = if kind == NotifyKind::Github { GITHUB } else { OTHERS };
    let name = if kind == NotifyKind::Gitlab { "name" } else { "context" };
    let mut body = json!({
        "state": state.word(kind),
        name: format!("belay/{}", notification.source.as_deref().unwrap_or_default()),
        "description": plain_line(&description(state, notification), longest),
    });
    if let Some(page) = &notification.page {
        body["target_url"] = page.as_str().into();
    }
    // Without it GitLab looks for a branch with the commit by itself, and may take another one's pipeline.
    if let Some(branch) = branch.filter(|_| kind == NotifyKind::Gitlab) {
        body["ref"] = branch.into();
    }
    body
}

fn description(state: CommitState, notification: &Notification) -> String {
    let objects: u64 = notification.objects.values().sum();
    match state {
        CommitState::Pending => "rolling out".to_owned(),
        CommitState::Success => format!("complete: {objects} object{}", if objects == 1 { "" } else { "s" }),
        CommitState::Superseded => "a newer commit took its place before it was complete".to_owned(),
        CommitState::Failure => {
            let mut text = notification.event.word();
            if let Some(wrong) = notification.wrong.first() {
                let _ = write!(text, ": {}", wrong.object);
                if let Some(cause) = &wrong.cause {
                    let _ = write!(text, ": {cause}");
                }
            }
            text
        }
    }
}

/// Returns true when the status was as it should be already: GitLab refuses to make one pending that is.
pub(super) fn was_so(kind: NotifyKind, answer: &HttpAnswer) -> bool {
    kind == NotifyKind::Gitlab
        && answer.status == 400
        && answer.text.contains("Cannot transition status via :enqueue from :")
}

/// Returns advice about a refusal.
pub(super) fn advice(kind: NotifyKind, status: u16) -> Option<&'static str> {
    match (status, kind) {
        (401, NotifyKind::Github | NotifyKind::Gitlab | NotifyKind::Gitea) => {
            Some("the token is not valid, or has expired: write a new one into token_file")
        }
        (403 | 404, NotifyKind::Github) => {
            Some("the token needs \"Commit statuses: read and write\" for the repository, or the scope repo:status")
        }
        (403 | 404, NotifyKind::Gitlab) => Some("the token needs the scope api and the role Developer in the project"),
        (403 | 404, NotifyKind::Gitea) => {
            Some("the token needs the scope write:repository, and its user the right to write to the repository")
        }
        _ => None,
    }
}
