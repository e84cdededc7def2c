//! Devices that are in use already are for administrators: only namespaces that are marked may claim them.

use serde_json::Value;

use super::Admission;
use crate::api::route::Target;
use crate::api::store::GroupResource;
use crate::api::{ApiError, Cause};
use kube_rules::Read;

/// The label of namespaces that may, whose value is `true`.
const MARK: &str = "resource.kubernetes.io/admin-access";

impl Admission {
    /// Refuses a new claim, or template of claims, `asked`, that its namespace may not make; all other errors in it, in
    /// `done`, are reported, too.
    ///
    /// # Errors
    /// 422, with the errors of `done`.
    pub(in crate::api) fn for_administrators(
        &self,
        target: &Target,
        asked: &Value,
        done: Result<Read, ApiError>,
    ) -> Result<Read, ApiError> {
        let definition = &target.resource.definition;
        let spec = if target.resource.is("resource.k8s.io", "resourceclaims") {
            &asked["spec"]
        } else if target.resource.is("resource.k8s.io", "resourceclaimtemplates") {
            &asked["spec"]["spec"]
        } else {
            return done;
        };
        let requests = spec["devices"]["requests"].as_array().into_iter().flatten().enumerate();
        let places: Vec<usize> =
            requests.filter(|(_, request)| request["exactly"]["adminAccess"] == true).map(|(index, _)| index).collect();
        if places.is_empty() || self.is_marked(target) {
            return done;
        }
        // The real server names the same place for templates.
        let cause = |index: usize| Cause {
            reason: "FieldValueForbidden",
            message: format!(
                "Forbidden: admin access to devices requires the `{MARK}: true` label on the containing namespace"
            ),
            field: Some(format!("spec.devices.requests[{index}].adminAccess")),
        };
        let mut causes: Vec<Cause> = places.into_iter().map(cause).collect();
        match done {
            Ok(_) => {}
            Err(error) if error.code == 422 => causes.extend(error.causes),
            Err(error) => return Err(error),
        }
        let name = asked["metadata"]["name"].as_str().unwrap_or_default();
        Err(ApiError::invalid(&definition.group, &definition.kind, name, causes))
    }

    fn is_marked(&self, target: &Target) -> bool {
        let namespaces = GroupResource::new("", "namespaces");
        let namespace = target.namespace.as_deref().and_then(|name| self.store.get(&namespaces, name));
        namespace.is_some_and(|namespace| namespace.value()["metadata"]["labels"][MARK] == "true")
    }
}
