//! Objects replaced by PUT, and the common part of all changes of present objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Outcome, TRIES, settle_namespace};
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::WriteOptions;
use crate::api::query::not_a_number;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::store::Stored;
use crate::api::write_context::write_context;
use crate::api::{ApiError, ApiServer, Cause};
use kube_rules::Read;

impl ApiServer {
    /// Answers a PUT of an object, or of its status.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub(in crate::api) fn update(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::update(call)?.asked_by(call, &target.resource);
        let how = Negotiated::new(call, Delivery::Whole)?;
        let now = self.now();
        let write = write_context(target, &options, now);
        let Read { object, warnings } = kube_rules::read(&write, &call.body, call.body_format()?)?;
        let view = View::new(&target.resource, &how, now);
        Ok(Reply::noticing(warnings, self.replace(call, target, &options, object, &view)))
    }

    fn replace(
        &self,
        call: &Call,
        target: &Target,
        options: &WriteOptions,
        mut object: Value,
        view: &View<'_>,
    ) -> Result<Reply, ApiError> {
        check_name(target, &object)?;
        settle_namespace(target, &mut object)?;
        let check = |old: &Value| {
            check_uid(target, old, &object)?;
            needs_version(target, &object)?;
            check_version(target, old, &object)?;
            self.authorizer().may_grant(target, options.requester.as_ref(), Some(old), &object)
        };
        let status = self.change_status(target, options, |old| {
            check(old).ok()?;
            kube_rules::metadata_and_status(&target.resource.definition, &object)
        });
        let whole = || {
            self.change_object(target, options, |old| {
                check(old)?;
                kube_rules::update(&write_context(target, options, self.now()), old, object.clone())
            })
        };
        let changed = status.map_or_else(whole, Ok);
        let (outcome, more) = match changed {
            Err(error) if error.code == 404 && creates_on_update(target) => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                self.authorizer().authorize(call, target, "create")?;
                let (outcome, more) = self.create_object(target, options, object)?;
                return Ok(outcome.reply(view)?.code(201).warn(more));
            }
            changed => changed?,
        };
        Ok(outcome.reply(view)?.warn(more))
    }

    /// Changes a present object: `change` gets the object and returns the new one, again and again if others are
    /// faster.
    pub(in crate::api) fn change_object(
        &self,
        target: &Target,
        options: &WriteOptions,
        mut change: impl FnMut(&Value) -> Result<Read, ApiError>,
    ) -> Result<(Outcome, Vec<String>), ApiError> {
        for _ in 0..TRIES {
            let stored = self.find(target)?;
            let old = Self::served(target, &stored);
            let Read { object: new, warnings } = change(&old)?;
            if let Some(outcome) = self.store_changed(target, options, &stored, &old, new)? {
                return Ok((outcome, warnings));
            }
        }
        Err(Self::modified(target))
    }

    /// Changes the status of a present object without reading the rest of it: `change` gets metadata and status, and
    /// returns the new ones. `None` if the whole object is needed, also to say why a write is refused, and if somebody
    /// was faster.
    pub(in crate::api) fn change_status(
        &self,
        target: &Target,
        options: &WriteOptions,
        change: impl FnOnce(&Value) -> Option<Value>,
    ) -> Option<(Outcome, Vec<String>)> {
        let write = write_context(target, options, self.now());
        if options.dry_run || !kube_rules::may_do_without_spec(&write) || self.admission().has_quotas(target) {
            return None;
        }
        let stored = self.find(target).ok()?;
        let old = stored.metadata_and_status();
        let Read { object: mut new, warnings } = kube_rules::update_status(&write, &old, change(&old)?)?;
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if new == old {
            return Some((Outcome::Stored(stored), warnings));
        }
        let changed = self.commit(vec![Self::status_change(target, &stored, new)]).ok()?;
        Some((Outcome::Stored(changed), warnings))
    }

    /// Stores a changed object; `None` if somebody was faster.
    fn store_changed(
        &self,
        target: &Target,
        options: &WriteOptions,
        stored: &Arc<Stored>,
        old: &Value,
        mut new: Value,
    ) -> Result<Option<Outcome>, ApiError> {
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        let ends = is_over(&new);
        let _ports = self.admission().giving_out_ports(target);
        let more = if ends {
            self.admission().side_effect_writes(target, Some(old), None, options.effect())?
        } else if new == *old {
            return Ok(Some(if options.dry_run { Outcome::DryRun(new) } else { Outcome::Stored(Arc::clone(stored)) }));
        } else {
            self.admission().side_effect_writes(target, Some(old), Some(&mut new), options.effect())?
        };
        if options.dry_run {
            return Ok(Some(Outcome::DryRun(new)));
        }
        if ends {
            // The client sees the object as it would have been; those who watch, as it was.
            let changes = std::iter::once(Self::removal(target, stored)).chain(more).collect();
            return Ok(self.commit(changes).ok().map(|_| Outcome::DryRun(new)));
        }
        let change = Self::change(target, stored.name(), Some(stored.revision), new);
        let changes = std::iter::once(change).chain(more).collect();
        Ok(self.commit(changes).ok().map(Outcome::Stored))
    }
}

/// Returns true when a PUT creates a missing object.
fn creates_on_update(target: &Target) -> bool {
    const KINDS: [(&str, &[&str]); 5] = [
        ("", &["endpoints", "events", "limitranges", "services"]),
        ("events.k8s.io", &["events"]),
        ("rbac.authorization.k8s.io", &["clusterroles", "roles", "clusterrolebindings", "rolebindings"]),
        ("coordination.k8s.io", &["leases"]),
        ("node.k8s.io", &["runtimeclasses"]),
    ];
    let is = |(group, kinds): &(&str, &[&str])| kinds.iter().any(|kind| target.resource.is(group, kind));
    target.subresource.is_none() && KINDS.iter().any(is)
}

/// Returns true when nothing holds an object back any more that is to be deleted.
fn is_over(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && empty(&metadata["finalizers"])
        && (!is_namespace || empty(&object["spec"]["finalizers"]))
}

pub(in crate::api) fn check_name(target: &Target, object: &Value) -> Result<(), ApiError> {
    let wanted = target.name.as_deref().unwrap_or_default();
    match text(object, "/metadata/name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        sent if sent == wanted => Ok(()),
        sent => Err(ApiError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({wanted})"
        ))),
    }
}

pub(in crate::api) fn check_uid(target: &Target, old: &Value, object: &Value) -> Result<(), ApiError> {
    let (sent, known) = (text(object, "/metadata/uid"), text(old, "/metadata/uid"));
    if sent.is_empty() || sent == known {
        return Ok(());
    }
    let definition = &target.resource.definition;
    let name = target.name.as_deref().unwrap_or_default();
    let group = target.resource.custom.is_some().then_some(definition.group.as_str());
    let parts = group.into_iter().chain([definition.resource.as_str()]);
    let place: Vec<&str> = parts.chain(target.namespace.as_deref()).chain([name]).collect();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {sent}, UID in object meta: {known}",
        place.join("/")
    );
    Err(ApiError::conflict(&definition.group, &definition.resource, name, &why))
}

/// Refuses a write that does not say which revision it was made for, of kinds where it must.
fn needs_version(target: &Target, object: &Value) -> Result<(), ApiError> {
    let definition = &target.resource.definition;
    let said = !matches!(text(object, "/metadata/resourceVersion"), "" | "0");
    if said || !kube_rules::needs_version(definition) {
        return Ok(());
    }
    let cause = Cause {
        reason: "FieldValueInvalid",
        message: "Invalid value: 0: must be specified for an update".to_owned(),
        field: Some("metadata.resourceVersion".to_owned()),
    };
    let name = target.name.as_deref().unwrap_or_default();
    // The one refusal of its kind that names the plural.
    Err(ApiError::invalid(&definition.group, &definition.resource, name, vec![cause]))
}

/// Refuses a write that was made for another revision of the object.
pub(in crate::api) fn check_version(target: &Target, old: &Value, object: &Value) -> Result<(), ApiError> {
    let sent = text(object, "/metadata/resourceVersion");
    if sent.is_empty() {
        return Ok(());
    }
    match sent.parse::<u64>() {
        Err(_) => Err(ApiError::internal(not_a_number("ParseUint", sent))),
        Ok(0) => Ok(()),
        Ok(_) if sent == text(old, "/metadata/resourceVersion") => Ok(()),
        Ok(_) => Err(ApiServer::modified(target)),
    }
}
