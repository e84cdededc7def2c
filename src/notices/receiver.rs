//! A receiver, and the task that sends to it: one message after another, with growing delays while it does not answer.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use lettre::message::Mailbox;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span, warn};

use super::address::Destination;
use super::delivery::{Delivery, HttpAnswer, MailRoute, Post, SendError};
use super::forge::{self, CommitState};
use super::links::Links;
use super::mail;
use super::message::{Notification, event};
use super::signature::signature;
use super::slack;
use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::config::{NotifyConfig, NotifyEvent, NotifyKind, read_secret};
use crate::history::{History, HistoryError, Notice, NoticeAbout, Pending};
use crate::secrets::Secrets;
use crate::telemetry::{Metrics, NoticeLabels};
use crate::tls::read_authorities;
use belay_core::rollout::{CommitId, Outcome};

/// The period between two searches of a receiver for new notices.
const LOOK: Duration = Duration::from_secs(5);
/// The same of a forge, which is notified at once of a beginning.
const LOOK_OF_FORGE: Duration = Duration::from_secs(1);
/// The age of a notice at which it is sent: troubles of one moment are sent together.
const SETTLES: Duration = Duration::from_secs(5);
/// The longest wait, also if a receiver asks for a longer one.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The waits after attempts in vain.
pub(super) const IN_VAIN: Backoff = Backoff::between(Duration::from_secs(10), LONGEST_WAIT);
/// The time for which a message is tried.
const GIVES_UP: Duration = Duration::from_hours(24);
/// The number of bytes of a message's id.
const ID: usize = 16;

/// One receiver.
#[derive(Clone, Debug)]
pub struct Receiver(NotifyConfig);

/// The settings of a receiver.
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

/// Sends to all receivers until it is cancelled. Each has its own task: one that does not answer delays no other.
pub async fn tell(receivers: Vec<NotifyConfig>, settings: Settings, stop: CancellationToken) {
    let names: Vec<String> = receivers.iter().map(|receiver| receiver.name.clone()).collect();
    while let Err(error) = settings.history.set_receivers(&names) {
        warn!(%error, "failed to note who is told, trying again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    let mut tasks = JoinSet::new();
    for config in receivers {
        settings.metrics.receiver(&config.name);
        let span = info_span!("notify", receiver = config.name);
        let told = Sender { receiver: Receiver(config), settings: settings.clone() };
        let stop = stop.clone();
        tasks.spawn(async move { stop.run_until_cancelled(told.run()).await }.instrument(span));
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "belay's own fault: the telling of a receiver panicked");
        }
    }
}

/// A receiver and its task.
struct Sender {
    receiver: Receiver,
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
        let Settings { history, clock, metrics, .. } = &self.settings;
        let name = &self.receiver.0.name;
        let Some(pending) = history.next_notice(name)? else { return Ok(self.look()) };
        let notice = &pending.notice;
        let age = age(notice.at, clock.now());
        if age >= GIVES_UP {
            warn!(about = about(notice), "given up after 24 h: the receiver is not told of it");
            metrics.noticed(name, NoticeLabels::GivenUp);
            history.notice_given_up(name, pending.last())?;
            return Ok(Duration::ZERO);
        }
        // A clock that was set back is no reason to wait for longer.
        let retry = pending.retry.map(|retry| until(clock.now(), retry)).filter(|wait| *wait <= LONGEST_WAIT);
        // A notice that something has begun is sent at once.
        let settles = if is_begun(notice) { Duration::ZERO } else { SETTLES };
        let wait = retry.unwrap_or_default().max(settles.saturating_sub(age));
        if !wait.is_zero() {
            return Ok(wait.min(self.look()));
        }
        let wanted: Vec<&Notice> = pending.notices().filter(|notice| self.receiver.wants(notice)).collect();
        let Some(notification) = Notification::read(history, &wanted)? else {
            // It is not meant for this receiver, its records were forgotten, or the condition is over.
            history.notice_told(name, pending.last())?;
            return Ok(Duration::ZERO);
        };
        let delivery = delivery_id(name, &pending);
        // Noted before it begins: a delivery that ends belay is not repeated at once after the next start.
        history.notice_tried(name, after(clock.now(), IN_VAIN.wait_number(pending.attempts)))?;
        let state = if is_begun(notice) { CommitState::Pending } else { CommitState::of(notification.event) };
        let answer =
            self.receiver.send(notification, state, delivery, &self.settings.links, &*self.settings.post).await;
        let answer = answer.map(|answer| self.receiver.judged(state, answer));
        self.heard(&pending, answer)
    }

    fn look(&self) -> Duration {
        if self.receiver.is_forge() { LOOK_OF_FORGE } else { LOOK }
    }

    /// Notes the answer.
    fn heard(&self, pending: &Pending, answer: Result<HttpAnswer, SendError>) -> Result<Duration, HistoryError> {
        let Settings { history, clock, metrics, .. } = &self.settings;
        let (name, about) = (&self.receiver.0.name, about(&pending.notice));
        let (why, retry_after) = match answer {
            Ok(answer) if answer.is_taken() => {
                metrics.noticed(name, NoticeLabels::Sent);
                history.notice_told(name, pending.last())?;
                return Ok(Duration::ZERO);
            }
            Ok(answer) if answer.is_refusal() => {
                warn!(about, %answer, "given up: the receiver refuses the message");
                metrics.noticed(name, NoticeLabels::GivenUp);
                history.notice_told(name, pending.last())?;
                return Ok(Duration::ZERO);
            }
            Ok(answer) => {
                let advice = forge::advice(self.receiver.0.kind, answer.status);
                let advice = advice.filter(|_| answer.retry_after.is_none()).map(|advice| format!("; {advice}"));
                (format!("{answer}{}", advice.unwrap_or_default()), answer.retry_after)
            }
            Err(error) => (error.to_string(), None),
        };
        let wait = IN_VAIN.wait_number(pending.attempts).max(retry_after.unwrap_or_default()).min(LONGEST_WAIT);
        warn!(about, why, retry_in = wait.as_secs(), "failed to tell the receiver, trying again");
        metrics.noticed(name, NoticeLabels::Failed);
        history.notice_not_told(name, after(clock.now(), wait))?;
        Ok(LOOK)
    }
}

impl Receiver {
    /// Returns the receiver that a configuration describes.
    #[must_use]
    pub fn new(config: NotifyConfig) -> Receiver {
        Receiver(config)
    }

    /// Sends a test message, and returns the answer. For a forge the repository is read, and no status is written.
    ///
    /// # Errors
    ///
    /// Fails when there is no answer, or a file can't be read.
    pub async fn try_out(&self, now: Timestamp, links: &Links, post: &dyn Post) -> Result<HttpAnswer, SendError> {
        let id = digest(&[&self.0.name, "test", &now.to_string()]);
        let mut answer = self.send(Notification::test(now), CommitState::Success, id, links, post).await?;
        if self.0.kind.is_forge() && answer.is_taken() {
            // The forge's text about the repository is of no use.
            answer.text.clear();
        }
        if let Some(advice) = forge::advice(self.0.kind, answer.status) {
            answer.text = format!("{}; {advice}", answer.text);
        }
        Ok(answer)
    }

    /// Returns true when it is a forge.
    #[must_use]
    pub fn is_forge(&self) -> bool {
        self.0.kind.is_forge()
    }

    /// Turns an answer that only says that all is as it should be into one that takes the message.
    fn judged(&self, state: CommitState, answer: HttpAnswer) -> HttpAnswer {
        match forge::was_so(self.0.kind, state, &answer) {
            true => HttpAnswer { status: 200, ..answer },
            false => answer,
        }
    }

    fn wants(&self, notice: &Notice) -> bool {
        let NotifyConfig { sources, events, kind, .. } = &self.0;
        let told = match &notice.about {
            NoticeAbout::Commit(..) if kind.is_forge() => true,
            NoticeAbout::Commit(_, Outcome::Planned) => false,
            NoticeAbout::Commit(_, state) | NoticeAbout::Past(_, state) => events.contains(&event(*state)),
            NoticeAbout::Held(_) => events.contains(&NotifyEvent::Held),
            NoticeAbout::Source(Some(_)) => events.contains(&NotifyEvent::Blocked),
            NoticeAbout::Source(None) => events.contains(&NotifyEvent::Unblocked),
            NoticeAbout::Disagreement(_) => events.contains(&NotifyEvent::Disagreement),
        };
        // A forge has statuses of commits only.
        let fits = !kind.is_forge() || matches!(notice.about, NoticeAbout::Commit(..));
        told && fits && (sources.is_empty() || sources.contains(&notice.source))
    }

    async fn send(
        &self,
        mut notification: Notification,
        state: CommitState,
        delivery: String,
        links: &Links,
        post: &dyn Post,
    ) -> Result<HttpAnswer, SendError> {
        notification.delivery = delivery;
        notification.receiver.clone_from(&self.0.name);
        links.add_to(&mut notification);
        let branch = notification.source.as_ref().and_then(|source| links.branches.get(source));
        let delivery = self.delivery(&notification, state, branch.map(String::as_str))?;
        post.post(delivery).await
    }

    fn delivery(
        &self,
        notification: &Notification,
        state: CommitState,
        branch: Option<&str>,
    ) -> Result<Delivery, SendError> {
        let commit = notification.commit.as_ref().map(CommitId::as_str);
        let configured = self.address()?;
        if self.0.kind == NotifyKind::Email {
            return self.mail(notification, &configured);
        }
        let mut secrets = Secrets::default();
        secrets.add_path(Destination::parse(&configured).map_err(SendError)?.path());
        let (address, method) = match self.0.kind.is_forge() {
            true => (forge::address(&configured, commit), forge::method(commit)),
            false => (configured, Method::POST),
        };
        let target = Destination::parse(&address).map_err(SendError)?;
        let value = match self.0.kind {
            NotifyKind::Webhook => serde_json::to_value(notification).map_err(|error| SendError(error.to_string()))?,
            NotifyKind::Slack => slack::body(notification),
            kind => forge::body(kind, state, notification, branch),
        };
        let body = if method == Method::GET { Vec::new() } else { value.to_string().into_bytes() };
        let Notification { event, delivery, .. } = notification;
        let mut headers = vec![("x-belay-delivery", delivery.clone())];
        if !self.0.kind.is_forge() {
            headers.push(("x-belay-event", event.word()));
        }
        let token = self.0.token_file.as_ref().map(|file| read_secret(file)).transpose().map_err(SendError)?;
        if let Some(token) = token.as_deref().map(str::trim) {
            secrets.add(token);
            headers.extend(forge::headers(self.0.kind, token));
        }
        if let Some(file) = &self.0.secret_file {
            let signing = read_secret(file).map_err(SendError)?;
            secrets.add(&signing);
            headers
                .push(("x-belay-signature-256", signature(signing.trim_end_matches(['\r', '\n']).as_bytes(), &body)));
        }
        let (allow_private, authorities) = (self.0.allow_private, self.authorities()?);
        Ok(Delivery { target, allow_private, headers, method, authorities, mail: None, secrets, body })
    }

    /// Returns the message as a mail.
    fn mail(&self, notification: &Notification, address: &str) -> Result<Delivery, SendError> {
        let NotifyConfig { from, to, user, password_file, allow_private, .. } = &self.0;
        let from = from.as_ref().ok_or_else(|| SendError("from is not said".to_owned()))?;
        let from = mailbox(from)?;
        let to: Vec<Mailbox> = to.iter().map(|to| mailbox(to)).collect::<Result<_, _>>()?;
        let password = password_file.as_ref().map(|file| read_secret(file)).transpose().map_err(SendError)?;
        let password = password.map(|password| password.trim_end_matches(['\r', '\n']).to_owned());
        let credentials = user.clone().zip(password);
        let mut secrets = Secrets::default();
        if let Some((user, password)) = &credentials {
            secrets.add_password(user, password);
        }
        let route = MailRoute::new(&from, &to, credentials)?;
        Ok(Delivery {
            target: Destination::of_mail_server(address).map_err(SendError)?,
            allow_private: *allow_private,
            headers: Vec::new(),
            method: Method::POST,
            authorities: self.authorities()?,
            mail: Some(route),
            secrets,
            body: mail::mail(notification, &from, &to)?,
        })
    }

    /// Returns the certificates of `ca_file`.
    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, SendError> {
        let Some(file) = &self.0.ca_file else { return Ok(Vec::new()) };
        read_authorities(file).map_err(|why| SendError(format!("ca_file {}: {why}", file.display())))
    }

    fn address(&self) -> Result<String, SendError> {
        match (&self.0.url, &self.0.url_file) {
            (Some(url), _) => Ok(url.reveal().to_owned()),
            (None, Some(file)) => read_secret(file).map_err(SendError),
            (None, None) => Err(SendError("there is no address".to_owned())),
        }
    }
}

/// Returns true when a notice only says that a rollout has begun, which only forges are sent.
fn is_begun(notice: &Notice) -> bool {
    matches!(notice.about, NoticeAbout::Commit(_, Outcome::Planned))
}

/// Returns an address of mail, with or without a name.
fn mailbox(text: &str) -> Result<Mailbox, SendError> {
    text.parse().map_err(|error| SendError(format!("{text:?} is no address of mail: {error}")))
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

/// Returns the same for each attempt at a message, and for no other message.
fn delivery_id(receiver: &str, pending: &Pending) -> String {
    let notice = &pending.notice;
    let commit = notice.commit().map(CommitId::as_str).unwrap_or_default();
    let mut parts = vec![receiver.to_owned(), notice.number.to_string(), notice.source.clone(), commit.to_owned()];
    parts.push(notice.at.to_string());
    parts.extend(pending.together.last().map(|last| last.number.to_string()));
    digest(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn digest(parts: &[&str]) -> String {
    let hash = Sha256::digest(parts.join("\n"));
    hash.iter().take(ID).fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
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
