//! Builds the next controller.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::super::marks;
use super::names::Controller;
use super::{Ask, ByHand, DESIRED, Live, NEXT, ORIGINAL, RENAMED_FROM, Refused, SOURCE_ID, To};
use crate::manifest::hex;

/// The annotations that are about a rolling update, or about the time before it. None is handed on.
const NOT_HANDED_ON: [&str; 10] = [
    DESIRED,
    SOURCE_ID,
    ORIGINAL,
    NEXT,
    RENAMED_FROM,
    marks::CHANGE_CAUSE,
    marks::COMMIT,
    marks::HOLD,
    marks::ROLLED,
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Returns 32 hexadecimal digits for an object. Its resourceVersion counts, so that the same update later gets others.
pub(super) fn digits(object: &Value) -> String {
    hex(&Sha256::digest(object.to_string())[..16])
}

/// Returns the controller that is to be made: at size 0, with the size that it is to have written on it.
pub(super) fn next(ask: &Ask, old: Controller<'_>, name: Option<String>) -> Result<Value, Refused> {
    let (mut body, written_size) = match &ask.to {
        To::Image(image) => (with_image(ask, old, image, name)?, None),
        To::Template(manifest) => (with_template(ask, old, manifest, name), manifest["spec"]["replicas"].as_i64()),
        To::Manifest(manifest) => (manifest.as_ref().clone(), manifest["spec"]["replicas"].as_i64()),
        To::Back => return Err(Refused::NothingUnderWay { old: ask.old.clone() }),
        To::Existing => return Err(Refused::NoNext { name: name.unwrap_or_default() }),
    };
    let name = Controller(&body).name().to_owned();
    let desired = written_size.or_else(|| original_size(old).ok().flatten()).unwrap_or_else(|| old.size());
    if desired < 0 {
        return Err(Refused::NoPods { name, actual: desired });
    }
    if let Some(object) = body.as_object_mut() {
        object.remove("status");
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "ReplicationController".into());
    }
    body["metadata"]["namespace"] = old.0["metadata"]["namespace"].clone();
    body["spec"]["replicas"] = json!(0);
    let source = marks::label(old.0, marks::SOURCE).map(str::to_owned);
    let by_hand =
        ask.by.clone().map(|hand| ByHand { source, from: Some(old.name().to_owned()), ..hand }.to_annotation());
    // A held template stays held while a person rolls the controller to another one; an undo brings its own hold.
    let stays_held = ask.by.as_ref().is_some_and(|hand| !hand.hold_follows);
    let hold = old.annotation(marks::HOLD).filter(|_| stays_held).map(str::to_owned);
    let annotations = [
        (DESIRED, Some(desired.to_string())),
        (SOURCE_ID, Some(source_id(old))),
        (marks::CHANGE_CAUSE, ask.marks.change_cause.clone()),
        (marks::COMMIT, ask.marks.commit.clone()),
        (marks::ROLLED, by_hand),
        (marks::HOLD, hold),
    ];
    annotate(&mut body, annotations);
    Ok(body)
}

/// Returns `<name>:<uid>`
pub(super) fn source_id(of: Controller<'_>) -> String {
    format!("{}:{}", of.name(), of.uid())
}

/// Returns the name that a new controller would get, and the digits that tell its pods.
pub(super) fn synthesised_name(ask: &Ask, live: &Live) -> Result<String, Refused> {
    let old = live.controller(&ask.old).ok_or_else(|| Refused::NotFound { name: ask.old.clone() })?;
    Ok(next(ask, old, None)?["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// Returns a size that is written on a controller.
pub(super) fn written_size(of: Controller<'_>, annotation: &'static str) -> Result<Option<i64>, Refused> {
    let Some(text) = of.annotation(annotation) else { return Ok(None) };
    let size = text.parse().map_err(|_| Refused::NotANumber {
        name: of.name().to_owned(),
        annotation,
        found: text.to_owned(),
    })?;
    Ok(Some(size))
}

/// Returns the size that a controller had before the update.
pub(super) fn original_size(of: Controller<'_>) -> Result<Option<i64>, Refused> {
    written_size(of, ORIGINAL)
}

/// Returns the parts of a controller that its successor takes over: no status, and nothing about one rolling update.
pub(super) fn kept(of: Controller<'_>) -> Value {
    let mut metadata = json!({});
    for field in ["namespace", "labels", "annotations"] {
        if let Some(value) = of.0["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    if let Some(labels) = metadata["labels"].as_object_mut() {
        // A source knows its objects by this label; it would take the new controller for one that nobody wrote down.
        labels.remove(marks::SOURCE);
    }
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.retain(|name, _| !NOT_HANDED_ON.contains(&name.as_str()));
    }
    json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata, "spec": of.0["spec"]})
}

pub(super) fn annotate<const N: usize>(object: &mut Value, annotations: [(&str, Option<String>); N]) {
    let entries = &mut object["metadata"]["annotations"];
    if !entries.is_object() {
        *entries = Map::new().into();
    }
    for (name, text) in annotations {
        if let Some(text) = text {
            entries[name] = text.into();
        }
    }
}

fn with_image(ask: &Ask, old: Controller<'_>, image: &str, name: Option<String>) -> Result<Value, Refused> {
    let mut changed = old.0.clone();
    let container = container_of(&mut changed, ask, old.name())?;
    if container["image"] == image && ask.pull_policy.is_none() {
        return Err(Refused::SameImage);
    }
    container["image"] = image.into();
    if let Some(policy) = &ask.pull_policy {
        container["imagePullPolicy"] = policy.clone().into();
    }
    let digits = digits(&changed);
    let mut body = kept(Controller(&changed));
    body["metadata"]["name"] = name.unwrap_or_else(|| format!("{}-{digits}", old.name())).into();
    let mut selector: Map<String, Value> =
        old.selector().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    selector.insert(ask.label_key.clone(), digits.clone().into());
    body["spec"]["selector"] = selector.into();
    body["spec"]["template"]["metadata"]["labels"][&ask.label_key] = digits.into();
    Ok(body)
}

/// Returns the old controller as a manifest of its name wants it, with a name and a label of its own.
fn with_template(ask: &Ask, old: Controller<'_>, manifest: &Value, name: Option<String>) -> Value {
    let mut changed = old.0.clone();
    changed["spec"]["template"] = manifest["spec"]["template"].clone();
    let digits = digits(&changed);
    let mut body = kept(old);
    if let Some(annotations) = body["metadata"]["annotations"].as_object_mut() {
        // Annotations for belay belong into the manifest.
        annotations.retain(|name, _| !name.starts_with(marks::PREFIX));
    }
    for field in ["labels", "annotations"] {
        for (key, value) in manifest["metadata"][field].as_object().into_iter().flatten() {
            body["metadata"][field][key] = value.clone();
        }
    }
    body["metadata"]["name"] = name.unwrap_or_else(|| format!("{}-{digits}", old.name())).into();
    body["spec"] = manifest["spec"].clone();
    let mut selector = json!(Controller(manifest).selector());
    selector[&ask.label_key] = digits.clone().into();
    body["spec"]["selector"] = selector;
    body["spec"]["template"]["metadata"]["labels"][&ask.label_key] = digits.into();
    body
}

fn container_of<'v>(controller: &'v mut Value, ask: &Ask, name: &str) -> Result<&'v mut Value, Refused> {
    let names: Vec<String> = controller["spec"]["template"]["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let at = match &ask.container {
        Some(wanted) => names.iter().position(|one| one == wanted).ok_or_else(|| Refused::NoContainer {
            name: wanted.clone(),
            controller: name.to_owned(),
            names: names.clone(),
        })?,
        None if names.len() > 1 => return Err(Refused::WhichContainer { names }),
        None => 0,
    };
    let nothing = || Refused::NoContainer { name: String::new(), controller: name.to_owned(), names: Vec::new() };
    controller.pointer_mut(&format!("/spec/template/spec/containers/{at}")).ok_or_else(nothing)
}
