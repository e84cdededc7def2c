//! The rules of Kubernetes for its objects: how a body is read, defaulted, validated, patched and applied, and which
//! warnings it earns. Pure: no store, no I/O.
//!
//! In: a body, the object as it was, and a [`WriteContext`] with the kind's [`Definition`]. Out: the object as it would be stored,
//! with its warnings, or an [`ApiError`] with all causes. An API server sets `uid`, `resourceVersion`, `creationTimestamp` and
//! deletion fields itself; everything else that happens to an object on a write happens here.
//!
//! A write goes the same way as in the real server: read, defaults, managed fields, admission, immutable fields
//! restored, validation.

mod api_error;
mod apply;
mod canonical;
mod conversions;
mod custom;
mod defaults;
mod patch;
mod quantity;
mod read;
mod rescale;
mod schedule;
mod schema_props;
mod selector;
mod status_write;
mod strategy;
#[cfg(test)]
mod thread_time;
mod times;
mod validate;
mod value_ext;
mod warn;
mod words;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use kube_facts::{Kind, Type, facts};

pub use api_error::{ApiError, Cause};
pub use custom::{Schema, from_version, shape, to_version};
pub use patch::check_name;
pub use quantity::Quantity;
pub use rescale::{applied as applied_scale, rescale, written as written_scale};
pub use schedule::Schedule;
pub use selector::LabelSelector;
pub use status_write::{may_do_without_spec, metadata_and_status, update_status};
pub use strategy::{
    Allocate, HEALTH_CHECK, NODE_PORTS, assign_addresses, check_range, no_health_check, quality_of_service,
};
pub use validate::path_segment_problems;
pub use write::{Admit, apply, apply_new, create, needs_version, patch, prepared_service, read, read_applied, update};

/// A kind as it is served: built in, or defined by a custom resource definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The API group; empty for core.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// The kind, `Deployment`.
    pub kind: String,
    /// The plural, `deployments`.
    pub resource: String,
    /// True when objects live in a namespace.
    pub namespaced: bool,
    /// The shape of an object.
    pub schema: Type,
    /// For a custom kind: its structural schema (`openAPIV3Schema`) and whether it has a status subresource.
    pub custom: Option<Custom>,
}

impl Definition {
    /// Returns the definition of a kind of Kubernetes' own.
    #[must_use]
    pub fn built_in(kind: &Kind) -> Definition {
        let schema = facts().type_name(&kind.group, &kind.version, &kind.kind).map_or(Type::Any, Type::named);
        Definition {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            resource: kind.resource.clone(),
            namespaced: kind.namespaced,
            schema,
            custom: None,
        }
    }
}

/// The parts that only custom kinds have.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The definition's `openAPIV3Schema`.
    pub schema: Arc<Schema>,
    /// Those of all versions, by their names, served or not.
    pub versions: Arc<BTreeMap<String, Schema>>,
    /// True when `/status` is served, so that status and the rest are written apart.
    pub status: bool,
    /// The paths of the scale subresource's numbers, if it is served.
    pub scale: Option<ScalePaths>,
}

/// The paths of a custom kind's numbers for the scale subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `.spec.replicas`
    pub spec: Vec<String>,
    /// `.status.replicas`
    pub status: Vec<String>,
    /// The selector as text, if there is one.
    pub selector: Option<Vec<String>>,
}

/// The treatment of fields that a kind does not have, and keys that are written twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so.
    Warn,
    /// Refuse the object.
    Strict,
}

/// One write: by whom, where, when.
#[derive(Clone, Debug)]
pub struct WriteContext<'a> {
    /// The kind written.
    pub definition: &'a Definition,
    /// The subresource written through, `status`.
    pub subresource: Option<&'a str>,
    /// The field manager: `fieldManager`, or the first part of the user agent.
    pub manager: &'a str,
    /// The present moment.
    pub now: Timestamp,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// The effect.
    pub effect: Effect,
}

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is stored.
    Stored,
    /// It is only tried: the real server then does not check that the requested resources are available.
    DryRun,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// The kinds of patch, by their media types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

/// An object as read, and the warnings for its sender.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The object, in the form in which it would be stored: canonical quantities, no empty optional fields.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}
