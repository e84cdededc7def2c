//! The history's answers for programs: the types of `-o json` that the commands and the page's JSON share, and their
//! construction. Fields are only ever added.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::step_details;
use crate::history::{History, HistoryError, Spread, Stats};
use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::analysis::Measurement;
use belay_core::rollout::canary::LiveCanary;
use belay_core::rollout::{
    Commit, CommitId, FailureCause, ObjectState, Person, Record, RevisionPods, SourceState, StateCounts, Step,
    Unnoticed,
};

/// The output of `belay history`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    /// The rollouts, the newest first.
    pub records: Vec<RecordAnswer>,
    /// The facts that are missing, because the daemon's history is not here; empty if it is.
    pub missing: Vec<String>,
}

/// The record of one manifest of one commit, with the known facts about the commit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordAnswer {
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// The dependencies that it waits for; null if it waits for nothing.
    #[serde(rename = "waitsFor")]
    pub waits_for: Option<String>,
    /// The progress of its rollout when that was recorded last, and the trouble with its pods so far; null if it has
    /// ended.
    pub progress: Option<String>,
    /// The workloads that read it and were not rolled out for its change: they notice when they restart.
    pub unnoticed: Vec<Unnoticed>,
    /// The note of the person who asked for it, with the name; null if nobody left one.
    pub note: Option<String>,
    /// The first line of the commit's message; null if the commit is not known.
    pub subject: Option<String>,
    /// The author of the commit; null if that is not known.
    pub author: Option<AuthorAnswer>,
    /// When the commit was written; null if that is not known.
    pub authored: Option<Timestamp>,
}

/// The author of a commit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuthorAnswer {
    /// The name.
    pub name: String,
    /// The address; null if only the change-cause names the commit.
    pub email: Option<String>,
}

impl RecordAnswer {
    /// Returns a record, with what is known of its commit.
    #[must_use]
    pub fn of(history: &History, record: &Record, told: Option<CommitInfo>) -> RecordAnswer {
        let (subject, author, authored) = match told {
            Some(CommitInfo { subject, author, email, authored }) => {
                (Some(subject), Some(AuthorAnswer { name: author, email }), authored)
            }
            None => (None, None, None),
        };
        let waits_for = step_details::waits_for(history, record).ok().flatten();
        let progress = step_details::progress(history, record).ok().flatten();
        let unnoticed = step_details::unnoticed(history, record).unwrap_or_default();
        let note = step_details::note(history, record).ok().flatten();
        RecordAnswer { record: record.clone(), waits_for, progress, unnoticed, note, subject, author, authored }
    }
}

/// The known facts about a commit, which may be incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The first line of its message.
    pub subject: String,
    /// The author.
    pub author: String,
    /// The author's address.
    pub email: Option<String>,
    /// When.
    pub authored: Option<Timestamp>,
}

impl From<&Commit> for CommitInfo {
    fn from(commit: &Commit) -> CommitInfo {
        let Person { name, email } = commit.author.clone();
        CommitInfo {
            subject: commit.subject.clone(),
            author: name,
            email: Some(email),
            authored: Some(commit.authored),
        }
    }
}

/// A record with its steps, and what its analyses have measured.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShownRecord {
    /// The record.
    #[serde(flatten)]
    pub answer: RecordAnswer,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The looks of its analyses, in order.
    pub measurements: Vec<Measurement>,
}

impl ShownRecord {
    /// Returns a record with its details, and at most so many of its newest looks.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn of(history: &History, answer: RecordAnswer, looks: u32) -> Result<ShownRecord, HistoryError> {
        let id = answer.record.id;
        Ok(ShownRecord { answer, steps: history.steps(id)?, measurements: history.newest_measurements(id, looks)? })
    }
}

/// The output of `belay show COMMIT`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowAnswer {
    /// The commit; null if only its id is known.
    pub commit: Option<Commit>,
    /// The records of its manifests, the oldest first.
    pub records: Vec<ShownRecord>,
    /// When the commit came to each source that has it, by the names of the sources.
    #[serde(default)]
    pub arrived: BTreeMap<String, Timestamp>,
    /// The reason for which there are no records; null if there are.
    pub why: Option<String>,
    /// The facts that are missing, because the daemon's history is not here; empty if it is.
    pub missing: Vec<String>,
}

/// The output of `belay history --stats`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsAnswer {
    /// The time from which on rollouts are counted, by their beginning.
    pub since: Timestamp,
    /// The end of that time.
    pub until: Timestamp,
    /// The time since which all of them are kept, if that is later: some earlier ones are forgotten, and not counted.
    /// Null where nothing is missing.
    pub kept_since: Option<Timestamp>,
    /// One line for each source, workload or month.
    pub stats: Vec<LineAnswer>,
}

/// The numbers of one source, workload or month.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineAnswer {
    /// The subject: `shop`, `shop: Deployment shop/web`, `2026-11`.
    pub of: String,
    /// The number of rollouts that ended.
    pub rollouts: u64,
    /// The number of them that failed.
    pub failures: u64,
    /// The number of failures by cause.
    pub causes: BTreeMap<FailureCause, u64>,
    /// The number of rollouts a day.
    pub per_day: f64,
    /// The part of them that failed, from 0 to 1.
    pub change_failure_rate: f64,
    /// From the writing of the commit until it was complete; null if none was.
    pub lead_time: Option<SpreadAnswer>,
    /// From the beginning of a rollout that failed until the workload was well again; null if none failed.
    pub time_to_restore: Option<SpreadAnswer>,
}

impl LineAnswer {
    /// Returns the numbers of a time that is so long.
    #[must_use]
    pub fn of(line: &Stats, time: SignedDuration) -> LineAnswer {
        let spread = |spread: Option<Spread>| {
            spread.map(|spread| SpreadAnswer {
                count: spread.count,
                median_seconds: spread.median.as_secs_f64(),
                ninth_tenth_seconds: spread.ninth_tenth.as_secs_f64(),
                longest_seconds: spread.longest.as_secs_f64(),
            })
        };
        LineAnswer {
            of: line.of.clone(),
            rollouts: line.deployments,
            failures: line.failures,
            causes: line.causes.clone(),
            per_day: per_day(line, time),
            change_failure_rate: failure_rate(line),
            lead_time: spread(line.lead_time),
            time_to_restore: spread(line.time_to_restore),
        }
    }
}

/// Returns how many rollouts there were a day.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate for people; nobody has 2^52 rollouts")]
pub fn per_day(line: &Stats, time: SignedDuration) -> f64 {
    line.deployments as f64 / (time.as_secs_f64() / 86_400.0).max(1.0)
}

/// Returns the part of them that failed.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate for people; nobody has 2^52 rollouts")]
pub fn failure_rate(line: &Stats) -> f64 {
    if line.deployments == 0 { 0.0 } else { line.failures as f64 / line.deployments as f64 }
}

/// The distribution of times, in seconds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadAnswer {
    /// The number of times.
    pub count: u64,
    /// The one in the middle.
    pub median_seconds: f64,
    /// Nine of ten took at most this.
    pub ninth_tenth_seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
}

/// The output of `belay status`. With `--watch`, each workload that changes is a line of its own.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// The API server that the workloads were read from; null in the answers of a daemon, whose sources name theirs.
    pub cluster: Option<String>,
    /// The reason for which the API server did not answer; null if it did. The workloads and objects are then what the
    /// daemon on this machine knew last.
    pub unanswered: Option<String>,
    /// The sources, as far as the daemon's history is here.
    pub sources: Vec<SourceAnswer>,
    /// The workloads that belay has applied, or is to apply.
    pub workloads: Vec<WorkloadAnswer>,
    /// The other objects, and files, that are not as the head says; of the kinds that have no pods.
    pub objects: Vec<WorkloadAnswer>,
}

/// The state of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceAnswer {
    /// Its name.
    pub source: String,
    /// The head that was planned last; null if none was yet.
    pub head: Option<CommitId>,
    /// Its state.
    pub state: SourceState,
    /// The state in a line for people.
    pub summary: String,
    /// The number of its objects in each state.
    pub objects: StateCounts,
    /// The source or the daemon that all of it waits for, in a sentence; null if it waits for none.
    pub waits_for: Option<String>,
    /// The reason why it is blocked; null if it is not.
    pub blocked: Option<String>,
    /// The API server of the cluster that it is for; null if that is not known.
    pub cluster: Option<String>,
    /// When its daemon looked at the repository last, or tried to; null if it has not.
    pub looked: Option<Timestamp>,
    /// The trouble that keeps the daemon from reading the repository, or from planning its content; null if there is
    /// none.
    pub trouble: Option<TroubleAnswer>,
    /// Other trouble, by place.
    pub troubles: BTreeMap<String, String>,
    /// Warnings about the repository that block nothing, by the path of the file.
    pub warnings: BTreeMap<String, String>,
}

impl SourceAnswer {
    /// Returns a line for each warning. Each begins with its path, and with the place in the file if that is known.
    pub fn warning_lines(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|(path, message)| match message.strip_prefix(path.as_str()) {
            Some(rest) if rest.starts_with(':') => format!("warning: {message}"),
            _ => format!("warning: {path}: {message}"),
        })
    }
}

/// The trouble of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TroubleAnswer {
    /// The message.
    pub message: String,
    /// The time of its beginning.
    pub since: Timestamp,
}

/// The state of one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAnswer {
    /// The workload.
    pub object: ObjectKey,
    /// The source that it belongs to.
    pub source: String,
    /// The commit that made its pod template; empty if none is named.
    pub commit: String,
    /// Its state.
    pub state: ObjectState,
    /// One sentence for people.
    pub message: String,
    /// The cause of a failure in a line: how many pods fail and how, and the last line of their log; null if nothing fails.
    pub cause: Option<String>,
    /// The commit that is charged with a failure, which `commit` need not be: after a rollback an older one runs; null if
    /// nothing failed.
    pub failed_commit: Option<CommitId>,
    /// The place of the manifest that the state is about; null if that is not known.
    pub place: Option<Place>,
    /// The dependencies that it waits for; null if it waits for nothing.
    pub waits_for: Option<String>,
    /// The time since which it is held, waits or differs from Git; null if it does not.
    pub since: Option<Timestamp>,
    /// The field manager that has changed it, which belay only reports; null if nobody has.
    pub drifted_by: Option<String>,
    /// True when the API server did not answer: this is what the daemon on this machine knew last.
    pub known_last: bool,
    /// The step of its canary, if one is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<LiveCanary>,
    /// True when somebody paused its rollout.
    pub paused: bool,
    /// Pods of the present template.
    pub updated: i64,
    /// Pods that are ready.
    pub ready: i64,
    /// Pods that are available.
    pub available: i64,
    /// Pods wanted.
    pub desired: i64,
    /// When its rollout has failed unless something moves; null if nothing is under way, or its kind has no deadline.
    pub deadline: Option<Timestamp>,
    /// The pods of each revision that has any, the newest first; null if no workload was asked for by name.
    pub revisions: Option<Vec<RevisionPods>>,
    /// The reason for which those are not known; null if they are.
    pub revisions_missing: Option<String>,
}

impl WorkloadAnswer {
    /// Returns an object in a state, of which nothing else is known yet.
    #[must_use]
    pub fn of_object(object: &ObjectKey, source: &str, state: ObjectState) -> WorkloadAnswer {
        WorkloadAnswer {
            object: object.clone(),
            source: source.to_owned(),
            commit: String::new(),
            state,
            message: String::new(),
            cause: None,
            failed_commit: None,
            place: None,
            waits_for: None,
            since: None,
            drifted_by: None,
            known_last: false,
            canary: None,
            paused: false,
            updated: 0,
            ready: 0,
            available: 0,
            desired: 0,
            deadline: None,
            revisions: None,
            revisions_missing: None,
        }
    }
}

impl History {
    /// Returns when a commit came to each source that has it.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn arrived(&self, id: &CommitId) -> Result<BTreeMap<String, Timestamp>, HistoryError> {
        Ok(self.arrivals(id)?.into_iter().map(|arrival| (arrival.source, arrival.at)).collect())
    }

    /// Returns the known facts about a commit.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn told(&self, id: &CommitId) -> Result<Option<CommitInfo>, HistoryError> {
        Ok(self.commit(id)?.as_ref().map(CommitInfo::from))
    }
}
