//! Manifests applied as `kubectl apply --server-side` applies them.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde::Deserialize as _;
use serde_json::Value;

/// The reason for which a manifest could not be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// It is no YAML, or no object.
    #[error("document {document} can't be read: {reason}")]
    Unreadable {
        /// The number of the document, from 1 on.
        document: usize,
        /// The fault.
        reason: String,
    },
    /// The server does not serve its kind, or refuses it.
    #[error("{object} was not applied: {source}")]
    Refused {
        /// Its kind and name, `Deployment web`.
        object: String,
        /// The error of the server.
        source: Box<kube::Error>,
    },
}

/// Applies one document after the other.
pub(super) async fn apply(client: &kube::Client, manifests: &str) -> Result<(), ApplyError> {
    // One after the other, so that those before a broken one are applied.
    for object in read(manifests) {
        if let Some(object) = object? {
            apply_one(client, object).await?;
        }
    }
    Ok(())
}

/// Returns the documents; `None` for an empty one.
fn read(manifests: &str) -> Vec<Result<Option<DynamicObject>, ApplyError>> {
    let documents = serde_yaml::Deserializer::from_str(manifests).enumerate();
    documents
        .map(|(index, document)| {
            let unreadable = |reason: String| ApplyError::Unreadable { document: index + 1, reason };
            let value = Value::deserialize(document).map_err(|error| unreadable(error.to_string()))?;
            let object = (!value.is_null()).then(|| serde_json::from_value(value));
            object.transpose().map_err(|error| unreadable(error.to_string()))
        })
        .collect()
}

async fn apply_one(client: &kube::Client, object: DynamicObject) -> Result<(), ApplyError> {
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let what = format!("{} {name}", types.kind);
    let refused = |source| ApplyError::Refused { object: what.clone(), source: Box::new(source) };
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = GroupVersionKind::gvk(group, version, &types.kind);
    let (resource, capabilities) = pinned_kind(client, &kind).await.map_err(refused)?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    let how = PatchParams::apply("minicluster").force();
    api.patch(&name, &how, &Patch::Apply(&object)).await.map(drop).map_err(refused)
}
