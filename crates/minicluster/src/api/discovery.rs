//! Discovery, in both ways that clients know: document by document, and aggregated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};

use super::body::Body;
use super::call::Call;
use super::negotiate::{AGGREGATED, Delivery, Negotiated, asks_for_aggregated};
use super::registry::{Group, Registry, Version};
use super::reply::{Reply, ReplyContent};
use super::resource::Resource;
use super::{ApiError, ApiServer};
use kube_facts::{Subresource, facts};

impl ApiServer {
    /// Answers a GET of `/api`.
    pub(super) fn core_versions(&self, call: &Call) -> Result<Reply, ApiError> {
        let registry = self.registry();
        if asks_for_aggregated(call) {
            return Ok(aggregated(call, registry.groups.iter().filter(|group| group.name.is_empty())));
        }
        Negotiated::new(call, Delivery::Whole)?;
        let server = call.header("host").unwrap_or("127.0.0.1");
        Ok(Reply::value(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": server }],
        })))
    }

    /// Answers a GET of `/apis`.
    pub(super) fn groups(&self, call: &Call) -> Result<Reply, ApiError> {
        let registry = self.registry();
        let named = registry.groups.iter().filter(|group| !group.name.is_empty());
        if asks_for_aggregated(call) {
            return Ok(aggregated(call, named));
        }
        Negotiated::new(call, Delivery::Whole)?;
        let groups: Vec<Value> = named.map(group_facts).collect();
        Ok(Reply::value(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })))
    }

    /// Answers a GET of `/apis/<group>`.
    pub(super) fn group(&self, call: &Call, name: &str) -> Result<Reply, ApiError> {
        Negotiated::new(call, Delivery::Whole)?;
        let registry = self.registry();
        let group = registry.group(name).ok_or_else(ApiError::no_such_resource)?;
        let mut facts = group_facts(group);
        facts["kind"] = json!("APIGroup");
        facts["apiVersion"] = json!("v1");
        Ok(Reply::value(facts))
    }

    /// Answers a GET of `/api/v1` and `/apis/<group>/<version>`.
    pub(super) fn resources(&self, call: &Call, group: &str, version: &str) -> Result<Reply, ApiError> {
        Negotiated::new(call, Delivery::Whole)?;
        let registry = self.registry();
        let known = registry.version(group, version).ok_or_else(ApiError::no_such_resource)?;
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resources: Vec<Value> = known.resources.values().flat_map(|resource| listed(&registry, resource)).collect();
        let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": resources });
        if !group.is_empty() {
            list["apiVersion"] = json!("v1");
        }
        Ok(Reply::value(list))
    }

    /// Answers a GET of `/version`.
    pub(super) fn version(&self) -> Reply {
        let release = &facts().kubernetes;
        let numbers: Vec<&str> = release.trim_start_matches('v').split('.').collect();
        let (major, minor) = (numbers.first().copied().unwrap_or("1"), numbers.get(1).copied().unwrap_or_default());
        let before = minor.parse::<u32>().map(|minor| minor.saturating_sub(1).to_string()).unwrap_or_default();
        Reply::value(json!({
            "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
            "minCompatibilityMajor": major, "minCompatibilityMinor": before,
            "gitVersion": format!("{release}+{}.{}", self.own_name(), env!("CARGO_PKG_VERSION")), "gitCommit": "",
            "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "rustc",
            "platform": "linux/amd64",
        }))
    }

    /// Answers a GET of `/`: the paths that there are.
    pub(super) fn paths(&self) -> Reply {
        let registry = self.registry();
        let mut paths: Vec<String> =
            ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
                .map(str::to_owned)
                .to_vec();
        for group in &registry.groups {
            if !group.name.is_empty() {
                paths.push(format!("/apis/{}", group.name));
            }
            paths
                .extend(group.versions.iter().map(|version| format!("/{}", document_path(&group.name, &version.name))));
        }
        paths.sort();
        Reply::value(json!({ "paths": paths }))
    }
}

/// Returns the path of a version, and of its OpenAPI document: `api/v1`, `apis/apps/v1`.
#[must_use]
pub(super) fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn group_facts(group: &Group) -> Value {
    let version = |version: &Version| json!({ "groupVersion": format!("{}/{}", group.name, version.name), "version": version.name });
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({ "name": group.name, "versions": versions, "preferredVersion": versions.first() })
}

/// Returns a resource and its subresources, as entries of an `APIResourceList`.
fn listed(registry: &Registry, resource: &Resource) -> Vec<Value> {
    let definition = &resource.definition;
    let mut own = json!({
        "name": definition.resource, "singularName": resource.singular, "namespaced": definition.namespaced,
        "kind": definition.kind, "verbs": resource.verbs,
    });
    add_lists(&mut own, resource);
    if let Some(hash) = storage_version_hash(registry, resource) {
        own["storageVersionHash"] = json!(hash);
    }
    let below = |subresource: &Subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", definition.resource, subresource.name), "singularName": "",
            "namespaced": definition.namespaced, "kind": subresource.kind, "verbs": subresource.verbs,
        });
        if !subresource.version.is_empty() {
            entry["group"] = json!(subresource.group);
            entry["version"] = json!(subresource.version);
        }
        entry
    };
    std::iter::once(own).chain(resource.subresources.iter().map(below)).collect()
}

fn add_lists(entry: &mut Value, resource: &Resource) {
    for (key, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            entry[key] = json!(list);
        }
    }
}

/// Tells which version of a kind lies in the store, in the real server's way.
fn storage_version_hash(registry: &Registry, resource: &Resource) -> Option<String> {
    if !resource.has_verb("watch") {
        return None;
    }
    let stored = registry.resource(
        &resource.group_resource.group,
        &resource.storage_version,
        &resource.group_resource.resource,
    )?;
    let text = format!("{}/{}/{}", resource.group_resource.group, resource.storage_version, stored.definition.kind);
    Some(STANDARD.encode(&Sha256::digest(text)[..8]))
}

/// Returns the groups in one document. It carries a hash, so that clients need not read it again.
fn aggregated<'a>(call: &Call, groups: impl Iterator<Item = &'a Group>) -> Reply {
    let items: Vec<Value> = groups.map(aggregated_group).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let text = list.to_string();
    let hash = format!("\"{}\"", hex(&Sha512::digest(&text)));
    let known = call.header("if-none-match") == Some(hash.as_str());
    let (code, body) = if known { (304, Body::full(bytes::Bytes::new())) } else { (200, Body::full(text.into())) };
    Reply::new(code, ReplyContent::Other(AGGREGATED, body))
        .header(header::ETAG, hash)
        .header(header::CACHE_CONTROL, "public")
        .header(header::VARY, "Accept")
}

/// Bytes as upper case digits.
#[must_use]
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                version.resources.values().map(|resource| aggregated_resource(resource)).collect();
            json!({ "version": version.name, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let definition = &resource.definition;
    // Custom kinds are named in full, built-in ones by their kind alone.
    let kind = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let (group, version) = match resource.custom {
        Some(_) => (definition.group.as_str(), definition.version.as_str()),
        None => ("", ""),
    };
    let mut entry = json!({
        "resource": definition.resource,
        "responseKind": kind(group, version, &definition.kind),
        "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    add_lists(&mut entry, resource);
    let below = |subresource: &Subresource| {
        let (group, version) = match subresource.version.as_str() {
            "" => (group, version),
            version => (subresource.group.as_str(), version),
        };
        let mut entry = Map::new();
        entry.insert("subresource".to_owned(), json!(subresource.name));
        entry.insert("responseKind".to_owned(), kind(group, version, &subresource.kind));
        entry.insert("verbs".to_owned(), json!(subresource.verbs));
        Value::Object(entry)
    };
    let subresources: Vec<Value> = resource.subresources.iter().map(below).collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}
