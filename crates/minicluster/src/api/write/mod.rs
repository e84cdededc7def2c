//! Writing: creations, updates, patches, deletions.

mod collection;
mod create;
mod delete;
mod patch;
pub(super) mod update;

pub(super) use delete::returns_object;

use std::sync::Arc;

use serde_json::Value;

use super::admission::written_ports;
use super::convert;
use super::json_pointer::text;
use super::read::View;
use super::reply::Reply;
use super::route::Target;
use super::store::{self, Stale, Stored, path};
use super::{ApiError, ApiServer};

/// The number of tries of a write when somebody was faster and the client left it to the server.
const TRIES: usize = 10;

/// The result of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is stored.
    Stored(Arc<Stored>),
    /// Nothing was stored: a dry run. The object as it would be served.
    DryRun(Value),
}

impl Outcome {
    pub(super) fn reply(&self, view: &View<'_>) -> Result<Reply, ApiError> {
        match self {
            Outcome::Stored(stored) => view.stored(stored),
            Outcome::DryRun(object) => view.object(object.clone()),
        }
    }
}

impl ApiServer {
    /// Returns the change of the store that puts an object (as it is served) into its place.
    pub(super) fn change(target: &Target, name: &str, expected: Option<u64>, object: Value) -> store::StoreOp {
        let object = convert::to_storage(&target.resource, object);
        let fields = target.resource.field_values(&object);
        let path = path(target.namespace.as_deref(), name);
        let put = store::StoreOp::put(target.resource.group_resource.clone(), path, expected, object);
        store::StoreOp { fields, ..put }
    }

    /// Returns the change of the store that gives an object another status. The object is served as it is stored.
    pub(super) fn status_change(target: &Target, stored: &Stored, object: Value) -> store::StoreOp {
        let fields = target.resource.field_values_of_status(&object, &stored.fields);
        let (group_resource, path) = (target.resource.group_resource.clone(), stored.path.to_string());
        let put = store::StoreOp::put(group_resource, path, Some(stored.revision), object);
        store::StoreOp { fields, extent: store::WriteExtent::MetadataAndStatus, ..put }
    }

    /// Returns the change of the store that removes an object.
    pub(super) fn removal(target: &Target, stored: &Stored) -> store::StoreOp {
        let group_resource = target.resource.group_resource.clone();
        store::StoreOp::remove(group_resource, stored.path.to_string(), stored.revision)
    }

    /// Makes changes, the first of which is the client's own.
    pub(super) fn commit(&self, changes: Vec<store::StoreOp>) -> Result<Arc<Stored>, Stale> {
        let touched =
            changes.first().map(|change| (change.group_resource.clone(), change.path.clone(), change.object.is_none()));
        let ports = written_ports(&changes);
        let mut written = if ports.is_empty() {
            self.store().write(changes)?
        } else {
            let mut all = self.admission().node_ports();
            let written = self.store().write(changes)?;
            ports.into_iter().for_each(|(service, ports)| all.set(&service, ports));
            written
        };
        if let Some((group_resource, path, removed)) = touched {
            self.definitions_after(&group_resource, removed);
            self.admission().quotas_after(&self.registry(), &group_resource, &path);
        }
        if written.is_empty() { Err(Stale(0)) } else { Ok(written.swap_remove(0)) }
    }

    /// Returns 409: the object at a path is not in the state that the client expects.
    pub(super) fn modified(target: &Target) -> ApiError {
        let definition = &target.resource.definition;
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(&definition.group, &definition.resource, target.name.as_deref().unwrap_or_default(), why)
    }
}

/// Checks that a body's namespace is the one in the path, and sets it.
pub(super) fn settle_namespace(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let sent = text(object, "/metadata/namespace");
    match &target.namespace {
        Some(namespace) if sent.is_empty() => object["metadata"]["namespace"] = Value::from(namespace.as_str()),
        Some(namespace) if sent == namespace => {}
        None if sent.is_empty() => {}
        _ => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}
