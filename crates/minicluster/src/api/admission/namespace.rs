//! New objects need a namespace that is there to stay.

use super::Admission;
use crate::api::resource::Resource;
use crate::api::store::GroupResource;
use crate::api::{ApiError, Cause};

impl Admission {
    /// Refuses new objects in namespaces that do not exist or are on their way out.
    ///
    /// # Errors
    /// 404 and 403.
    pub fn check_namespace(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Result<(), ApiError> {
        let Some(namespace) = namespace.filter(|_| resource.definition.namespaced) else { return Ok(()) };
        let group_resource = GroupResource::new("", "namespaces");
        let found = self.store.get(&group_resource, namespace);
        let Some(found) = found else { return Err(ApiError::not_found("", "namespaces", namespace)) };
        let phase = found.fields.first().map_or("", |phase| phase);
        if phase != "Terminating" {
            return Ok(());
        }
        let definition = &resource.definition;
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        Err(ApiError {
            causes: vec![Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {namespace} is being terminated"),
                field: Some("metadata.namespace".to_owned()),
            }],
            ..ApiError::forbidden(&definition.group, &definition.resource, name, &why)
        })
    }
}
