//! The ConfigMaps and Secrets that a pod can't start without, and their missing parts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{EnvVar, KeyToPath};

use crate::kubelet::pod::{ContainerSpec, PodSpec, Volume};

/// The kinds that hold configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeedKind {
    ConfigMap,
    Secret,
}

impl NeedKind {
    /// Returns its name in paths.
    pub fn resource(self) -> &'static str {
        match self {
            NeedKind::ConfigMap => "configmaps",
            NeedKind::Secret => "secrets",
        }
    }

    fn singular(self) -> &'static str {
        match self {
            NeedKind::ConfigMap => "configmap",
            NeedKind::Secret => "secret",
        }
    }
}

/// An object of the pod's namespace.
pub type Name = (NeedKind, String);

/// The keys of each object, `None` for one that does not exist.
pub type Found = BTreeMap<Name, Option<BTreeSet<String>>>;

/// The needs without which a pod can't start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    volumes: Vec<(String, Need)>,
    containers: Vec<(String, Need)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    object: Name,
    keys: Vec<String>,
}

/// The missing needs of a pod, in the kubelet's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The reason for which no volume, hence no container, can be set up.
    pub of_volumes: Option<String>,
    /// The reasons for which single containers can't be created.
    pub of_containers: BTreeMap<String, String>,
}

impl Needs {
    /// Returns the needs without which a pod with this specification can't start.
    pub fn of(spec: &PodSpec) -> Needs {
        let mut needs = Needs::default();
        for volume in &spec.volumes {
            needs.add_volume(volume);
        }
        for container in spec.init_containers.iter().chain(&spec.containers) {
            needs.add_container(container);
        }
        needs.volumes.shrink_to_fit();
        needs.containers.shrink_to_fit();
        needs
    }

    /// Returns true when nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.containers.is_empty()
    }

    /// Returns the needed objects.
    pub fn objects(&self) -> BTreeSet<Name> {
        self.volumes.iter().chain(&self.containers).map(|(_, need)| need.object.clone()).collect()
    }

    /// Returns the missing needs, given the found ones.
    pub fn missing(&self, found: &Found, namespace: &str) -> Missing {
        let mut missing = Missing::default();
        for (volume, need) in &self.volumes {
            let problem = need.problem(found).map(|problem| match problem {
                NeedProblem::NoObject(text) => text,
                NeedProblem::NoKey(kind, key) => match kind {
                    NeedKind::ConfigMap => format!("references non-existent config key: {key}"),
                    NeedKind::Secret => format!("references non-existent secret key: {key}"),
                },
            });
            if let Some(problem) = problem.filter(|_| missing.of_volumes.is_none()) {
                missing.of_volumes = Some(format!("MountVolume.SetUp failed for volume {volume:?} : {problem}"));
            }
        }
        for (container, need) in &self.containers {
            let problem = need.problem(found).map(|problem| match problem {
                NeedProblem::NoObject(text) => text,
                NeedProblem::NoKey(kind, key) => {
                    format!("couldn't find key {key} in {kind:?} {namespace}/{}", need.object.1)
                }
            });
            if let Some(problem) = problem {
                missing.of_containers.entry(container.clone()).or_insert(problem);
            }
        }
        missing
    }

    fn add_volume(&mut self, volume: &Volume) {
        let mut add = |kind, name: &str, items: Option<&Vec<KeyToPath>>, optional: Option<bool>| {
            if optional != Some(true) && !name.is_empty() {
                let keys = items.into_iter().flatten().map(|item| item.key.clone()).collect();
                self.volumes.push((volume.name.clone(), Need { object: (kind, name.to_owned()), keys }));
            }
        };
        if let Some(source) = &volume.config_map {
            add(NeedKind::ConfigMap, &source.name, source.items.as_ref(), source.optional);
        }
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            add(NeedKind::Secret, name, source.items.as_ref(), source.optional);
        }
        let projected = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
        for source in projected.into_iter().flatten() {
            if let Some(source) = &source.config_map {
                add(NeedKind::ConfigMap, &source.name, source.items.as_ref(), source.optional);
            }
            if let Some(source) = &source.secret {
                add(NeedKind::Secret, &source.name, source.items.as_ref(), source.optional);
            }
        }
    }

    fn add_container(&mut self, container: &ContainerSpec) {
        let mut add = |kind, name: &str, key: Option<&String>, optional: Option<bool>| {
            if optional != Some(true) && !name.is_empty() {
                let keys = key.into_iter().cloned().collect();
                self.containers.push((container.name.clone(), Need { object: (kind, name.to_owned()), keys }));
            }
        };
        for source in &container.env_from {
            if let Some(source) = &source.config_map_ref {
                add(NeedKind::ConfigMap, &source.name, None, source.optional);
            }
            if let Some(source) = &source.secret_ref {
                add(NeedKind::Secret, &source.name, None, source.optional);
            }
        }
        for EnvVar { value_from, .. } in &container.env {
            let Some(source) = value_from else { continue };
            if let Some(source) = &source.config_map_key_ref {
                add(NeedKind::ConfigMap, &source.name, Some(&source.key), source.optional);
            }
            if let Some(source) = &source.secret_key_ref {
                add(NeedKind::Secret, &source.name, Some(&source.key), source.optional);
            }
        }
    }
}

enum NeedProblem {
    NoObject(String),
    NoKey(NeedKind, String),
}

impl Need {
    fn problem(&self, found: &Found) -> Option<NeedProblem> {
        let (kind, name) = &self.object;
        match found.get(&self.object) {
            None | Some(None) => Some(NeedProblem::NoObject(format!("{} {name:?} not found", kind.singular()))),
            Some(Some(keys)) => {
                let key = self.keys.iter().find(|key| !keys.contains(*key))?;
                Some(NeedProblem::NoKey(*kind, key.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, NeedKind, Needs};
    use crate::kubelet::pod::PodSpec;
    use serde_json::json;

    #[test]
    fn what_is_named_and_not_optional_is_needed() {
        let spec: PodSpec = serde_json::from_value(json!({
            "volumes": [
                {"name": "maybe", "configMap": {"name": "maybe", "optional": true}},
                {"name": "files", "secret": {"secretName": "files", "items": [{"key": "a", "path": "a"}]}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "all"}}]}},
            ],
            "containers": [{"name": "app", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "a"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "b"}}},
            ]}],
        }))
        .unwrap();
        let needs = Needs::of(&spec);
        let name = |kind, name: &str| (kind, name.to_owned());
        let objects = [
            (NeedKind::ConfigMap, "all"),
            (NeedKind::ConfigMap, "env"),
            (NeedKind::Secret, "files"),
            (NeedKind::Secret, "gone"),
        ];
        assert_eq!(needs.objects(), objects.map(|(kind, text)| name(kind, text)).into());
        let keys = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        let mut found = Found::from([
            (name(NeedKind::ConfigMap, "all"), keys(&[])),
            (name(NeedKind::ConfigMap, "env"), keys(&["b"])),
            (name(NeedKind::Secret, "files"), keys(&["b"])),
        ]);
        let missing = needs.missing(&found, "shop");
        let text = "MountVolume.SetUp failed for volume \"files\" : references non-existent secret key: a";
        assert_eq!(missing.of_volumes.as_deref(), Some(text));
        assert_eq!(missing.of_containers["app"], "couldn't find key a in ConfigMap shop/env");
        found.insert(name(NeedKind::ConfigMap, "env"), keys(&["a"]));
        found.insert(name(NeedKind::Secret, "files"), keys(&["a"]));
        let missing = needs.missing(&found, "shop");
        assert_eq!(missing.of_volumes, None);
        assert_eq!(missing.of_containers["app"], "secret \"gone\" not found");
    }
}
