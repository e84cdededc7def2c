//! The tasks that send notices: one message after another for each recipient, with growing delays while it does not answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span, warn};

use super::collector::Collector;
use super::delivery::{AnswerVerdict, HttpAnswer, SendError};
use super::receiver::Receiver;
use super::recipient::{LOOK, Recipient, Settings, is_begun};
use crate::backoff::Backoff;
use crate::config::NotifyConfig;
use crate::history::{HistoryError, Notice, NoticeAbout, Pending};
use crate::telemetry::NoticeLabels;

/// The age of a notice at which it is sent: troubles of one moment are sent together.
const SETTLES: Duration = Duration::from_secs(5);
/// The longest wait, also if a receiver asks for a longer one.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The waits after attempts in vain.
pub(super) const IN_VAIN: Backoff = Backoff::between(Duration::from_secs(10), LONGEST_WAIT);
/// The time for which a message is tried.
const GIVES_UP: Duration = Duration::from_hours(24);

/// Sends to all receivers, and to the collector, until it is cancelled. Each has its own task: one that does not answer
/// delays no other.
pub async fn tell(
    receivers: Vec<NotifyConfig>,
    collector: Option<Collector>,
    settings: Settings,
    stop: CancellationToken,
) {
    let mut recipients: Vec<Box<dyn Recipient>> = Vec::new();
    for config in receivers {
        settings.metrics.receiver(&config.name);
        recipients.push(Box::new(Receiver::new(config)));
    }
    if let Some(collector) = collector {
        settings.metrics.collector();
        recipients.push(Box::new(collector));
    }
    let names: Vec<String> = recipients.iter().map(|recipient| recipient.name().to_owned()).collect();
    while let Err(error) = settings.history.set_receivers(&names) {
        warn!(%error, "failed to note who is told, trying again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    let mut tasks = JoinSet::new();
    for recipient in recipients {
        let span = info_span!("notify", receiver = recipient.name());
        let told = Sender { recipient, settings: settings.clone() };
        let stop = stop.clone();
        tasks.spawn(async move { stop.run_until_cancelled(told.run()).await }.instrument(span));
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "belay's own fault: the telling of a receiver panicked");
        }
    }
}

/// A recipient and its task.
struct Sender {
    recipient: Box<dyn Recipient>,
    settings: Settings,
}

impl Sender {
    async fn run(self) {
        loop {
            let wait = self.next().await.unwrap_or_else(|error| {
                warn!(%error, "failed to look what is to be told, trying again");
                LOOK
            });
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends the next notice, if it is time, and returns the time until the next try.
    async fn next(&self) -> Result<Duration, HistoryError> {
        let Settings { history, clock, metrics, post, .. } = &self.settings;
        let name = self.recipient.name();
        let Some(pending) = history.next_notice(name)? else { return Ok(self.recipient.look()) };
        let notice = &pending.notice;
        let age = age(notice.at, clock.now());
        if age >= GIVES_UP {
            warn!(about = about(notice), "given up after 24 h: the receiver is not told of it");
            self.recipient.count(metrics, NoticeLabels::GivenUp);
            history.notice_given_up(name, pending.last())?;
            return Ok(Duration::ZERO);
        }
        // A clock that was set back is no reason to wait for longer.
        let retry = pending.retry.map(|retry| until(clock.now(), retry)).filter(|wait| *wait <= LONGEST_WAIT);
        // A notice that something has begun is sent at once.
        let settles = if is_begun(notice) { Duration::ZERO } else { SETTLES };
        let wait = retry.unwrap_or_default().max(settles.saturating_sub(age));
        if !wait.is_zero() {
            return Ok(wait.min(self.recipient.look()));
        }
        let Some(message) = self.recipient.message(&pending, &self.settings)? else {
            // It is not meant for this recipient, its records were forgotten, or the condition is over.
            history.notice_told(name, pending.last())?;
            return Ok(Duration::ZERO);
        };
        // Noted before it begins: a delivery that ends belay is not repeated at once after the next start.
        history.notice_tried(name, after(clock.now(), IN_VAIN.wait_number(pending.attempts)))?;
        let answer = match message {
            Ok(delivery) => post.post(delivery).await,
            Err(error) => Err(error),
        };
        self.heard(&pending, answer)
    }

    /// Notes the answer.
    fn heard(&self, pending: &Pending, answer: Result<HttpAnswer, SendError>) -> Result<Duration, HistoryError> {
        let Settings { history, clock, metrics, .. } = &self.settings;
        let (name, about) = (self.recipient.name(), about(&pending.notice));
        let (why, retry_after) = match answer {
            Ok(answer) => match self.recipient.verdict(pending, &answer) {
                AnswerVerdict::Taken => {
                    self.recipient.count(metrics, NoticeLabels::Sent);
                    history.notice_told(name, pending.last())?;
                    return Ok(Duration::ZERO);
                }
                AnswerVerdict::Refused => {
                    warn!(about, %answer, "given up: the receiver refuses the message");
                    self.recipient.count(metrics, NoticeLabels::GivenUp);
                    history.notice_told(name, pending.last())?;
                    return Ok(Duration::ZERO);
                }
                AnswerVerdict::Again(advice) => {
                    let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                    (format!("{answer}{advice}"), answer.retry_after)
                }
            },
            Err(error) => (error.to_string(), None),
        };
        let wait = IN_VAIN.wait_number(pending.attempts).max(retry_after.unwrap_or_default()).min(LONGEST_WAIT);
        warn!(about, why, retry_in = wait.as_secs(), "failed to tell the receiver, trying again");
        self.recipient.count(metrics, NoticeLabels::Failed);
        history.notice_not_told(name, after(clock.now(), wait))?;
        Ok(LOOK)
    }
}

/// Returns the subject of a notice, for the log.
fn about(notice: &Notice) -> String {
    match &notice.about {
        NoticeAbout::Source(_) | NoticeAbout::Disagreement(_) => format!("source {}", notice.source),
        NoticeAbout::Held(commit) => format!("hold of {}", commit.short()),
        NoticeAbout::Past(commit, _) => format!("commits before {}", commit.short()),
        NoticeAbout::Commit(commit, _) => format!("commit {}", commit.short()),
    }
}

/// Returns the age of something; zero if a clock was set back.
fn age(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(at)).unwrap_or_default()
}

/// Returns the time when so long has passed.
fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let then = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
    then.unwrap_or(Timestamp::MAX)
}

/// Returns the time until then; zero if it is over.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
