//! The standing of each source, as its daemon says: for commands, which have no other way to ask it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::{CommitId, Hold, LiveWorkload, ObjectState, Reason, SourceState, StateCounts};

/// The published state of a source, besides its objects. Commands, page, API and metrics say what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceStanding {
    /// Its state.
    pub state: SourceState,
    /// The number of its objects in each state.
    pub counts: StateCounts,
    /// The head that was planned last.
    pub head: Option<CommitId>,
    /// The reason why nothing of it is read, applied or written down.
    pub blocked: Option<String>,
    /// The source or the daemon that all of it waits for, in a sentence.
    pub waits: Option<String>,
    /// The trouble, by place.
    pub troubles: BTreeMap<String, String>,
    /// Warnings about its repository, by the path of the file.
    pub warnings: BTreeMap<String, String>,
    /// The objects with a hold.
    pub held: BTreeSet<ObjectKey>,
    /// The daemon that follows it.
    pub follower: Follower,
}

/// The daemon that follows a source, or waits to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Follower {
    /// True when it only stands by: another daemon follows the source.
    pub standby: bool,
    /// When it looked at the repository last, or tried to; `None` if it has not.
    pub looked: Option<Timestamp>,
    /// The period between two fetches, in seconds.
    pub interval: u64,
    /// The API server of the cluster that the source is for.
    pub cluster: Option<String>,
    /// The time since which the repository can't be read, or its content can't be planned.
    pub trouble_since: Option<Timestamp>,
}

/// The delay of a fetch, besides one interval, after which it is reported as late.
const LATE: SignedDuration = SignedDuration::from_secs(60);

impl Follower {
    /// Returns for how long nobody has fetched the repository, if that is longer than it should be.
    #[must_use]
    pub fn absent_for(&self, now: Timestamp) -> Option<SignedDuration> {
        let due = SignedDuration::from_secs(i64::try_from(self.interval).unwrap_or(i64::MAX)).saturating_add(LATE);
        let gone = now.duration_since(self.looked?);
        (!self.standby && gone > due).then_some(gone)
    }
}

impl SourceStanding {
    /// Returns the same, as it is reported at a time: a source that no daemon fetches is `blocked`, even if its last
    /// report was good.
    #[must_use]
    pub fn as_of(mut self, now: Timestamp) -> SourceStanding {
        if let Some(gone) = self.follower.absent_for(now) {
            self.state = SourceState::Blocked;
            let message = format!("no daemon has looked for {}", age(gone));
            self.blocked = Some(message.clone());
            self.troubles.insert("daemon".to_owned(), message);
        }
        self
    }

    /// Returns true when it is worth noting after another was noted. While rollouts go on, their counts are not; a
    /// fetch is once in half a minute.
    #[must_use]
    pub fn is_news_after(&self, noted: &SourceStanding) -> bool {
        const LOOKS: SignedDuration = SignedDuration::from_secs(30);
        let looked = match (self.follower.looked, noted.follower.looked) {
            (Some(now), Some(before)) => now.duration_since(before) >= LOOKS,
            (now, before) => now != before,
        };
        let goes_on = self.counts.0.keys().any(|state| state.is_open());
        let follower = Follower { looked: noted.follower.looked, ..self.follower.clone() };
        let counts = if goes_on { noted.counts.clone() } else { self.counts.clone() };
        looked || SourceStanding { follower, counts, ..self.clone() } != *noted
    }

    /// Returns its state in a line: `degraded (1 rejected, 12 complete)`, `waiting (3 complete) for source infra`.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts = if self.counts.0.is_empty() { String::new() } else { format!(" ({})", self.counts) };
        let waits = self.waits.as_deref().filter(|_| self.state == SourceState::Waiting);
        let what = waits.and_then(|waits| waits.strip_prefix("waits ")).map(|what| format!(" {what}"));
        format!("{}{counts}{}", self.state, what.unwrap_or_default())
    }
}

/// Returns a time in its largest unit: `2m`, `3h`, `5d`.
fn age(time: SignedDuration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7_200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The published state of a source with that of its objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublishedSource {
    /// The source.
    pub standing: SourceStanding,
    /// The rollouts under way.
    pub under_way: Vec<(ObjectKey, PublishedRollout)>,
    /// The objects that are not as the head says, and of which nothing more becomes by itself.
    pub ended: Vec<(ObjectKey, ObjectStanding)>,
    /// The held manifests.
    pub held: Vec<(ObjectKey, HeldStatus)>,
    /// The trouble with the pods of workloads without a rollout.
    pub unhealthy: Vec<(ObjectKey, String)>,
    /// The live workloads, if they were asked for.
    pub workloads: Vec<(ObjectKey, LiveWorkload)>,
}

/// The published state of a rollout under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedRollout {
    /// Its state.
    pub state: ObjectState,
    /// The commit.
    pub commit: CommitId,
    /// One sentence.
    pub message: String,
    /// The trouble with its pods so far.
    pub wrong: Option<String>,
    /// When its deadline ends, unless something moves.
    #[serde(default)]
    pub until: Option<Timestamp>,
}

/// A held manifest: Git and the cluster differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldStatus {
    /// The commit that brought it.
    pub commit: CommitId,
    /// The reason for the hold.
    pub reason: String,
    /// The time of its beginning.
    pub since: Timestamp,
}

impl HeldStatus {
    /// Returns what a hold says.
    #[must_use]
    pub fn of(hold: &Hold) -> HeldStatus {
        HeldStatus { commit: hold.commit.clone(), reason: hold.reason.clone(), since: hold.since }
    }

    /// Returns the line about it.
    #[must_use]
    pub fn line(&self) -> String {
        format!("commit {} is held: {}", self.commit.short(), self.reason)
    }
}

/// An object that is not as the head says, and of which nothing more is to become by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStanding {
    /// Its state.
    pub state: ObjectState,
    /// The commit that is charged with it.
    pub commit: CommitId,
    /// The reason.
    pub reason: Option<Reason>,
    /// The place of its manifest.
    pub place: Option<Place>,
    /// The time of its beginning.
    pub since: Timestamp,
    /// True when it is among the counted objects of the head.
    pub in_head: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_source_that_nobody_looks_at_is_never_synced() {
        let follower = Follower { looked: Some(at(1_000)), interval: 30, ..Follower::default() };
        let standing = SourceStanding { state: SourceState::Synced, follower, ..SourceStanding::default() };
        for (now, blocked) in [
            (1_000, None),
            (1_090, None),
            (1_091, Some("no daemon has looked for 91s")),
            (1_130, Some("no daemon has looked for 2m")),
            (1_000 + 3 * 3_600, Some("no daemon has looked for 3h")),
        ] {
            let said = standing.clone().as_of(at(now));
            assert_eq!(said.blocked.as_deref(), blocked, "at {now}");
            assert_eq!(said.state == SourceState::Blocked, blocked.is_some(), "at {now}");
        }
        // A standby never fetches, and one that has only begun has not fetched yet.
        let mut standby = standing.clone();
        standby.follower.standby = true;
        assert_eq!(standby.clone().as_of(at(9_000)), standby);
        let begun = SourceStanding { follower: Follower::default(), ..standing };
        assert_eq!(begun.clone().as_of(at(9_000)), begun);
    }

    #[test]
    fn a_source_that_waits_says_for_which() {
        let mut standing = SourceStanding {
            state: SourceState::Waiting,
            waits: Some("waits for source infra (StatefulSet db is held)".to_owned()),
            ..SourceStanding::default()
        };
        standing.counts.count(ObjectState::Complete);
        assert_eq!(standing.summary(), "waiting (1 complete) for source infra (StatefulSet db is held)");
        standing.state = SourceState::Degraded;
        assert_eq!(standing.summary(), "degraded (1 complete)");
    }

    #[test]
    fn what_an_older_belay_noted_is_read() {
        let old = r#"{"objects":3,"blocked":null,"troubles":{},"held":[]}"#;
        assert_eq!(serde_json::from_str::<SourceStanding>(old).unwrap(), SourceStanding::default());
    }
}
