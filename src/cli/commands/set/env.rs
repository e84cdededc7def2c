//! `belay set env WORKLOAD NAME=VALUE NAME- …`

use anyhow::bail;
use serde_json::Value;

use super::containers::{matching, patch_of};
use super::env_args::Args;
use super::env_list;
use super::env_variables::{EnvSource, Variables};
use super::{Change, change, env_keys, in_pods, of};
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
        add_all_of(globals, &args, (from, &words), &mut variables).await?;
    }
    if variables.set.is_empty() && variables.remove.is_empty() {
        bail!("no variable: say NAME=VALUE, NAME- to remove one, or --list");
    }
    change(globals, &args.place, &words, &variables).await
}

/// Adds one variable for each key of a ConfigMap or Secret.
async fn add_all_of(
    globals: &Globals,
    args: &Args,
    (from, words): (&str, &[String]),
    variables: &mut Variables,
) -> anyhow::Result<()> {
    let (kind, name) = from.split_once('/').unwrap_or((from, ""));
    let (kind, field) = match kind.to_ascii_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => ("ConfigMap", "configMapKeyRef"),
        "secret" | "secrets" => ("Secret", "secretKeyRef"),
        _ => bail!("{from:?} is not configmap/NAME or secret/NAME"),
    };
    if name.is_empty() {
        bail!("{from:?} is not configmap/NAME or secret/NAME");
    }
    for key in env_keys::wanted(globals, args, words, (kind, name)).await? {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("{}{}", args.prefix, key.chars().map(plain).collect::<String>());
        variables.set(&variable, EnvSource::Reference { field, name: name.to_owned(), key })?;
    }
    Ok(())
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
