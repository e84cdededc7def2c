//! New objects.

use serde_json::Value;

use super::{Outcome, TRIES, settle_namespace};
use crate::api::admission::take_back_ports;
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::WriteOptions;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::store::{Stale, path};
use crate::api::time::rfc3339;
use crate::api::write_context::{own_write_context, write_context};
use crate::api::{ApiError, ApiServer, Cause};
use kube_rules::Read;

/// The letters that a generated name keeps of its prefix.
const PREFIX: usize = 58;

/// The letters that are added to it.
const SUFFIX: usize = 5;

impl ApiServer {
    /// Answers a POST to a collection.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub(in crate::api) fn create(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::create(call)?.asked_by(call, &target.resource);
        let how = Negotiated::new(call, Delivery::Whole)?;
        let now = self.now();
        let write = write_context(target, &options, now);
        let Read { object, warnings } = kube_rules::read(&write, &call.body, call.body_format()?)?;
        let view = View::new(&target.resource, &how, now);
        let created = self.create_object(target, &options, object);
        let reply = created.and_then(|(outcome, more)| Ok(outcome.reply(&view)?.code(201).warn(more)));
        Ok(Reply::noticing(warnings, reply))
    }

    /// Stores a new object.
    pub(super) fn create_object(
        &self,
        target: &Target,
        options: &WriteOptions,
        mut object: Value,
    ) -> Result<(Outcome, Vec<String>), ApiError> {
        settle_namespace(target, &mut object)?;
        self.admission().check_namespace(
            &target.resource,
            target.namespace.as_deref(),
            text(&object, "/metadata/name"),
        )?;
        self.authorizer().may_grant(target, options.requester.as_ref(), None, &object)?;
        let mut refused = None;
        // Only under a name that is made up can it be tried again.
        let tries = if text(&object, "/metadata/name").is_empty() { TRIES } else { 1 };
        for left in (0..tries).rev() {
            let next = if left > 0 { object.clone() } else { Value::Null };
            let named = self.name(target, std::mem::replace(&mut object, next))?;
            let sets_version = !text(&named, "/metadata/resourceVersion").is_empty();
            let asked = target.resource.is("", "services").then(|| named.clone());
            let Read { object: mut new, warnings } = {
                let admit = |object: &mut Value| self.admission().admit_new(target, options, object);
                kube_rules::create(&write_context(target, options, self.now()), named, &admit)?
            };
            if let Some(asked) = asked {
                take_back_ports(&asked, &mut new);
            }
            if sets_version {
                return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
            }
            match self.store_new(target, options, new) {
                Ok(outcome) => return Ok((outcome, warnings)),
                Err(error) if error.code == 409 && tries > 1 => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| Self::modified(target)))
    }

    pub(super) fn store_new(
        &self,
        target: &Target,
        options: &WriteOptions,
        mut new: Value,
    ) -> Result<Outcome, ApiError> {
        let definition = &target.resource.definition;
        let name = text(&new, "/metadata/name").to_owned();
        let exists = || ApiError::already_exists(&definition.group, &definition.resource, &name);
        let place = path(target.namespace.as_deref(), &name);
        if let Some(metadata) = new["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        self.admission().permit_new(target, &new)?;
        let named = Target { name: Some(name.clone()), ..target.clone() };
        let _ports = self.admission().giving_out_ports(target);
        for _ in 0..TRIES {
            if let Some(other) = self.store().get(&target.resource.group_resource, &place) {
                let leaving = other.value()["metadata"]["deletionTimestamp"].is_string();
                let error = exists();
                let message =
                    if leaving { format!("object is being deleted: {}", error.message) } else { error.message.clone() };
                return Err(ApiError { message, ..error });
            }
            let unaddressed = target.resource.is("", "services").then(|| new.clone());
            let more = self.admission().side_effect_writes(&named, None, Some(&mut new), options.effect())?;
            if options.dry_run {
                return Ok(Outcome::DryRun(new));
            }
            // A single object can't be too late for anything but itself.
            let again = if more.is_empty() { Value::Null } else { unaddressed.unwrap_or_else(|| new.clone()) };
            let changes = std::iter::once(Self::change(target, &name, None, new)).chain(more).collect();
            match self.commit(changes) {
                Ok(stored) => return Ok(Outcome::Stored(stored)),
                Err(Stale(0)) => return Err(exists()),
                // Somebody else used up some of the quota.
                Err(Stale(_)) => new = again,
            }
        }
        Err(Self::modified(&named))
    }

    /// Gives a new object its name, uid and time of creation.
    fn name(&self, target: &Target, mut object: Value) -> Result<Value, ApiError> {
        let definition = &target.resource.definition;
        let metadata = &mut object["metadata"];
        let prefix = text(metadata, "/generateName");
        if text(metadata, "/name").is_empty() {
            if prefix.is_empty() {
                return Err(ApiError::invalid(
                    &definition.group,
                    &definition.kind,
                    "",
                    vec![Cause {
                        reason: "FieldValueRequired",
                        message: "Required value: name or generateName is required".to_owned(),
                        field: Some("metadata.name".to_owned()),
                    }],
                ));
            }
            let mut kept = prefix.len().min(PREFIX);
            while !prefix.is_char_boundary(kept) {
                kept -= 1;
            }
            metadata["name"] = Value::from(format!("{}{}", &prefix[..kept], self.random().suffix(SUFFIX)));
        }
        metadata["uid"] = Value::from(self.random().uid());
        metadata["creationTimestamp"] = Value::from(rfc3339(self.now()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("deletionTimestamp");
            metadata.remove("deletionGracePeriodSeconds");
            metadata.remove("selfLink");
        }
        Ok(object)
    }

    /// Stores an object of the server's own, if there is none of its name.
    pub(in crate::api) fn provide(&self, target: &Target, object: &Value) -> Result<(), ApiError> {
        let Read { object, .. } = {
            let write = own_write_context(&target.resource, self.now());
            kube_rules::read(&write, object.to_string().as_bytes(), kube_rules::BodyFormat::Json)?
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // Before it is judged: its requests, an address say, are taken by the existing one.
        if self.store().get(&target.resource.group_resource, &path(target.namespace.as_deref(), name)).is_some() {
            return Ok(());
        }
        let options = WriteOptions {
            dry_run: false,
            manager: "kube-apiserver".to_owned(),
            field_validation: kube_rules::FieldValidation::Ignore,
            force: false,
            requester: None,
        };
        match self.create_object(target, &options, object) {
            Err(error) if error.code != 409 => Err(error),
            _ => Ok(()),
        }
    }
}
