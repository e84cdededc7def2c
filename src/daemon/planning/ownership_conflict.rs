//! An object that two sources claim is a complaint of both: the one that has it hears of the one that wants it.

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::source::state::Source;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Reason, ReasonCode};

impl Source {
    /// Tells the source that has an object that this one claims it too.
    pub fn claim(&mut self, prepared: &Prepared, reason: &Reason) {
        let Some(owner) = prepared.owner.as_ref().filter(|_| reason.code == ReasonCode::ClaimedTwice) else { return };
        let key = &prepared.planned.wanted.key;
        let name = &self.context.config.name;
        let place = prepared.planned.wanted.manifest.place.to_string();
        let message = format!(
            "{key} is claimed by the source {name:?} too, at {place}; remove it from one of the two repositories"
        );
        self.context.status.object_trouble(key, Some(reason.message.clone()));
        self.context.status.trouble_of(owner, &Obstacle::Claim(key.clone(), name.clone()), Some(message));
        self.state.planning.claimed.insert((owner.clone(), key.clone()));
    }

    /// Withdraws the reports about objects that this source no longer claims.
    pub fn give_claims_up(&mut self) {
        let given_up: Vec<(String, ObjectKey)> = {
            let desired = self.desired();
            self.state.planning.claimed.iter().filter(|(_, key)| !desired.mentions(key)).cloned().collect()
        };
        for (owner, key) in given_up {
            self.context.status.object_trouble(&key, None);
            self.context.status.trouble_of(
                &owner,
                &Obstacle::Claim(key.clone(), self.context.config.name.clone()),
                None,
            );
            self.state.planning.claimed.remove(&(owner, key));
        }
    }
}
