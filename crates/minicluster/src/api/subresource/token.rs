//! Tokens for service accounts: in form like the real ones, signed with a key that the server makes at its start.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::body;
use crate::api::call::Call;
use crate::api::negotiate::Negotiated;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::time::rfc3339;
use crate::api::write::text;
use crate::api::{ApiError, ApiServer, Cause};

/// Who issues tokens, and for whom if nobody else is named.
pub(in crate::api) const ISSUER: &str = "https://kubernetes.default.svc";

const HOUR: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

impl ApiServer {
    /// POST of a TokenRequest to a service account's `token`.
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
        for (claim, object) in self.bound_claims(target, &bound)? {
            claims["kubernetes.io"][claim] = object;
        }
        let header = json!({ "alg": "HS256", "typ": "JWT" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.sign(signed.as_bytes())));
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

    /// The service account that a token of this server was made for, if it is still there and the token still holds.
    pub(in crate::api) fn account_of(&self, token: &str) -> Option<(String, String, String)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let (_, payload) = signed.split_once('.')?;
        if !same(&signature, &self.sign(signed.as_bytes())) {
            return None;
        }
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        if claims["iss"] != ISSUER || claims["exp"].as_i64()? < self.now().as_second() {
            return None;
        }
        let account = &claims["kubernetes.io"];
        let (namespace, name) = (text(account, "/namespace"), text(account, "/serviceaccount/name"));
        let registry = self.registry();
        let group_resource = &registry.resource("", "v1", "serviceaccounts")?.group_resource;
        let known = self.store().get(group_resource, &format!("{namespace}/{name}"))?;
        let holds = *known.uid == *text(account, "/serviceaccount/uid") && self.is_still_bound(namespace, account);
        holds.then(|| (namespace.to_owned(), name.to_owned(), known.uid.to_string()))
    }
}

/// HMAC with SHA-256 (RFC 2104).
pub(in crate::api) fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let pad = |byte: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0)).take(BLOCK);
        key.map(|key| key ^ byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

/// Compares without telling by the time it takes where the first difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
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

#[cfg(test)]
mod tests {
    use super::{hmac, same};

    #[test]
    fn signatures_are_those_of_the_standard() {
        // RFC 4231, test case 1, with the key filled up with zeros.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let signature = hmac(&key, b"Hi There");
        assert_eq!(signature[..8], [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
        assert!(same(&signature, &signature) && !same(&signature, &[0; 32]) && !same(&signature, b""));
    }
}
