//! What belay shows to a Git server, and only to the one that it is for.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use git2::{Cred, CredentialType};

use super::location::{Location, Origin, Scheme};
use crate::git::error::GitError;
use crate::git::mirror::hidden::hidden_by_systemd;
use crate::regular_file::{open_regular, read_regular_text};

/// No password, token or passphrase is longer.
const SECRET_LIMIT: u64 = 64 << 10;
/// The private keys that ssh tries by itself, in this order.
const USUAL_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// How often a server may ask in one connection. It asks again when it did not like the answer.
const QUESTIONS: usize = 8;

/// The names of the files in which credentials are, bound to one server. The files are read when they are needed, so
/// that they can be exchanged while belay runs, and what is in them is kept no longer than that.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    origin: Option<Origin>,
    user: Option<String>,
    token_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
    agent: Agent,
    usual_keys: Vec<PathBuf>,
    known_hosts: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Agent {
    #[default]
    Unused,
    Used,
}

impl Credentials {
    /// None yet, to be filled in for the server of `location`: its scheme, host and port. No other server is shown them.
    #[must_use]
    pub fn new(location: &Location) -> Credentials {
        let user = location.user().map(str::to_owned);
        Credentials { origin: location.origin().cloned(), user, ..Credentials::default() }
    }

    /// The user, where the location does not name one. `git` without it.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Credentials {
        self.user = Some(user.into());
        self
    }

    /// The file with the password or token for `https`. One line; a line break at its end does not count.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.token_file = Some(path.into());
        self
    }

    /// The file with the private key for `ssh`.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.key_file = Some(path.into());
        self
    }

    /// The file with the passphrase of that key.
    #[must_use]
    pub fn passphrase_file(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.passphrase_file = Some(path.into());
        self
    }

    /// Asks the ssh agent of `$SSH_AUTH_SOCK` where no key file is given or the server does not want that key.
    #[must_use]
    pub fn agent(mut self) -> Credentials {
        self.agent = Agent::Used;
        self
    }

    /// What a person has without any configuration: the ssh agent, where one runs, and then the keys in `~/.ssh` that ssh
    /// itself would try. Those with a passphrase are for the agent: nobody is asked for it here.
    #[must_use]
    pub fn of_person(mut self) -> Credentials {
        if std::env::var_os("SSH_AUTH_SOCK").is_some_and(|socket| !socket.is_empty()) {
            self.agent = Agent::Used;
        }
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            let keys = USUAL_KEYS.map(|name| home.join(".ssh").join(name)).into_iter();
            self.usual_keys = keys.filter(|key| key.is_file()).collect();
        }
        self
    }

    /// The file with the keys of the servers that are trusted; `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts`
    /// without it. A server that is in none of them is never spoken to.
    #[must_use]
    pub fn known_hosts(mut self, path: impl Into<PathBuf>) -> Credentials {
        self.known_hosts = Some(path.into());
        self
    }

    /// Whom they are for.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    pub(in crate::git) fn known_hosts_file(&self) -> Option<&Path> {
        self.known_hosts.as_deref()
    }

    /// What answers the questions of one connection.
    pub(in crate::git) fn answers(&self) -> Answers<'_> {
        Answers { credentials: self, asked: 0, shown: Vec::new(), usual: 0, problem: None }
    }
}

/// Answers a server's questions, each credential once: a server that does not like one will not like it better the
/// second time, and libgit2 would ask for ever.
pub(in crate::git) struct Answers<'a> {
    credentials: &'a Credentials,
    asked: usize,
    shown: Vec<CredentialType>,
    /// How many of a person's usual keys have had their turn.
    usual: usize,
    /// Why there was no answer; libgit2 only hands through a text.
    pub(in crate::git) problem: Option<GitError>,
}

impl Answers<'_> {
    /// The answer to one question: `url` is where libgit2 really is, perhaps after a redirect.
    pub(in crate::git) fn answer(&mut self, url: &str, allowed: CredentialType) -> Result<Cred, git2::Error> {
        self.asked += 1;
        let answer = if self.asked > QUESTIONS { Err(None) } else { self.find(url, allowed) };
        answer.map_err(|problem| {
            self.problem = self.problem.take().or(problem);
            git2::Error::new(git2::ErrorCode::Auth, git2::ErrorClass::Callback, "no credential that the server takes")
        })
    }

    /// What was shown so far, in words.
    pub(in crate::git) fn shown(&self) -> String {
        let word = |kind: &CredentialType| match *kind {
            CredentialType::USER_PASS_PLAINTEXT => "the token",
            CredentialType::SSH_KEY => "the ssh key",
            CredentialType::SSH_MEMORY => "the keys of the ssh agent",
            _ => "the user",
        };
        let mut words: Vec<&str> = self.shown.iter().map(word).filter(|word| *word != "the user").collect();
        words.dedup();
        words.join(" and ")
    }

    fn find(&mut self, url: &str, allowed: CredentialType) -> Result<Cred, Option<GitError>> {
        let credentials = self.credentials;
        let origin = credentials.origin.as_ref().ok_or(None)?;
        if !origin.is_of(url) {
            return Err(Some(GitError::Refused {
                repository: origin.to_string(),
                message: "it redirects to another server and asks for credentials there, which belay does not give; \
                          write the new address into the configuration"
                    .to_owned(),
            }));
        }
        let user = credentials.user.as_deref().unwrap_or("git");
        if allowed.contains(CredentialType::USERNAME) {
            return Cred::username(user).map_err(|_| None);
        }
        if origin.scheme == Scheme::Ssh && allowed.contains(CredentialType::SSH_KEY) {
            if let Some(key) = &credentials.key_file
                && self.first_time(CredentialType::SSH_KEY)
            {
                return self.key(user, key).map_err(Some);
            }
            if credentials.agent == Agent::Used && self.first_time(CredentialType::SSH_MEMORY) {
                return Cred::ssh_key_from_agent(user).map_err(|_| None);
            }
            if let Some(key) = credentials.usual_keys.get(self.usual) {
                self.usual += 1;
                return self.usual_key(user, key, url, allowed);
            }
        }
        if origin.scheme != Scheme::Ssh
            && allowed.contains(CredentialType::USER_PASS_PLAINTEXT)
            && let Some(file) = &credentials.token_file
            && self.first_time(CredentialType::USER_PASS_PLAINTEXT)
        {
            let token = secret("token file", file).map_err(Some)?;
            return Cred::userpass_plaintext(user, &token.0).map_err(|_| None);
        }
        Err(None)
    }

    /// One of a person's usual keys; the next one where it has a passphrase, which is said if none is taken.
    fn usual_key(
        &mut self,
        user: &str,
        key: &Path,
        url: &str,
        allowed: CredentialType,
    ) -> Result<Cred, Option<GitError>> {
        if has_passphrase(key) {
            let why = "it has a passphrase; give it to the ssh agent with ssh-add, or push with git".to_owned();
            let locked = GitError::Credential { what: "ssh key", path: key.to_owned(), why };
            return self.find(url, allowed).map_err(|problem| problem.or(Some(locked)));
        }
        self.shown.push(CredentialType::SSH_KEY);
        Cred::ssh_key(user, None, key, None).map_err(|_| None)
    }

    fn key(&self, user: &str, file: &Path) -> Result<Cred, GitError> {
        let unusable = |_| GitError::Credential {
            what: "ssh key",
            path: file.to_owned(),
            why: "libssh2 can't use it; PEM and OpenSSH private keys are known".to_owned(),
        };
        open_regular(file).map_err(|error| unreadable("ssh key", file, &error.to_string()))?;
        let passphrase = match &self.credentials.passphrase_file {
            Some(file) => Some(secret("passphrase file", file)?),
            None => None,
        };
        Cred::ssh_key(user, None, file, passphrase.as_ref().map(|passphrase| passphrase.0.as_str())).map_err(unusable)
    }

    fn first_time(&mut self, kind: CredentialType) -> bool {
        let first = !self.shown.contains(&kind);
        self.shown.push(kind);
        first
    }
}

/// Something that must not be seen.
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

fn secret(what: &'static str, path: &Path) -> Result<Secret, GitError> {
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

/// Whether a private key can't be used without its passphrase, as far as its file says so.
fn has_passphrase(key: &Path) -> bool {
    let Ok(text) = read_regular_text(key, SECRET_LIMIT) else { return true };
    if text.contains("ENCRYPTED") {
        return true;
    }
    // OpenSSH's own form begins with its name and that of the cipher.
    const MAGIC: &[u8] = b"openssh-key-v1\0\0\0\0\x04none";
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let Ok(bytes) = STANDARD.decode(lines.collect::<String>()) else { return false };
    bytes.starts_with(b"openssh-key-v1") && !bytes.starts_with(MAGIC)
}

fn unreadable(what: &'static str, path: &Path, why: &str) -> GitError {
    let why = match hidden_by_systemd(path) {
        Some(hidden) => format!("{why}; {hidden}"),
        None => why.to_owned(),
    };
    GitError::Credential { what, path: path.to_owned(), why }
}
