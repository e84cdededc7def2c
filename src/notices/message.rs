//! What is told: what became of a commit, in the history's words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::config::NotifyEvent;
use crate::history::{History, HistoryError, Notice};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Outcome, Reason, Record};

/// How many objects that went wrong a message names.
const OBJECTS: usize = 20;

/// What a webhook is sent. Fields are only ever added.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// What happened: the worst that became of an object of the commit. `test` for `belay notify test`.
    pub event: NoticeEvent,
    /// The id of this message; the same when it is sent again.
    pub delivery: String,
    /// The receiver's name.
    pub receiver: String,
    /// When it happened.
    pub at: Timestamp,
    /// The source; null for a test, as are commit and links.
    pub source: Option<String>,
    /// The id of the commit.
    pub commit: Option<CommitId>,
    /// Its subject.
    pub subject: Option<String>,
    /// Its author.
    pub author: Option<Person>,
    /// Whether nothing of the commit was under way any more. Where something was, another message follows if it ends in
    /// another way.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// How many objects of the commit are in each state.
    pub objects: BTreeMap<ObjectState, u64>,
    /// The objects that went wrong, the worst first; at most 20.
    pub wrong: Vec<WrongObject>,
    /// How many more went wrong.
    pub more: u64,
    /// The page of the commit, where `[web] public_url` is set.
    pub page: Option<String>,
    /// The commit at its forge, where that is known.
    pub forge: Option<String>,
}

/// An object that went wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WrongObject {
    /// The object.
    pub object: ObjectKey,
    /// Its state.
    pub state: ObjectState,
    /// Why.
    pub reason: Option<Reason>,
    /// What runs now, where it went back.
    pub runs_now: Option<Runs>,
}

/// What a workload went back to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runs {
    /// The commit, where it is known.
    pub commit: Option<CommitId>,
    /// Its subject.
    pub subject: Option<String>,
    /// The revision, as in Kubernetes.
    pub revision: Option<i64>,
}

/// Who wrote a commit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The mail address.
    pub email: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NoticeEvent {
    /// To a commit.
    Commit(NotifyEvent),
    /// Nothing: somebody tries whether messages arrive.
    Test(Test),
}

/// The word of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// It.
    Test,
}

impl NoticeEvent {
    /// The word for it.
    pub(super) fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            _ => String::new(),
        }
    }
}

/// The JSON schema (draft 2020-12) of what a webhook is sent.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Notification>().to_value();
    schema["title"] = "belay notice".into();
    schema
}

/// What a notice says happened.
pub(super) fn event(outcome: Outcome) -> NotifyEvent {
    match outcome {
        Outcome::RolledBack => NotifyEvent::RolledBack,
        Outcome::RollbackFailed => NotifyEvent::RollbackFailed,
        Outcome::Failed => NotifyEvent::Failed,
        Outcome::Rejected => NotifyEvent::Rejected,
        Outcome::Held => NotifyEvent::Held,
        Outcome::Skipped => NotifyEvent::Waiting,
        Outcome::Superseded => NotifyEvent::Superseded,
        _ => NotifyEvent::Complete,
    }
}

impl Notification {
    /// What became of a notice's commit, as the history says now.
    pub(super) fn read(history: &History, notice: &Notice) -> Result<Notification, HistoryError> {
        let Notice { source, commit, state, is_final, at, .. } = notice;
        let became = history.became(source, commit, OBJECTS)?;
        let known = history.commit(commit)?;
        let wrong: Vec<WrongObject> =
            became.wrong.into_iter().map(|record| wrong_object(history, record)).collect::<Result<_, _>>()?;
        let mut objects: BTreeMap<ObjectState, u64> = BTreeMap::new();
        let mut all_wrong = 0;
        for (outcome, count) in became.objects {
            *objects.entry(outcome.state()).or_default() += count;
            if !matches!(event(outcome), NotifyEvent::Complete | NotifyEvent::Superseded) {
                all_wrong += count;
            }
        }
        Ok(Notification {
            event: NoticeEvent::Commit(event(*state)),
            at: *at,
            source: Some(source.clone()),
            commit: Some(commit.clone()),
            subject: known.as_ref().map(|known| known.subject.clone()),
            author: known.map(|known| Person { name: known.author.name, email: known.author.email }),
            is_final: *is_final,
            objects,
            more: all_wrong.saturating_sub(u64::try_from(wrong.len()).unwrap_or_default()),
            wrong,
            ..Notification::test(*at)
        })
    }

    /// One by which somebody tries whether messages arrive.
    pub(super) fn test(at: Timestamp) -> Notification {
        Notification {
            event: NoticeEvent::Test(Test::Test),
            delivery: String::new(),
            receiver: String::new(),
            at,
            source: None,
            commit: None,
            subject: None,
            author: None,
            is_final: true,
            objects: BTreeMap::new(),
            wrong: Vec::new(),
            more: 0,
            page: None,
            forge: None,
        }
    }
}

fn wrong_object(history: &History, record: Record) -> Result<WrongObject, HistoryError> {
    let went_back = record.outcome == Outcome::RolledBack;
    let subject = match record.back_to.as_ref().filter(|_| went_back) {
        Some(commit) => history.commit(commit)?.map(|commit| commit.subject),
        None => None,
    };
    let Record { object, outcome, reason, back_to: commit, back_to_revision: revision, .. } = record;
    let runs_now =
        (went_back && (commit.is_some() || revision.is_some())).then_some(Runs { commit, subject, revision });
    Ok(WrongObject { object, state: outcome.state(), reason, runs_now })
}
