//! `belay set env WORKLOAD NAME=VALUE NAME- …`

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::containers::{matching, patch_of};
use super::env_args::Args;
use super::env_list;
use super::env_variables::{EnvSource, Variables};
use super::{Change, change, in_pods, of, open};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::worktree::edit_op::Op;
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (words, mut variables) = args.read()?;
    if args.list {
        return env_list::run(globals, &args, &words).await;
    }
    if let Some(from) = &args.from {
        add_all_of(globals, &args, from, &mut variables).await?;
    }
    if variables.set.is_empty() && variables.remove.is_empty() {
        bail!("no variable: say NAME=VALUE, NAME- to remove one, or --list");
    }
    change(globals, &args.place, &words, &variables).await
}

/// Returns one variable for each key of a ConfigMap or Secret: of the manifest here, or else of the object in the
/// cluster.
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
