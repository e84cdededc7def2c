//! The live workloads whose status says that they are not complete: when the pods of each are inspected, and the trouble
//! with them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use belay_core::manifest::ObjectKey;

/// The waits before the inspections of the pods of one workload, after each change of it. When it rests, belay rests, too.
const LOOKS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(15)];

/// The workloads that are not complete.
#[derive(Clone, Debug, Default)]
pub struct UnhealthyWorkloads(BTreeMap<ObjectKey, UnhealthyWorkload>);

#[derive(Clone, Debug, Default)]
struct UnhealthyWorkload {
    look_at: Option<Instant>,
    /// The number of inspections since it changed.
    looks: usize,
    /// The trouble with its pods, as it was found last.
    wrong: Option<String>,
}

impl UnhealthyWorkloads {
    /// Notes that a workload is complete, or is not, when it was seen or has changed.
    pub fn note(&mut self, key: &ObjectKey, is_complete: bool, now: Instant) {
        if is_complete {
            self.0.remove(key);
            return;
        }
        let one = self.0.entry(key.clone()).or_default();
        one.looks = 0;
        one.look_at.get_or_insert(now + LOOKS[0]);
    }

    /// Returns the workloads whose pods are inspected now, of those that `counts` selects.
    pub fn take_due(&mut self, counts: impl Fn(&ObjectKey) -> bool, now: Instant) -> Vec<ObjectKey> {
        let due = self.0.iter_mut().filter(|(key, one)| one.look_at.is_some_and(|at| at <= now) && counts(key));
        let again = |(key, one): (&ObjectKey, &mut UnhealthyWorkload)| {
            one.looks += 1;
            one.look_at = LOOKS.get(one.looks).map(|wait| now + *wait);
            key.clone()
        };
        due.map(again).collect()
    }

    /// Returns when the pods of one of them are inspected next, of those that `counts` selects.
    pub fn next_look(&self, counts: impl Fn(&ObjectKey) -> bool) -> Option<Instant> {
        self.0.iter().filter(|(key, _)| counts(key)).filter_map(|(_, one)| one.look_at).min()
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
    fn pods_are_inspected_after_a_change_until_their_workload_rests() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let key = ObjectKey { group: "apps".into(), kind: "DaemonSet".into(), namespace: None, name: "agent".into() };
        let mut known = UnhealthyWorkloads::default();
        let mut looks = Vec::new();
        for second in 0..600 {
            // It changes at once, before an inspection, after one, and when it has rested.
            if [0, 5, 12, 300].contains(&second) {
                known.note(&key, false, at(second));
            }
            if !known.take_due(|_| true, at(second)).is_empty() {
                looks.push(second);
            }
        }
        assert_eq!(looks, [10, 25, 40, 310, 325]);
        assert_eq!(known.next_look(|_| true), None);
        known.note(&key, false, at(900));
        assert_eq!((known.next_look(|_| true), known.next_look(|_| false)), (Some(at(910)), None));
        assert!(known.take_due(|_| false, at(1000)).is_empty(), "a rollout is under way");
        known.found(&key, Some("a fault".to_owned()));
        assert_eq!(known.with_trouble(|_| true), BTreeMap::from([(key.clone(), Some("a fault".to_owned()))]));
        assert!(known.with_trouble(|_| false).is_empty());
        // A result that comes too late is not kept.
        known.note(&key, true, at(1000));
        known.found(&key, Some("a fault".to_owned()));
        known.note(&key, false, at(1001));
        assert_eq!(known.with_trouble(|_| true), BTreeMap::from([(key, None)]));
    }
}
