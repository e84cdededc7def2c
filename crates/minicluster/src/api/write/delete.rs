//! Deletions: at once, after a grace period, or when the last finalizer is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Outcome, TRIES};
use crate::api::call::Call;
use crate::api::definitions::hold_back;
use crate::api::json_pointer::text;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::{DeleteOptions, Propagation};
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::resource::Resource;
use crate::api::route::Target;
use crate::api::store::Stored;
use crate::api::time::{parse, rfc3339};
use crate::api::{ApiError, ApiServer};
use kube_rules::Effect;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The warning to clients that delete a job and do not set a policy for its pods.
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                             remove them or set propagationPolicy=Orphan to suppress this warning";

/// Namespaces that stay.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The result of a deletion.
pub(in crate::api) enum Deletion {
    /// The object is gone; its last state.
    Gone(Arc<Stored>),
    /// The object is on its way out.
    Pending(Outcome),
}

/// The step of a deletion.
enum DeletionStep {
    /// Take it away.
    Remove,
    /// Mark it as being deleted, then remove it: watches of pods see both.
    MarkAndRemove(Value),
    /// Mark it as being deleted.
    Mark(Value),
    /// Nothing: it is on its way out already.
    Wait,
}

impl ApiServer {
    /// Answers a DELETE of an object.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub(in crate::api) fn delete(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = DeleteOptions::new(call)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let definition = &target.resource.definition;
        let name = target.name.as_deref().unwrap_or_default();
        if target.resource.is("", "namespaces") && IMMORTAL.contains(&name) {
            return Err(ApiError::forbidden("", "namespaces", name, "this namespace may not be deleted"));
        }
        let view = View::new(&target.resource, &how, self.now());
        let warning =
            (target.resource.is("batch", "jobs") && options.propagation.is_none()).then(|| ORPHANED_PODS.to_owned());
        let reply = match self.delete_object(target, &options)? {
            Deletion::Pending(outcome) => {
                let code = if options.legacy_cascade { 202 } else { 200 };
                Ok(outcome.reply(&view)?.code(code))
            }
            Deletion::Gone(last) if returns_object(&target.resource) => view.stored(&last),
            Deletion::Gone(last) => {
                let mut details = json!({ "name": name, "kind": definition.resource, "uid": last.uid });
                if !definition.group.is_empty() {
                    details["group"] = json!(definition.group);
                }
                Ok(Reply::value(json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                })))
            }
        };
        reply.map(|reply| reply.warn(warning.into_iter().collect()))
    }

    /// Deletes an object, or begins to.
    pub(in crate::api) fn delete_object(&self, target: &Target, options: &DeleteOptions) -> Result<Deletion, ApiError> {
        for _ in 0..TRIES {
            let stored = self.find(target)?;
            let object = Self::served(target, &stored);
            Self::check_preconditions(target, &object, options)?;
            let done = match self.step(&target.resource, &object, options) {
                DeletionStep::Remove if options.dry_run => Some(Deletion::Gone(stored)),
                DeletionStep::Remove => self.take_away(target, &stored, &object)?.map(Deletion::Gone),
                DeletionStep::MarkAndRemove(marked) if options.dry_run => {
                    Some(Deletion::Pending(Outcome::DryRun(marked)))
                }
                DeletionStep::MarkAndRemove(marked) => {
                    let mark = Self::change(target, stored.name(), Some(stored.revision), marked);
                    match self.commit(vec![mark]) {
                        Ok(marked) => self.take_away(target, &marked, &object)?.map(Deletion::Gone),
                        Err(_) => None,
                    }
                }
                DeletionStep::Mark(object) if options.dry_run => Some(Deletion::Pending(Outcome::DryRun(object))),
                DeletionStep::Mark(object) => {
                    let change = Self::change(target, stored.name(), Some(stored.revision), object);
                    self.commit(vec![change]).ok().map(|marked| Deletion::Pending(Outcome::Stored(marked)))
                }
                DeletionStep::Wait => Some(Deletion::Pending(Outcome::Stored(stored))),
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(Self::modified(target))
    }

    /// Removes an object, with the other writes that this needs; returns `None` if somebody was faster.
    fn take_away(&self, target: &Target, stored: &Stored, whole: &Value) -> Result<Option<Arc<Stored>>, ApiError> {
        let more = self.admission().side_effect_writes(target, Some(whole), None, Effect::Stored)?;
        Ok(self.commit(std::iter::once(Self::removal(target, stored)).chain(more).collect()).ok())
    }

    /// Returns the step of a deletion for an object as it is.
    fn step(&self, resource: &Resource, before: &Value, options: &DeleteOptions) -> DeletionStep {
        let finalizers = finalizers(resource, before, options);
        let deleting = before["metadata"]["deletionTimestamp"].is_string();
        let grace = grace_period(resource, before, options);
        if resource.is_definition() {
            if deleting {
                return DeletionStep::Wait;
            }
            let mut object = before.clone();
            hold_back(&mut object, &rfc3339(self.now()));
            return DeletionStep::Mark(object);
        }
        if resource.is("", "namespaces") {
            return self.namespace_step(before, finalizers);
        }
        let over = finalizers.is_empty() && grace == 0;
        // A pod whose time is up already, and which only finalizers held, goes as it is.
        let ended = deleting && before["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0;
        if over && (ended || !resource.is("", "pods")) {
            return DeletionStep::Remove;
        }
        let mut object = before.clone();
        set_finalizers(&mut object, finalizers);
        if !deleting {
            let seconds = u64::try_from(grace).unwrap_or_default();
            let end = self.now().saturating_add(Duration::from_secs(seconds)).unwrap_or_else(|_| self.now());
            self.mark(&mut object, &rfc3339(end));
            object["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
        } else if let Some(known) = object["metadata"]["deletionGracePeriodSeconds"].as_i64()
            && grace < known
        {
            // The end moves forward by the time that is taken off.
            let end = parse(text(&object, "/metadata/deletionTimestamp")).unwrap_or_else(|| self.now());
            let sooner = Duration::from_secs(u64::try_from(known - grace).unwrap_or_default());
            let end = end.saturating_sub(sooner).unwrap_or(end);
            object["metadata"]["deletionTimestamp"] = Value::from(rfc3339(end));
            object["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
        }
        match (over, object == *before) {
            (true, true) => DeletionStep::Remove,
            (true, false) => DeletionStep::MarkAndRemove(object),
            (false, true) => DeletionStep::Wait,
            (false, false) => DeletionStep::Mark(object),
        }
    }

    /// A namespace ends when its own finalizer is gone, which its controller takes away through `/finalize`.
    fn namespace_step(&self, before: &Value, finalizers: Vec<Value>) -> DeletionStep {
        let held = before["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !held && finalizers.is_empty() {
            return DeletionStep::Remove;
        }
        let mut object = before.clone();
        set_finalizers(&mut object, finalizers);
        if !object["metadata"]["deletionTimestamp"].is_string() {
            self.mark(&mut object, &rfc3339(self.now()));
        }
        object["status"]["phase"] = Value::from("Terminating");
        if object == *before { DeletionStep::Wait } else { DeletionStep::Mark(object) }
    }

    /// Refuses a deletion that was meant for another object, or another state of it.
    pub(in crate::api) fn check_preconditions(
        target: &Target,
        object: &Value,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let definition = &target.resource.definition;
        let name = target.name.as_deref().unwrap_or_default();
        if target.resource.is("", "namespaces") || target.resource.is_definition() {
            return Self::check_preconditions_of_steps(target, object, options);
        }
        // Events of both groups are one kind inside.
        let group = if definition.group == "events.k8s.io" { "" } else { &*definition.group };
        let conflict = |why: &str| Err(ApiError::conflict(group, &definition.kind, name, why));
        let (uid, version) = (text(object, "/metadata/uid"), text(object, "/metadata/resourceVersion"));
        match (&options.uid, &options.resource_version) {
            (Some(wanted), _) if wanted != uid => conflict(&format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated"
            )),
            (_, Some(wanted)) if wanted != version => conflict(&format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            )),
            _ => Ok(()),
        }
    }

    /// Kinds that hold others are deleted by steps of their own, with other messages.
    fn check_preconditions_of_steps(target: &Target, object: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
        let (group, resource) = (&target.resource.definition.group, &target.resource.definition.resource);
        let wanted = [
            ("UID", &options.uid, "/metadata/uid"),
            ("ResourceVersion", &options.resource_version, "/metadata/resourceVersion"),
        ];
        for (what, wanted, place) in wanted {
            let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != text(object, place)) else { continue };
            let known = text(object, place);
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {known}");
            return Err(ApiError::conflict(group, resource, target.name.as_deref().unwrap_or_default(), &why));
        }
        Ok(())
    }

    fn mark(&self, object: &mut Value, end: &str) {
        object["metadata"]["deletionTimestamp"] = Value::from(end);
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = Value::from(generation + 1);
        }
    }
}

/// Returns the finalizers that the object has from now on: its own, and the one that the propagation policy asks for.
fn finalizers(resource: &Resource, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if resource.is("", "events") || resource.is("events.k8s.io", "events") {
        // Nothing depends on them, so neither way is waited for.
        return finalizers.into_iter().filter(|known| known != ORPHAN && known != FOREGROUND).collect();
    }
    let waits = resource.is("", "namespaces")
        && object["metadata"]["deletionTimestamp"].is_string()
        && object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    if waits {
        // The first deletion decided how it goes.
        return finalizers;
    }
    let orphans_by_default = resource.is("", "replicationcontrollers") || resource.is("batch", "jobs");
    let wanted = match options.propagation {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) => None,
        // An earlier request stays in force.
        None if finalizers.iter().any(|known| known == ORPHAN) => Some(ORPHAN),
        None if finalizers.iter().any(|known| known == FOREGROUND) => Some(FOREGROUND),
        None => orphans_by_default.then_some(ORPHAN),
    };
    let mut kept = finalizers.clone();
    kept.retain(|known| wanted.is_some_and(|wanted| known == wanted) || (known != ORPHAN && known != FOREGROUND));
    if let Some(wanted) = wanted.filter(|wanted| !kept.iter().any(|known| known == wanted)) {
        kept.push(Value::from(wanted));
    }
    if resource.is("", "namespaces") && kept != finalizers {
        // Those of a namespace are a set.
        let set: BTreeSet<&str> = kept.iter().filter_map(Value::as_str).collect();
        return set.into_iter().map(Value::from).collect();
    }
    kept
}

fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    if finalizers.is_empty() {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
    } else {
        object["metadata"]["finalizers"] = Value::Array(finalizers);
    }
}

/// Returns how long an object may take to end: only pods that run somewhere take any time.
fn grace_period(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if !resource.is("", "pods") {
        return 0;
    }
    let unbound = text(object, "/spec/nodeName").is_empty();
    let finished = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    let known = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if let Some(known) = known {
        // Under way already: it may only become shorter.
        return asked.map_or(known, |asked| asked.min(known));
    }
    if unbound || finished {
        return 0;
    }
    asked.unwrap_or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or_default())
}

/// Kinds whose deletion is answered with the object that is gone.
pub(in crate::api) fn returns_object(resource: &Resource) -> bool {
    const KINDS: [(&str, &[&str]); 3] = [
        (
            "",
            &[
                "pods",
                "services",
                "persistentvolumeclaims",
                "persistentvolumes",
                "podtemplates",
                "resourcequotas",
                "serviceaccounts",
            ],
        ),
        (
            "storage.k8s.io",
            &["csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"],
        ),
        ("resource.k8s.io", &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]),
    ];
    KINDS.iter().any(|(group, kinds)| kinds.iter().any(|known| resource.is(group, known)))
}
