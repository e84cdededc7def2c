//! A change of a ConfigMap or Secret rolls out the workloads that read it, if that is asked for. Otherwise the
//! workloads that will not notice are logged.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::error;

use super::plan_request::{ChargedCommit, ConfigChange, PlanRequest, PlanRequests};
use crate::daemon::repository::desired_state::{Contents, DesiredState};
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    Commit, ConfigHash, Only, RecordId, Step, StepKind, Unnoticed, Workload, changes_contents, config_hash,
    config_hash_in, is_configuration, marks, readings, rolls_on_config, template,
};

/// The most workloads that one record names.
const NAMED: usize = 20;

/// A new head, as it decides which workloads are rolled out for the configuration that it has changed.
#[derive(Clone, Copy)]
pub struct ConfigurationHead<'a> {
    pub desired: &'a DesiredState,
    /// The commits that came with it, the newest first.
    pub commits: &'a [Commit],
    /// False for the first plan, which has everything, and knows of no change.
    pub is_change: bool,
    /// The objects whose manifests the head contradicts elsewhere.
    pub contradicted: &'a BTreeMap<ObjectKey, String>,
}

/// Returns the ConfigMaps and Secrets that a new head has changed, each with the newest commit that did.
pub fn changed_configuration(news: &HeadChange) -> BTreeMap<ObjectKey, Arc<Commit>> {
    let changed = news.changed.iter().map(|charged| (&charged.manifest.key, &charged.commit));
    let removed = news.removed.iter().map(|(key, charged)| (key, &charged.commit));
    let all = changed.chain(removed).filter(|(key, _)| is_configuration(key));
    all.map(|(key, commit)| (key.clone(), Arc::clone(commit))).collect()
}

impl Context {
    /// Returns the configuration hash for the pod template of a workload.
    pub fn config_hash(&self, desired: &DesiredState, manifest: &Manifest) -> ConfigHash {
        let (hash, known) = self.hash_of_what_it_reads(desired, manifest);
        // Configuration that can't be read for now counts as unchanged.
        ConfigHash { asked: hash, only: (!known).then_some(Only::New), ..ConfigHash::default() }
    }

    /// Returns the hash of the configuration that a workload reads of this repository, if that is asked for, and true
    /// if all of it is known.
    fn hash_of_what_it_reads(&self, desired: &DesiredState, manifest: &Manifest) -> (Option<String>, bool) {
        if Workload::of(&manifest.key).is_none() {
            return (None, true);
        }
        let value = manifest.value();
        let asks = rolls_on_config(&manifest.key, &value, self.config.roll_on_config);
        let Some(template) = template(&value).filter(|_| asks) else { return (None, true) };
        let read: Vec<(ObjectKey, Contents)> = readings(template, manifest.key.namespace.as_deref())
            .into_keys()
            .map(|key| {
                let contents = desired.contents(&key);
                (key, contents)
            })
            .collect();
        let here = read.iter().filter_map(|(key, contents)| match contents {
            Contents::Here(hash) => Some((key, *hash)),
            Contents::Unreadable | Contents::Elsewhere => None,
        });
        let known = !read.iter().any(|(_, contents)| *contents == Contents::Unreadable);
        (config_hash(here), known)
    }

    /// Returns the hash that the template of a workload said when it was rolled out last; `None` if that is not
    /// known.
    pub fn rolled_out_hash(&self, key: &ObjectKey) -> Option<Option<String>> {
        let newest = self.newest_rollout(key)?;
        let template = self.history.template(&self.config.name, key, &newest.commit).ok().flatten()?;
        Some(config_hash_in(&template).map(str::to_owned))
    }
}

impl Context {
    /// Requests the workloads that read configuration that a new head has changed, and that are to be rolled out for
    /// it.
    pub fn request_readers(
        &self,
        requests: &mut PlanRequests,
        changed: BTreeMap<ObjectKey, Arc<Commit>>,
        head: ConfigurationHead<'_>,
    ) {
        let (ConfigurationHead { desired, commits, is_change, contradicted }, of_source) =
            (head, self.config.roll_on_config);
        let mut readers: BTreeMap<ObjectKey, Arc<Commit>> = BTreeMap::new();
        for (object, commit) in changed {
            let users = desired.named_by(&object).into_iter();
            for user in users.filter(|user| desired.reading(&object, user).is_some()) {
                let newest = readers.entry(user).or_insert_with(|| Arc::clone(&commit));
                *newest = newer(commits, newest, &commit);
            }
        }
        readers.retain(|user, _| desired.rolls_on_config(user, of_source));
        for (user, commit) in readers {
            let request = match requests.entry(user) {
                Entry::Occupied(request) => request.into_mut(),
                Entry::Vacant(none) if !is_change || contradicted.contains_key(none.key()) => {
                    continue;
                }
                Entry::Vacant(none) => {
                    let request = PlanRequest::read(none.key(), Arc::clone(&commit));
                    none.insert(request)
                }
            };
            if let ChargedCommit::Known(own) = &mut request.charged {
                *own = newer(commits, own, &commit);
            }
            if is_change {
                request.config = ConfigChange::ByHead;
            }
        }
    }

    /// Returns the workloads that read a configuration about to be changed, and are not rolled out for it.
    pub fn unnoticed<'a>(
        &self,
        desired: &DesiredState,
        planned: impl Iterator<Item = &'a Prepared> + Clone,
    ) -> BTreeMap<ObjectKey, Vec<Unnoticed>> {
        let rolled: BTreeSet<&ObjectKey> =
            planned.clone().filter(|one| one.rolls_out()).map(|one| &one.planned.wanted.key).collect();
        let changed = planned.filter(|one| one.planned.wanted.trigger.is_commit());
        let found = changed.filter_map(|one| {
            let object = &one.planned.wanted.key;
            let contents = changes_contents(object, &one.planned.step)?;
            let users = desired.named_by(object);
            let stay = users.into_iter().filter(|user| !rolled.contains(user)).filter_map(|workload| {
                let reading = desired.reading(object, &workload)?;
                let is_told = Unnoticed::is_to_be_told(&workload, reading, contents);
                is_told.then_some(Unnoticed { workload, reading })
            });
            let of_source = self.config.roll_on_config;
            let asks = |one: &Unnoticed| desired.rolls_on_config(&one.workload, of_source);
            let stay: Vec<Unnoticed> = stay.filter(|one| !asks(one)).take(NAMED).collect();
            (!stay.is_empty()).then(|| (object.clone(), stay))
        });
        found.collect()
    }

    /// Records the workloads that will not notice the change of a record. Without that it is as well.
    pub fn note_unnoticed(&self, id: RecordId, unnoticed: &[Unnoticed]) {
        let step = Step { at: self.clock.now(), kind: StepKind::Unnoticed, detail: marks::written(&unnoticed) };
        if let Err(error) = self.history.step(id, &step) {
            error!(%error, "failed to write down which workloads will not notice a change");
        }
    }
}

/// Returns the newer of two commits, as far as the commits that came together, the newest first, tell.
fn newer(commits: &[Commit], one: &Arc<Commit>, other: &Arc<Commit>) -> Arc<Commit> {
    let place = |commit: &Commit| commits.iter().position(|known| known.id == commit.id).unwrap_or(usize::MAX);
    Arc::clone(if place(other) < place(one) { other } else { one })
}
