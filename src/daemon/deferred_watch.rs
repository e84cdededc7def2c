//! Kinds of which a first plan has many objects: they are watched when those are applied, not before.
//!
//! A watch tells of every change of every object, and while thousands are made for the first time each is changed several
//! times within moments: the API server would write, and belay read, many times what one list says afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::resume_point::InSync;
use super::source::{Done, GATHER, Source};
use crate::cluster::Served;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Wanted;

/// From how many objects of a kind on.
const CROWD: usize = 500;
/// How long a kind is not watched, at most: what comes of the objects is judged only then.
const LONGEST: Duration = Duration::from_secs(5);

/// Kinds that are not watched yet.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Their groups and names.
    kinds: BTreeSet<(String, String)>,
    /// The resources that serve them, as far as they are known.
    served: BTreeSet<Served>,
    /// What is known of objects that are through, until the watch tells of them.
    through: BTreeMap<ObjectKey, InSync>,
}

impl Crowd {
    /// The kinds of which a plan for these manifests has many.
    pub(super) fn of<'a>(wanted: impl Iterator<Item = &'a Wanted>) -> Crowd {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for wanted in wanted {
            *counts.entry((&wanted.key.group, &wanted.key.kind)).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= CROWD);
        let kinds = many.map(|((group, kind), _)| (group.to_owned(), kind.to_owned())).collect();
        Crowd { kinds, ..Crowd::default() }
    }

    /// Whether a kind is one of them; then it is remembered.
    fn takes(&mut self, served: &Served) -> bool {
        let is_one = self.has(&served.group, &served.kind);
        if is_one && !self.served.contains(served) {
            self.served.insert(served.clone());
        }
        is_one
    }

    fn has(&self, group: &str, kind: &str) -> bool {
        self.kinds.iter().any(|(its, name)| its == group && name == kind)
    }

    /// What was known of an object before the watch told of it.
    pub(super) fn told(&mut self, key: &ObjectKey) -> Option<InSync> {
        self.through.remove(key)
    }

    /// The watch has told of all objects of a kind.
    pub(super) fn told_all(&mut self, served: &Served) {
        self.through.retain(|key, _| key.group != served.group || key.kind != served.kind);
    }
}

impl Source {
    /// Watches a kind, as soon as it is no crowd any more.
    pub(super) fn watch(&mut self, served: &Served) {
        if !self.watches.deferred.takes(served) {
            self.watches.watched.also(served);
        }
    }

    /// An object is through of which no watch has told: one will, or it is looked into.
    pub(super) fn await_word_of(&mut self, key: &ObjectKey, well: Option<InSync>) {
        if !self.watches.deferred.has(&key.group, &key.kind) {
            self.drift.recheck_after(key.clone(), Duration::ZERO);
        } else if let Some(well) = well {
            self.watches.deferred.through.insert(key.clone(), well);
        }
    }

    /// Watches the crowds when what was planned of them is applied.
    pub(super) fn watch_crowds_when_calm(&mut self) {
        if self.watches.deferred.kinds.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let calm = async {
                loop {
                    tokio::time::sleep(GATHER).await;
                    if context.requests.is_calm() {
                        return;
                    }
                }
            };
            // What takes longer is watched while it goes on.
            drop(tokio::time::timeout(LONGEST, calm).await);
            Done::Calm
        });
    }

    /// Watches the crowds from now on.
    pub(super) fn watch_crowds(&mut self) {
        self.watches.deferred.kinds.clear();
        for served in std::mem::take(&mut self.watches.deferred.served) {
            self.watches.watched.also(&served);
        }
    }
}
