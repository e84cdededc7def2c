//! Writes as the rules of objects see them.

use jiff::Timestamp;

use super::options::WriteOptions;
use super::resource::Resource;
use super::route::Target;
use kube_rules::{Effect, FieldValidation, WriteContext};

/// Returns a write as the rules of objects see it.
pub(super) fn write_context<'a>(target: &'a Target, options: &'a WriteOptions, now: Timestamp) -> WriteContext<'a> {
    WriteContext {
        definition: &target.resource.definition,
        subresource: target.subresource.as_deref(),
        manager: &options.manager,
        now,
        field_validation: options.field_validation,
        effect: options.effect(),
    }
}

/// Returns a write by the server itself.
pub(super) fn own_write_context(resource: &Resource, now: Timestamp) -> WriteContext<'_> {
    WriteContext {
        definition: &resource.definition,
        subresource: None,
        manager: "kube-apiserver",
        now,
        field_validation: FieldValidation::Ignore,
        effect: Effect::Stored,
    }
}
