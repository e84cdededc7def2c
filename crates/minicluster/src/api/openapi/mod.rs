//! OpenAPI: the paths and the schemas of objects, for clients that check, explain and complete.
//!
//! Built from the facts about kinds and from custom resource definitions. It agrees with the real server's documents,
//! but for their prose.

mod components;
mod discovery;
mod operations;
mod parameters;
mod protobuf;
mod version2;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use super::body::Body;
use super::call::Call;
use super::discovery::{document_path, hex};
use super::negotiate::{Delivery, Negotiated};
use super::registry::{Registry, Version};
use super::reply::{Reply, ReplyContent};
use super::{ApiError, ApiServer};
use kube_facts::facts;

impl ApiServer {
    /// Answers a GET of `/openapi/v3`: the existing documents, each with the hash of its content.
    pub(super) fn openapi_index(&self) -> Reply {
        let registry = self.registry();
        let mut paths = Map::new();
        for path in documents(&registry) {
            let url = format!("/openapi/v3/{path}?hash={}", hash(&registry, &path));
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
        Reply::value(json!({ "paths": paths }))
    }

    /// Answers a GET of one document of `/openapi/v3`.
    pub(super) fn openapi_document(&self, call: &Call, path: &str) -> Result<Reply, ApiError> {
        let registry = self.registry();
        let Some(document) = document(&registry, path) else {
            return Ok(Reply::new(404, ReplyContent::Other("text/plain", Body::full(Bytes::new()))));
        };
        let hash = hash(&registry, path);
        let reply = if call.header("if-none-match") == Some(format!("\"{hash}\"").as_str()) {
            Reply::new(304, ReplyContent::Other("application/json", Body::full(Bytes::new())))
        } else {
            Reply::value(document)
        };
        let reply = reply.header(header::ETAG, format!("\"{hash}\"")).header(header::VARY, "Accept");
        // A document that is asked for by its hash never changes.
        Ok(match call.query.get("hash") {
            Some(asked) if asked == hash => reply.header(header::CACHE_CONTROL, "public, immutable"),
            _ => reply,
        })
    }

    /// Answers a GET of `/openapi/v2`, in JSON or as a protocol buffer.
    pub(super) fn openapi_version2(&self, call: &Call) -> Result<Reply, ApiError> {
        let document = || version2::document(&self.registry());
        if protobuf::is_asked_for(call.header("accept").unwrap_or_default()) {
            let body = Body::full(protobuf::document(&document()).into());
            return Ok(Reply::new(200, ReplyContent::Other(protobuf::MEDIA_TYPES[1], body)));
        }
        Negotiated::new(call, Delivery::Whole)?;
        Ok(Reply::value(document()))
    }
}

/// Returns the identity of a document: it is made of the release's facts and of definitions, so these stand for it.
fn hash(registry: &Registry, path: &str) -> String {
    let mut text = format!("{} {path}", facts().kubernetes);
    for resource in registry.resources().filter(|resource| resource.custom.is_some()) {
        if document_path(&resource.definition.group, &resource.definition.version) == path {
            text.push_str(&format!("{:?}", resource.definition));
        }
    }
    hex(&Sha512::digest(text))
}

/// Returns a document, by the path that it is about.
fn document(registry: &Registry, path: &str) -> Option<Value> {
    let (paths, schemas) = parts(registry, path)?;
    let security = json!({
        "BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        },
    });
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": release() },
        "paths": paths,
        "components": { "schemas": schemas, "securitySchemes": security },
    }))
}

type DocumentParts = (BTreeMap<String, Value>, BTreeMap<String, Value>);

/// Returns the paths and schemas of a document.
fn parts(registry: &Registry, path: &str) -> Option<DocumentParts> {
    let mut paths = BTreeMap::new();
    let mut owner = None;
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api"] => operations::read_only(&mut paths, "/api/", "getCoreAPIVersions", "core", "APIVersions"),
        ["apis"] => operations::read_only(&mut paths, "/apis/", "getAPIVersions", "apis", "APIGroupList"),
        ["version"] => operations::version(&mut paths),
        ["apis", group] if !group.is_empty() => {
            registry.group(group)?;
            let id = format!("get{}APIGroup", parameters::group_name(group));
            operations::read_only(&mut paths, &format!("/apis/{group}/"), &id, &parameters::tag(group), "APIGroup");
        }
        ["api", version] => owner = Some(("", *version)),
        ["apis", group, version] => owner = Some((*group, *version)),
        _ => return None,
    }
    if let Some((group, version)) = owner {
        operations::of_version(&mut paths, group, registry.version(group, version)?);
    }
    let (group, version) = owner.unwrap_or(("", "v1"));
    let known = registry.version(group, version);
    let schemas = components::used_by(&paths, group, version, known.into_iter().flat_map(custom_schemas_of));
    Some((paths, schemas))
}

/// Returns the paths that there are documents about.
fn documents(registry: &Registry) -> Vec<String> {
    let mut paths = vec!["api".to_owned(), "apis".to_owned(), "version".to_owned()];
    for group in &registry.groups {
        if !group.name.is_empty() {
            paths.push(format!("apis/{}", group.name));
        }
        paths.extend(group.versions.iter().map(|version| document_path(&group.name, &version.name)));
    }
    paths
}

/// Returns the schemas of a version's custom kinds, by name.
fn custom_schemas_of(version: &Version) -> impl Iterator<Item = &(String, Value)> {
    let facts = version.resources.values().filter_map(|resource| resource.custom.as_deref());
    facts.flat_map(|facts| &facts.schemas)
}

/// `1.36`
fn release() -> String {
    facts().kubernetes.trim_start_matches('v').split('.').take(2).collect::<Vec<_>>().join(".")
}
