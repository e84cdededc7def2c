//! The objects that this source created: known from its history and from Git, never from a label or a field manager,
//! which anybody who may write one object can write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::head_reading::HeadReading;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::repository::units::Content;
use crate::daemon::shared::context::Context;
use crate::git::GitError;
use crate::history::Query;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    self, CommitId, OtherLabel, Outcome, ReasonCode, Record, Trigger, Wanted, is_label_of_others,
};

/// The number of records of an object that are searched.
const RECORDS: u32 = 50;
/// The number of commits that are searched for one that named an object.
const COMMITS: usize = 1000;
/// The number of earlier versions of units that are rendered for it.
const RENDERED: usize = 50;
/// The number of objects that a message names.
const NAMED: usize = 10;

/// Returns the meaning of another source's label on a live object. Without a memory it is believed where belay itself
/// wrote it.
pub async fn other_label(memory: Option<&Context>, source: &str, wanted: &Wanted, live: Option<&Value>) -> OtherLabel {
    let other = live.and_then(|live| rollout::other_label(live, source));
    let Some(other) = other else { return OtherLabel::Claim };
    let Some(memory) = memory else {
        let drifted = live.is_some_and(is_label_of_others);
        return if drifted { OtherLabel::Drift } else { OtherLabel::Claim };
    };
    let taken = live.and_then(|live| memory.taken_by_another_source(&wanted.key, live));
    if taken.is_some() || !memory.made_and_kept(wanted).await {
        return OtherLabel::Claim;
    }
    warn!(object = %wanted.key, other, "somebody wrote the label of another source on what belay made; putting it right");
    OtherLabel::Drift
}

impl Context {
    /// Returns true when a live object that has the label of another source is still this one's: this source applied
    /// it, and its manifest has been in the repository ever since. Then the label is drift, and no claim.
    async fn made_and_kept(&self, wanted: &Wanted) -> bool {
        if !is_owner(&self.records_of(&self.config.name, &wanted.key)) {
            return false;
        }
        if !wanted.trigger.is_commit() {
            return true;
        }
        // A manifest that this commit brings back may have become another source's in between.
        let (key, commit) = (wanted.key.clone(), wanted.commit.id.clone());
        self.ask_git(move |repository| repository.change_by(&key, &commit)).await.is_some()
    }

    /// Returns those of `keys` that this source made: that its history, or a commit of its repository, names.
    pub async fn made(&self, keys: &BTreeSet<ObjectKey>) -> BTreeSet<ObjectKey> {
        let (mut made, unknown): (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) =
            keys.iter().cloned().partition(|key| self.records_of(&self.config.name, key).iter().any(applied));
        let Some(head) = self.repository.desired().at.clone() else { return made };
        let unknown = self.repository.unmanaged.unknown(&head, unknown);
        if unknown.is_empty() {
            return made;
        }
        let (asked, at) = (unknown.clone(), head.clone());
        let named = self.ask_git(move |repository| repository.named(&at, &asked).map(Some)).await;
        // Objects that could not be looked up now are tried again.
        if let Some(named) = named {
            self.repository.unmanaged.add(&head, unknown.into_iter().filter(|key| !named.contains_key(key)));
            made.extend(named.into_keys());
        }
        made
    }

    /// Tells of objects that have the marks of this source and that it did not make.
    pub fn warn_unmanaged(&self, unmanaged: &[ObjectKey]) {
        let message = unmanaged.first().map(|first| {
            let mut names: Vec<String> = unmanaged.iter().take(NAMED).map(ToString::to_string).collect();
            if unmanaged.len() > NAMED {
                names.push(format!("and {} more", unmanaged.len() - NAMED));
            }
            format!(
                "{} objects have the label belay.dev/source={} and the field manager belay, and neither the history nor a \
                 commit of the repository names them: belay leaves them alone ({}); if they are not meant to be belay's, \
                 say kubectl label {} {} belay.dev/source-",
                unmanaged.len(),
                self.config.name,
                names.join(", "),
                first.kind.to_lowercase(),
                first.name
            )
        });
        if let Some(message) = &message {
            warn!(message);
        }
        self.status.trouble(&Obstacle::Unmanaged, message);
    }

    /// Returns the other source of this daemon that applied an object, and whose label is on it. Both sources planned the object
    /// before either had applied it. The one whose label is on it keeps it.
    pub fn taken_by_another_source(&self, key: &ObjectKey, live: &Value) -> Option<String> {
        let other = rollout::other_label(live, &self.config.name)?;
        let wrote_it = !is_label_of_others(live) && self.status.follows(other) && {
            let records = self.records_of(other, key);
            let left = records.first().is_some_and(|newest| newest.outcome == Outcome::Orphaned);
            !left && is_owner(&records)
        };
        wrote_it.then(|| other.to_owned())
    }

    fn records_of(&self, source: &str, key: &ObjectKey) -> Vec<Record> {
        let query = Query { limit: Some(RECORDS), ..Query::of(source, key) };
        let records = self.history.records(&query).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to ask the history what belay made");
            Vec::new()
        });
        records.into_iter().filter(|record| record.object == *key).collect()
    }
}

/// Returns true when a record says that the object was applied, or was as applied.
fn applied(record: &Record) -> bool {
    // Records that were rebuilt after the history was lost come from the very marks that are in doubt.
    if matches!(record.trigger, Trigger::Rebuilt) {
        return false;
    }
    match record.outcome {
        Outcome::UnderWay
        | Outcome::Baking
        | Outcome::RollingBack
        | Outcome::Complete
        | Outcome::RolledBack
        | Outcome::RollbackFailed
        | Outcome::Unchanged => true,
        Outcome::Failed | Outcome::Superseded | Outcome::Unknown => record.rolls_out,
        _ => false,
    }
}

/// Returns true when the records of an object, newest first, say that it is this source's: it was applied, and neither
/// deleted nor found to be another's since. A mere correction after it had been another's does not make it this one's:
/// two sources that both want it would take it from each other for ever.
fn is_owner(records: &[Record]) -> bool {
    let mut put_right = false;
    for record in records {
        let claimed = record.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::ClaimedTwice);
        match record.outcome {
            Outcome::Pruned => break,
            Outcome::Rejected if claimed => return false,
            _ if !applied(record) => {}
            _ if matches!(record.trigger, Trigger::Drift(_)) => put_right = true,
            _ => return true,
        }
    }
    put_right
}

/// The last trace in Git of an object that has left the repository.
pub struct LastNamed {
    /// The file that it was in last.
    pub path: Arc<str>,
    /// The commit that took it away. For a merge, the first parent counts.
    pub gone_with: CommitId,
}

impl Repository {
    /// Returns those of `keys` that a manifest of some commit up to `head` named, as far back as belay searches.
    pub fn named(
        &self,
        head: &CommitId,
        keys: &BTreeSet<ObjectKey>,
    ) -> Result<BTreeMap<ObjectKey, LastNamed>, GitError> {
        let scopes = self.desired().scopes.clone();
        let mut named = BTreeMap::new();
        if keys.is_empty() {
            return Ok(named);
        }
        let mut at = head.clone();
        let mut rendered = 0;
        for _ in 0..COMMITS {
            let Some(parent) = self.mirror.commit(&at)?.parents.into_iter().next() else { break };
            let changes = match self.changes(Some(&parent), &at) {
                Ok(changes) => changes.changes,
                // The folder came later, or was away for a while.
                Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => Vec::new(),
                Err(error) => return Err(error),
            };
            for change in changes.iter().filter(|change| change.is_manifest) {
                let Some(content) = Content::readable(change.before.as_ref()) else { continue };
                if let Content::Rendered(_) = content {
                    rendered += 1;
                    if rendered > RENDERED {
                        continue;
                    }
                }
                let file = self.read(&change.path, content, &scopes)?;
                for Manifest { key, place, .. } in file.manifests {
                    if keys.contains(&key) {
                        named.entry(key).or_insert_with(|| LastNamed { path: place.path, gone_with: at.clone() });
                    }
                }
            }
            if named.len() == keys.len() {
                break;
            }
            at = parent;
        }
        Ok(named)
    }

    /// Returns the commits that took the manifests of these objects away, as far as Git knows them.
    pub fn took_away(
        &self,
        head: &CommitId,
        keys: &BTreeSet<ObjectKey>,
    ) -> Result<BTreeMap<ObjectKey, CommitId>, GitError> {
        let side = |(key, LastNamed { path, gone_with }): (ObjectKey, LastNamed)| {
            let parents = self.mirror.commit(&gone_with)?.parents;
            if parents.len() < 2 {
                return Ok((key, gone_with));
            }
            let (scopes, paths) = (self.desired().scopes.clone(), [path.to_string()]);
            let chains = self.mirror.attribution(parents.first(), &gone_with, &self.folder, &paths, COMMITS)?;
            let mut reading = HeadReading::new(self, &scopes, &gone_with);
            let charged = reading.charge(&path, [(key.clone(), None)].into(), chains.get(&*path))?;
            Ok((key, charged.into_values().next().map_or(gone_with, |commit| commit.id.clone())))
        };
        self.named(head, keys)?.into_iter().map(side).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::Reason;

    fn record(outcome: Outcome, trigger: Trigger, code: Option<ReasonCode>) -> Record {
        let commit = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap();
        let object =
            ObjectKey { group: String::new(), kind: "ConfigMap".to_owned(), namespace: None, name: "a".to_owned() };
        let reason = code.map(|code| Reason::new(code, ""));
        let planned = Record::planned("shop", &commit, object, jiff::Timestamp::UNIX_EPOCH);
        Record { outcome, trigger, reason, ..planned }
    }

    #[test]
    fn what_it_applied_is_its_own_until_it_was_anothers() {
        let made = || record(Outcome::Complete, Trigger::Commit, None);
        let put_right = || record(Outcome::Complete, Trigger::Drift("kubectl".to_owned()), None);
        let claimed = || record(Outcome::Rejected, Trigger::Commit, Some(ReasonCode::ClaimedTwice));
        let invalid = || record(Outcome::Rejected, Trigger::Commit, Some(ReasonCode::InvalidManifest));
        let pruned = || record(Outcome::Pruned, Trigger::Commit, None);
        assert!(is_owner(&[made()]));
        assert!(is_owner(&[invalid(), put_right(), made()]));
        assert!(!is_owner(&[]));
        assert!(!is_owner(&[record(Outcome::Complete, Trigger::Rebuilt, None)]), "that was read from the object");
        assert!(!is_owner(&[invalid()]));
        assert!(!is_owner(&[pruned(), made()]), "it was deleted since");
        assert!(!is_owner(&[claimed(), made()]), "it is another's since");
        assert!(!is_owner(&[put_right(), claimed()]), "a label alone made it this one's");
        assert!(is_owner(&[made(), claimed()]), "the other one has let go");
    }
}
