//! All resources that are served: the built-in ones, and those that custom resource definitions add.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::resource::Resource;
use kube_facts::facts;

/// Everything that is served, as of one moment. Definitions that come and go make a new one.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The groups, core first, in the order of discovery.
    pub groups: Vec<Group>,
}

/// One API group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name; empty for core.
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// Its resources, by plural.
    pub resources: BTreeMap<String, Arc<Resource>>,
}

impl Registry {
    /// Returns the built-in resources.
    #[must_use]
    pub fn built_in() -> Arc<Registry> {
        static BUILT_IN: LazyLock<Arc<Registry>> = LazyLock::new(|| {
            let mut registry = Registry { groups: Vec::new() };
            for kind in &facts().kinds {
                registry.add(Resource::built_in(kind));
            }
            Arc::new(registry)
        });
        Arc::clone(&BUILT_IN)
    }

    /// Adds a resource, and its group and version where they are new.
    pub fn add(&mut self, resource: Resource) {
        let (group, version) = (&resource.definition.group, &resource.definition.version);
        let group = match self.groups.iter().position(|known| known.name == *group) {
            Some(index) => &mut self.groups[index],
            None => {
                self.groups.push(Group { name: group.clone(), versions: Vec::new() });
                let last = self.groups.len() - 1;
                &mut self.groups[last]
            }
        };
        let version = match group.versions.iter().position(|known| known.name == *version) {
            Some(index) => &mut group.versions[index],
            None => {
                group.versions.push(Version { name: version.clone(), resources: BTreeMap::new() });
                let last = group.versions.len() - 1;
                &mut group.versions[last]
            }
        };
        version.resources.insert(resource.definition.resource.clone(), Arc::new(resource));
    }

    /// Puts the groups that definitions added in order: by name, after the built-in ones.
    pub fn settle_order(&mut self) {
        let built_in = Registry::built_in().groups.len();
        if let Some(added) = self.groups.get_mut(built_in..) {
            added.sort_by(|one, other| one.name.cmp(&other.name));
        }
    }

    /// Returns a group.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns a version of a group.
    #[must_use]
    pub fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|known| known.name == version)
    }

    /// Returns a resource.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.get(resource)
    }

    /// Returns a resource in any of its versions, the preferred one first.
    #[must_use]
    pub fn any_version(&self, group: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.group(group)?.versions.iter().find_map(|version| version.resources.get(resource))
    }

    /// Returns all resources.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| version.resources.values())
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn built_in_resources_are_found() {
        let registry = Registry::built_in();
        let deployments = registry.resource("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.definition.kind, "Deployment");
        assert_eq!(deployments.list_kind, "DeploymentList");
        assert!(deployments.is_stored_version());
        let events = registry.resource("events.k8s.io", "v1", "events").unwrap();
        assert!(!events.is_stored_version());
        assert_eq!(events.group_resource, registry.resource("", "v1", "events").unwrap().group_resource);
        assert_eq!(registry.group("autoscaling").unwrap().versions[0].name, "v2");
    }
}
