//! `belay set env --list`: the variables of containers, as kubectl lists them. A value from a Secret is never shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::containers::matching;
use super::env_args::Args;
use super::{TEMPLATED, open, pick_templated as pick, rendered};
use crate::cli::Globals;
use crate::cli::args::target::{For, On, find, named};
use crate::cli::exit::Exit;
use crate::cli::output::{Format, progress, say, say_data, say_value};
use crate::cluster::Cluster;
use belay_core::manifest::ObjectKey;

pub(super) async fn run(globals: &Globals, args: &Args, words: &[String]) -> anyhow::Result<Exit> {
    let place = &args.place;
    let mut objects: Vec<(ObjectKey, Value)> = Vec::new();
    let mut exit = Exit::Done;
    if place.live {
        let cluster = globals.cluster("").await?;
        let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
        let on = On {
            workloads: words.to_vec(),
            selector: place.selector().map(str::to_owned),
            yes: true,
            dry_run: true,
            output: place.output,
        };
        let only = For { kinds: TEMPLATED, otherwise: "has no pods", verb: "List" };
        let (found, failures) = find(&cluster, &namespace, &on, only).await?;
        for failure in failures {
            progress(format!("error: {failure:#}"));
            exit = Exit::Error;
        }
        objects.extend(found.into_iter().map(|target| (target.key, target.live)));
    } else {
        let worktree = open(globals, place)?;
        let rendered = rendered(globals, place)?;
        let picked = pick(globals, place, words).in_worktree(&worktree, &rendered)?;
        objects.extend(picked.into_iter().map(|(_, manifest)| (manifest.key.clone(), manifest.value())));
    }
    let known = if args.resolve { configuration(globals, args, &objects).await? } else { BTreeMap::new() };
    let mut all = Vec::new();
    for (object, value) in &objects {
        for container in matching(object, value, &args.containers)? {
            let variables = container.value["env"].as_array().map(Vec::as_slice).unwrap_or_default();
            match place.output {
                Format::Table | Format::Wide => {
                    say(format!("# {} {}, container {}", object.kind, object.name, container.name));
                    variables.iter().for_each(|variable| say_data(&line(variable, object, &known)));
                }
                Format::Name => {
                    variables.iter().for_each(|variable| say_data(variable["name"].as_str().unwrap_or_default()))
                }
                Format::Json | Format::Yaml => {
                    all.push(json!({"object": named(object), "container": container.name, "env": variables}));
                }
            }
        }
    }
    if matches!(place.output, Format::Json | Format::Yaml) {
        say_value(&json!({ "containers": all }), place.output)?;
    }
    Ok(exit)
}

/// Namespace and name of a ConfigMap.
type NamedItems = (Option<String>, String);

fn line(variable: &Value, object: &ObjectKey, known: &BTreeMap<NamedItems, Value>) -> String {
    let name = variable["name"].as_str().unwrap_or_default();
    let from = &variable["valueFrom"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(reference) = from.get("configMapKeyRef") {
        let (map, key) = (text(&reference["name"]), text(&reference["key"]));
        let value = known.get(&(object.namespace.clone(), map.clone())).and_then(|data| data[key.as_str()].as_str());
        return match value {
            Some(value) => format!("{name}={value}"),
            None => format!("# {name} from configmap {map}, key {key}"),
        };
    }
    if let Some(reference) = from.get("secretKeyRef") {
        return format!("# {name} from secret {}, key {}", text(&reference["name"]), text(&reference["key"]));
    }
    if let Some(reference) = from.get("fieldRef") {
        return format!("# {name} from field path {}", text(&reference["fieldPath"]));
    }
    if let Some(reference) = from.get("resourceFieldRef") {
        return format!("# {name} from resource field {}", text(&reference["resource"]));
    }
    format!("{name}={}", variable["value"].as_str().unwrap_or_default())
}

/// Returns the ConfigMaps that variables name: of the manifests here, and of the cluster with `--live`.
async fn configuration(
    globals: &Globals,
    args: &Args,
    objects: &[(ObjectKey, Value)],
) -> anyhow::Result<BTreeMap<NamedItems, Value>> {
    let mut known = BTreeMap::new();
    if !args.place.live {
        let worktree = open(globals, &args.place)?;
        let maps = worktree.manifests().filter(|(_, manifest)| manifest.key.kind == "ConfigMap");
        known.extend(maps.map(|(_, manifest)| {
            let key = &manifest.key;
            ((key.namespace.clone(), key.name.clone()), manifest.value()["data"].clone())
        }));
        return Ok(known);
    }
    let cluster: Cluster = globals.cluster("").await?;
    let served = cluster.served("v1", "ConfigMap").await?;
    let mut wanted: Vec<ObjectKey> = Vec::new();
    for (object, value) in objects {
        for container in matching(object, value, &args.containers)? {
            for variable in container.value["env"].as_array().into_iter().flatten() {
                if let Some(name) = variable["valueFrom"]["configMapKeyRef"]["name"].as_str() {
                    let kind = "ConfigMap".to_owned();
                    let namespace = object.namespace.clone();
                    wanted.push(ObjectKey { group: String::new(), kind, namespace, name: name.to_owned() });
                }
            }
        }
    }
    wanted.sort();
    wanted.dedup();
    for key in wanted {
        if let Some(live) = cluster.get(&key, &served).await? {
            known.insert((key.namespace, key.name), live["data"].clone());
        }
    }
    Ok(known)
}
