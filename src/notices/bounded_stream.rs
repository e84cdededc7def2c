//! A connection over which only so much is taken from the other side, however it is divided into lines, headers and bodies.
//!
//! A reader of a line or a header reads until it ends. A receiver that never ends one would fill belay's memory.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest number of bytes that a receiver may send over one connection, TLS and all: some twenty certificates and
/// answers.
pub(super) const RECEIVED: usize = 256 << 10;

/// The connection.
#[derive(Debug)]
pub(super) struct BoundedStream<S> {
    inner: S,
    left: usize,
}

impl<S> BoundedStream<S> {
    /// Takes [`RECEIVED`] bytes at most.
    pub(super) fn new(inner: S) -> BoundedStream<S> {
        BoundedStream { inner, left: RECEIVED }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        match self.left.checked_sub(read) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Err(Error::other(format!("it sent more than {} KiB", RECEIVED >> 10)))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream for BoundedStream<S> {
    fn peer_addr(&self) -> Result<SocketAddr> {
        Err(Error::other("not known here"))
    }
}
