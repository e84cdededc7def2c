//! The live workloads whose status says that they are not complete: when the pods of each are inspected, and the trouble
//! with them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use belay_core::manifest::ObjectKey;

/// The waits before inspections of the pods of one workload.
const LOOKS: Backoff = Backoff::between(Duration::from_secs(10), Duration::from_mins(2));

/// The workloads that are not complete.
#[derive(Clone, Debug, Default)]
pub struct UnhealthyWorkloads(BTreeMap<ObjectKey, UnhealthyWorkload>);

#[derive(Clone, Debug)]
struct UnhealthyWorkload {
    look_at: Instant,
    waits: Backoff,
    /// The trouble with its pods, as it was found last.
    wrong: Option<String>,
}

impl UnhealthyWorkloads {
    /// Notes that a workload is complete, or is not.
    pub fn note(&mut self, key: &ObjectKey, is_complete: bool, now: Instant) {
        if is_complete {
            self.0.remove(key);
            return;
        }
        self.0.entry(key.clone()).or_insert_with(|| {
            let mut waits = LOOKS;
            UnhealthyWorkload { look_at: now + waits.wait(), waits, wrong: None }
        });
    }

    /// Returns the workloads whose pods are inspected now, of those that `counts` selects. Each is inspected again later.
    pub fn take_due(&mut self, counts: impl Fn(&ObjectKey) -> bool, now: Instant) -> Vec<ObjectKey> {
        let due = self.0.iter_mut().filter(|(key, one)| one.look_at <= now && counts(key));
        let again = |(key, one): (&ObjectKey, &mut UnhealthyWorkload)| {
            one.look_at = now + one.waits.wait();
            key.clone()
        };
        due.map(again).collect()
    }

    /// Returns when the pods of one of them are inspected next, of those that `counts` selects.
    pub fn next_look(&self, counts: impl Fn(&ObjectKey) -> bool) -> Option<Instant> {
        self.0.iter().filter(|(key, _)| counts(key)).map(|(_, one)| one.look_at).min()
    }

    /// Takes the trouble that was found with the pods of a workload, unless it is complete by now.
    pub fn found(&mut self, key: &ObjectKey, wrong: Option<String>) {
        if let Some(one) = self.0.get_mut(key) {
            one.wrong = wrong;
        }
    }

    /// Returns those that `counts` selects, each with the trouble with its pods.
    pub fn with_trouble(&self, counts: impl Fn(&ObjectKey) -> bool) -> BTreeMap<ObjectKey, Option<String>> {
        let counting = self.0.iter().filter(|(key, _)| counts(key));
        counting.map(|(key, one)| (key.clone(), one.wrong.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_inspected_ever_more_rarely_until_their_workload_is_complete() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let key = ObjectKey { group: "apps".into(), kind: "DaemonSet".into(), namespace: None, name: "agent".into() };
        let mut known = UnhealthyWorkloads::default();
        known.note(&key, false, now);
        known.note(&key, false, at(5));
        let mut looks = Vec::new();
        for second in 0..600 {
            if !known.take_due(|_| true, at(second)).is_empty() {
                looks.push(second);
            }
        }
        assert_eq!(looks, [10, 30, 70, 150, 270, 390, 510]);
        assert_eq!((known.next_look(|_| true), known.next_look(|_| false)), (Some(at(630)), None));
        assert!(known.take_due(|_| false, at(1000)).is_empty(), "a rollout is under way");
        known.found(&key, Some("a fault".to_owned()));
        assert_eq!(known.with_trouble(|_| true), BTreeMap::from([(key.clone(), Some("a fault".to_owned()))]));
        assert!(known.with_trouble(|_| false).is_empty());
        // What is found too late is not kept.
        known.note(&key, true, at(1000));
        known.found(&key, Some("a fault".to_owned()));
        known.note(&key, false, at(1001));
        assert_eq!(known.with_trouble(|_| true), BTreeMap::from([(key, None)]));
    }
}
