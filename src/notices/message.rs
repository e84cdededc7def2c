//! The content of a message: the outcome of a commit, in the history's words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::config::NotifyEvent;
use crate::history::{CommitOutcome, History, HistoryError, Notice, NoticeAbout};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Outcome, Reason, Record, short_cause};

/// The number of objects that went wrong and that a message names.
const OBJECTS: usize = 20;
/// The number of failed objects of a commit that are searched for held ones.
const HELD: usize = 1000;

/// The body of a webhook. Fields are only ever added.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// The event: the worst outcome of an object of the commit; `held` also for a long hold, and `blocked`, `unblocked`
    /// and `disagreement` of sources. `test` for `belay notify test`.
    pub event: NoticeEvent,
    /// The id of this message; the same when it is sent again.
    pub delivery: String,
    /// The receiver's name.
    pub receiver: String,
    /// When it happened.
    pub at: Timestamp,
    /// The source; null if it is about several, and for a test, as are commit and links.
    pub source: Option<String>,
    /// The id of the commit; null if it is about several, or none.
    pub commit: Option<CommitId>,
    /// Its subject.
    pub subject: Option<String>,
    /// Its author.
    pub author: Option<Person>,
    /// True when nothing of the commit was under way any more. If a rollout was, another message follows if it ends in
    /// another way.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// True when it is about the commits before this one, which a source had when belay began to follow it.
    pub past: bool,
    /// The time since which a source is blocked, or an object held.
    pub since: Option<Timestamp>,
    /// The sources that are blocked, or no longer are; for `disagreement`, those with an object that somebody else and belay
    /// keep changing.
    pub sources: Vec<SourceNotice>,
    /// The number of objects in each state.
    pub objects: BTreeMap<ObjectState, u64>,
    /// The objects that went wrong, the worst first; at most 20.
    pub wrong: Vec<WrongObject>,
    /// The number of further ones that went wrong.
    pub more: u64,
    /// The page of the commit, where `[web] public_url` is set.
    pub page: Option<String>,
    /// The commit at its forge, if that is known.
    pub forge: Option<String>,
}

/// A source that is blocked, or no longer is, or with an object that somebody else and belay keep changing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceNotice {
    /// Its name.
    pub source: String,
    /// The time of its beginning.
    pub since: Option<Timestamp>,
    /// The reason for which it is blocked, or the field manager and the field of a disagreement; null if it is no
    /// longer blocked.
    pub reason: Option<String>,
}

/// An object that went wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WrongObject {
    /// The object.
    pub object: ObjectKey,
    /// Its source.
    pub source: String,
    /// The commit that is charged with it.
    pub commit: CommitId,
    /// Its state.
    pub state: ObjectState,
    /// The reason.
    pub reason: Option<Reason>,
    /// The cause in a line: how many pods fail and how, and the last line of their log.
    pub cause: Option<String>,
    /// The revision that runs now, if it went back.
    pub runs_now: Option<Runs>,
}

/// The revision that a workload went back to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runs {
    /// The commit, if it is known.
    pub commit: Option<CommitId>,
    /// Its subject.
    pub subject: Option<String>,
    /// The revision, as in Kubernetes.
    pub revision: Option<i64>,
}

/// The author of a commit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The mail address.
    pub email: String,
}

/// An event.
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
    /// Returns the word for it.
    pub(super) fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            _ => String::new(),
        }
    }
}

/// Returns the JSON schema (draft 2020-12) of a webhook's body.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Notification>().to_value();
    schema["title"] = "belay notice".into();
    schema
}

/// Returns the event of a notice.
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
    /// Returns the message of notices that are sent together, as the history has it now; `None` if there is nothing to
    /// say any more.
    pub(super) fn read(history: &History, told: &[&Notice]) -> Result<Option<Notification>, HistoryError> {
        let Some(first) = told.first() else { return Ok(None) };
        let read = match &first.about {
            NoticeAbout::Commit(commit, state) => of_commit(history, first, commit, *state)?,
            NoticeAbout::Past(head, state) => of_past(history, first, head, *state)?,
            NoticeAbout::Held(_) => of_holds(history, told)?,
            NoticeAbout::Source(_) => of_sources(told),
            NoticeAbout::Disagreement(_) => {
                Notification { event: NoticeEvent::Commit(NotifyEvent::Disagreement), ..of_sources(told) }
            }
        };
        let has_something = !read.objects.is_empty() || !read.sources.is_empty();
        Ok(has_something.then_some(read))
    }

    /// Returns one by which somebody tries whether messages arrive.
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
            past: false,
            since: None,
            sources: Vec::new(),
            objects: BTreeMap::new(),
            wrong: Vec::new(),
            more: 0,
            page: None,
            forge: None,
        }
    }
}

fn of_commit(
    history: &History,
    notice: &Notice,
    commit: &CommitId,
    state: Outcome,
) -> Result<Notification, HistoryError> {
    let became = history.became(&notice.source, commit, OBJECTS)?;
    let known = history.commit(commit)?;
    Ok(Notification {
        subject: known.as_ref().map(|known| known.subject.clone()),
        author: known.map(|known| Person { name: known.author.name, email: known.author.email }),
        ..of_outcome(history, notice, commit, state, became)?
    })
}

fn of_past(history: &History, notice: &Notice, head: &CommitId, state: Outcome) -> Result<Notification, HistoryError> {
    let became = history.past_became(&notice.source, head, OBJECTS)?;
    Ok(Notification { past: true, ..of_outcome(history, notice, head, state, became)? })
}

fn of_outcome(
    history: &History,
    notice: &Notice,
    commit: &CommitId,
    state: Outcome,
    became: CommitOutcome,
) -> Result<Notification, HistoryError> {
    let mut objects: BTreeMap<ObjectState, u64> = BTreeMap::new();
    let mut all_wrong = 0;
    for (outcome, count) in became.objects {
        *objects.entry(outcome.state()).or_default() += count;
        if outcome.rank().is_some() {
            all_wrong += count;
        }
    }
    let wrong: Vec<WrongObject> =
        became.wrong.into_iter().map(|record| wrong_object(history, record)).collect::<Result<_, _>>()?;
    Ok(Notification {
        event: NoticeEvent::Commit(event(state)),
        source: Some(notice.source.clone()),
        commit: Some(commit.clone()),
        is_final: notice.is_final,
        objects,
        more: all_wrong.saturating_sub(u64::try_from(wrong.len()).unwrap_or_default()),
        wrong,
        ..Notification::test(notice.at)
    })
}

/// Returns the objects that are still held, of the commits that the notices name.
fn of_holds(history: &History, told: &[&Notice]) -> Result<Notification, HistoryError> {
    let mut found: Vec<Record> = Vec::new();
    let mut since: Option<Timestamp> = None;
    for notice in told {
        let Some(commit) = notice.commit() else { continue };
        let held = history.standing(&notice.source)?.map(|standing| standing.held).unwrap_or_default();
        let before = found.len();
        let wrong = history.became(&notice.source, commit, HELD)?.wrong;
        found.extend(wrong.into_iter().filter(|record| held.contains(&record.object)));
        if found.len() > before {
            since = [since, notice.since].into_iter().flatten().min();
        }
    }
    let all = u64::try_from(found.len()).unwrap_or_default();
    let mut notification = Notification {
        event: NoticeEvent::Commit(NotifyEvent::Held),
        source: only(found.iter().map(|record| &record.source)),
        commit: only(found.iter().map(|record| &record.commit)),
        since,
        more: all.saturating_sub(u64::try_from(OBJECTS).unwrap_or_default()),
        ..Notification::test(told[0].at)
    };
    if let Some(commit) = &notification.commit {
        let known = history.commit(commit)?;
        notification.subject = known.as_ref().map(|known| known.subject.clone());
        notification.author = known.map(|known| Person { name: known.author.name, email: known.author.email });
    }
    if all > 0 {
        notification.objects = BTreeMap::from([(ObjectState::Held, all)]);
    }
    for record in found.into_iter().take(OBJECTS) {
        let wrong = wrong_object(history, record)?;
        notification.wrong.push(WrongObject { state: ObjectState::Held, ..wrong });
    }
    Ok(notification)
}

fn of_sources(told: &[&Notice]) -> Notification {
    let reason = |notice: &Notice| match &notice.about {
        NoticeAbout::Source(reason) => reason.clone(),
        NoticeAbout::Disagreement(message) => Some(message.clone()),
        _ => None,
    };
    let sources: Vec<SourceNotice> = told
        .iter()
        .map(|notice| SourceNotice { source: notice.source.clone(), since: notice.since, reason: reason(notice) })
        .collect();
    let blocked = sources.iter().any(|source| source.reason.is_some());
    Notification {
        event: NoticeEvent::Commit(if blocked { NotifyEvent::Blocked } else { NotifyEvent::Unblocked }),
        source: only(sources.iter().map(|source| &source.source)),
        since: sources.iter().filter_map(|source| source.since).min(),
        sources,
        ..Notification::test(told[0].at)
    }
}

/// Returns the common value of all of these, if they are the same.
fn only<'v, T: Clone + PartialEq + 'v>(mut values: impl Iterator<Item = &'v T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.clone())
}

fn wrong_object(history: &History, record: Record) -> Result<WrongObject, HistoryError> {
    let went_back = record.outcome == Outcome::RolledBack;
    let subject = match record.back_to.as_ref().filter(|_| went_back) {
        Some(commit) => history.commit(commit)?.map(|commit| commit.subject),
        None => None,
    };
    let Record { object, source, commit, outcome, reason, evidence, back_to, back_to_revision: revision, .. } = record;
    let cause = reason.as_ref().map(|reason| short_cause(&reason.message, evidence.as_ref()));
    let knows = went_back && (back_to.is_some() || revision.is_some());
    let runs_now = knows.then_some(Runs { commit: back_to, subject, revision });
    Ok(WrongObject { object, source, commit, state: outcome.state(), reason, cause, runs_now })
}
