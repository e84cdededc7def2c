//! Fields that others have added to a live object and that the manifest alone decides about: found, and left out of the
//! result of an apply, for it removes them.

use serde_json::Value;

use super::planner::Planner;
use crate::cluster::{ClusterError, Mode, Served};
use belay_core::rollout::{Reach, Surplus, Wanted, guess, is_as_applied};

impl Planner<'_> {
    /// Returns true when an apply of `body` would certainly change nothing, and no additions of others must go.
    pub fn is_as_applied(&self, wanted: &Wanted, body: &Value, live: &Value) -> bool {
        let surplus = || Surplus::of(live, body, &wanted.ignored_fields, Reach::Manifest, None);
        is_as_applied(live, &sent(wanted, body, live)) && surplus().is_none()
    }

    /// Returns the fields that an apply of `body` would leave on the live object, although they must go. The server is
    /// asked which of it are only its defaults.
    pub async fn surplus(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        body: &Value,
    ) -> Result<Option<Surplus>, ClusterError> {
        let Some(live) = live else { return Ok(None) };
        let of = |defaulted| Surplus::of(live, body, &wanted.ignored_fields, Reach::Manifest, defaulted);
        let Some(found) = of(None) else { return Ok(None) };
        if !found.may_be_defaults {
            return Ok(Some(found));
        }
        let removal = found.removal(live);
        let removed =
            self.ask(&wanted.key, || self.cluster.json_patch(&wanted.key, served, &removal, Mode::DryRun)).await;
        match removed {
            Ok(defaulted) => Ok(of(Some(&defaulted))),
            Err(error) if self.gives_up(&error) => Err(error),
            // The object can't be without it as it is; the apply brings its replacement.
            Err(_) => Ok(Some(found)),
        }
    }

    /// Returns the object as it would be after an apply of `body`, without this surplus.
    pub async fn try_without(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        body: &Value,
        surplus: Option<&Surplus>,
    ) -> Result<Value, ClusterError> {
        let tried = self.try_apply(served, wanted, live, body).await;
        let (Some(surplus), Some(live)) = (surplus, live) else { return tried };
        match tried {
            Ok(mut would_be) => {
                surplus.take_out(&mut would_be);
                Ok(would_be)
            }
            Err(ClusterError::Refused(refusal)) if refusal.code == 422 => {
                Ok(guess(live, &sent(wanted, body, live), surplus))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the part of a body that is sent to a live object.
fn sent(wanted: &Wanted, body: &Value, live: &Value) -> Value {
    wanted.ignored_fields.leave(body.clone(), Some(live))
}
