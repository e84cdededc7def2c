//! `belay set env --from KIND/NAME`: the keys of a ConfigMap or Secret. They are read from its manifest, in the namespace of
//! the workload's manifest, and with `--live` from the cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde_json::Value;

use super::env_args::Args;
use super::{open, pick_templated, rendered};
use crate::cli::Globals;
use belay_core::manifest::ObjectKey;

/// Returns the keys that variables are made for: all, or those of `--keys`.
pub(super) async fn wanted(
    globals: &Globals,
    args: &Args,
    words: &[String],
    (kind, name): (&str, &str),
) -> anyhow::Result<Vec<String>> {
    let found = if args.place.live {
        Some(in_cluster(globals, kind, name).await?)
    } else if args.place.filename.is_none() {
        in_manifests(globals, args, words, (kind, name))?
    } else if args.keys.is_empty() {
        bail!("with -f - no manifest of {kind} {name} is read; say which keys it has: --keys KEY,KEY");
    } else {
        None
    };
    let Some(mut keys) = found else { return Ok(args.keys.clone()) };
    if !args.keys.is_empty() {
        if let Some(odd) = args.keys.iter().find(|wanted| !keys.contains(wanted)) {
            bail!("{kind} {name} has no key {odd:?}; it has {}", keys.join(", "));
        }
        keys.retain(|key| args.keys.contains(key));
    }
    Ok(keys)
}

/// Returns the keys in the manifests of the namespaces that the workloads are in. `None` if there is no manifest, and
/// `--keys` names the keys.
fn in_manifests(
    globals: &Globals,
    args: &Args,
    words: &[String],
    (kind, name): (&str, &str),
) -> anyhow::Result<Option<Vec<String>>> {
    let worktree = open(globals, &args.place)?;
    let rendered = rendered(globals, &args.place)?;
    let workloads = pick_templated(globals, &args.place, words).in_worktree(&worktree, &rendered)?;
    let namespaces: BTreeSet<Option<String>> =
        workloads.into_iter().map(|(_, manifest)| manifest.key.namespace.clone()).collect();
    let mut by_keys: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for namespace in namespaces {
        let key = ObjectKey { group: String::new(), kind: kind.to_owned(), namespace, name: name.to_owned() };
        let mut manifests = worktree.manifests().chain(rendered.manifests()).map(|(_, manifest)| manifest);
        let Some(manifest) = manifests.find(|manifest| manifest.key == key) else {
            if !args.keys.is_empty() {
                return Ok(None);
            }
            let folder = args.place.to.dir.display();
            bail!("there is no manifest of {key} in {folder}; say which keys it has: --keys KEY,KEY");
        };
        by_keys.entry(keys_of(&manifest.value())).or_insert_with(|| key.to_string());
    }
    if by_keys.len() > 1 {
        let objects: Vec<String> = by_keys.into_values().collect();
        bail!("{} have different keys; name one namespace: -n NAMESPACE", objects.join(" and "));
    }
    Ok(by_keys.into_keys().next())
}

async fn in_cluster(globals: &Globals, kind: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let object =
        ObjectKey { group: String::new(), kind: kind.to_owned(), namespace: Some(namespace), name: name.to_owned() };
    let served = cluster.served("v1", kind).await?;
    match cluster.get(&object, &served).await? {
        Some(live) => Ok(keys_of(&live)),
        None => bail!("{} {name:?} not found", served.resource),
    }
}

fn keys_of(object: &Value) -> Vec<String> {
    let fields = ["data", "stringData", "binaryData"].into_iter();
    let maps = fields.flat_map(|field| object[field].as_object().into_iter().flatten());
    let keys: BTreeSet<String> = maps.map(|(key, _)| key.clone()).collect();
    keys.into_iter().collect()
}
