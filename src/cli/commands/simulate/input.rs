//! The input of a simulation: from files, or from live objects.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::Args;
use crate::cli::Globals;
use crate::cli::args::workload::Named;
use crate::cli::session::configured::Reading;
use crate::cli::worktree::folder;
use crate::cluster::ServerRefusal;
use belay_core::manifest::{Complaint, Manifest, ObjectKey, Scopes, read_file};

/// Standard input is read so far.
const LONGEST_INPUT: u64 = 16 << 20;

/// The input, or the complaints about it.
pub(super) enum Input {
    ObservedWorkload(Box<SimulationInput>),
    Complaints(Vec<Complaint>),
}

/// A workload before and after, and the other objects of its files.
pub(super) struct SimulationInput {
    pub key: ObjectKey,
    pub before: PresentVersion,
    pub after: Value,
    /// The later manifest, if there is one.
    pub manifest: Option<Manifest>,
    /// The other objects of the files.
    pub others: Vec<(ObjectKey, Value)>,
}

/// The version before the change.
pub(super) enum PresentVersion {
    /// Nothing.
    Nothing,
    /// The same workload, in its version before the one that is rolled out.
    Same,
    /// Another manifest, or the live object.
    Other(Value),
}

/// Reads the objects that the command line names.
pub(super) async fn read(globals: &Globals, args: &Args) -> anyhow::Result<Input> {
    let file = args.from == "-" || Path::new(&args.from).exists();
    let live = args.from.parse::<Named>().ok().filter(|named| named.kind.is_some() && !file);
    if let Some(named) = live {
        if args.first || args.to.is_some() {
            bail!("a live workload is simulated from what it is; say a file with --first or a second file");
        }
        return Ok(Input::ObservedWorkload(Box::new(read_live(globals, &named).await?)));
    }
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let reading = args.source.reading()?;
    let (first, mut complaints) = manifests(&args.from, &reading, namespace)?;
    let (second, more) = match &args.to {
        Some(path) => manifests(path, &reading, namespace).map(|(second, more)| (Some(second), more))?,
        None => (None, Vec::new()),
    };
    complaints.extend(more);
    if !complaints.is_empty() {
        return Ok(Input::Complaints(complaints));
    }
    let scene = match second {
        None => {
            let chosen = choose(&first, args.workload.as_ref(), &args.from)?;
            let before =
                if args.first || chosen.key.kind == "Job" { PresentVersion::Nothing } else { PresentVersion::Same };
            scene(chosen, before, &first)
        }
        Some(second) => {
            let chosen = choose(&second, args.workload.as_ref(), args.to.as_deref().unwrap_or_default())?;
            let before = first.iter().find(|manifest| manifest.key == chosen.key);
            let before = before.with_context(|| format!("{} has no {}", args.from, chosen.key))?;
            scene(chosen, PresentVersion::Other(before.value()), &second)
        }
    };
    Ok(Input::ObservedWorkload(Box::new(scene)))
}

/// Returns the complaints in a server's refusal of a manifest, field by field.
pub(super) fn complaints(scene: &SimulationInput, refusal: &ServerRefusal) -> Vec<Complaint> {
    let complaint = |field: &str, message: String| {
        let nowhere = || belay_core::manifest::Place { path: scene.key.to_string().into(), line: 1, column: 1 };
        let place = scene.manifest.as_ref().map(|manifest| manifest.place_of(field));
        Complaint {
            place: place.unwrap_or_else(nowhere),
            object: Some(scene.key.clone()),
            message,
            hint: None,
            excerpt: None,
            also: Vec::new(),
        }
    };
    let fields = refusal.causes.iter().filter(|(field, _)| !field.is_empty());
    let found: Vec<Complaint> =
        fields.map(|(field, message)| complaint(field, format!("{field}: {message}"))).collect();
    if found.is_empty() { vec![complaint("", refusal.message.clone())] } else { found }
}

fn scene(chosen: &Manifest, before: PresentVersion, all: &[Manifest]) -> SimulationInput {
    // Other pods would only be in the way.
    let has_pods = |key: &ObjectKey| is_workload(key) || matches!(key.kind.as_str(), "Pod" | "CronJob");
    let others = all.iter().filter(|manifest| manifest.key != chosen.key && !has_pods(&manifest.key));
    SimulationInput {
        key: chosen.key.clone(),
        before,
        after: chosen.value(),
        manifest: Some(chosen.clone()),
        others: others.map(|manifest| (manifest.key.clone(), manifest.value())).collect(),
    }
}

/// Returns the manifests of a file, a folder, or standard input.
fn manifests(path: &str, reading: &Reading, namespace: &str) -> anyhow::Result<(Vec<Manifest>, Vec<Complaint>)> {
    let scopes = Scopes::new(namespace);
    if Path::new(path).is_dir() {
        let folder = folder::read(Some(Path::new(path)), reading, scopes)?;
        return Ok((folder.files.into_iter().flat_map(|file| file.manifests).collect(), folder.complaints));
    }
    let bytes = if path == "-" {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        std::io::stdin().take(LONGEST_INPUT).read_to_end(&mut bytes).context("failed to read standard input")?;
        without_live_fields(bytes)
    } else {
        std::fs::read(path).with_context(|| format!("failed to read {path}; a live workload is named KIND/NAME"))?
    };
    let file = read_file(path, &bytes, &scopes);
    Ok((file.manifests, file.complaints))
}

/// Turns the output of `kubectl get -o yaml` (or json) into manifests: without the fields that the cluster writes, and
/// without those that other objects have made. Text that holds nothing live stays as it is, with its places.
fn without_live_fields(text: Vec<u8>) -> Vec<u8> {
    let documents: Result<Vec<Value>, _> =
        serde_yaml::Deserializer::from_slice(&text).map(<Value as serde::Deserialize>::deserialize).collect();
    let Ok(documents) = documents else { return text };
    let objects = documents.into_iter().flat_map(|document| match document {
        Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
            list.remove("items").and_then(|items| items.as_array().cloned()).unwrap_or_default()
        }
        other => vec![other],
    });
    let objects: Vec<Value> = objects.collect();
    if !objects.iter().any(|object| object["metadata"]["uid"].is_string()) {
        return text;
    }
    let own =
        objects.into_iter().filter(|object| object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
    let written = own.map(|object| {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        without_the_servers(object, &version, &kind).to_string()
    });
    written.collect::<Vec<_>>().join("\n---\n").into_bytes()
}

/// Kinds whose pods can be simulated.
fn is_workload(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("", "ReplicationController")
            | ("batch", "Job")
    )
}

fn choose<'m>(manifests: &'m [Manifest], wanted: Option<&Named>, path: &str) -> anyhow::Result<&'m Manifest> {
    let workloads: Vec<&Manifest> = manifests.iter().filter(|manifest| is_workload(&manifest.key)).collect();
    let fits = |manifest: &&Manifest| wanted.is_none_or(|wanted| wanted.means(&manifest.key, None));
    let fitting: Vec<&Manifest> = workloads.iter().copied().filter(fits).collect();
    let names = |found: &[&Manifest]| found.iter().map(|one| one.key.to_string()).collect::<Vec<_>>().join(", ");
    match fitting.as_slice() {
        [one] => Ok(one),
        [] if workloads.is_empty() => bail!("{path} has no workload: no Deployment, StatefulSet, DaemonSet …"),
        [] => bail!("{path} has no such workload; it has {}", names(&workloads)),
        several => bail!("{path} has several workloads: {}; say --workload KIND/NAME", names(several)),
    }
}

async fn read_live(globals: &Globals, named: &Named) -> anyhow::Result<SimulationInput> {
    let cluster = globals.cluster("").await?;
    let (group, kind) = named.kind.clone().unwrap_or_default();
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let key = ObjectKey { group, kind, namespace: Some(namespace), name: named.name.clone() };
    if !is_workload(&key) || key.kind == "Job" {
        bail!("{key} has no rollout that could be simulated: it is no Deployment, StatefulSet, DaemonSet …");
    }
    let version = if key.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", key.group) };
    let served = cluster.served(&version, &key.kind).await?;
    let live = cluster.get(&key, &served).await?.with_context(|| format!("there is no {key}"))?;
    let before = without_the_servers(live, &version, &key.kind);
    Ok(SimulationInput {
        key,
        after: before.clone(),
        before: PresentVersion::Other(before),
        manifest: None,
        others: Vec::new(),
    })
}

/// Returns a live object as a manifest would have it.
fn without_the_servers(mut live: Value, version: &str, kind: &str) -> Value {
    if let Some(object) = live.as_object_mut() {
        object.remove("status");
        object.insert("apiVersion".to_owned(), version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    if let Some(metadata) = live["metadata"].as_object_mut() {
        metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
    }
    if let Some(annotations) = live.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| {
            name != belay_core::rollout::marks::REVISION && name != "kubectl.kubernetes.io/last-applied-configuration"
        });
    }
    live
}

#[cfg(test)]
mod tests {
    use super::{Scopes, read_file, without_live_fields};

    const LIVE: &str = "\
apiVersion: v1
kind: List
metadata: {resourceVersion: \"\"}
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web
    namespace: shop
    uid: 38bcd328-92ba-4a93-b087-1d56067cdded
    resourceVersion: \"481\"
    generation: 3
    creationTimestamp: \"2026-01-01T00:00:00Z\"
    annotations: {deployment.kubernetes.io/revision: \"2\", a: b}
  spec:
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: \"web:1\"}]}
  status: {replicas: 1}
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata:
    name: web-5d4
    uid: 48bcd328-92ba-4a93-b087-1d56067cdded
    ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: 38bcd328-92ba-4a93-b087-1d56067cdded}]
";

    #[test]
    fn what_kubectl_prints_is_a_manifest() {
        let text = without_live_fields(LIVE.as_bytes().to_vec());
        let file = read_file("-", &text, &Scopes::new("default"));
        assert!(file.complaints.is_empty(), "{:?}", file.complaints);
        let names: Vec<String> = file.manifests.iter().map(|manifest| manifest.key.to_string()).collect();
        assert_eq!(names, ["Deployment shop/web"]);
        assert!(!String::from_utf8(text).unwrap().contains("revision"));
        let written = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# a comment\n".to_vec();
        assert_eq!(without_live_fields(written.clone()), written, "what somebody wrote stays as it is");
    }
}
