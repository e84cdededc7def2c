//! The holds of live objects, as they are published.

use tracing::warn;

use crate::daemon::publish::status::put_or_remove;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::shared::context::Context;
use crate::history::HeldStatus;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Hold, Reason};

impl Context {
    /// Publishes the hold that was seen on a live object, if it holds the manifest of the repository; or that there is none.
    pub fn publish_hold(&self, desired: &DesiredState, key: &ObjectKey, hold: Option<Hold>) {
        let held = hold.filter(|hold| desired.hash(key).is_none_or(|hash| hash.to_string() == hold.manifest));
        self.status.change(|source| {
            // The published hold may say more.
            let told = |hold: &Hold| source.held.get(key).is_some_and(|told| told.since == hold.since);
            if held.as_ref().is_some_and(told) {
                return false;
            }
            if let Some(Hold { commit, reason, since, .. }) = &held {
                warn!(object = %key, commit = commit.short(), %since, reason, "Git and the cluster differ: it is held");
            }
            put_or_remove(&mut source.held, key, held.as_ref().map(HeldStatus::of))
        });
    }

    /// Publishes a hold with the newer commit that has gone back to the held template.
    pub fn tell_hold(&self, key: &ObjectKey, hold: &Hold, reason: Reason) {
        let held = HeldStatus { reason: reason.message, ..HeldStatus::of(hold) };
        self.status.change(|source| put_or_remove(&mut source.held, key, Some(held)));
    }

    /// Publishes no longer the holds of manifests that the repository does not have any more. `hold_of` returns the hold of a
    /// live object.
    pub fn withdraw_old_holds<'a>(&self, desired: &DesiredState, hold_of: impl Fn(&ObjectKey) -> Option<&'a Hold>) {
        let is_old = |key: &ObjectKey| {
            hold_of(key).zip(desired.hash(key)).is_some_and(|(hold, hash)| hash.to_string() != hold.manifest)
        };
        self.status.change(|source| {
            let before = source.held.len();
            source.held.retain(|key, _| !is_old(key));
            source.held.len() < before
        });
    }
}
