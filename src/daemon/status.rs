//! What the daemon says of itself: published whenever something changes, for systemd, metrics and pages.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

use crate::manifest::ObjectKey;
use crate::rollout::{CommitId, Counters, Outcome, Reason};

/// The daemon's state at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Every source, by name.
    pub sources: BTreeMap<String, SourceStatus>,
}

/// The state of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceStatus {
    /// The commit that the branch is at, as last seen.
    pub head: Option<CommitId>,
    /// The commit whose plan was made last.
    pub planned: Option<CommitId>,
    /// When the repository was last reached.
    pub looked: Option<Timestamp>,
    /// What is in the way, by where: the repository, the cluster, a manifest.
    pub trouble: BTreeMap<String, String>,
    /// The rollouts under way, by object.
    #[serde(serialize_with = "by_name")]
    pub under_way: BTreeMap<ObjectKey, UnderWay>,
    /// The held manifests, by object.
    #[serde(serialize_with = "by_name")]
    pub held: BTreeMap<ObjectKey, HeldStatus>,
    /// How many objects there are in the repository.
    pub objects: usize,
    /// Whether everything that the head says is through, and nothing is being looked into.
    pub settled: bool,
    /// The newest look at the repository as of which everything that the head says is live and complete; `None` while
    /// anything is not.
    pub complete: Option<Timestamp>,
    /// What all of it waits for: another source, or another daemon.
    pub waits: Option<String>,
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnderWay {
    /// The commit.
    pub commit: CommitId,
    /// Where it stands.
    pub outcome: Outcome,
    /// How far it is.
    pub counters: CountersStatus,
    /// One sentence.
    pub message: String,
    /// When its deadline ends, unless something moves.
    pub until: Option<Timestamp>,
    /// What of the world is in its way.
    pub in_the_way: Option<Reason>,
}

/// How many pods are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountersStatus {
    /// Pods wanted.
    pub desired: i64,
    /// Pods of the new template.
    pub updated: i64,
    /// Available pods.
    pub available: i64,
}

impl From<Counters> for CountersStatus {
    fn from(counters: Counters) -> CountersStatus {
        CountersStatus { desired: counters.desired, updated: counters.updated, available: counters.available }
    }
}

/// A held manifest: Git and the cluster differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldStatus {
    /// The commit that brought it.
    pub commit: CommitId,
    /// Why it is held.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// Publishes the state of one source.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    source: String,
    status: watch::Sender<Status>,
}

impl Publisher {
    /// A publisher for `source`.
    pub(super) fn new(source: &str, status: watch::Sender<Status>) -> Publisher {
        let publisher = Publisher { source: source.to_owned(), status };
        publisher.change(|_| {});
        publisher
    }

    /// Changes what is published; readers hear of it only if it differs.
    pub(super) fn change(&self, change: impl FnOnce(&mut SourceStatus)) {
        self.status.send_if_modified(|status| {
            let source = status.sources.entry(self.source.clone()).or_default();
            let before = source.clone();
            change(source);
            *source != before
        });
    }

    /// The commit whose plan was made last.
    pub(super) fn planned(&self) -> Option<CommitId> {
        self.status.borrow().sources.get(&self.source).and_then(|source| source.planned.clone())
    }

    /// Says what all of it waits for; whether that is news.
    pub(super) fn says_waiting(&self, message: &str) -> bool {
        let mut news = false;
        self.change(|source| {
            news = source.waits.as_deref() != Some(message);
            source.waits = Some(message.to_owned());
        });
        news
    }

    /// Says that something is in the way, or, with `None`, that it no longer is.
    pub(super) fn trouble(&self, place: &str, message: Option<String>) {
        self.change(|source| match message {
            Some(message) => {
                source.trouble.insert(place.to_owned(), message);
            }
            None => {
                source.trouble.remove(place);
            }
        });
    }
}

impl Publisher {
    /// Says of another source of this daemon that something is in its way. Nothing happens where it has none of that
    /// name: it is another daemon's.
    pub(super) fn trouble_of(&self, other: &str, place: &str, message: Option<String>) {
        self.status.send_if_modified(|status| {
            let Some(source) = status.sources.get_mut(other) else { return false };
            let before = match message {
                Some(message) => source.trouble.insert(place.to_owned(), message.clone()).as_ref() == Some(&message),
                None => source.trouble.remove(place).is_none(),
            };
            !before
        });
    }
}

fn by_name<S: serde::Serializer, T: Serialize>(map: &BTreeMap<ObjectKey, T>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key.to_string(), value)))
}
