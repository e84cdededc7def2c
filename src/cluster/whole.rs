//! An object of whatever kind, for a watch: its value, read once, and the little that a watch itself must know of it.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object as it came over the line. `kube`'s own type for this reads all metadata into types, `managedFields` among it,
/// only for it to be written back into a value.
#[derive(Clone)]
pub(super) struct Whole {
    metadata: ObjectMeta,
    pub value: Value,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Whole { metadata, value })
    }
}

impl fmt::Debug for Whole {
    /// Only which one it is: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectMeta { name, namespace, .. } = &self.metadata;
        f.debug_struct("Whole").field("name", name).field("namespace", namespace).finish_non_exhaustive()
    }
}

impl Resource for Whole {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
