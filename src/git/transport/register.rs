//! belay's transports in libgit2's place: http and https over hyper and rustls, ssh by the user's own `ssh`.

use git2::Remote;
use git2::transport::{Transport, register};

use super::http::HttpTransport;
use super::session::current;
use super::ssh::SshTransport;

/// Has libgit2 use belay's transports for every address of a server.
#[expect(unsafe_code, reason = "libgit2 keeps its transports in a global list")]
pub(in crate::git) fn install() -> Result<(), git2::Error> {
    // SAFETY: the caller stands before every other use of libgit2, so that nobody reads the list meanwhile.
    unsafe {
        register("http", http)?;
        register("https", http)?;
        register("ssh", ssh)
    }
}

fn http(remote: &Remote<'_>) -> Result<Transport, git2::Error> {
    let session = current().ok_or_else(no_session)?;
    Transport::smart(remote, true, HttpTransport::new(session))
}

fn ssh(remote: &Remote<'_>) -> Result<Transport, git2::Error> {
    let session = current().ok_or_else(no_session)?;
    Transport::smart(remote, false, SshTransport::new(session))
}

fn no_session() -> git2::Error {
    git2::Error::from_str("there is no session with a server")
}
