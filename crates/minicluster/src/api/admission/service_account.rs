//! ServiceAccount: every pod runs as an account that is there, and has its token mounted.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{Admission, forbid};
use crate::Random;
use crate::api::ApiError;
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::route::Target;
use crate::api::store::{Scope, Stored, path};

/// The account of pods that name none.
const DEFAULT: &str = "default";
/// A pod that a node runs by itself; such have no account.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// An account with it allows only the Secrets that it lists.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The folder in which containers find their token.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
/// The lifetime of a token: an hour, and seven seconds that mark these tokens.
const EXPIRES: u64 = 3607;
/// The number of tries for a namespace's own account, and the wait in between: a controller makes it after the
/// namespace.
const LOOKS: usize = 10;
const BETWEEN: Duration = Duration::from_millis(100);

impl Admission {
    /// Waits a moment for the account that a controller makes in every namespace, if a pod is made that needs it.
    pub async fn await_default_account(&self, call: &Call, target: &Target) {
        let applied = call.method == Method::PATCH && call.content_type() == "application/apply-patch+yaml";
        let may_be_new = call.method == Method::POST || applied && self.is_new(target);
        if !may_be_new || !target.resource.is("", "pods") || !self.service_accounts {
            return;
        }
        let namespace = target.namespace.as_deref().unwrap_or_default();
        for _ in 1..LOOKS {
            let is_awaited = self.account(namespace, DEFAULT).is_none()
                && self.check_namespace(&target.resource, Some(namespace), "").is_ok()
                && names_default(&call.body);
            if !is_awaited {
                return;
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Sets a new pod's account, and its token and pull secrets.
    pub(super) fn set_account(&self, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
        if !self.service_accounts {
            return Ok(());
        }
        if pod["metadata"]["annotations"].get(MIRROR).is_some() {
            return check_mirror(target, pod);
        }
        if text(pod, "/spec/serviceAccountName").is_empty() {
            pod["spec"]["serviceAccountName"] = json!(DEFAULT);
        }
        pod["spec"]["serviceAccount"] = pod["spec"]["serviceAccountName"].clone();
        let name = text(pod, "/spec/serviceAccountName").to_owned();
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let Some(account) = self.account(namespace, &name) else {
            let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
            return Err(ApiError::forbidden("", "pods", asked_name(pod), &why));
        };
        let account = account.value();
        let mounts = pod["spec"]["automountServiceAccountToken"].as_bool();
        if mounts.or_else(|| account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
            mount_token(pod);
        }
        let has_own = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|own| !own.is_empty());
        if let Some(secrets) = account["imagePullSecrets"].as_array().filter(|secrets| !has_own && !secrets.is_empty())
        {
            pod["spec"]["imagePullSecrets"] = json!(secrets);
        }
        if enforces(&account) { check_secrets(target, pod, &account, &name) } else { Ok(()) }
    }

    fn is_new(&self, target: &Target) -> bool {
        let path = path(target.namespace.as_deref(), target.name.as_deref().unwrap_or_default());
        self.store.get(&target.resource.group_resource, &path).is_none()
    }

    fn account(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let scope = Scope::Object(format!("{namespace}/{name}"));
        self.store.all("", "serviceaccounts", &scope).into_iter().next()
    }
}

/// Returns the name under which a pod was asked for: one that is made up is made up only afterwards.
fn asked_name(pod: &Value) -> &str {
    const MADE_UP: usize = 5;
    let (name, prefix) = (text(pod, "/metadata/name"), text(pod, "/metadata/generateName"));
    let is_made_up = !prefix.is_empty()
        && name
            .len()
            .checked_sub(MADE_UP)
            .and_then(|end| name.get(..end))
            .is_some_and(|start| prefix.starts_with(start));
    if is_made_up { prefix } else { name }
}

fn enforces(account: &Value) -> bool {
    matches!(account["metadata"]["annotations"][ENFORCE].as_str(), Some("true" | "1" | "t" | "T" | "TRUE" | "True"))
}

/// Returns true when the pod in a body runs as its namespace's own account.
fn names_default(body: &[u8]) -> bool {
    // YAML holds JSON; a body that is neither is refused later.
    let pod: Value = serde_yaml::from_slice(body).unwrap_or_default();
    let spec = &pod["spec"];
    let named = ["serviceAccountName", "serviceAccount"].iter().find_map(|field| spec[*field].as_str());
    named.is_none_or(|name| name.is_empty() || name == DEFAULT)
}

/// Mounts the token into every container that has nothing else in its place.
fn mount_token(pod: &mut Value) {
    let volumes = pod["spec"]["volumes"].as_array().map_or(&[][..], Vec::as_slice);
    let present = volumes.iter().filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(VOLUME));
    let (name, is_new) = match present {
        Some(name) => (name.to_owned(), false),
        None => (format!("{VOLUME}{}", suffix(pod)), true),
    };
    let mut is_used = false;
    for kind in ["initContainers", "containers"] {
        for container in pod["spec"][kind].as_array_mut().into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().map_or(&[][..], Vec::as_slice);
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT) {
                continue;
            }
            is_used = true;
            push(container, "volumeMounts", json!({ "name": name, "readOnly": true, "mountPath": MOUNT }));
        }
    }
    if is_used && is_new {
        let ca = json!([{ "key": "ca.crt", "path": "ca.crt" }]);
        let namespace = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
        let sources = json!([
            { "serviceAccountToken": { "expirationSeconds": EXPIRES, "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt", "items": ca } },
            { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": namespace }] } },
        ]);
        push(
            &mut pod["spec"],
            "volumes",
            json!({ "name": name, "projected": { "sources": sources, "defaultMode": 420 } }),
        );
    }
}

fn push(object: &mut Value, list: &str, item: Value) {
    match object[list].as_array_mut() {
        Some(items) => items.push(item),
        None => object[list] = json!([item]),
    }
}

/// Letters that follow from the pod's uid, which is drawn: nothing else that is drawn is shifted by them.
fn suffix(pod: &Value) -> String {
    let uid: String = text(pod, "/metadata/uid").chars().filter(char::is_ascii_hexdigit).collect();
    let seed = uid.get(..16).and_then(|part| u64::from_str_radix(part, 16).ok()).unwrap_or_default();
    Random::new(seed).suffix(5)
}

/// Checks that a node's own pods have no rights in the cluster.
fn check_mirror(target: &Target, pod: &Value) -> Result<(), ApiError> {
    let sources = |volume: &Value| volume["projected"]["sources"].as_array().cloned().unwrap_or_default();
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let why = if !text(pod, "/spec/serviceAccountName").is_empty() {
        "a mirror pod may not reference service accounts"
    } else if !secrets(pod).is_empty() {
        "a mirror pod may not reference secrets"
    } else if volumes.iter().flat_map(sources).any(|source| source["serviceAccountToken"].is_object()) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(forbid(target, pod, why))
}

/// Returns the Secrets that a pod names, in volumes, containers and for pulling images.
fn secrets(pod: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut pending = vec![&pod["spec"]];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match name.as_str() {
                        "secretName" => found.extend(value.as_str()),
                        "secretRef" | "secretKeyRef" | "secret" if value["name"].is_string() => {
                            found.extend(value["name"].as_str());
                        }
                        "imagePullSecrets" => found.extend(items(value).filter_map(|secret| secret["name"].as_str())),
                        _ => pending.push(value),
                    }
                }
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    found
}

/// Refuses a pod that names Secrets which its account does not list.
fn check_secrets(target: &Target, pod: &Value, account: &Value, name: &str) -> Result<(), ApiError> {
    let lists = |list: &str, secret: &str| items(&account[list]).any(|listed| listed["name"] == secret);
    let stranger = |secret: &Value| secret.as_str().filter(|secret| !lists("secrets", secret)).map(str::to_owned);
    let refuse = |what: &str| {
        let why = format!("{what} is not allowed because service account {name} does not reference that");
        Err(why)
    };
    let spec = &pod["spec"];
    let check = || {
        for volume in items(&spec["volumes"]) {
            if let Some(secret) = stranger(&volume["secret"]["secretName"]) {
                refuse(&format!("volume with secret.secretName={secret:?}"))?;
            }
        }
        for (kind, called) in [("initContainers", "init container"), ("containers", "container")] {
            for container in items(&spec[kind]) {
                let place = format!("{called} {}", text(container, "/name"));
                for variable in items(&container["env"]) {
                    if let Some(secret) = stranger(&variable["valueFrom"]["secretKeyRef"]["name"]) {
                        let variable = text(variable, "/name");
                        refuse(&format!("{place} with envVar {variable} referencing secret.secretName={secret:?}"))?;
                    }
                }
                for source in items(&container["envFrom"]) {
                    if let Some(secret) = stranger(&source["secretRef"]["name"]) {
                        refuse(&format!("{place} with envFrom referencing secret.secretName={secret:?}"))?;
                    }
                }
            }
        }
        Ok(())
    };
    check().map_err(|why: String| forbid(target, pod, &format!("{why} secret")))?;
    for (index, secret) in items(&spec["imagePullSecrets"]).enumerate() {
        let secret = text(secret, "/name");
        if !lists("imagePullSecrets", secret) {
            let why = format!(
                "imagePullSecrets[{index}].name={secret:?} is not allowed because service account {name} does not reference \
                 that imagePullSecret"
            );
            return Err(forbid(target, pod, &why));
        }
    }
    Ok(())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
