//! The operations on a version's resources, path by path.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::parameters::{DELETE, LIST, WRITE, capital, group_name, in_path, queries, query, sorted, tag};
use crate::api::discovery::document_path;
use crate::api::registry::Version;
use crate::api::resource::Resource;
use kube_facts::{Subresource, facts};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const JSON: &str = "application/json";
const OTHERS: [&str; 2] = ["application/vnd.kubernetes.protobuf", "application/yaml"];

type Paths = BTreeMap<String, Value>;

/// Adds a path that can only be read and has nothing to do with objects.
pub(super) fn read_only(paths: &mut Paths, path: &str, id: &str, tag: &str, kind: &str) {
    let operation = json!({
        "tags": [tag], "operationId": id,
        "responses": responses(&[200], &reference(&format!("{META}.{kind}")), false),
    });
    paths.insert(path.to_owned(), json!({ "get": operation }));
}

/// Adds the path of the version.
pub(super) fn version(paths: &mut Paths) {
    let info = json!({ "description": "OK", "content": { JSON: { "schema": reference("io.k8s.apimachinery.pkg.version.Info") } } });
    let operation = json!({
        "tags": ["version"], "operationId": "getCodeVersion",
        "responses": { "200": info, "401": { "description": "Unauthorized" } },
    });
    paths.insert("/version/".to_owned(), json!({ "get": operation }));
}

/// Adds all paths of a version.
pub(super) fn of_version(paths: &mut Paths, group: &str, version: &Version) {
    let root = format!("/{}", document_path(group, &version.name));
    let id = format!("get{}{}APIResources", group_name(group), capital(&version.name));
    let tag = format!("{}_{}", tag(group), version.name);
    read_only(paths, &format!("{root}/"), &id, &tag, "APIResourceList");
    for resource in version.resources.values() {
        Author { resource, root: &root, tag: &tag }.write(paths);
    }
}

/// Writes the operations of one resource.
struct Author<'a> {
    resource: &'a Resource,
    root: &'a str,
    tag: &'a str,
}

/// The part of an operation's name.
#[derive(Clone, Copy)]
enum Place<'a> {
    Everywhere,
    Collection,
    Object,
    Below(&'a Subresource),
}

impl Author<'_> {
    fn write(&self, paths: &mut Paths) {
        let definition = &self.resource.definition;
        let plural = &definition.resource;
        let scoped = if definition.namespaced {
            if self.resource.has_verb("list") {
                let path = format!("{}/{plural}", self.root);
                paths.insert(path, self.list_everywhere(Place::Everywhere, "list"));
                if self.resource.has_verb("watch") {
                    let path = format!("{}/watch/{plural}", self.root);
                    paths.insert(path, self.list_everywhere(Place::Everywhere, "watchlist"));
                }
            }
            format!("namespaces/{{namespace}}/{plural}")
        } else {
            plural.clone()
        };
        self.insert(paths, format!("{}/{scoped}", self.root), self.collection());
        self.insert(paths, format!("{}/{scoped}/{{name}}", self.root), self.object());
        if self.resource.has_verb("watch") {
            let path = format!("{}/watch/{scoped}", self.root);
            paths.insert(path, self.list_everywhere(Place::Collection, "watchlist"));
            let path = format!("{}/watch/{scoped}/{{name}}", self.root);
            paths.insert(path, self.list_everywhere(Place::Object, "watch"));
        }
        for subresource in &self.resource.subresources {
            let path = format!("{}/{scoped}/{{name}}/{}", self.root, subresource.name);
            self.insert(paths, path, self.below(subresource));
        }
    }

    fn insert(&self, paths: &mut Paths, path: String, operations: Map<String, Value>) {
        if operations.keys().any(|key| key != "parameters") {
            paths.insert(path, Value::Object(operations));
        }
    }

    fn schema(&self, list: bool) -> Value {
        let definition = &self.resource.definition;
        let kind = if list { &self.resource.list_kind } else { &definition.kind };
        match facts().type_name(&definition.group, &definition.version, kind) {
            Some(name) if self.resource.custom.is_none() => reference(name),
            _ => reference(&super::components::custom_name(&definition.group, &definition.version, kind)),
        }
    }

    fn kind(&self) -> Value {
        let definition = &self.resource.definition;
        json!({ "group": definition.group, "version": definition.version, "kind": definition.kind })
    }

    fn id(&self, verb: &str, place: Place<'_>) -> String {
        let definition = &self.resource.definition;
        let (group, version) = (group_name(&definition.group), capital(&definition.version));
        let mut kind = definition.kind.clone();
        if verb == "watch" && !matches!(place, Place::Object) {
            kind = self.resource.list_kind.clone();
        }
        let namespaced = definition.namespaced && !matches!(place, Place::Everywhere);
        let namespaced = if namespaced { "Namespaced" } else { "" };
        let end = match place {
            Place::Everywhere => "ForAllNamespaces".to_owned(),
            Place::Below(subresource) => capital(&subresource.name),
            Place::Collection | Place::Object => String::new(),
        };
        format!("{verb}{group}{version}{namespaced}{kind}{end}")
    }

    fn operation(&self, verb: &str, action: &str, place: Place<'_>) -> Map<String, Value> {
        let operation = json!({
            "tags": [self.tag], "operationId": self.id(verb, place),
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": self.kind(),
        });
        operation.as_object().cloned().unwrap_or_default()
    }

    fn scope_parameters(&self, name: bool) -> Vec<Value> {
        let mut parameters = Vec::new();
        if name {
            parameters.push(in_path("name"));
        }
        if self.resource.definition.namespaced {
            parameters.push(in_path("namespace"));
        }
        parameters.push(query("pretty", "string"));
        parameters
    }

    /// Returns a list or watch whose parameters stand beside it, as those of all paths that know nothing else do.
    fn list_everywhere(&self, place: Place<'_>, action: &str) -> Value {
        let mut parameters = queries(&LIST);
        match place {
            Place::Everywhere => parameters.push(query("pretty", "string")),
            Place::Collection => parameters.extend(self.scope_parameters(false)),
            Place::Object | Place::Below(_) => parameters.extend(self.scope_parameters(true)),
        }
        let (verb, schema) = match action {
            "list" => ("list", self.schema(true)),
            _ => ("watch", reference(&format!("{META}.WatchEvent"))),
        };
        let mut operation = self.operation(verb, action, place);
        operation.insert("responses".to_owned(), responses(&[200], &schema, true));
        json!({ "get": operation, "parameters": sorted(parameters) })
    }

    fn collection(&self) -> Map<String, Value> {
        let mut operations = Map::new();
        let mut beside = self.scope_parameters(false);
        let (lists, creates) = (self.resource.has_verb("list"), self.resource.has_verb("create"));
        // Parameters that all operations of a path take stand beside them: with one operation, these are all.
        let alone = lists != creates && !self.resource.has_verb("deletecollection");
        let mut take = |operation: &mut Map<String, Value>, parameters: Vec<Value>| {
            if alone {
                beside.extend(parameters);
            } else {
                operation.insert("parameters".to_owned(), json!(parameters));
            }
        };
        if lists {
            let mut list = self.operation("list", "list", Place::Collection);
            take(&mut list, queries(&LIST));
            list.insert("responses".to_owned(), responses(&[200], &self.schema(true), true));
            operations.insert("get".to_owned(), Value::Object(list));
        }
        if creates {
            let mut create = self.operation("create", "post", Place::Collection);
            take(&mut create, queries(&WRITE));
            create.insert("requestBody".to_owned(), body(&self.schema(false)));
            create.insert("responses".to_owned(), responses(&[200, 201, 202], &self.schema(false), false));
            operations.insert("post".to_owned(), Value::Object(create));
        }
        if self.resource.has_verb("deletecollection") {
            let mut parameters: Vec<(&str, &str)> = LIST.into_iter().chain(DELETE).collect();
            parameters.retain(|(name, _)| !matches!(*name, "allowWatchBookmarks" | "watch"));
            let mut delete = self.deletion("deletecollection", Place::Collection, &parameters);
            let id = self.id("delete", Place::Collection);
            let group = format!(
                "delete{}{}",
                group_name(&self.resource.definition.group),
                capital(&self.resource.definition.version)
            );
            let id = id.strip_prefix(&group).map_or(id.clone(), |rest| format!("{group}Collection{rest}"));
            delete.insert("operationId".to_owned(), json!(id));
            delete.insert("responses".to_owned(), responses(&[200], &reference(&format!("{META}.Status")), false));
            operations.insert("delete".to_owned(), Value::Object(delete));
        }
        operations.insert("parameters".to_owned(), json!(sorted(beside)));
        operations
    }

    fn deletion(&self, action: &str, place: Place<'_>, parameters: &[(&str, &str)]) -> Map<String, Value> {
        let mut delete = self.operation("delete", action, place);
        delete.insert("parameters".to_owned(), json!(queries(parameters)));
        let options = reference(&format!("{META}.DeleteOptions"));
        delete.insert("requestBody".to_owned(), json!({ "content": { "*/*": { "schema": options } } }));
        delete
    }

    fn object(&self) -> Map<String, Value> {
        let schema = self.schema(false);
        let mut operations = self.verbs(&self.resource.verbs, Place::Object, &schema, &self.kind());
        if self.resource.has_verb("delete") {
            let mut delete = self.deletion("delete", Place::Object, &DELETE);
            let status = match returns_object(self.resource) {
                true => schema,
                false => reference(&format!("{META}.Status")),
            };
            delete.insert("responses".to_owned(), responses(&[200, 202], &status, false));
            operations.insert("delete".to_owned(), Value::Object(delete));
        }
        operations.insert("parameters".to_owned(), json!(self.scope_parameters(true)));
        operations
    }

    fn below(&self, subresource: &Subresource) -> Map<String, Value> {
        let definition = &self.resource.definition;
        if matches!(subresource.name.as_str(), "proxy" | "exec" | "attach" | "portforward" | "log") {
            return Map::new();
        }
        let (group, version) = match subresource.version.as_str() {
            "" => (definition.group.as_str(), definition.version.as_str()),
            version => (subresource.group.as_str(), version),
        };
        let kind = json!({ "group": group, "version": version, "kind": subresource.kind });
        let schema = match facts().type_name(group, version, &subresource.kind) {
            Some(name) => reference(name),
            None => self.schema(false),
        };
        let place = Place::Below(subresource);
        let mut operations = self.verbs(&subresource.verbs, place, &schema, &kind);
        let mut beside = self.scope_parameters(true);
        if subresource.verbs.iter().any(|verb| verb == "create") {
            let mut create = self.operation("create", "post", place);
            create.insert("x-kubernetes-group-version-kind".to_owned(), kind);
            create.insert("requestBody".to_owned(), body(&schema));
            create.insert("responses".to_owned(), responses(&[200, 201, 202], &schema, false));
            operations.insert("post".to_owned(), Value::Object(create));
        }
        if operations.len() == 1 && !operations.contains_key("get") {
            beside.extend(queries(&WRITE));
            for operation in operations.values_mut().filter_map(Value::as_object_mut) {
                operation.remove("parameters");
            }
        }
        operations.insert("parameters".to_owned(), json!(sorted(beside)));
        operations
    }

    fn verbs(&self, verbs: &[String], place: Place<'_>, schema: &Value, kind: &Value) -> Map<String, Value> {
        let mut operations = Map::new();
        for (verb, method, name, action) in
            [("get", "get", "read", "get"), ("update", "put", "replace", "put"), ("patch", "patch", "patch", "patch")]
        {
            if !verbs.iter().any(|known| known == verb) {
                continue;
            }
            let mut operation = self.operation(name, action, place);
            operation.insert("x-kubernetes-group-version-kind".to_owned(), kind.clone());
            let codes: &[u16] = if verb == "get" { &[200] } else { &[200, 201] };
            operation.insert("responses".to_owned(), responses(codes, schema, false));
            if verb == "update" {
                operation.insert("parameters".to_owned(), json!(queries(&WRITE)));
                operation.insert("requestBody".to_owned(), body(schema));
            }
            if verb == "patch" {
                let parameters: Vec<(&str, &str)> = WRITE.into_iter().chain([("force", "boolean")]).collect();
                operation.insert("parameters".to_owned(), json!(queries(&parameters)));
                operation.insert("requestBody".to_owned(), patch_body(self.resource.custom.is_some()));
            }
            operations.insert(method.to_owned(), Value::Object(operation));
        }
        operations
    }
}

fn returns_object(resource: &Resource) -> bool {
    crate::api::write::returns_object(resource)
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn body(schema: &Value) -> Value {
    json!({ "content": { "*/*": { "schema": schema } }, "required": true })
}

fn patch_body(custom: bool) -> Value {
    let mut content = Map::new();
    for kind in ["apply-patch+yaml", "json-patch+json", "merge-patch+json", "strategic-merge-patch+json"] {
        if !(custom && kind.starts_with("strategic")) {
            content.insert(format!("application/{kind}"), json!({ "schema": reference(&format!("{META}.Patch")) }));
        }
    }
    json!({ "content": content, "required": true })
}

fn responses(codes: &[u16], schema: &Value, streams: bool) -> Value {
    let mut content = Map::new();
    for media_type in std::iter::once(JSON).chain(OTHERS) {
        content.insert(media_type.to_owned(), json!({ "schema": schema }));
        if streams && media_type != "application/yaml" {
            content.insert(format!("{media_type};stream=watch"), json!({ "schema": schema }));
        }
    }
    let mut responses = Map::new();
    for code in codes {
        let description = match code {
            200 => "OK",
            201 => "Created",
            _ => "Accepted",
        };
        responses.insert(code.to_string(), json!({ "description": description, "content": content }));
    }
    responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
    Value::Object(responses)
}
