//! Compares live objects without a rollout with their manifests, as far as belay can without the server.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::ObjectText;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::rollout::rollout_task::InSync;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::digest;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{
    Hold, IgnoredFields, Reach, Surplus, TemplateMarks, Workload, being_deleted, body, config_hash_in, held_body,
    is_as_applied, say_config_hash, template,
};

/// The number of live objects that are compared with their manifests at once. While there are so many, no more are
/// taken from the watches.
pub const AT_ONCE: usize = 64;

/// The text of a live object, which waits to be compared.
pub enum LiveText {
    Seen(ObjectText),
    Kept(Compact),
}

impl From<ObjectText> for LiveText {
    fn from(text: ObjectText) -> LiveText {
        LiveText::Seen(text)
    }
}

impl From<Compact> for LiveText {
    fn from(text: Compact) -> LiveText {
        LiveText::Kept(text)
    }
}

impl LiveText {
    fn read(&self) -> Value {
        match self {
            LiveText::Seen(text) => text.read(),
            LiveText::Kept(text) => text.read(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            LiveText::Seen(text) => text.bytes(),
            LiveText::Kept(text) => text.text().len(),
        }
    }
}

impl Context {
    /// Returns true when a live object is as a rollout saw it at its end, and as the repository still says.
    pub fn is_still_in_sync(&self, desired: &DesiredState, key: &ObjectKey, live: &Value, well: &InSync) -> bool {
        well.digest == digest(live)
            && well.ignored_fields == self.ignored_fields(desired, key)
            && Hold::on(live).is_none()
            && being_deleted(live).is_none()
            && desired.hash(key).is_some_and(|hash| hash.to_string() == well.hash)
    }

    /// Compares a live object without a rollout with its manifest. `is_through` is true for one that is complete, or held.
    pub async fn compare(
        self: &Arc<Context>,
        desired: Arc<DesiredState>,
        key: &ObjectKey,
        text: LiveText,
        is_through: bool,
    ) -> bool {
        let is_workload = Workload::of(key).is_some();
        let (reader, object, bytes) = (Arc::clone(self), key.clone(), text.bytes());
        let compare = move || {
            let in_sync = || reader.is_in_sync(&desired, &object, &text.read());
            !(is_workload && reader.was_broken_off(&object, is_through)) && in_sync()
        };
        self.repository.blocking_pool.run_for_text(bytes, compare).await
    }

    /// Returns true when a live object matches its manifest, as far as belay can tell without the server. It blocks.
    pub fn is_in_sync(&self, desired: &DesiredState, key: &ObjectKey, live: &Value) -> bool {
        let Some(manifest) = self.read_manifest(desired, key) else { return true };
        if self.holds.is_lost(key, live) {
            // The planner decides if it is still in force.
            return false;
        }
        if being_deleted(live).is_some() {
            return false;
        }
        let source = &self.config.name;
        let config = desired.configuration(&manifest);
        let ignored_fields = self.ignored_fields(desired, key);
        let companions = |key: &ObjectKey| desired.hash(key).map(|hash| hash.to_string());
        let keeps = |hold: &Hold| {
            hold.keeps(&manifest.hash.to_string(), config.as_deref()) && hold.keeps_companions(companions)
        };
        let Some(hold) = Hold::on(live).filter(keeps) else {
            let (mut wanted, said) = (manifest.value(), template(live).and_then(config_hash_in));
            if said != self.config_hash(desired, &manifest).asked.as_deref() {
                // It may be the template that was rolled out all the same: the planner asks the history.
                return false;
            }
            say_config_hash(&mut wanted, said);
            let sent = body(&wanted, source, &TemplateMarks::on(live), None);
            return is_without_surplus(live, &sent, &ignored_fields)
                && is_as_applied(live, &ignored_fields.leave(sent, Some(live)));
        };
        match template(live).filter(|_| !hold.template.is_empty()) {
            Some(present) => {
                let marks = TemplateMarks::on(live);
                let sent = held_body(&manifest.value(), source, &marks, &hold, Some(present));
                hold.is_about(present)
                    && is_without_surplus(live, &sent, &ignored_fields)
                    && is_as_applied(live, &ignored_fields.leave(sent, Some(live)))
            }
            // The former manifest is in Git at another commit: the planner reads it.
            None => false,
        }
    }
}

fn is_without_surplus(live: &Value, sent: &Value, ignored_fields: &IgnoredFields) -> bool {
    Surplus::of(live, sent, ignored_fields, Reach::Manifest, None).is_none()
}
