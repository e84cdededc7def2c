//! A recipient of notices, and what it is given.

use std::sync::Arc;
use std::time::Duration;

use super::delivery::{AnswerVerdict, Delivery, HttpAnswer, Post, SendError};
use super::links::Links;
use crate::clock::Clock;
use crate::history::{History, HistoryError, Notice, NoticeAbout, Pending};
use crate::telemetry::{Metrics, NoticeLabels};
use belay_core::rollout::Outcome;

/// The period between two searches for new notices.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// The settings of all that is sent.
#[derive(Clone)]
pub struct Settings {
    /// The history with the notices.
    pub history: History,
    /// The time.
    pub clock: Clock,
    /// The counters of messages.
    pub metrics: Metrics,
    /// The links in messages.
    pub links: Links,
    /// The transport of messages to receivers.
    pub post: Arc<dyn Post>,
}

/// A recipient of notices: a receiver, or a collector of traces.
pub(super) trait Recipient: Send + Sync {
    /// Returns the name under which the history remembers what it was sent.
    fn name(&self) -> &str;

    /// Returns the period between two searches for its notices.
    fn look(&self) -> Duration {
        LOOK
    }

    /// Returns the message of notices that are sent together; `None` if there is nothing to send. The inner error is that of
    /// a message that can't be sent for now.
    ///
    /// # Errors
    ///
    /// When the history can't be read.
    fn message(
        &self,
        pending: &Pending,
        settings: &Settings,
    ) -> Result<Option<Result<Delivery, SendError>>, HistoryError>;

    /// Returns what an answer means for the message.
    fn verdict(&self, pending: &Pending, answer: &HttpAnswer) -> AnswerVerdict;

    /// Counts the result of a message, or of an attempt.
    fn count(&self, metrics: &Metrics, result: NoticeLabels);
}

/// Returns true when a notice only says that a rollout has begun, which only forges are sent.
pub(super) fn is_begun(notice: &Notice) -> bool {
    matches!(notice.about, NoticeAbout::Commit(_, Outcome::Planned))
}
