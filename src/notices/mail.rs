//! A message by mail: in plain text, over SMTP.

use std::net::SocketAddr;
use std::time::SystemTime;

use lettre::address::Envelope;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};

use super::delivery::{Delivery, HttpAnswer, MailRoute, SendError};
use super::lookup::allowed_addresses;
use super::message::Notification;
use super::message_text::{Style, text};
use super::plain_line::plain_line;

/// How many characters of a text from elsewhere are shown.
const TEXT: usize = 1000;
/// How many characters a subject has.
const SUBJECT: usize = 150;
/// How mail shows a text.
const STYLE: Style =
    Style { quoted: |text| plain_line(text, TEXT), strong: str::to_owned, link: |url, name| format!("{name}: {url}") };

impl MailRoute {
    /// To these, from this one, known to the server by a name and a password.
    pub(super) fn new(
        from: &Mailbox,
        to: &[Mailbox],
        credentials: Option<(String, String)>,
    ) -> Result<Self, SendError> {
        let to = to.iter().map(|to| to.email.clone()).collect();
        let envelope = Envelope::new(Some(from.email.clone()), to);
        let envelope = envelope.map_err(|error| SendError(format!("from and to: {error}")))?;
        Ok(MailRoute { envelope, credentials: credentials.map(Credentials::from) })
    }
}

/// The mail, as it is sent.
pub(super) fn mail(notification: &Notification, from: &Mailbox, to: &[Mailbox]) -> Result<Vec<u8>, SendError> {
    let text = text(notification, &STYLE);
    let headline = text.lines().next().unwrap_or_default();
    let host = from.email.domain();
    let builder = to.iter().cloned().fold(Message::builder().from(from.clone()), MessageBuilder::to);
    let mail = builder
        .subject(plain_line(&format!("[belay] {headline}"), SUBJECT))
        .date(SystemTime::from(notification.at))
        // The same when it is sent again: most programs show it once then.
        .message_id(Some(format!("<{}@{host}>", notification.delivery)))
        .header(ContentType::TEXT_PLAIN)
        .body(format!("{text}\n"));
    mail.map(|mail| mail.formatted()).map_err(|error| SendError(format!("the mail can't be written: {error}")))
}

/// Sends it to the server that the delivery names.
pub(super) async fn send(delivery: &Delivery, route: &MailRoute) -> Result<HttpAnswer, SendError> {
    let tls = tls(delivery, route)?;
    let mut failed = Vec::new();
    for address in allowed_addresses(&delivery.target, delivery.allow_private).await? {
        let sent = transport(address, tls.clone(), route).send_raw(&route.envelope, &delivery.body).await;
        match sent {
            Ok(answer) => {
                return Ok(HttpAnswer {
                    status: answer.code().into(),
                    retry_after: None,
                    text: plain_line(answer.first_line().unwrap_or_default(), TEXT),
                });
            }
            // What it says is an answer; another address of the same server would say the same.
            Err(error) if error.is_response() || error.is_permanent() || error.is_transient() => {
                return Err(SendError(plain_line(&format!("{}: {error}", delivery.host()), TEXT)));
            }
            Err(error) => failed.push(format!("{} ({address}): {error}", delivery.host())),
        }
    }
    Err(unsent(delivery.host(), &failed))
}

/// What is said of a server where no address took the mail. Each may have another reason: a certificate that is refused
/// after STARTTLS counts as a connection that failed, and the next address may refuse to be connected to at all.
fn unsent(host: &str, failed: &[String]) -> SendError {
    if failed.is_empty() {
        SendError(format!("{host} has no address"))
    } else {
        SendError(plain_line(&failed.join("; "), TEXT))
    }
}

fn transport(address: SocketAddr, tls: Tls, route: &MailRoute) -> AsyncSmtpTransport<Tokio1Executor> {
    // The address that was looked at is the one that is used; TLS still asks for the server's name.
    let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.ip().to_string());
    let builder = builder.port(address.port()).tls(tls);
    match &route.credentials {
        Some(credentials) => builder.credentials(credentials.clone()).build(),
        None => builder.build(),
    }
}

/// `smtps://` speaks TLS from the beginning, `smtp://` after STARTTLS; without TLS only to a private address, where nothing
/// secret is sent and the server does not offer it.
fn tls(delivery: &Delivery, route: &MailRoute) -> Result<Tls, SendError> {
    let unusable = |error| SendError(format!("TLS: {error}"));
    let mut parameters = TlsParameters::builder(delivery.host().to_owned());
    for authority in &delivery.authorities {
        parameters = parameters.add_root_certificate(Certificate::from_der(authority.to_vec()).map_err(unusable)?);
    }
    let parameters = parameters.build_rustls().map_err(unusable)?;
    Ok(match delivery.target.is_encrypted() {
        true => Tls::Wrapper(parameters),
        false if delivery.allow_private && route.credentials.is_none() => Tls::Opportunistic(parameters),
        false => Tls::Required(parameters),
    })
}

#[cfg(test)]
mod tests {
    use super::unsent;

    #[test]
    fn what_each_address_said_is_told() {
        let failed =
            ["mail (192.0.2.1:25): certificate\nexpired".to_owned(), "mail (192.0.2.2:25): refused".to_owned()];
        assert_eq!(unsent("mail", &failed).0, "mail (192.0.2.1:25): certificate expired; mail (192.0.2.2:25): refused");
        assert_eq!(unsent("mail", &[]).0, "mail has no address");
    }
}
