//! Objects whose definition the API server refuses, or has with another scope: they wait, and the reason names the
//! definition, its file, and the choices.

use std::collections::BTreeMap;

use super::plan_parts::is_definition;
use super::planner::{Holds, Planner};
use crate::daemon::repository::desired_state::WrittenDefinition;
use crate::daemon::repository::prepared::Prepared;
use belay_core::manifest::{GroupKind, ObjectKey};
use belay_core::rollout::{Outcome, PlanStep, Planned, Reason, ReasonCode};

impl WrittenDefinition {
    fn of(planned: &Planned) -> Option<(GroupKind, WrittenDefinition)> {
        let (key, value) = (&planned.wanted.key, planned.wanted.manifest.value());
        let text = |path: &str| value.pointer(path)?.as_str().map(str::to_owned);
        let kind = GroupKind { group: text("/spec/group")?, kind: text("/spec/names/kind")? };
        let namespaced = text("/spec/scope")? == "Namespaced";
        let place = planned.wanted.manifest.place.clone();
        Some((kind, WrittenDefinition { key: key.clone(), place, namespaced }))
    }

    /// Returns why an object waits whose kind the cluster has with another scope.
    fn other_scope(&self, kind: &str) -> Reason {
        let WrittenDefinition { key: ObjectKey { name, .. }, place, namespaced } = self;
        let live = if *namespaced { "Cluster" } else { "Namespaced" };
        let message = format!(
            "waits for CustomResourceDefinition {name} ({place}): the cluster has the kind {kind} with scope {live}, and the scope \
             of a definition can't change: write scope: {live} there again, or delete the definition with all of its \
             objects (kubectl delete crd {name}), and belay makes both anew"
        );
        Reason::new(ReasonCode::Missing, message)
    }

    /// Returns why an object waits whose definition is refused.
    fn refused(&self, why: &Reason) -> Reason {
        let (name, place) = (&self.key.name, &self.place);
        let message = format!(
            "waits for CustomResourceDefinition {name} ({place}), which the API server refuses: {}; mend it there",
            why.message
        );
        Reason::new(ReasonCode::Missing, message)
    }
}

impl Planner<'_> {
    /// Has the objects wait whose definition is in their way.
    pub fn wait_for_refused_definitions(&self, prepared: &mut [Prepared]) {
        let mut planned: BTreeMap<GroupKind, (WrittenDefinition, Option<Reason>)> = BTreeMap::new();
        for one in prepared.iter().filter(|one| is_definition(&one.planned.wanted.key)) {
            let why = match &one.planned.step {
                PlanStep::Rejected(reason, _) => Some(reason.clone()),
                _ => None,
            };
            if let Some((kind, written)) = WrittenDefinition::of(&one.planned) {
                planned.insert(kind, (written, why));
            }
        }
        for one in prepared.iter_mut().filter(|one| may_wait(one)) {
            let key = &one.planned.wanted.key;
            let kind = GroupKind { group: key.group.clone(), kind: key.kind.clone() };
            let known =
                planned.get(&kind).cloned().or_else(|| self.written_definition(key).map(|written| (written, None)));
            let Some((written, why)) = known else { continue };
            let is_missing = matches!(&one.planned.step, PlanStep::Wait(reason) if reason.code == ReasonCode::Missing);
            let reason = if one.served.as_ref().is_some_and(|served| served.namespaced != written.namespaced) {
                // It may have been deleted and made anew since it was asked for.
                self.cluster.forget_group(&key.group);
                written.other_scope(&key.kind)
            } else if is_missing && let Some(why) = why.or_else(|| self.recorded_refusal(&written.key)) {
                written.refused(&why)
            } else {
                continue;
            };
            one.planned.step = PlanStep::Wait(reason);
        }
    }

    /// Returns the definition of an object's kind in the repository.
    fn written_definition(&self, key: &ObjectKey) -> Option<WrittenDefinition> {
        let Holds::Repository(repository) = &self.holds else { return None };
        repository.desired().written_definition(key)
    }

    /// Returns why a definition was refused last, if its newest record says so.
    fn recorded_refusal(&self, definition: &ObjectKey) -> Option<Reason> {
        let newest = self.memory?.newest_record(definition)?;
        newest.reason.filter(|_| newest.outcome == Outcome::Rejected)
    }
}

/// Returns true for an object of a kind of somebody's own that is not left alone.
fn may_wait(one: &Prepared) -> bool {
    let key = &one.planned.wanted.key;
    let is_left = matches!(one.planned.step, PlanStep::Suspended(_) | PlanStep::Held(_));
    key.group.contains('.') && !is_definition(key) && !is_left
}
