//! The embedded server's side of a case: a store of a few lines around the pure functions.

use std::collections::BTreeMap;

use belay::kinds::{Type, facts};
use belay::minicluster::api::ApiError;
use belay::minicluster::api::object::{self, Allocate, Definition, FieldValidation, Format, PatchKind, Read, Write};
use serde_json::{Value, json};

use super::step::{Answer, Step, Verb};

/// What is stored, by kind and name.
pub struct Model {
    namespace: String,
    stored: BTreeMap<(String, String), Value>,
}

impl Model {
    /// An empty store.
    pub fn new(namespace: &str) -> Model {
        Model { namespace: namespace.to_owned(), stored: BTreeMap::new() }
    }

    /// Answers a step. `real` tells which uid, times, addresses the real server gave out.
    pub fn answer(&mut self, step: &Step, real: &Answer, before: Option<&Value>) -> Answer {
        let definition = definition(step);
        let write = Write {
            definition: &definition,
            subresource: step.sub.as_deref(),
            manager: &step.r#as,
            now: "2030-01-01T00:00:00Z".parse().unwrap(),
            field_validation: match step.validation.as_str() {
                "Strict" => FieldValidation::Strict,
                "Ignore" => FieldValidation::Ignore,
                _ => FieldValidation::Warn,
            },
        };
        let old = self.stored.get(&self.key(step)).cloned();
        let body = step.sent(before);
        let mut result = self.write(&write, step, old.as_ref(), &body, real);
        if let Ok(read) = &mut result
            && definition.kind == "Service"
        {
            // Which addresses are free is the store's business; the real server's choice is taken over.
            object::assign_addresses(&mut read.object, &mut Given { spec: &real.body["spec"], port: 0 }).unwrap();
        }
        match result {
            Ok(read) => Answer {
                code: if old.is_none() { 201 } else { 200 },
                unchanged: old.is_some_and(|old| old == read.object),
                body: read.object,
                warnings: read.warnings,
            },
            Err(error) => Answer { code: error.code, body: error.to_status(), warnings: Vec::new(), unchanged: false },
        }
    }

    /// Takes over what the real server stored.
    pub fn adopt(&mut self, step: &Step, real: &Answer) {
        if real.code < 300 && !step.dry && step.sub.as_deref() != Some("scale") {
            let mut object = real.body.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let key = (step.resource().kind.clone(), object["metadata"]["name"].as_str().unwrap().to_owned());
            self.stored.insert(key, object);
        }
    }

    fn key(&self, step: &Step) -> (String, String) {
        (step.resource().kind.clone(), step.object_name())
    }

    fn write(
        &self,
        write: &Write<'_>,
        step: &Step,
        old: Option<&Value>,
        body: &[u8],
        real: &Answer,
    ) -> Result<Read, ApiError> {
        let format = if step.yaml { Format::Yaml } else { Format::Json };
        let with = |read: Read, mut warnings: Vec<String>| {
            warnings.extend(read.warnings);
            Read { object: read.object, warnings }
        };
        match (step.r#do, old) {
            (Verb::Create, _) => {
                let mut read = object::read(write, body, format)?;
                self.given(&mut read.object, real, step);
                object::create(write, read.object).map(|created| with(created, read.warnings))
            }
            (Verb::Apply, old) => {
                let read = object::read_applied(write, body)?;
                let applied = match old {
                    Some(_) => object::apply(write, old, read.object, step.force),
                    None => {
                        let mut born = read.object.clone();
                        self.given(&mut born, real, step);
                        let metadata = &born["metadata"];
                        let identity = ["name", "namespace", "uid", "creationTimestamp"];
                        let identity = identity.into_iter().filter(|name| !metadata[*name].is_null());
                        let identity: Value = identity.map(|name| (name.to_owned(), metadata[name].clone())).collect();
                        object::apply_new(write, &identity, &read.object)
                    }
                };
                applied.map(|applied| with(applied, read.warnings))
            }
            (Verb::Put, None) => {
                let read = object::read(write, body, format)?;
                object::check_name(&json!({ "metadata": { "name": step.object_name() } }), &read.object)?;
                Err(ApiError::not_found(&write.definition.group, &write.definition.resource, &step.object_name()))
            }
            (_, None) => {
                Err(ApiError::not_found(&write.definition.group, &write.definition.resource, &step.object_name()))
            }
            (Verb::Put, Some(old)) => {
                let mut read = object::read(write, body, format)?;
                if let Some(metadata) = read.object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                object::update(write, old, read.object).map(|updated| with(updated, read.warnings))
            }
            (Verb::Merge | Verb::Strategic | Verb::Json, Some(old)) => {
                let kind = match step.r#do {
                    Verb::Merge => PatchKind::Merge,
                    Verb::Strategic => PatchKind::Strategic,
                    _ => PatchKind::Json,
                };
                let read = object::patch(write, old, kind, body)?;
                object::update(write, old, read.object).map(|updated| with(updated, read.warnings))
            }
        }
    }

    /// What the server around the functions sets on a new object.
    fn given(&self, object: &mut Value, real: &Answer, step: &Step) {
        let created = real.code < 300;
        if !object["metadata"].is_object() {
            return;
        }
        let metadata = &mut object["metadata"];
        for name in ["uid", "creationTimestamp"] {
            let default = if name == "uid" { json!("uid") } else { json!("2030-01-01T00:00:00Z") };
            metadata[name] = if created { real.body["metadata"][name].clone() } else { default };
        }
        let prefix = metadata["generateName"].as_str().unwrap_or_default();
        if metadata["name"].as_str().unwrap_or_default().is_empty() && !prefix.is_empty() {
            let name = real.body["metadata"]["name"].as_str().or(real.body["details"]["name"].as_str()).unwrap();
            metadata["name"] = json!(name);
        }
        if step.resource().namespaced {
            metadata["namespace"] = json!(self.namespace);
        }
    }
}

/// Gives out what the real server gave out.
struct Given<'a> {
    spec: &'a Value,
    port: usize,
}

impl Allocate for Given<'_> {
    fn address(&mut self, wanted: Option<&str>) -> Result<String, String> {
        Ok(wanted.or(self.spec["clusterIP"].as_str()).unwrap_or("10.0.0.1").to_owned())
    }

    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        self.port += 1;
        Ok(wanted.or(self.spec["ports"][self.port - 1]["nodePort"].as_i64()).unwrap_or(30_000))
    }
}

fn definition(step: &Step) -> Definition {
    let kind = step.resource();
    let name = facts().type_name(&kind.group, &kind.version, &kind.kind).expect("a stored kind has a type");
    Definition {
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
        namespaced: kind.namespaced,
        schema: Type::Named(name.to_owned()),
        custom: None,
    }
}
