//! Tokens of service accounts: in form like the real ones, signed with a key of the server's. One ends with its account,
//! and with the object that it is bound to: a pod, a Secret, a node.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::Clock;
use crate::api::ApiError;
use crate::api::json_pointer::text;
use crate::api::route::Target;
use crate::api::store::{GroupResource, Store, path};

/// The issuer of tokens, and their audience if no other is named.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// The kinds that a token can be bound to: the kind, its plural, and the claim that names the object.
const KINDS: [(&str, &str, &str); 3] =
    [("Pod", "pods", "pod"), ("Secret", "secrets", "secret"), ("Node", "nodes", "node")];

/// Signs tokens, and knows whose they are.
#[derive(Debug)]
pub struct AccountTokens {
    store: Store,
    clock: Clock,
    signing: Hmac<Sha256>,
}

impl AccountTokens {
    /// Tokens for the accounts in a store.
    #[must_use]
    pub fn new(store: Store, clock: Clock, key: [u8; 32]) -> AccountTokens {
        // A shorter key is filled up with zeros (RFC 2104).
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        AccountTokens { store, clock, signing: Hmac::new(&block.into()) }
    }

    /// Returns a token that says this.
    #[must_use]
    pub fn signed(&self, claims: &Value) -> String {
        let header = json!({ "alg": "HS256", "typ": "JWT" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self.signature(&signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the service account that a token of this server was made for, if it is still there and the token still
    /// holds.
    pub fn account_of(&self, token: &str) -> Option<(String, String, String)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let (_, payload) = signed.split_once('.')?;
        self.signature(signed).verify_slice(&signature).ok()?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        if claims["iss"] != ISSUER || claims["exp"].as_i64()? < self.clock.now().as_second() {
            return None;
        }
        let account = &claims["kubernetes.io"];
        let (namespace, name) = (text(account, "/namespace"), text(account, "/serviceaccount/name"));
        let known = self.store.get(&GroupResource::new("", "serviceaccounts"), &format!("{namespace}/{name}"))?;
        let holds = *known.uid == *text(account, "/serviceaccount/uid") && self.is_still_bound(namespace, account);
        holds.then(|| (namespace.to_owned(), name.to_owned(), known.uid.to_string()))
    }

    fn signature(&self, signed: &str) -> Hmac<Sha256> {
        self.signing.clone().chain_update(signed)
    }

    /// Returns the claims of a token that is bound to an object; none if it is bound to nothing. `target` is the
    /// service account.
    ///
    /// # Errors
    /// 404 if the object is not there, 409 if it is another of that name, 400 if no token can be bound to it.
    pub fn bound_claims(&self, target: &Target, reference: &Value) -> Result<Vec<(&'static str, Value)>, ApiError> {
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

    /// Returns true when the object that a token is bound to still exists.
    fn is_still_bound(&self, namespace: &str, claims: &Value) -> bool {
        KINDS.iter().all(|(_, plural, claim)| {
            let Some(bound) = claims.get(claim) else { return true };
            let object = self.bound_object(plural, Some(namespace), text(bound, "/name"));
            object.is_some_and(|object| text(&object, "/metadata/uid") == text(bound, "/uid"))
        })
    }

    fn bound_object(&self, plural: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        // Nodes alone live in no namespace.
        let place = path(namespace.filter(|_| plural != "nodes"), name);
        Some(self.store.get(&GroupResource::new("", plural), &place)?.value())
    }
}
