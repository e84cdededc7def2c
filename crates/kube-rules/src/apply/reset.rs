//! Fields that nobody ever owns, and fields that a write does not reach.

use std::sync::LazyLock;

use super::super::WriteContext;
use super::super::strategy::{self, StatusWrites};
use super::field_set::FieldSet;

/// Returns the fields that identify an object, and those that the server keeps.
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

/// Returns the fields that a write leaves as they were, whatever the client sends: the status in a main write, the rest
/// in a status write.
pub fn fields(write: &WriteContext<'_>) -> &'static FieldSet {
    static NONE: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["f:status"]));
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["f:spec"]));
    static BOTH: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["f:spec", "f:status"]));
    static ALL_METADATA: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["f:spec", "f:metadata"]));
    static LABELS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["f:spec", "f:metadata f:labels"]));
    static OWNERS: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of(&["f:spec", "f:metadata f:deletionTimestamp", "f:metadata f:ownerReferences"]));
    let status = strategy::of(write.definition).status;
    match (write.subresource, status) {
        // The request itself is written once.
        (None, _) if write.definition.kind == "CertificateSigningRequest" => &BOTH,
        (None, StatusWrites::Nothing) => &NONE,
        (None, _) => &STATUS,
        (Some("status"), StatusWrites::NoLabels) => &LABELS,
        (Some("status"), StatusWrites::NoOwners) => &OWNERS,
        (Some("status"), StatusWrites::OnlyStatus) => &ALL_METADATA,
        (Some("status"), _) => &SPEC,
        (Some(_), _) => &NONE,
    }
}
