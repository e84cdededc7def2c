//! Scale: how many there shall be, how many there are, and how to find them.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::negotiate::{Delivery, Negotiated, Shape};
use crate::api::options::WriteOptions;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::resource::Resource;
use crate::api::route::Target;
use crate::api::write::update::{check_name, check_uid, check_version};
use crate::api::write::{Outcome, settle_namespace};
use crate::api::write_context::write_context;
use crate::api::{ApiError, ApiServer, Cause};
use kube_facts::Type;
use kube_rules::LabelSelector;
use kube_rules::{Definition, PatchKind, Read, WriteContext};

/// The kind Scale, which is only spoken.
static SCALE: LazyLock<Arc<Resource>> = LazyLock::new(|| {
    let definition = Definition {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        resource: "scales".to_owned(),
        namespaced: true,
        schema: Type::named("io.k8s.api.autoscaling.v1.Scale"),
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
        let write = WriteContext { definition: &SCALE.definition, ..write_context(target, &options, self.now()) };
        let Read { object: mut sent, mut warnings } = kube_rules::read(&write, &call.body, call.body_format()?)?;
        check_name(target, &sent)?;
        settle_namespace(target, &mut sent)?;
        let (outcome, more) = self.change_object(target, &options, |old| {
            check_uid(target, old, &sent)?;
            self.rescaled(target, &options, old, |spoken, before| {
                Ok(kube_rules::written_scale(spoken, before, sent.clone()))
            })
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
            self.rescaled(target, &options, old, |spoken, before| {
                let Read { object: mut sent, .. } = kube_rules::patch(spoken, before, kind, &call.body)?;
                check_name(target, &sent)?;
                settle_namespace(target, &mut sent)?;
                Ok(kube_rules::written_scale(spoken, before, sent))
            })
        })?;
        self.scaled(target, &outcome, &how, warnings)
    }

    fn apply_scale(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::patch(call, true)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let spoken = WriteContext { definition: &SCALE.definition, ..write_context(target, &options, self.now()) };
        let Read { object: sent, mut warnings } = kube_rules::read_applied(&spoken, &call.body)?;
        let (outcome, more) = self.change_object(target, &options, |old| {
            self.rescaled(target, &options, old, |spoken, before| {
                let applied = kube_rules::applied_scale(spoken, before, &sent, options.force)?;
                check_name(target, &applied)?;
                Ok(applied)
            })
        })?;
        warnings.extend(more);
        self.scaled(target, &outcome, &how, warnings)
    }

    /// Returns an object with the scale that `change` returns.
    fn rescaled(
        &self,
        target: &Target,
        options: &WriteOptions,
        old: &Value,
        change: impl FnOnce(&WriteContext<'_>, &Value) -> Result<Value, ApiError>,
    ) -> Result<Read, ApiError> {
        let write = write_context(target, options, self.now());
        let spoken = WriteContext { definition: &SCALE.definition, ..write.clone() };
        let (resource, path) = (&target.resource, size_path(&target.resource));
        let put = |scale: &Value| {
            let object = scaled(resource, old, scale)?;
            check_version(target, old, scale)?;
            Ok(object)
        };
        let scale = scale_of(resource, old);
        kube_rules::rescale(&write, old, &path, scale, |before| change(&spoken, before), put)
            .map(|read| counted(old, read))
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

/// Returns the path of an object's size.
fn size_path(resource: &Resource) -> Vec<String> {
    let custom = resource.custom.as_ref().and_then(|facts| facts.scale.as_ref());
    custom.map_or_else(|| vec!["spec".to_owned(), "replicas".to_owned()], |paths| paths.spec.clone())
}

fn at<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, key| &value[key.as_str()])
}

/// Returns the scale of an object.
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

/// Returns an object with the size that a scale asks for.
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
    let mut place = &mut object;
    for key in &size_path(resource) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key.as_str()];
    }
    *place = json!(replicas);
    Ok(object)
}
