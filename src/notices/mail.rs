//! A message by mail: in plain text, over SMTP.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use lettre::Message;
use lettre::address::Envelope;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::bounded_stream::BoundedStream;
use super::delivery::{Delivery, HttpAnswer, MailRoute, SendError};
use super::encryption::encrypted;
use super::lookup::allowed_addresses;
use super::message::Notification;
use super::message_text::{Style, text};
use crate::plain_line::plain_line;

/// The number of characters of a text from elsewhere that are shown.
const TEXT: usize = 1000;
/// The largest number of characters of a subject.
const SUBJECT: usize = 150;
/// The longest time that a server that has taken a mail may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);
/// The style of texts in a mail.
const STYLE: Style =
    Style { quoted: |text| plain_line(text, TEXT), strong: str::to_owned, link: |url, name| format!("{name}: {url}") };

impl MailRoute {
    /// Returns the route to these, from this one, known to the server by a name and a password.
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

/// Returns the mail, as it is sent.
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
pub(super) async fn send(
    delivery: &Delivery,
    route: &MailRoute,
    connector: &TlsConnector,
) -> Result<HttpAnswer, SendError> {
    let hidden = |text: &str| plain_line(&delivery.secrets.hide(text), TEXT);
    let mut failed = Vec::new();
    for address in allowed_addresses(&delivery.target, delivery.allow_private).await? {
        // The checked address is the one that is used; TLS still asks for the server's name.
        let sent = match TcpStream::connect(address).await {
            Ok(stream) => converse(stream, delivery, route, connector).await,
            Err(error) => Err(MailError::Connection(error.to_string())),
        };
        match sent {
            Ok(answer) => {
                let text = hidden(answer.first_line().unwrap_or_default());
                return Ok(HttpAnswer { status: answer.code().into(), retry_after: None, text });
            }
            Err(MailError::Answer(error)) => return Err(SendError(hidden(&format!("{}: {error}", delivery.host())))),
            Err(MailError::Connection(error)) => {
                failed.push(hidden(&format!("{} ({address}): {error}", delivery.host())));
            }
        }
    }
    Err(unsent(delivery.host(), &failed))
}

/// The reason for which a mail was not taken.
pub(super) enum MailError {
    /// Something is wrong with the connection. Another address of the server may be better.
    Connection(String),
    /// The server says so, and would say the same at another address.
    Answer(String),
}

impl From<lettre::transport::smtp::Error> for MailError {
    fn from(error: lettre::transport::smtp::Error) -> MailError {
        match error.is_response() || error.is_permanent() || error.is_transient() {
            true => MailError::Answer(error.to_string()),
            false => MailError::Connection(error.to_string()),
        }
    }
}

impl From<SendError> for MailError {
    fn from(error: SendError) -> MailError {
        MailError::Connection(error.0)
    }
}

/// Sends the mail over a connection of its own.
///
/// `smtps://` speaks TLS from the beginning, `smtp://` after STARTTLS; without TLS only to a private address, where nothing
/// secret is sent and the server does not offer it.
pub(super) async fn converse<S>(
    stream: S,
    delivery: &Delivery,
    route: &MailRoute,
    connector: &TlsConnector,
) -> Result<Response, MailError>
where
    S: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin + 'static,
{
    let hello = ClientId::default();
    let stream = BoundedStream::new(stream);
    let mut connection = if delivery.target.is_encrypted() {
        let stream = encrypted(connector, &delivery.target, stream).await?;
        AsyncSmtpConnection::connect_with_transport(Box::new(BoundedStream::new(stream)), &hello).await?
    } else {
        let may_be_plain = delivery.allow_private && route.credentials.is_none();
        let mut connection = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await?;
        if connection.can_starttls() || !may_be_plain {
            connection.starttls(tls_parameters(delivery)?, &hello).await?;
        }
        connection
    };
    if let Some(credentials) = &route.credentials {
        connection.auth(DEFAULT_MECHANISMS, credentials).await?;
    }
    let answer = connection.send(&route.envelope, &delivery.body).await?;
    // The mail is taken, whatever comes of the farewell.
    drop(timeout(FAREWELL, connection.abort()).await);
    Ok(answer)
}

/// Returns the message about a server if no address took the mail. Each may have another reason: a certificate that is
/// refused after STARTTLS counts as a connection that failed, and the next address may refuse to be connected to at
/// all.
fn unsent(host: &str, failed: &[String]) -> SendError {
    if failed.is_empty() {
        SendError(format!("{host} has no address"))
    } else {
        SendError(plain_line(&failed.join("; "), TEXT))
    }
}

/// Returns the parameters for STARTTLS.
fn tls_parameters(delivery: &Delivery) -> Result<TlsParameters, SendError> {
    let unusable = |error| SendError(format!("TLS: {error}"));
    let mut parameters = TlsParameters::builder(delivery.host().to_owned());
    for authority in &delivery.authorities {
        parameters = parameters.add_root_certificate(Certificate::from_der(authority.to_vec()).map_err(unusable)?);
    }
    parameters.build_rustls().map_err(unusable)
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
