//! Scale: how many there shall be, how many there are, and how to find them.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::kinds::Type;
use crate::minicluster::api::call::Call;
use crate::minicluster::api::negotiate::{Delivery, Negotiated, Shape};
use crate::minicluster::api::object::{self, Definition, PatchKind, Read, Write};
use crate::minicluster::api::options::WriteOptions;
use crate::minicluster::api::read::View;
use crate::minicluster::api::reply::Reply;
use crate::minicluster::api::resource::Resource;
use crate::minicluster::api::route::Target;
use crate::minicluster::api::selector::LabelSelector;
use crate::minicluster::api::write::update::{check_name, check_uid, check_version};
use crate::minicluster::api::write::{Outcome, meaning, settle_namespace, text};
use crate::minicluster::api::{ApiError, ApiServer, Cause};

/// The kind Scale, which is only spoken.
static SCALE: LazyLock<Arc<Resource>> = LazyLock::new(|| {
    let definition = Definition {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        resource: "scales".to_owned(),
        namespaced: true,
        schema: Type::Named("io.k8s.api.autoscaling.v1.Scale".to_owned()),
        custom: None,
    };
    Arc::new(Resource::spoken(definition))
});

impl ApiServer {
    pub(super) fn get_scale(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let how = Negotiated::new(call, Delivery::Whole)?;
        let scale = scale_of(&target.resource, &Self::served(target, &*self.find(target)?));
        self.show(scale, &how)
    }

    pub(super) fn put_scale(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::update(call)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let write = Write { definition: &SCALE.definition, ..meaning(target, &options, self.now()) };
        let Read { object: mut sent, mut warnings } = object::read(&write, &call.body, call.body_format()?)?;
        check_name(target, &sent)?;
        settle_namespace(target, &mut sent)?;
        let (outcome, more) = self.change_object(target, &options, |old| {
            check_uid(target, old, &sent)?;
            check_version(target, old, &sent)?;
            let scaled = scaled(&target.resource, old, &sent)?;
            let done = object::update(&meaning(target, &options, self.now()), old, scaled);
            done.map(|read| noted(target, counted(old, read)))
        })?;
        warnings.extend(more);
        self.scaled(target, &outcome, &how, warnings)
    }

    pub(super) fn patch_scale(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let kind = match call.content_type().as_str() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" => PatchKind::Strategic,
            "application/apply-patch+yaml" => return self.apply_scale(call, target),
            _ => return Err(ApiError::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        };
        let options = WriteOptions::patch(call, false)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let (outcome, warnings) = self.change_object(target, &options, |old| {
            let write = meaning(target, &options, self.now());
            let before = scale_of(&target.resource, old);
            let spoken = Write { definition: &SCALE.definition, ..write.clone() };
            let Read { object: mut sent, .. } = object::patch(&spoken, &before, kind, &call.body)?;
            check_name(target, &sent)?;
            settle_namespace(target, &mut sent)?;
            check_version(target, old, &sent)?;
            let done = object::update(&write, old, scaled(&target.resource, old, &sent)?);
            done.map(|read| noted(target, counted(old, read)))
        })?;
        self.scaled(target, &outcome, &how, warnings)
    }

    /// An apply of a Scale is an apply of the one field behind it.
    fn apply_scale(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::patch(call, true)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let write = meaning(target, &options, self.now());
        let spoken = Write { definition: &SCALE.definition, ..write.clone() };
        let Read { object: sent, mut warnings } = object::read_applied(&spoken, &call.body)?;
        let (outcome, more) = self.change_object(target, &options, |old| {
            let empty = json!({
                "apiVersion": target.resource.api_version(),
                "kind": target.resource.definition.kind,
                "metadata": { "name": target.name, "namespace": target.namespace },
            });
            let applied = scaled(&target.resource, &empty, &sent)?;
            let done = object::apply(&write, old, &applied, options.force);
            done.map(|read| noted(target, counted(old, read))).map_err(|error| spoken_of_scale(target, error))
        })?;
        warnings.extend(more);
        self.scaled(target, &outcome, &how, warnings)
    }

    fn scaled(
        &self,
        target: &Target,
        outcome: &Outcome,
        how: &Negotiated,
        warnings: Vec<String>,
    ) -> Result<Reply, ApiError> {
        let object = match outcome {
            Outcome::Stored(stored) => Self::served(target, stored),
            Outcome::DryRun(object) => object.clone(),
        };
        Ok(self.show(scale_of(&target.resource, &object), how)?.warn(warnings))
    }

    fn show(&self, scale: Value, how: &Negotiated) -> Result<Reply, ApiError> {
        match how.shape {
            Shape::Object => Ok(Reply::value(scale)),
            _ => View::new(&SCALE, how, self.now()).object(scale),
        }
    }
}

/// A new size is a new generation.
fn counted(old: &Value, mut read: Read) -> Read {
    let generation = old["metadata"]["generation"].as_i64();
    let same = read.object["metadata"]["generation"].as_i64() == generation;
    if let Some(generation) = generation.filter(|_| same && read.object["spec"] != old["spec"]) {
        read.object["metadata"]["generation"] = json!(generation + 1);
    }
    read
}

/// Who scales is noted without the moment, before those who have one.
///
/// A scale of none is one that says nothing, so nobody owns that.
fn noted(target: &Target, mut read: Read) -> Read {
    let none = scale_of(&target.resource, &read.object)["spec"].get("replicas").is_none_or(|replicas| replicas == 0);
    if let Some(managers) = read.object["metadata"]["managedFields"].as_array_mut() {
        for manager in managers.iter_mut().filter(|manager| manager["subresource"] == "scale") {
            if let Some(entry) = manager.as_object_mut() {
                entry.remove("time");
            }
        }
        managers.retain(|manager| !(none && manager["subresource"] == "scale" && manager["operation"] == "Update"));
        managers.sort_by_key(|manager| (manager["operation"] != "Apply", manager["time"].is_string()));
    }
    read
}

/// A conflict about a scale names its version, not that of the object behind it.
fn spoken_of_scale(target: &Target, mut error: ApiError) -> ApiError {
    let (own, spoken) = (format!("using {}", target.resource.api_version()), "using autoscaling/v1");
    error.message = error.message.replace(&own, spoken);
    for cause in &mut error.causes {
        cause.message = cause.message.replace(&own, spoken);
    }
    error
}

fn at<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, key| &value[key.as_str()])
}

/// The scale of an object.
fn scale_of(resource: &Resource, object: &Value) -> Value {
    let custom = resource.custom.as_ref().and_then(|facts| facts.scale.as_ref());
    let (wanted, present, selector) = match custom {
        Some(paths) => {
            let selector = paths.selector.as_ref().and_then(|path| at(object, path).as_str()).unwrap_or_default();
            (at(object, &paths.spec), at(object, &paths.status), selector.to_owned())
        }
        None => {
            let selector = &object["spec"]["selector"];
            let selector = if resource.is("", "replicationcontrollers") {
                LabelSelector::from_labels(selector).to_string()
            } else {
                LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
            };
            (&object["spec"]["replicas"], &object["status"]["replicas"], selector)
        }
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let wanted = wanted.as_i64().unwrap_or_default();
    let spec = if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) };
    let mut status = json!({ "replicas": present.as_i64().unwrap_or_default() });
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
}

/// An object with the size that a scale asks for.
fn scaled(resource: &Resource, object: &Value, scale: &Value) -> Result<Value, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
            field: Some("spec.replicas".to_owned()),
        };
        return Err(ApiError::invalid("autoscaling", "Scale", text(object, "/metadata/name"), vec![cause]));
    }
    let mut object = object.clone();
    let custom = resource.custom.as_ref().and_then(|facts| facts.scale.as_ref());
    let mut place = &mut object;
    let default = ["spec".to_owned(), "replicas".to_owned()];
    for key in custom.map_or(default.as_slice(), |paths| &paths.spec) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key.as_str()];
    }
    *place = json!(replicas);
    Ok(object)
}
