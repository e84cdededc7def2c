//! Whether a live object without a rollout is as it should be, as far as belay can tell by itself.

use std::time::Duration;

use serde_json::Value;

use super::live::digest;
use super::rollout_task::InSync;
use super::state::Source;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    Hold, TemplateMarks, Workload, body, config_hash_in, held_body, is_as_applied, say_config_hash, template,
};

impl Source {
    /// Looks at a live object whose rollout has ended. It need not read the manifest again where the rollout saw just that.
    pub(super) fn look_after(&mut self, key: &ObjectKey, live: &Value, well: Option<InSync>) {
        let still = |well: &InSync| {
            well.digest == digest(live)
                && well.left_alone == self.left_alone(key)
                && Hold::on(live).is_none()
                && self.desired().hash(key).is_some_and(|hash| hash.to_string() == well.hash)
        };
        match well.filter(still) {
            Some(well) => self.found_well(key, well.digest),
            None => self.look_at(key, live),
        }
    }

    fn found_well(&mut self, key: &ObjectKey, digest: u64) {
        let facts = self.watches.live.entry(key.clone()).or_default();
        if facts.suspended {
            return;
        }
        facts.well = Some(digest);
        self.drift.recheck.remove(key);
        self.no_drift(key);
    }

    /// Whether a live object without a rollout still is as it should be. What is not certain is looked into.
    pub(super) fn look_at(&mut self, key: &ObjectKey, live: &Value) {
        let digest = digest(live);
        let facts = self.watches.live.entry(key.clone()).or_default();
        let complete = facts.complete;
        facts.seen = Some(digest);
        if facts.suspended || facts.well == Some(digest) || !self.desired().has(key) {
            return;
        }
        if self.drift.reported.get(key) == Some(&Some(digest)) {
            // Nobody has changed anything since.
            return;
        }
        let is_through = complete || Workload::of(key).is_none() || Hold::on(live).is_some();
        if (is_through || !self.was_broken_off(key)) && self.is_as_it_should_be(key, live) {
            self.found_well(key, digest);
        } else {
            self.drift.recheck_after(key.clone(), Duration::ZERO);
        }
    }

    fn is_as_it_should_be(&self, key: &ObjectKey, live: &Value) -> bool {
        let Some(manifest) = self.read_manifest(key) else { return true };
        let source = &self.context.config.name;
        let config = self.desired().configuration(&manifest);
        let left_alone = self.left_alone(key);
        let company = |key: &ObjectKey| self.desired().hash(key).map(|hash| hash.to_string());
        let keeps =
            |hold: &Hold| hold.keeps(&manifest.hash.to_string(), config.as_deref()) && hold.keeps_company(company);
        let Some(hold) = Hold::on(live).filter(keeps) else {
            let (mut wanted, said) = (manifest.value(), template(live).and_then(config_hash_in));
            if said != self.config_hash(&manifest).asked.as_deref() {
                // It may be what was rolled out all the same: who plans asks the history.
                return false;
            }
            say_config_hash(&mut wanted, said);
            let sent = body(&wanted, source, &TemplateMarks::on(live), None);
            return is_as_applied(live, &left_alone.leave(sent, Some(live)));
        };
        match template(live).filter(|_| !hold.template.is_empty()) {
            Some(present) => {
                let marks = TemplateMarks::on(live);
                let sent = held_body(&manifest.value(), source, &marks, &hold, Some(present));
                hold.is_about(present) && is_as_applied(live, &left_alone.leave(sent, Some(live)))
            }
            // What it was before stands in Git: who plans reads it, beside this loop.
            None => false,
        }
    }
}
