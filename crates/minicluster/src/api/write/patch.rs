//! Patches: JSON, merge, strategic merge; and apply, which also creates.

use serde_json::{Value, json};

use super::update::{check_name, check_version};
use super::{Outcome, TRIES, settle_namespace};
use crate::api::admission::take_back_ports;
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::WriteOptions;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::time::rfc3339;
use crate::api::write_context::write_context;
use crate::api::{ApiError, ApiServer};
use kube_rules::{PatchKind, Read};

impl ApiServer {
    /// Answers a PATCH of an object, or of its status.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub(in crate::api) fn patch(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let kind = match call.content_type().as_str() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" => PatchKind::Strategic,
            "application/apply-patch+yaml" => return self.apply(call, target),
            _ => return Err(unsupported_patch()),
        };
        let options = WriteOptions::patch(call, false)?.asked_by(call, &target.resource);
        let how = Negotiated::new(call, Delivery::Whole)?;
        let mut noticed = Vec::new();
        let mut patched = |old: &Value| {
            let write = write_context(target, &options, self.now());
            let patched = kube_rules::patch(&write, old, kind, &call.body);
            let Read { mut object, warnings } = patched.map_err(outermost)?;
            noticed = warnings;
            check_name_if_said(target, &object)?;
            settle_namespace(target, &mut object)?;
            check_version(target, old, &object)?;
            self.authorizer().may_grant(target, options.requester.as_ref(), Some(old), &object)?;
            Ok(object)
        };
        // The result of the other kinds of patch is read again as a whole.
        let status = match kind {
            PatchKind::Json | PatchKind::Merge => None,
            PatchKind::Strategic => self.change_status(target, &options, |old| patched(old).ok()),
        };
        let changed = match status {
            Some(done) => Ok(done),
            None => self.change_object(target, &options, |old| {
                kube_rules::update(&write_context(target, &options, self.now()), old, patched(old)?)
            }),
        };
        let view = View::new(&target.resource, &how, self.now());
        let reply = changed.and_then(|(outcome, more)| Ok(outcome.reply(&view)?.warn(more)));
        Ok(Reply::noticing(noticed, reply))
    }

    fn apply(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::patch(call, true)?.asked_by(call, &target.resource);
        let how = Negotiated::new(call, Delivery::Whole)?;
        let now = self.now();
        let write = write_context(target, &options, now);
        let Read { object, warnings } = kube_rules::read_applied(&write, &call.body)?;
        let view = View::new(&target.resource, &how, now);
        Ok(Reply::noticing(warnings, self.apply_read(call, target, &options, object, &view)))
    }

    fn apply_read(
        &self,
        call: &Call,
        target: &Target,
        options: &WriteOptions,
        mut object: Value,
        view: &View<'_>,
    ) -> Result<Reply, ApiError> {
        check_name_if_said(target, &object)?;
        // Messages about an object name it as it names itself.
        let as_sent = object.clone();
        settle_namespace(target, &mut object)?;
        let definition = &target.resource.definition;
        for _ in 0..TRIES {
            let outcome = match self.find(target) {
                Ok(_) => self.apply_over(target, options, &as_sent),
                Err(error) if error.code != 404 => return Err(error),
                // Among all subresources, only the status of a service creates a missing one.
                Err(missing) if target.subresource.is_some() && !target.resource.is("", "services") => {
                    return Err(missing);
                }
                Err(_) => {
                    self.authorizer().authorize(call, target, "create")?;
                    self.apply_new(target, options, &as_sent).map(|done| (done.0, done.1, 201))
                }
            };
            match outcome {
                // It appeared, or vanished, in between.
                Err(error) if error.reason == "AlreadyExists" => {}
                Err(error) if error.reason == "NotFound" && error.kind.as_ref() == Some(&definition.resource) => {}
                Err(error) => return Err(error),
                Ok((outcome, more, code)) => {
                    return Ok(outcome.reply(view)?.code(code).warn(more));
                }
            }
        }
        Err(Self::modified(target))
    }

    fn apply_over(
        &self,
        target: &Target,
        options: &WriteOptions,
        applied: &Value,
    ) -> Result<(Outcome, Vec<String>, u16), ApiError> {
        let (outcome, warnings) = self.change_object(target, options, |old| {
            check_version(target, old, applied)?;
            let write = write_context(target, options, self.now());
            let read = kube_rules::apply(&write, old, applied, options.force)?;
            self.authorizer().may_grant(target, options.requester.as_ref(), Some(old), &read.object)?;
            Ok(read)
        })?;
        Ok((outcome, warnings, 200))
    }

    fn apply_new(
        &self,
        target: &Target,
        options: &WriteOptions,
        as_sent: &Value,
    ) -> Result<(Outcome, Vec<String>), ApiError> {
        let name = target.name.as_deref().unwrap_or_default();
        self.admission().check_namespace(&target.resource, target.namespace.as_deref(), name)?;
        let now = self.now();
        let mut applied = as_sent.clone();
        if let Some(metadata) = applied["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let mut identity = json!({ "name": name, "uid": self.random().uid(), "creationTimestamp": rfc3339(now) });
        if let Some(namespace) = &target.namespace {
            identity["namespace"] = Value::from(namespace.as_str());
        }
        self.authorizer().may_grant(target, options.requester.as_ref(), None, &applied)?;
        let admit = |object: &mut Value| self.admission().admit_new(target, options, object);
        let write = write_context(target, options, now);
        let Read { mut object, warnings } = kube_rules::apply_new(&write, &identity, &applied, &admit)?;
        if target.resource.is("", "services") {
            take_back_ports(&applied, &mut object);
        }
        Ok((self.store_new(target, options, object)?, warnings))
    }
}

fn check_name_if_said(target: &Target, object: &Value) -> Result<(), ApiError> {
    if text(object, "/metadata/name").is_empty() { Ok(()) } else { check_name(target, object) }
}

/// Returns the refusal of a patch that can't be laid over an object, by the outermost layer.
fn outermost(error: ApiError) -> ApiError {
    let generic = error.code == 422 && error.causes.is_empty();
    ApiError { generic: error.generic || generic, ..error }
}

fn unsupported_patch() -> ApiError {
    ApiError::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")
}
