//! TLS with a receiver.

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::Destination;
use super::delivery::SendError;

/// Begins TLS with a receiver.
pub(super) async fn encrypted<S>(tls: &TlsConnector, target: &Destination, stream: S) -> Result<TlsStream<S>, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(target.host().to_owned());
    let name = name.map_err(|_| SendError(format!("{} is no name of a server", target.host())))?;
    let stream = tls.connect(name, stream).await;
    stream.map_err(|error| SendError(format!("TLS with {}: {error}", target.host())))
}
