//! The interim answers of a server (HTTP 1xx, `100 Continue`), of which the client reads any number before the answer.
//!
//! A server that sends them without end costs a processor for as long as the answer is waited for.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use tokio_util::sync::CancellationToken;

/// The most interim answers before an answer. Servers send one or two.
const MOST: usize = 100;

/// The server sends too many of them.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it sends more than {MOST} interim answers (HTTP 1xx) and no answer")]
pub struct TooManyInterimAnswers;

/// Sends a request, and gives it up when there are too many interim answers.
///
/// # Errors
/// Fails when there are.
pub async fn with_few_interim_answers<B, F: Future>(
    mut request: Request<B>,
    send: impl FnOnce(Request<B>) -> F,
) -> Result<F::Output, TooManyInterimAnswers> {
    let (counted, too_many) = (AtomicUsize::new(0), CancellationToken::new());
    let give_up = too_many.clone();
    hyper::ext::on_informational(&mut request, move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) >= MOST {
            give_up.cancel();
        }
    });
    tokio::select! {
        biased;
        () = too_many.cancelled() => Err(TooManyInterimAnswers),
        answer = send(request) => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Asks a server that sends so many interim answers, and then the answer.
    async fn asked(interim: usize) -> Result<u16, TooManyInterimAnswers> {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let _ = theirs.read(&mut [0; 1024]).await;
            for _ in 0..interim {
                if theirs.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await.is_err() {
                    return;
                }
            }
            let _ = theirs.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        });
        let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().uri("/").header("host", "a").body(Full::<Bytes>::default()).unwrap();
        let answer = with_few_interim_answers(request, |request| sender.send_request(request)).await?;
        Ok(answer.unwrap().status().as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_may_send_some() {
        for (interim, answered) in [(0, true), (1, true), (MOST, true), (MOST + 1, false), (usize::MAX, false)] {
            match asked(interim).await {
                Ok(status) => assert!(answered && status == 204, "{interim}"),
                Err(error) => assert!(!answered && error.to_string().contains("1xx"), "{interim}"),
            }
        }
    }
}
