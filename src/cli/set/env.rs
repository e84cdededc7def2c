//! `belay set env WORKLOAD NAME=VALUE NAME- …`

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::containers::{Container, matching, patch_of};
use super::env_args::{Args, named};
use super::{Change, change, env_list, in_pods, of, open};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::pick::{Op, key};
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::{New, Step};

/// Where a variable's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvSource {
    /// It is written out.
    Text(String),
    /// `configMapKeyRef` or `secretKeyRef`: of that object, that key.
    Reference { field: &'static str, name: String, key: String },
}

/// What is to become of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variables {
    pub set: BTreeMap<String, EnvSource>,
    /// The names in the order in which they were said.
    pub order: Vec<String>,
    pub remove: Vec<String>,
    pub overwrite: bool,
    /// Of which containers.
    pub containers: String,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (words, mut variables) = args.read()?;
    if args.list {
        return env_list::run(globals, &args, &words).await;
    }
    if let Some(from) = &args.from {
        add_all_of(globals, &args, from, &mut variables).await?;
    }
    if variables.set.is_empty() && variables.remove.is_empty() {
        bail!("which variable? say NAME=VALUE, NAME- to remove one, or --list");
    }
    change(globals, &args.place, &words, &variables).await
}

/// One variable for each key of a ConfigMap or Secret: of the manifest here, or else of the object in the cluster.
async fn add_all_of(globals: &Globals, args: &Args, from: &str, variables: &mut Variables) -> anyhow::Result<()> {
    let (kind, name) = from.split_once('/').unwrap_or((from, ""));
    let (kind, field) = match kind.to_ascii_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => ("ConfigMap", "configMapKeyRef"),
        "secret" | "secrets" => ("Secret", "secretKeyRef"),
        _ => bail!("{from:?} is not configmap/NAME or secret/NAME"),
    };
    if name.is_empty() {
        bail!("{from:?} is not configmap/NAME or secret/NAME");
    }
    let mut keys = keys_of(globals, args, kind, name).await?;
    if !args.keys.is_empty() {
        if let Some(odd) = args.keys.iter().find(|wanted| !keys.contains(wanted)) {
            bail!("{kind} {name} has no key {odd:?}; it has {}", keys.join(", "));
        }
        keys.retain(|key| args.keys.contains(key));
    }
    for key in keys {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("{}{}", args.prefix, key.chars().map(plain).collect::<String>());
        variables.set(&variable, EnvSource::Reference { field, name: name.to_owned(), key })?;
    }
    Ok(())
}

async fn keys_of(globals: &Globals, args: &Args, kind: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let keys = |object: &Value| {
        let all = ["data", "stringData", "binaryData"].into_iter();
        let mut keys: Vec<String> =
            all.flat_map(|field| object[field].as_object().into_iter().flatten()).map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    };
    if !args.place.live && args.place.filename.is_none() {
        let worktree = open(globals, &args.place)?;
        let here = globals.namespace.as_deref();
        let found = worktree.manifests().find(|(_, manifest)| {
            let object = &manifest.key;
            object.kind == kind
                && object.group.is_empty()
                && object.name == name
                && here.is_none_or(|here| object.namespace.as_deref() == Some(here))
        });
        if let Some((_, manifest)) = found {
            return Ok(keys(&manifest.value()));
        }
    }
    let nowhere = || format!("no manifest of {kind} {name} is here, and the cluster can't be asked");
    let cluster = globals.cluster("").await.with_context(nowhere)?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let object =
        ObjectKey { group: String::new(), kind: kind.to_owned(), namespace: Some(namespace), name: name.to_owned() };
    let served = cluster.served("v1", kind).await?;
    match cluster.get(&object, &served).await? {
        Some(live) => Ok(keys(&live)),
        None => bail!("{} {name:?} not found", served.resource),
    }
}

impl Variables {
    /// Sets one.
    pub(super) fn set(&mut self, name: &str, source: EnvSource) -> anyhow::Result<()> {
        named(name)?;
        if self.set.insert(name.to_owned(), source).is_none() {
            self.order.push(name.to_owned());
        }
        Ok(())
    }

    fn in_order(&self) -> impl Iterator<Item = (&String, &EnvSource)> {
        self.order.iter().filter_map(|name| self.set.get_key_value(name))
    }

    fn of_container(&self, container: &Container<'_>, ops: &mut Vec<Op>) -> anyhow::Result<()> {
        let env = container.value["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let list = [container.path.clone(), vec![key("env")]].concat();
        let index = |name: &str| env.iter().rposition(|there| there["name"] == name);
        let mut new = Vec::new();
        for (name, source) in self.in_order() {
            match index(name) {
                Some(at) => {
                    let path = [list.clone(), vec![Step::Item(at)]].concat();
                    self.change(&env[at], path, name, source, ops)?;
                }
                None => new.push(source.item(name)),
            }
        }
        if container.value.get("env").is_none() {
            if !new.is_empty() {
                ops.push(Op::AddEntry(container.path.clone(), "env".to_owned(), New::List(new)));
            }
        } else {
            ops.extend(new.into_iter().map(|item| Op::AddItem(list.clone(), item)));
        }
        let mut gone: Vec<usize> =
            (0..env.len()).filter(|at| self.remove.iter().any(|name| env[*at]["name"] == name.as_str())).collect();
        gone.sort_unstable();
        ops.extend(gone.into_iter().rev().map(|at| Op::RemoveItem(list.clone(), at)));
        Ok(())
    }

    /// A variable that is there already.
    fn change(
        &self,
        before: &Value,
        path: Vec<Step>,
        name: &str,
        source: &EnvSource,
        ops: &mut Vec<Op>,
    ) -> anyhow::Result<()> {
        self.may_overwrite(name)?;
        if source.is(before) {
            return Ok(());
        }
        match source {
            EnvSource::Text(text) => {
                let new = New::Text(text.clone());
                match before.get("value") {
                    Some(_) => ops.push(Op::Set([path.clone(), vec![key("value")]].concat(), new)),
                    None => ops.push(Op::AddEntry(path.clone(), "value".to_owned(), new)),
                }
                if before.get("valueFrom").is_some() {
                    ops.push(Op::RemoveEntry(path, "valueFrom".to_owned()));
                }
            }
            EnvSource::Reference { .. } => {
                for field in ["valueFrom", "value"] {
                    if before.get(field).is_some() {
                        ops.push(Op::RemoveEntry(path.clone(), field.to_owned()));
                    }
                }
                ops.push(Op::AddEntry(path, "valueFrom".to_owned(), source.value_from()));
            }
        }
        Ok(())
    }

    /// What changes of a container; `None` where nothing does.
    fn patch_of_one(&self, container: &Container<'_>) -> anyhow::Result<Option<Map<String, Value>>> {
        let env = container.value["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let there = |name: &String| env.iter().rev().find(|there| there["name"] == name.as_str());
        let mut changes = Vec::new();
        for (name, source) in self.in_order() {
            match there(name) {
                Some(before) => {
                    self.may_overwrite(name)?;
                    if !source.is(before) {
                        changes.push(source.patch(name));
                    }
                }
                // There is nothing to be replaced, and not every API server takes that for a new one.
                None => changes.push(source.item(name).to_value()),
            }
        }
        let gone = self.remove.iter().filter(|name| there(name).is_some());
        changes.extend(gone.map(|name| json!({"name": name, "$patch": "delete"})));
        if changes.is_empty() {
            return Ok(None);
        }
        let stay = env
            .iter()
            .filter_map(|there| there["name"].as_str())
            .filter(|name| !self.remove.iter().any(|gone| gone == name));
        let new = self.order.iter().filter(|name| there(name).is_none()).map(String::as_str);
        let order: Vec<Value> = stay.chain(new).map(|name| json!({ "name": name })).collect();
        Ok(Some(Map::from_iter([
            ("env".to_owned(), Value::from(changes)),
            ("$setElementOrder/env".to_owned(), Value::from(order)),
        ])))
    }

    fn may_overwrite(&self, name: &str) -> anyhow::Result<()> {
        if self.overwrite { Ok(()) } else { bail!("'{name}' already has a value, and --overwrite is false") }
    }
}

impl EnvSource {
    fn value_from(&self) -> New {
        match self {
            EnvSource::Text(text) => New::Text(text.clone()),
            EnvSource::Reference { field, name, key } => {
                let entries =
                    vec![("name".to_owned(), New::Text(name.clone())), ("key".to_owned(), New::Text(key.clone()))];
                New::Mapping(vec![((*field).to_owned(), New::Mapping(entries))])
            }
        }
    }

    fn item(&self, name: &str) -> New {
        let field = if matches!(self, EnvSource::Text(_)) { "value" } else { "valueFrom" };
        New::Mapping(vec![("name".to_owned(), New::Text(name.to_owned())), (field.to_owned(), self.value_from())])
    }

    fn is(&self, variable: &Value) -> bool {
        match self {
            EnvSource::Text(text) => variable["value"] == text.as_str() && variable.get("valueFrom").is_none(),
            EnvSource::Reference { .. } => {
                variable["valueFrom"] == self.value_from().to_value() && variable.get("value").is_none()
            }
        }
    }

    /// In place of what is there.
    fn patch(&self, name: &str) -> Value {
        match self {
            EnvSource::Text(text) => json!({"name": name, "value": text, "valueFrom": null}),
            // Whatever else it was.
            EnvSource::Reference { .. } => {
                let mut from = self.value_from().to_value();
                from["$patch"] = json!("replace");
                json!({"name": name, "value": null, "valueFrom": from})
            }
        }
    }
}

impl Change for Variables {
    fn ops(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        let mut ops = Vec::new();
        for container in matching(object, value, &self.containers)? {
            self.of_container(&container, &mut ops)?;
        }
        Ok(ops)
    }

    fn patch(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Option<(Part, Patch)>> {
        let mut all = Vec::new();
        for container in matching(object, value, &self.containers)? {
            if let Some(change) = self.patch_of_one(&container)? {
                all.push((container, change));
            }
        }
        let changes = all.iter().map(|(container, change)| (container, change.clone())).collect();
        let spec = patch_of(object, value, changes);
        Ok(in_pods(object, spec))
    }

    fn done(&self) -> &'static str {
        "env updated"
    }

    fn subject(&self, objects: &[ObjectKey]) -> String {
        let of = of(objects);
        let list = |names: Vec<&str>| names.join(", ");
        let set: Vec<&str> = self.order.iter().map(String::as_str).collect();
        let remove: Vec<&str> = self.remove.iter().map(String::as_str).collect();
        match (set.is_empty(), remove.is_empty()) {
            (false, true) => format!("Set {} of {of}", list(set)),
            (true, _) => format!("Remove {} of {of}", list(remove)),
            (false, false) => format!("Set {}, remove {} of {of}", list(set), list(remove)),
        }
    }
}
