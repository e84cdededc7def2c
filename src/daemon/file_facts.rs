//! Facts about a file of the repository beside its objects. They save reading the file again.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::units::Content;
use belay_core::manifest::{File, ManifestHash, ObjectKey};
use belay_core::rollout::{
    After, HookUntil, Reading, contents_hash, is_configuration, marks, named_configuration, readings, scaled_by,
    template,
};

/// `apiVersion` and kind.
pub(super) type ObjectKind = (String, String);

/// Facts about a file beside its objects.
#[derive(Debug)]
pub(super) struct FileFacts {
    pub content: Option<Content>,
    /// `apiVersion` and kind of its objects, each once.
    pub kinds: Box<[Arc<ObjectKind>]>,
    /// The targets of its HorizontalPodAutoscalers.
    pub scaled: BTreeSet<ObjectKey>,
    /// The configuration that its workloads name.
    pub names: Box<[NamedConfig]>,
    /// The hashes of the contents of its ConfigMaps and Secrets.
    pub contents: Box<[(ObjectKey, ManifestHash)]>,
    /// Its objects that wait for others.
    pub after: Box<[After]>,
    /// Its hooks that are deleted when others have succeeded.
    pub hooks_until: Box<[HookUntil]>,
    /// Further facts about its workloads, for workloads that have any.
    pub workloads: Box<[(ObjectKey, WorkloadFacts)]>,
}

/// A ConfigMap or Secret that a workload names.
#[derive(Debug)]
pub(super) struct NamedConfig {
    pub object: ObjectKey,
    pub user: ObjectKey,
    /// The way in which the programs of its pods read it; `None` if only the kubelet does.
    pub reading: Option<Reading>,
}

/// Facts of a workload's manifest that are needed again and again.
#[derive(Debug)]
pub(super) struct WorkloadFacts {
    /// True when it is rolled out after a change of its configuration; `None` if the manifest does not say.
    pub rolls_on_config: Option<bool>,
    /// When it was restarted, as its own pod template says.
    pub restarted: Option<String>,
}

impl FileFacts {
    /// Returns the facts of a file; the caller counts its kinds.
    pub(super) fn of(file: &File, content: Option<Content>) -> FileFacts {
        let (mut scaled, mut names, mut contents, mut workloads) =
            (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new());
        let mut hooks_until = Vec::new();
        for manifest in &file.manifests {
            let (key, value) = (&manifest.key, manifest.value());
            scaled.extend(scaled_by(key, &value));
            names.extend(named_by(key, &value));
            if is_configuration(key) {
                contents.push((key.clone(), contents_hash(&value)));
            }
            hooks_until.extend(HookUntil::of(manifest, &value));
            workloads.extend(WorkloadFacts::of(&value).map(|facts| (key.clone(), facts)));
        }
        let after = file.manifests.iter().filter_map(After::of).collect();
        let (names, contents, workloads) = (names.into(), contents.into(), workloads.into());
        let hooks_until = hooks_until.into();
        FileFacts { content, kinds: Box::default(), scaled, names, contents, after, hooks_until, workloads }
    }
}

impl WorkloadFacts {
    /// Returns the facts of a manifest; `None` if it has none of them.
    fn of(manifest: &Value) -> Option<WorkloadFacts> {
        let restarted = template(manifest)?["metadata"]["annotations"][marks::RESTARTED_AT].as_str().map(str::to_owned);
        let rolls_on_config = marks::annotation(manifest, marks::ROLL_ON_CONFIG).map(|text| text == "true");
        (restarted.is_some() || rolls_on_config.is_some()).then_some(WorkloadFacts { rolls_on_config, restarted })
    }
}

/// Returns the configuration that a workload names, each with the workload.
fn named_by(user: &ObjectKey, manifest: &Value) -> Vec<NamedConfig> {
    let Some(template) = template(manifest) else { return Vec::new() };
    let namespace = user.namespace.as_deref();
    let readings = readings(template, namespace);
    let named = named_configuration(template, namespace).into_iter();
    named.map(|object| NamedConfig { reading: readings.get(&object).copied(), object, user: user.clone() }).collect()
}
