//! The credentials that belay shows to a Git server, and only to the one that they are for.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rustls::RootCertStore;

use super::location::{Location, Origin};
use crate::git::error::GitError;
use crate::regular_file::{open_regular, read_regular_text};
use crate::tls::read_authorities;

/// The longest password, token or passphrase, in bytes.
const SECRET_LIMIT: u64 = 64 << 10;

/// The names of the files in which credentials are, bound to one server. The files are read when they are needed, so
/// that they can be exchanged while belay runs, and their content is kept no longer than that.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    origin: Option<Origin>,
    user: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
    known_hosts: Option<PathBuf>,
}

impl Credentials {
    /// Returns no credentials yet, to be filled in for the server of `location`: its scheme, host and port. No other
    /// server is shown them.
    #[must_use]
    pub fn new(location: &Location) -> Credentials {
        let user = location.user().map(str::to_owned);
        Credentials { origin: location.origin().cloned(), user, ..Credentials::default() }
    }

    /// Returns the user, if the location does not name one. `git` without it.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Credentials {
        self.user = Some(user.into());
        self
    }

    /// Returns the file with the password or token for `https`. One line; a line break at its end does not count.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.token_file = Some(path.into());
        self
    }

    /// The file with certificates in PEM, of authorities that are trusted beside the machine's, for `https`.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.ca_file = Some(path.into());
        self
    }

    /// The file with the private key for `ssh`. Without it `ssh` takes those of its configuration, its agent and `~/.ssh`.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.key_file = Some(path.into());
        self
    }

    /// Returns the file with the passphrase of that key.
    #[must_use]
    pub fn passphrase_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.passphrase_file = Some(path.into());
        self
    }

    /// The file with the keys of the servers that are trusted; those that `ssh` reads without it. A server that is in none
    /// of them is never spoken to.
    #[must_use]
    pub fn known_hosts(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.known_hosts = Some(path.into());
        self
    }

    /// The server that they are for.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the header by which the token is shown; nothing where none is configured for this server.
    pub(super) fn authorization(&self, location: &Location) -> Result<Option<HeaderValue>, GitError> {
        let is_for_it = self.origin.is_some() && self.origin.as_ref() == location.origin();
        let Some(file) = self.token_file.as_ref().filter(|_| is_for_it) else { return Ok(None) };
        let token = secret("token file", file)?;
        let encoded = STANDARD.encode(format!("{}:{}", self.user_name(), token.0));
        let mut value = HeaderValue::from_str(&format!("Basic {encoded}"))
            .map_err(|_| unreadable("token file", file, "it can't be sent in a header"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Adds the certificates of `ca_file`.
    pub(super) fn add_authorities(&self, roots: &mut RootCertStore) -> Result<(), GitError> {
        let Some(file) = &self.ca_file else { return Ok(()) };
        let unusable = |why: String| unreadable("ca_file", file, &why);
        for authority in read_authorities(file).map_err(unusable)? {
            roots.add(authority).map_err(|error| unusable(format!("a certificate in it can't be used: {error}")))?;
        }
        Ok(())
    }

    /// The user that the server is asked as.
    pub(super) fn user_name(&self) -> &str {
        self.user.as_deref().unwrap_or("git")
    }

    /// Returns the private key for ssh, where one is configured and there.
    pub(super) fn ssh_key(&self) -> Result<Option<&Path>, GitError> {
        let Some(key) = &self.key_file else { return Ok(None) };
        open_regular(key).map_err(|error| unreadable("ssh key", key, &error.to_string()))?;
        Ok(Some(key))
    }

    /// Returns the file with the passphrase of the key, where it is configured and can be used.
    pub(super) fn ssh_passphrase(&self) -> Result<Option<&Path>, GitError> {
        let Some(file) = &self.passphrase_file else { return Ok(None) };
        secret("passphrase file", file)?;
        Ok(Some(file))
    }

    /// Returns the file of known hosts, where one is configured and there.
    pub(super) fn known_hosts_file(&self) -> Result<Option<&Path>, GitError> {
        let Some(file) = &self.known_hosts else { return Ok(None) };
        open_regular(file).map_err(|error| unreadable("known_hosts file", file, &error.to_string()))?;
        Ok(Some(file))
    }
}

/// A secret, which no message shows.
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Reads a secret of one line.
pub(super) fn secret(what: &'static str, path: &Path) -> Result<Secret, GitError> {
    let text = read_regular_text(path, SECRET_LIMIT).map_err(|error| unreadable(what, path, &error.to_string()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(unreadable(what, path, "it is empty"));
    }
    if secret.contains(['\n', '\r', '\0']) {
        return Err(unreadable(what, path, "it has more than one line"));
    }
    Ok(Secret(secret.to_owned()))
}

pub(super) fn unreadable(what: &'static str, path: &Path, why: &str) -> GitError {
    GitError::Credential { what, path: path.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_to_one_origin() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "hunter2\n").unwrap();
        let location = |url: &str| url.parse::<Location>().unwrap();
        let credentials = Credentials::new(&location("https://git.example.com/deploy.git")).token_file(&file);
        let shown = |url: &str| credentials.authorization(&location(url)).unwrap();
        let header = shown("https://git.example.com:443/other.git").unwrap();
        assert!(header.is_sensitive() && header == format!("Basic {}", STANDARD.encode("git:hunter2")));
        for other in [
            "https://git.example.com:8443/deploy.git",
            "https://git.example.com.evil.org/deploy.git",
            "ssh://git.example.com:443/deploy.git",
            "http://localhost/deploy.git",
            "/srv/git/deploy.git",
        ] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn authorities_that_are_no_use_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let location: Location = "https://git.example.com/deploy.git".parse().unwrap();
        let credentials = Credentials::new(&location).ca_file(&file);
        let add = || credentials.add_authorities(&mut RootCertStore::empty()).unwrap_err().to_string();
        assert!(add().contains("ca.pem: No such file"), "{}", add());
        std::fs::write(&file, "nothing\n").unwrap();
        assert!(add().contains("there is no certificate in it"), "{}", add());
    }
}
