//! Requests for tokens of service accounts.

use std::time::Duration;

use serde_json::{Value, json};

use super::body;
use crate::api::access::ISSUER;
use crate::api::call::Call;
use crate::api::negotiate::Negotiated;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::time::rfc3339;
use crate::api::{ApiError, ApiServer, Cause};

const HOUR: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

impl ApiServer {
    /// Answers a POST of a TokenRequest to a service account's `token`.
    pub(super) fn token(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        Negotiated::without_table(call)?;
        let mut request = body(call, "TokenRequest")?;
        let manager = call.manager();
        let account = self.find(target)?;
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(HOUR);
        check(seconds)?;
        let named = request["spec"]["audiences"].as_array().filter(|list| !list.is_empty()).cloned();
        let audiences = named.unwrap_or_else(|| vec![json!(ISSUER)]);
        let now = self.now();
        let end = now.saturating_add(Duration::from_secs(seconds.unsigned_abs())).unwrap_or(now);
        let (namespace, name) = (account.namespace().unwrap_or_default(), account.name());
        let bound = request["spec"].get_mut("boundObjectRef").map(Value::take).unwrap_or_default();
        let mut claims = json!({
            "aud": audiences, "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": now.as_second(), "nbf": now.as_second(), "exp": end.as_second(), "jti": self.random().uid(),
            "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": name, "uid": account.uid } },
        });
        let tokens = self.authenticator().account_tokens();
        for (claim, object) in tokens.bound_claims(target, &bound)? {
            claims["kubernetes.io"][claim] = object;
        }
        let token = tokens.signed(&claims);
        let mut fields = json!({ "f:spec": { "f:expirationSeconds": {} } });
        if request["spec"]["audiences"].is_array() {
            fields["f:spec"]["f:audiences"] = json!({});
        }
        for (field, _) in bound.as_object().into_iter().flatten().filter(|(_, value)| **value != "") {
            fields["f:spec"]["f:boundObjectRef"][format!("f:{field}")] = json!({});
        }
        let managed = json!({
            "manager": manager, "operation": "Update", "apiVersion": "authentication.k8s.io/v1",
            "time": rfc3339(now), "fieldsType": "FieldsV1", "fieldsV1": fields, "subresource": "token",
        });
        Ok(Reply::value(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "uid": account.uid, "creationTimestamp": rfc3339(now),
                "managedFields": [managed],
            },
            "spec": { "audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound },
            "status": { "token": token, "expirationTimestamp": rfc3339(end) },
        }))
        .code(201))
    }
}

fn check(seconds: i64) -> Result<(), ApiError> {
    let why = if seconds < SHORTEST {
        "may not specify a duration less than 10 minutes"
    } else if seconds > LONGEST {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let cause = Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {seconds}: {why}"),
        field: Some("spec.expirationSeconds".to_owned()),
    };
    Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]))
}
