//! The effects of a changed configuration in a plan: the workloads that it rolls out, and those that will not notice.

use std::collections::BTreeMap;

use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{
    ConfigHash, Only, Plan, PlanStep, Planned, Unnoticed, changes_contents, config_hash, contents_hash, readings,
    rolls_on_config, template,
};

/// Returns the configuration hash for the pod template of a workload. If a workload's manifest leaves that to its
/// source, only the live template shows it, unless the source's setting is known.
pub(in crate::cli) fn config_hash_of(
    manifest: &Manifest,
    all: &BTreeMap<&ObjectKey, &Manifest>,
    roll_on_config: bool,
) -> ConfigHash {
    let value = manifest.value();
    let Some(template) = template(&value).filter(|_| rolls_on_config(&manifest.key, &value, true)) else {
        return ConfigHash::default();
    };
    let read = readings(template, manifest.key.namespace.as_deref());
    let here = read.keys().filter_map(|key| all.get_key_value(key));
    let asked = config_hash(here.map(|(key, manifest)| (*key, contents_hash(&manifest.value()))));
    let only = (!rolls_on_config(&manifest.key, &value, roll_on_config)).then_some(Only::WhereSaid);
    ConfigHash { asked, only, ..ConfigHash::default() }
}

/// Returns the workloads of a plan that read a changed configuration, and are not rolled out for it; by the
/// configuration.
pub(in crate::cli) fn unnoticed(plan: &Plan, roll_on_config: bool) -> BTreeMap<ObjectKey, Vec<Unnoticed>> {
    let mut found: BTreeMap<ObjectKey, Vec<Unnoticed>> = BTreeMap::new();
    let changed: Vec<_> = plan
        .planned
        .iter()
        .filter_map(|Planned { wanted, step }| Some((&wanted.key, changes_contents(&wanted.key, step)?)))
        .collect();
    let stays = |planned: &&Planned| !matches!(&planned.step, PlanStep::Apply(apply) if apply.rolls_out);
    for Planned { wanted, .. } in plan.planned.iter().filter(stays).filter(|_| !changed.is_empty()) {
        let value = wanted.manifest.value();
        let Some(template) = template(&value) else { continue };
        if rolls_on_config(&wanted.key, &value, roll_on_config) {
            continue;
        }
        let read = readings(template, wanted.key.namespace.as_deref());
        for (object, contents) in &changed {
            let Some(reading) = read.get(object).copied() else { continue };
            if Unnoticed::is_to_be_told(&wanted.key, reading, *contents) {
                let one = Unnoticed { workload: wanted.key.clone(), reading };
                found.entry((*object).clone()).or_default().push(one);
            }
        }
    }
    found
}
