//! A receiver of notices: which it wants, and the messages that it is sent.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use lettre::message::Mailbox;

use super::address::Destination;
use super::delivery::{AnswerVerdict, Delivery, HttpAnswer, MailRoute, Post, SendError, authorities};
use super::digest::digest;
use super::forge::{self, CommitState};
use super::links::Links;
use super::mail;
use super::message::{NoticeEvent, Notification, event};
use super::recipient::{LOOK, Recipient, Settings, is_begun};
use super::signature::signature;
use super::slack;
use crate::config::{NotifyConfig, NotifyEvent, NotifyKind, read_secret};
use crate::history::{HistoryError, Notice, NoticeAbout, Pending};
use crate::secrets::Secrets;
use crate::telemetry::{Metrics, NoticeLabels};
use belay_core::rollout::{CommitId, Outcome};

/// The period between two searches for the notices of a forge, which is notified at once of a beginning.
const LOOK_OF_FORGE: Duration = Duration::from_secs(1);

/// One receiver.
#[derive(Clone, Debug)]
pub struct Receiver(NotifyConfig);

impl Recipient for Receiver {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn look(&self) -> Duration {
        if self.is_forge() { LOOK_OF_FORGE } else { LOOK }
    }

    fn message(
        &self,
        pending: &Pending,
        settings: &Settings,
    ) -> Result<Option<Result<Delivery, SendError>>, HistoryError> {
        let wanted: Vec<&Notice> = pending.notices().filter(|notice| self.wants(notice)).collect();
        let Some(mut notification) = Notification::read(&settings.history, &wanted)? else { return Ok(None) };
        notification.delivery = delivery_id(&self.0.name, pending);
        let state = state(pending, notification.event);
        Ok(Some(self.addressed(notification, state, &settings.links)))
    }

    fn verdict(&self, pending: &Pending, answer: &HttpAnswer) -> AnswerVerdict {
        if answer.is_taken() || is_begun(&pending.notice) && forge::was_so(self.0.kind, answer) {
            return AnswerVerdict::Taken;
        }
        if answer.is_refusal() {
            return AnswerVerdict::Refused;
        }
        let advice = forge::advice(self.0.kind, answer.status);
        AnswerVerdict::Again(advice.filter(|_| answer.retry_after.is_none()).map(str::to_owned))
    }

    fn count(&self, metrics: &Metrics, result: NoticeLabels) {
        metrics.noticed(&self.0.name, result);
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
        let delivery = digest(&[&self.0.name, "test", &now.to_string()]);
        let notification = Notification { delivery, ..Notification::test(now) };
        let mut answer = post.post(self.addressed(notification, CommitState::Success, links)?).await?;
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

    /// Returns a message with its links, on its way to the receiver.
    fn addressed(
        &self,
        mut notification: Notification,
        state: CommitState,
        links: &Links,
    ) -> Result<Delivery, SendError> {
        notification.receiver.clone_from(&self.0.name);
        links.add_to(&mut notification);
        let branch = notification.source.as_ref().and_then(|source| links.branches.get(source));
        self.delivery(&notification, state, branch.map(String::as_str))
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
        let (allow_private, authorities) = (self.0.allow_private, authorities(self.0.ca_file.as_deref())?);
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
            authorities: authorities(self.0.ca_file.as_deref())?,
            mail: Some(route),
            secrets,
            body: mail::mail(notification, &from, &to)?,
        })
    }

    fn address(&self) -> Result<String, SendError> {
        match (&self.0.url, &self.0.url_file) {
            (Some(url), _) => Ok(url.reveal().to_owned()),
            (None, Some(file)) => read_secret(file).map_err(SendError),
            (None, None) => Err(SendError("there is no address".to_owned())),
        }
    }
}

/// Returns the state of a commit that a forge is to show.
fn state(pending: &Pending, event: NoticeEvent) -> CommitState {
    if is_begun(&pending.notice) { CommitState::Pending } else { CommitState::of(event) }
}

/// Returns an address of mail, with or without a name.
fn mailbox(text: &str) -> Result<Mailbox, SendError> {
    text.parse().map_err(|error| SendError(format!("{text:?} is no address of mail: {error}")))
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
