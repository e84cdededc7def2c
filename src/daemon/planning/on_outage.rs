//! The planner's behaviour while the API server does not answer: the daemon asks again, a command gives up.

use crate::cluster::{Backoff, ClusterError};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::Publisher;
use belay_core::manifest::ObjectKey;

/// The behaviour when the cluster does not answer.
#[derive(Clone, Copy)]
pub enum OnOutage<'a> {
    /// It is asked again, and that is published.
    Retry(&'a Publisher),
    /// Nothing is planned.
    GiveUp,
}

impl OnOutage<'_> {
    /// Asks the cluster about an object, until it answers or as often as this says. An API server that is ready and can't
    /// serve only this object has answered.
    pub async fn ask<T, F>(self, key: &ObjectKey, attempt: impl FnMut() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let OnOutage::Retry(publisher) = self else {
            let mut attempt = attempt;
            return attempt().await;
        };
        let obstacle = Obstacle::Object(key.clone());
        let say = |error: &ClusterError| publisher.trouble(&obstacle, Some(error.to_string()));
        let answer = Backoff::until_answered(say, attempt).await;
        publisher.trouble(&obstacle, None);
        answer
    }

    /// Says that the list at an address is slow, in these words; or, with `None`, that it is not.
    pub fn say_of_list(self, address: &str, slow: Option<&str>) {
        if let OnOutage::Retry(publisher) = self {
            publisher.trouble(&Obstacle::listing(address), slow.map(str::to_owned));
        }
    }

    /// Returns true when an error ends the planning.
    pub fn gives_up(self, error: &ClusterError) -> bool {
        matches!(self, OnOutage::GiveUp) && (error.is_outage() || matches!(error, ClusterError::Denied { .. }))
    }
}
