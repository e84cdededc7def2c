//! Fields that nobody ever owns, and fields that a write does not reach.

use std::sync::LazyLock;

use super::super::Write;
use super::super::strategy::{self, StatusWrites};
use super::field_set::FieldSet;

/// What identifies an object, and what the server keeps of it.
pub fn never_owned() -> &'static FieldSet {
    static FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of(&[
            "f:apiVersion",
            "f:kind",
            "f:metadata",
            "f:metadata f:name",
            "f:metadata f:namespace",
            "f:metadata f:creationTimestamp",
            "f:metadata f:selfLink",
            "f:metadata f:uid",
            "f:metadata f:clusterName",
            "f:metadata f:generation",
            "f:metadata f:managedFields",
            "f:metadata f:resourceVersion",
        ])
    });
    &FIELDS
}

/// What a write leaves as it was, whatever the client sends: the status in a main write, the rest in a status write.
pub fn fields(write: &Write<'_>) -> FieldSet {
    let status = strategy::of(write.definition).status;
    if write.subresource.is_none() && write.definition.kind == "CertificateSigningRequest" {
        // What is asked for is asked once.
        return FieldSet::of(&["f:spec", "f:status"]);
    }
    match (write.subresource, status) {
        (None, StatusWrites::Nothing) => FieldSet::default(),
        (None, _) => FieldSet::of(&["f:status"]),
        (Some("status"), StatusWrites::NoLabels) => FieldSet::of(&["f:spec", "f:metadata f:labels"]),
        (Some("status"), StatusWrites::NoOwners) => {
            FieldSet::of(&["f:spec", "f:metadata f:deletionTimestamp", "f:metadata f:ownerReferences"])
        }
        (Some("status"), StatusWrites::OnlyStatus) => FieldSet::of(&["f:spec", "f:metadata"]),
        (Some("status"), _) => FieldSet::of(&["f:spec"]),
        (Some(_), _) => FieldSet::default(),
    }
}
