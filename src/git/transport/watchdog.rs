//! An end to a talk with a Git server that keeps libgit2 waiting.
//!
//! libgit2 gives up a server that says nothing. One that says a byte now and then, or lines without end where libssh2 skips
//! them, keeps it in a loop that asks nobody whether it may go on. So another thread closes the connection when time is over,
//! or when belay stops; libgit2 then fails.

use std::fs;
use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::location::Origin;

/// How often is looked whether belay stops.
const LOOK: Duration = Duration::from_millis(200);

/// Watches over one talk until it is dropped.
pub(in crate::git) struct Watchdog {
    more: Sender<Duration>,
    time_is_over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Closes the connections to a server when `limit` is over, unless it is dropped before.
    pub(in crate::git) fn watch<'scope>(
        scope: &'scope Scope<'scope, '_>,
        origin: &'scope Origin,
        limit: Duration,
        stop: &'scope CancellationToken,
    ) -> io::Result<Watchdog> {
        let (more, heard) = channel();
        let time_is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&time_is_over);
        let watch = move || watch(origin, limit, stop, &heard, &over);
        thread::Builder::new().name("watch-talk".to_owned()).spawn_scoped(scope, watch)?;
        Ok(Watchdog { more, time_is_over })
    }

    /// Whether the connections were closed because time was over.
    pub(in crate::git) fn time_is_over(&self) -> bool {
        self.time_is_over.load(Ordering::Relaxed)
    }

    /// Gives the talk so long, from now on.
    pub(in crate::git) fn extend(&self, limit: Duration) {
        // The other side ends last.
        let _ = self.more.send(limit);
    }
}

#[allow(clippy::disallowed_methods, reason = "a thread beside the runtime watches a real connection")]
fn watch(
    origin: &Origin,
    limit: Duration,
    stop: &CancellationToken,
    heard: &Receiver<Duration>,
    time_is_over: &AtomicBool,
) {
    let mut until = Instant::now() + limit;
    loop {
        match heard.recv_timeout(LOOK) {
            Ok(limit) => until = Instant::now() + limit,
            Err(RecvTimeoutError::Disconnected) => return,
            // Again and again: a connection may just be coming about.
            Err(RecvTimeoutError::Timeout) if stop.is_cancelled() => close(origin),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                time_is_over.store(true, Ordering::Relaxed);
                close(origin);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Closes every connection of this process to a server.
fn close(origin: &Origin) {
    let Ok(addresses) = (origin.host.as_str(), origin.port).to_socket_addrs() else { return };
    let addresses: Vec<IpAddr> = addresses.map(|address| address.ip().to_canonical()).collect();
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let open = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for connection in open.filter_map(connection) {
        let peer = connection.peer_addr().ok();
        let is_its = |ip: IpAddr| addresses.contains(&ip.to_canonical());
        if peer.is_some_and(|peer| peer.port() == origin.port && is_its(peer.ip())) {
            tracing::debug!(server = %origin, "closing a connection that takes too long");
            // One that is closed already is no trouble.
            drop(connection.shutdown(std::net::Shutdown::Both));
        }
    }
}

/// A copy of a descriptor, as a connection. What it is, its address tells.
#[expect(unsafe_code, reason = "a descriptor that another thread owns is copied, and nothing else is done with it")]
fn connection(descriptor: RawFd) -> Option<TcpStream> {
    // SAFETY: it is borrowed for a copy. Where it is closed meanwhile, copying fails, or copies what has its number now; what
    // becomes of the copy depends on its own address.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().ok().map(TcpStream::from)
}
