//! The next controller takes the old one's name, which no API server can do for an object: it is made again under that
//! name.
//!
//! Between the end of one and the beginning of the other nothing may be lost that is needed to go on. So the one with the
//! old name is made first, at size 0 and with a label in its selector that no pod has; then the other is deleted without
//! its pods; then the label goes and the size comes, in one write. After a kill between any two of them, the rest of
//! the work can be read from the live objects.

use serde_json::{Value, json};

use super::super::{Hold, marks, template};
use super::build::{kept, written_size};
use super::label::change;
use super::names::Controller;
use super::{ByHand, DESIRED, Left, Live, RENAMED_FROM, RENAMING, Refused, RollingUpdate, Step, Write};

impl RollingUpdate {
    /// Returns the step if the old controller is gone: the rest of a renaming, or nothing.
    pub(super) fn without_old(&self, live: &Live) -> Result<Step, Refused> {
        let not_found = || Refused::NotFound { name: self.ask.old.clone() };
        let next = live.successor_of(&self.ask.old).ok_or_else(not_found)?;
        let says = vec![format!("Renaming {} to {}", next.name(), self.ask.old)];
        // If somebody deleted the old one half way, the wanted size counts.
        let size = written_size(next, DESIRED)?.unwrap_or_else(|| next.size());
        Ok(Step::Write { write: Write::Create(self.parked(next, size)), says })
    }

    /// Returns the controller under the old name, with everything that it will be, but without pods until the other is
    /// gone.
    fn parked(&self, next: Controller<'_>, size: i64) -> Value {
        let mut body = kept(next);
        for mark in [marks::CHANGE_CAUSE, marks::COMMIT, marks::ROLLED, marks::HOLD] {
            if let Some(text) = next.annotation(mark) {
                body["metadata"]["annotations"][mark] = text.into();
            }
        }
        // It is the source's own again, as the one before it was.
        if let Some(source) = ByHand::on(next.0).and_then(|hand| hand.source) {
            body["metadata"]["labels"][marks::SOURCE] = source.into();
        }
        body["metadata"]["name"] = self.ask.old.clone().into();
        body["metadata"]["annotations"][RENAMED_FROM] = next.name().into();
        body["metadata"]["annotations"][DESIRED] = size.to_string().into();
        body["spec"]["replicas"] = json!(0);
        body["spec"]["selector"] = json!(next.selector());
        body["spec"]["selector"][RENAMING] = "true".into();
        body["spec"]["template"]["metadata"]["labels"][RENAMING] = "true".into();
        body
    }

    /// Returns the rest of a renaming, once the controller with the old name is there.
    pub(super) fn finish_renaming(&mut self, parked: Controller<'_>, live: &Live) -> Result<Step, Refused> {
        if !self.ask.renames() {
            return Err(Refused::Renaming { old: self.ask.old.clone() });
        }
        let from = parked.annotation(RENAMED_FROM).unwrap_or_default();
        if let Some(next) = live.controller(from).filter(|next| next.replaces(&self.ask.old)) {
            if next.is_being_deleted() {
                return Ok(Step::wait(format!("{from} to be gone")));
            }
            let (name, uid) = (from.to_owned(), next.uid().to_owned());
            return Ok(Step::write(Write::Delete { name, uid, pods: Left::Orphaned }));
        }
        // The controller manager hears of it a moment after the API server has done it. Before it knows that the pods are
        // free, it would make others.
        if !std::mem::replace(&mut self.gone_seen, true) {
            return Ok(Step::wait(format!("the pods of {from} to be free")));
        }
        let size = written_size(parked, DESIRED)?.unwrap_or_default();
        let none = Value::Null;
        let mut patch = json!({
            "metadata": {"annotations": {RENAMED_FROM: none, DESIRED: none}},
            "spec": {"replicas": size, "selector": {RENAMING: none},
                "template": {"metadata": {"labels": {RENAMING: none}}}},
        });
        if let Some(hold) = Hold::on(parked.0) {
            let hold = hold.moved_to(&final_template(parked));
            patch["metadata"]["annotations"][marks::HOLD] = hold.to_annotation().into();
        }
        self.renamed = true;
        Ok(change(parked, patch))
    }

    /// Waits, after the renaming, until the pods have been taken over.
    pub(super) fn settled_under_old_name(&self, live: &Live) -> Step {
        match live.controller(&self.ask.old) {
            Some(old) if !old.is_settled() => Step::wait(format!("{} to take over its pods", old.name())),
            _ => Step::Done(self.ask.success(&self.ask.old)),
        }
    }
}

/// Returns the template that a parked controller has in the end: the subject of a hold that it carries.
fn final_template(parked: Controller<'_>) -> Value {
    let mut template = template(parked.0).cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(RENAMING);
    }
    template
}
