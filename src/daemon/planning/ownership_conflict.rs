//! An object that two sources claim is a complaint of both: the one that has it hears of the one that wants it.

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Reason, ReasonCode};

impl Context {
    /// Tells the source that has an object that this one claims it too. Returns the claim: the other source, and the object.
    pub fn claim(&self, prepared: &Prepared, reason: &Reason) -> Option<(String, ObjectKey)> {
        let owner = prepared.owner.as_ref().filter(|_| reason.code == ReasonCode::ClaimedTwice)?;
        let key = &prepared.planned.wanted.key;
        let name = &self.config.name;
        let place = prepared.planned.wanted.manifest.place.to_string();
        let message = format!(
            "{key} is claimed by the source {name:?} too, at {place}; remove it from one of the two repositories"
        );
        self.status.object_trouble(key, Some(reason.message.clone()));
        self.status.trouble_of(owner, &Obstacle::Claim(key.clone(), name.clone()), Some(message));
        Some((owner.clone(), key.clone()))
    }

    /// Withdraws the reports about an object that this source no longer claims.
    pub fn give_claim_up(&self, owner: &str, key: &ObjectKey) {
        self.status.object_trouble(key, None);
        self.status.trouble_of(owner, &Obstacle::Claim(key.clone(), self.config.name.clone()), None);
    }
}
