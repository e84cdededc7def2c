//! The end of a namespace: its controller says that nothing is left in it.

use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::WriteOptions;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::write::update::{check_name, check_uid, check_version};
use crate::api::write_context::write_context;
use crate::api::{ApiError, ApiServer};
use kube_rules::Read;

impl ApiServer {
    /// Answers a PUT of a namespace to its `finalize`: its finalizers, of both kinds, become those that were sent.
    pub(super) fn finalize(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::update(call)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        let write = write_context(target, &options, self.now());
        let Read { object: sent, warnings } = kube_rules::read(&write, &call.body, call.body_format()?)?;
        check_name(target, &sent)?;
        let (outcome, _) = self.change_object(target, &options, |old| {
            check_uid(target, old, &sent)?;
            check_version(target, old, &sent)?;
            let mut object = old.clone();
            for (part, field) in [("spec", "finalizers"), ("metadata", "finalizers")] {
                let Some(fields) = object[part].as_object_mut() else { continue };
                match sent[part].get(field) {
                    Some(finalizers) if finalizers.as_array().is_some_and(|list| !list.is_empty()) => {
                        fields.insert(field.to_owned(), finalizers.clone());
                    }
                    _ => drop(fields.remove(field)),
                }
            }
            Ok(Read { object, warnings: Vec::new() })
        })?;
        Ok(outcome.reply(&View::new(&target.resource, &how, self.now()))?.warn(warnings))
    }
}
