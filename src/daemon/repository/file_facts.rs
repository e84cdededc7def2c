//! Facts about a file of the repository beside its objects. They save reading the file again.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::units::Content;
use belay_core::manifest::{File, ManifestHash, ObjectKey};
use belay_core::rollout::{
    After, HookUntil, NamedAnalyses, Reading, contents_hash, is_configuration, marks, named_configuration, readings,
    scaled_by, template,
};

/// `apiVersion` and kind.
pub type ObjectKind = (String, String);

/// Facts about a file beside its objects. Those about single objects are in the order of the objects: a file may hold
/// thousands, and each is asked for its own.
#[derive(Debug)]
pub struct FileFacts {
    pub content: Option<Content>,
    /// `apiVersion` and kind of its objects, each once.
    pub kinds: Box<[Arc<ObjectKind>]>,
    /// The targets of its HorizontalPodAutoscalers.
    pub scaled: BTreeSet<ObjectKey>,
    /// The configuration that its workloads name.
    pub names: Box<[NamedConfig]>,
    /// The hashes of the contents of its ConfigMaps and Secrets.
    contents: Box<[(ObjectKey, ManifestHash)]>,
    /// Its objects that wait for others.
    pub after: Box<[After]>,
    /// The analyses that its workloads name themselves.
    pub analyses: Box<[NamedAnalyses]>,
    /// Its hooks that are deleted when others have succeeded, each with its number in the file.
    pub hooks_until: Box<[(usize, HookUntil)]>,
    /// Further facts about its workloads, for workloads that have any.
    workloads: Box<[(ObjectKey, WorkloadFacts)]>,
}

/// A ConfigMap or Secret that a workload names.
#[derive(Debug)]
pub struct NamedConfig {
    pub object: ObjectKey,
    pub user: ObjectKey,
    /// The way in which the programs of its pods read it; `None` if only the kubelet does.
    pub reading: Option<Reading>,
}

/// Facts of a workload's manifest that are needed again and again.
#[derive(Debug)]
pub struct WorkloadFacts {
    /// True when it is rolled out after a change of its configuration; `None` if the manifest does not say.
    pub rolls_on_config: Option<bool>,
    /// When it was restarted, as its own pod template says.
    pub restarted: Option<String>,
}

impl FileFacts {
    /// Returns the facts of a file; the caller counts its kinds.
    pub fn of(file: &File, content: Option<Content>) -> FileFacts {
        let (mut scaled, mut names, mut contents, mut workloads) =
            (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new());
        let mut hooks_until = Vec::new();
        for (at, manifest) in file.manifests.iter().enumerate() {
            let (key, value) = (&manifest.key, manifest.value());
            scaled.extend(scaled_by(key, &value));
            names.extend(named_by(key, &value));
            if is_configuration(key) {
                contents.push((key.clone(), contents_hash(&value)));
            }
            hooks_until.extend(HookUntil::of(manifest, &value).map(|until| (at, until)));
            workloads.extend(WorkloadFacts::of(&value).map(|facts| (key.clone(), facts)));
        }
        let after = file.manifests.iter().filter_map(After::of).collect();
        FileFacts {
            content,
            kinds: Box::default(),
            scaled,
            names: in_order(names, |name| &name.user),
            contents: in_order(contents, |(key, _)| key),
            analyses: file.manifests.iter().filter_map(NamedAnalyses::of).collect(),
            after: in_order(after, |after: &After| &after.object),
            hooks_until: in_order(hooks_until, |(_, until)| &until.object),
            workloads: in_order(workloads, |(key, _)| key),
        }
    }

    /// Returns the configuration that a workload names.
    pub fn names_of(&self, user: &ObjectKey) -> &[NamedConfig] {
        of_object(&self.names, |name| &name.user, user)
    }

    /// Returns the hash of the contents of a ConfigMap or Secret.
    pub fn contents_of(&self, key: &ObjectKey) -> Option<ManifestHash> {
        of_object(&self.contents, |(key, _)| key, key).first().map(|(_, hash)| *hash)
    }

    /// Returns the dependencies of an object.
    pub fn after_of(&self, key: &ObjectKey) -> Option<&After> {
        of_object(&self.after, |after| &after.object, key).first()
    }

    /// Returns the others after which a hook is deleted.
    pub fn hook_until(&self, key: &ObjectKey) -> Option<&HookUntil> {
        of_object(&self.hooks_until, |(_, until)| &until.object, key).first().map(|(_, until)| until)
    }

    /// Returns the further facts about a workload.
    pub fn workload(&self, key: &ObjectKey) -> Option<&WorkloadFacts> {
        of_object(&self.workloads, |(key, _)| key, key).first().map(|(_, facts)| facts)
    }
}

fn in_order<T>(mut facts: Vec<T>, object: impl Fn(&T) -> &ObjectKey) -> Box<[T]> {
    facts.sort_by(|one, other| object(one).cmp(object(other)));
    facts.into()
}

/// Returns the facts about one object, out of facts in the order of their objects.
fn of_object<'a, T>(facts: &'a [T], object: impl Fn(&T) -> &ObjectKey, key: &ObjectKey) -> &'a [T] {
    let from = facts.partition_point(|one| object(one) < key);
    let to = facts.partition_point(|one| object(one) <= key);
    &facts[from..to]
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
