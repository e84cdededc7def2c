//! Tokens that end with an object: the pod that they are for, a Secret, a node.

use serde_json::{Value, json};

use crate::api::route::Target;
use crate::api::write::text;
use crate::api::{ApiError, ApiServer};

/// What a token can be bound to: the kind, its plural, and the claim that names the object.
const KINDS: [(&str, &str, &str); 3] =
    [("Pod", "pods", "pod"), ("Secret", "secrets", "secret"), ("Node", "nodes", "node")];

impl ApiServer {
    /// The claims of a token that is bound to an object; none where it is bound to nothing. `target` is the service
    /// account.
    ///
    /// # Errors
    /// 404 where the object is not there, 409 where it is another of that name, 400 where no token can be bound to it.
    pub(super) fn bound_claims(
        &self,
        target: &Target,
        reference: &Value,
    ) -> Result<Vec<(&'static str, Value)>, ApiError> {
        if !reference.is_object() {
            return Ok(Vec::new());
        }
        let (version, kind, name) =
            (text(reference, "/apiVersion"), text(reference, "/kind"), text(reference, "/name"));
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let known = KINDS.iter().find(|(known, ..)| *known == kind && group.is_empty());
        let Some((_, plural, claim)) = known else {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        };
        let found = self.bound_object(plural, target.namespace.as_deref(), name);
        let Some(object) = found else { return Err(ApiError::not_found("", plural, name)) };
        let account = target.name.as_deref().unwrap_or_default();
        if kind == "Pod" && text(&object, "/spec/serviceAccountName") != account {
            let why = "to pod running with different serviceaccount name.";
            return Err(ApiError::bad_request(format!("cannot bind token for serviceaccount {account:?} {why}")));
        }
        let (asked, uid) = (text(reference, "/uid"), text(&object, "/metadata/uid"));
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            return Err(ApiError::conflict("", kind, name, &why));
        }
        Ok(vec![(*claim, json!({ "name": name, "uid": uid }))])
    }

    /// Whether what a token is bound to is still there.
    pub(super) fn is_still_bound(&self, namespace: &str, claims: &Value) -> bool {
        KINDS.iter().all(|(_, plural, claim)| {
            let Some(bound) = claims.get(claim) else { return true };
            let object = self.bound_object(plural, Some(namespace), text(bound, "/name"));
            object.is_some_and(|object| text(&object, "/metadata/uid") == text(bound, "/uid"))
        })
    }

    fn bound_object(&self, plural: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let registry = self.registry();
        let resource = registry.resource("", "v1", plural)?;
        let place = match namespace.filter(|_| resource.definition.namespaced) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Some(self.store().get(&resource.group_resource, &place)?.value())
    }
}
