//! One resource as it is served: its entry in discovery, the place of its objects, its special properties.

use std::sync::Arc;

use serde_json::Value;

use super::ApiError;
use super::field_selector::{FieldSelector, Selectable};
use super::store::GroupResource;
use kube_facts::{Kind, Subresource};
use kube_rules::{Definition, ScalePaths};

/// A resource of one version of a group.
#[derive(Debug)]
pub struct Resource {
    /// The definition of its objects.
    pub definition: Definition,
    /// The kind of a list of them, `DeploymentList`.
    pub list_kind: String,
    /// The singular, `deployment`.
    pub singular: String,
    /// Short names, `deploy`.
    pub short_names: Vec<String>,
    /// Categories, `all`.
    pub categories: Vec<String>,
    /// The verbs that it answers, sorted.
    pub verbs: Vec<String>,
    /// The subresources of its objects.
    pub subresources: Vec<Subresource>,
    /// The place of its objects, together with those of the other versions.
    pub group_resource: GroupResource,
    /// The version in which they lie there.
    pub storage_version: String,
    /// The names of the fields that field selectors can ask for, besides name and namespace. The versions of a resource
    /// have the same list; a field that this one does not know has no name in it.
    pub selectable: Vec<Option<String>>,
    /// The paths of these fields.
    pub selectable_paths: Vec<Vec<String>>,
    /// For a custom kind: the further facts of its definition.
    pub custom: Option<Arc<CustomFacts>>,
}

/// The facts of a custom resource definition about a version, beyond the shape of its objects.
#[derive(Debug, Default, PartialEq)]
pub struct CustomFacts {
    /// The columns of tables.
    pub columns: Vec<Value>,
    /// The paths of the scale subresource's numbers, if it is served.
    pub scale: Option<ScalePaths>,
    /// The schemas of its objects and lists, by their names in OpenAPI.
    pub schemas: Vec<(String, Value)>,
    /// The warning of a deprecated version, which goes with every answer.
    pub deprecation: Option<String>,
}

impl Resource {
    /// Returns a built-in resource.
    #[must_use]
    pub fn built_in(kind: &Kind) -> Resource {
        let (stored_group, storage_version) = match (kind.group.as_str(), kind.resource.as_str()) {
            // One kind under two names.
            ("events.k8s.io", "events") => ("", "v1"),
            ("autoscaling", "horizontalpodautoscalers") => ("autoscaling", "v2"),
            (group, _) => (group, kind.version.as_str()),
        };
        let (selectable, selectable_paths) = selectable(&kind.group, &kind.resource);
        Resource {
            list_kind: format!("{}List", kind.kind),
            singular: kind.singular.clone(),
            short_names: kind.short_names.clone(),
            categories: kind.categories.clone(),
            verbs: kind.verbs.clone(),
            subresources: kind.subresources.clone(),
            group_resource: GroupResource { group: stored_group.into(), resource: kind.resource.as_str().into() },
            storage_version: storage_version.to_owned(),
            selectable,
            selectable_paths,
            custom: None,
            definition: Definition::built_in(kind),
        }
    }

    /// Returns a kind that is only spoken, never stored: Scale.
    #[must_use]
    pub fn spoken(definition: Definition) -> Resource {
        Resource {
            list_kind: format!("{}List", definition.kind),
            singular: definition.kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Vec::new(),
            subresources: Vec::new(),
            group_resource: GroupResource {
                group: definition.group.as_str().into(),
                resource: definition.resource.as_str().into(),
            },
            storage_version: definition.version.clone(),
            selectable: Vec::new(),
            selectable_paths: Vec::new(),
            custom: None,
            definition,
        }
    }

    /// Returns `apps/v1`, or `v1` for core.
    #[must_use]
    pub fn api_version(&self) -> String {
        let Definition { group, version, .. } = &self.definition;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }

    /// Returns true when objects lie in the store in the version in which they are served here.
    #[must_use]
    pub fn is_stored_version(&self) -> bool {
        *self.group_resource.group == *self.definition.group && self.storage_version == self.definition.version
    }

    /// Returns true when objects are served byte by byte as they lie in the store. Those of custom kinds are not: their
    /// definition may have changed since they were written.
    #[must_use]
    pub fn is_served_as_stored(&self) -> bool {
        self.custom.is_none() && self.is_stored_version()
    }

    /// Returns true when it is a built-in resource of this group and plural.
    #[must_use]
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.custom.is_none() && self.definition.group == group && self.definition.resource == resource
    }

    /// Returns the warning with every answer about a deprecated kind.
    #[must_use]
    pub fn deprecation(&self) -> Option<String> {
        if let Some(facts) = &self.custom {
            return facts.deprecation.clone();
        }
        match (self.definition.group.as_str(), self.definition.kind.as_str()) {
            ("", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
            }
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
            _ => None,
        }
    }

    /// Returns true when it answers a verb.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns a subresource.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Reads a field selector.
    ///
    /// # Errors
    /// 400 for text that is none, and for fields that can't be asked for.
    pub fn field_selector(&self, text: &str) -> Result<FieldSelector, ApiError> {
        let Definition { group, version, kind, namespaced, .. } = &self.definition;
        let refusal = |field: &str| match (group.as_str(), kind.as_str()) {
            ("batch", "Job") => format!("field label {field:?} not supported for Job"),
            ("resource.k8s.io", _) if !self.selectable.is_empty() => {
                format!("field label not supported for {group}/{version}, Kind={kind}: {field}")
            }
            _ if self.has_fields_of_its_own() => format!("field label not supported: {field}"),
            _ => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        };
        let namespace = *namespaced || !self.has_fields_of_its_own();
        FieldSelector::parse(text, &Selectable { fields: &self.selectable, namespace, refusal: &refusal })
    }

    /// Returns true when it has a list of its own of selectable fields, rather than name and namespace as any kind.
    fn has_fields_of_its_own(&self) -> bool {
        self.custom.is_some() || !self.selectable.is_empty()
    }

    /// Returns the values of field selectors in an object of the stored version.
    #[must_use]
    pub fn field_values(&self, object: &Value) -> Vec<String> {
        self.selectable_paths.iter().map(|path| field_value(object, path)).collect()
    }

    /// Returns the same of an object of which only metadata and status are there; other selectable values stay as they
    /// were.
    #[must_use]
    pub fn field_values_of_status(&self, object: &Value, before: &[Box<str>]) -> Vec<String> {
        let is_there = |path: &[String]| matches!(path.first().map(String::as_str), Some("metadata" | "status"));
        let values = self.selectable_paths.iter().zip(before);
        values.map(|(path, was)| if is_there(path) { field_value(object, path) } else { was.to_string() }).collect()
    }
}

fn field_value(object: &Value, path: &[String]) -> String {
    let value = path.iter().fold(object, |value, key| &value[key.as_str()]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null => absent(path).to_owned(),
        other => other.to_string(),
    }
}

/// Flags and counts that are left out of an object are false and zero to a selector.
fn absent(path: &[String]) -> &'static str {
    match path.last().map(String::as_str) {
        Some("hostNetwork" | "unschedulable") => "false",
        Some("replicas" | "succeeded") => "0",
        _ => "",
    }
}

/// Returns the fields that field selectors can ask for, as the client names them and where they are in the stored
/// version.
fn selectable(group: &str, resource: &str) -> (Vec<Option<String>>, Vec<Vec<String>>) {
    const POD: &[&str] = &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ];
    const EVENT: &[(&str, &str)] = &[
        ("involvedObject.kind", "involvedObject.kind"),
        ("involvedObject.namespace", "involvedObject.namespace"),
        ("involvedObject.name", "involvedObject.name"),
        ("involvedObject.uid", "involvedObject.uid"),
        ("involvedObject.apiVersion", "involvedObject.apiVersion"),
        ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
        ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source.component"),
        ("type", "type"),
    ];
    let same = |names: &[&'static str]| names.iter().map(|name| (*name, *name)).collect::<Vec<_>>();
    let fields = match (group, resource) {
        ("", "pods") => same(POD),
        ("", "events") => EVENT.to_vec(),
        ("events.k8s.io", "events") => EVENT
            .iter()
            .map(|(name, path)| match *name {
                "reportingComponent" => ("reportingController", *path),
                "source" => ("deprecatedSource", *path),
                name => (regarding(name), *path),
            })
            .collect(),
        ("", "namespaces") => same(&["status.phase"]),
        ("", "nodes") => same(&["spec.unschedulable"]),
        ("", "replicationcontrollers") => same(&["status.replicas"]),
        ("", "secrets") => same(&["type"]),
        ("", "services") => same(&["spec.clusterIP", "spec.type"]),
        ("batch", "jobs") => vec![("status.successful", "status.succeeded")],
        ("certificates.k8s.io", "certificatesigningrequests") => same(&["spec.signerName"]),
        ("resource.k8s.io", "resourceslices") => same(&["spec.nodeName", "spec.driver"]),
        _ => Vec::new(),
    };
    fields
        .into_iter()
        .map(|(name, path)| (Some(name.to_owned()), path.split('.').map(str::to_owned).collect::<Vec<_>>()))
        .unzip()
}

fn regarding(name: &'static str) -> &'static str {
    match name {
        "involvedObject.kind" => "regarding.kind",
        "involvedObject.namespace" => "regarding.namespace",
        "involvedObject.name" => "regarding.name",
        "involvedObject.uid" => "regarding.uid",
        "involvedObject.apiVersion" => "regarding.apiVersion",
        "involvedObject.resourceVersion" => "regarding.resourceVersion",
        "involvedObject.fieldPath" => "regarding.fieldPath",
        other => other,
    }
}
