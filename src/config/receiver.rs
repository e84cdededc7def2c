//! The receivers of notices about commits.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SourceConfig;
use super::nearest::nearest;

/// A receiver of notices: a message for each commit that came to something, and one more when that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifyConfig {
    /// Its name: letters, digits, `-`, `_` and `.`. The notices that it has taken are remembered under it.
    pub name: String,
    /// The protocol that it understands.
    pub kind: NotifyKind,
    /// The sources whose events it is sent; all if it is left out.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The events that it is sent: the worst outcome of an object of the commit, of `complete`, `rolled-back`,
    /// `rollback-failed`, `failed`, `rejected`, `held`, `waiting` and `superseded`; a source that is `blocked`, or
    /// `unblocked` again; and a `disagreement`: somebody else keeps changing a field that belay corrects.
    #[serde(default = "NotifyEvent::usual")]
    pub events: Vec<NotifyEvent>,
    /// Its address, if that is no secret; not for `slack`. One of `url` and `url_file` is needed. For a forge it is the
    /// repository's in its API: `https://api.github.com/repos/OWNER/NAME`, `https://gitlab.com/api/v4/projects/ID`,
    /// `https://git.example.com/api/v1/repos/OWNER/NAME`. For `email` it is the mail server: `smtps://mail.example.com`
    /// (TLS, port 465) or `smtp://mail.example.com` (STARTTLS, port 587).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub url: Option<Address>,
    /// A file with its address, which is read for each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// A file with the secret that messages are signed with, which is read for each message; only for `webhook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// A file with the token that the forge asks for, which is read for each message; only for `github`, `gitlab` and
    /// `gitea`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The sender of a mail, `belay <belay@example.com>`; only for `email`, as are `to`, `user` and `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recipients of a mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The name by which the mail server knows belay, if it asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file with the password for that name, which is read for each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A file with certificates in PEM, of authorities that are trusted beside those that the machine trusts; it is read
    /// for each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Allow a private address (this machine, its network, the cluster's), and one without TLS (`http://`).
    #[serde(default)]
    pub allow_private: bool,
}

/// The protocol that a receiver understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyKind {
    /// JSON as in `docs/schemas/notice.json`.
    Webhook,
    /// Slack's incoming webhooks, and what is compatible with them.
    Slack,
    /// Commit statuses at GitHub.
    Github,
    /// Commit statuses at GitLab.
    Gitlab,
    /// Commit statuses at Gitea or Forgejo.
    Gitea,
    /// Mail, over SMTP.
    Email,
}

impl NotifyKind {
    /// Returns true when it is a forge, which has a status for each commit.
    #[must_use]
    pub fn is_forge(self) -> bool {
        matches!(self, NotifyKind::Github | NotifyKind::Gitlab | NotifyKind::Gitea)
    }
}

/// An event that receivers are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyEvent {
    /// All that the commit touched is complete.
    Complete,
    /// Something failed, and is back on its last good revision.
    RolledBack,
    /// Something failed, and so did the way back.
    RollbackFailed,
    /// Something failed, and was left as it is.
    Failed,
    /// A manifest is invalid, or the API server refuses it.
    Rejected,
    /// A manifest failed before, and is kept from being applied again; also once it has been for an hour, and each day.
    Held,
    /// Something was not applied, because what it waited for failed.
    Waiting,
    /// A newer commit took its place before it was complete.
    Superseded,
    /// The repository or the cluster of a source can't be reached, for five minutes.
    Blocked,
    /// A source that was reported as blocked no longer is.
    Unblocked,
    /// Somebody else keeps changing a field that belay corrects.
    Disagreement,
}

impl NotifyEvent {
    /// Returns the default events of receivers: all but a commit that is superseded by a newer one.
    #[must_use]
    pub fn usual() -> Vec<NotifyEvent> {
        use NotifyEvent::{Blocked, Complete, Disagreement, Failed, Held, Rejected, RollbackFailed};
        use NotifyEvent::{RolledBack, Unblocked, Waiting};
        vec![Complete, RolledBack, RollbackFailed, Failed, Rejected, Held, Waiting, Blocked, Unblocked, Disagreement]
    }
}

/// An address that may hold a secret: it is shown to nobody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Returns the address as it was written.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(an address)")
    }
}

impl NotifyConfig {
    /// Returns the faults in it, beside those that its types rule out; `sources` are those that it can name, if they are
    /// known.
    pub(super) fn faults(&self, sources: Option<&[SourceConfig]>) -> Vec<String> {
        /// The longest name.
        const NAME: usize = 63;
        let mut faults = Vec::new();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > NAME || !self.name.chars().all(fits) {
            faults.push(format!("name {:?} is not letters, digits, '-', '_' and '.', at most {NAME}", self.name));
        }
        faults.extend(self.check_url().err());
        if self.secret_file.is_some() && self.kind == NotifyKind::Slack {
            faults.push("Slack checks no signature: leave secret_file out".to_owned());
        }
        faults.extend(self.check_forge().err());
        faults.extend(self.check_mail().err());
        if self.events.is_empty() {
            faults.push("events is empty: name one, or leave it out".to_owned());
        }
        for name in sources.iter().flat_map(|_| &self.sources) {
            let known = || sources.into_iter().flatten().map(|source| source.name.as_str());
            if !known().any(|known| known == name) {
                let meant = nearest(name, known()).map(|known| format!("; did you mean {known:?}?"));
                faults.push(format!("there is no source {name:?}{}", meant.unwrap_or_default()));
            }
        }
        faults
    }

    fn check_url(&self) -> Result<(), String> {
        match (&self.url, &self.url_file) {
            (None, None) => Err("one of url and url_file is needed".to_owned()),
            (Some(_), Some(_)) => Err("url and url_file can't both be said: leave one out".to_owned()),
            (Some(_), None) if self.kind == NotifyKind::Slack => {
                Err("the address of a Slack webhook is a secret: write it into a file, and say url_file".to_owned())
            }
            (Some(_), None) if self.kind == NotifyKind::Email => Ok(()),
            (Some(Address(url)), None) => {
                let schemes: &[&str] = if self.allow_private { &["https://", "http://"] } else { &["https://"] };
                match schemes.iter().any(|scheme| url.starts_with(scheme)) {
                    true => Ok(()),
                    false => Err("url does not begin with https:// (http:// needs allow_private = true)".to_owned()),
                }
            }
            (None, Some(_)) => Ok(()),
        }
    }
}

impl NotifyConfig {
    fn check_forge(&self) -> Result<(), String> {
        match (self.kind.is_forge(), &self.token_file) {
            (true, None) => Err("token_file is needed: a file with the forge's token".to_owned()),
            (false, Some(_)) => Err("a token is for forges only: leave token_file out".to_owned()),
            (true, _) if self.secret_file.is_some() => {
                Err("a forge checks no signature: leave secret_file out".to_owned())
            }
            (true, _) if self.events != NotifyEvent::usual() => {
                Err("a status says all that becomes of a commit: leave events out".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl NotifyConfig {
    fn check_mail(&self) -> Result<(), String> {
        let NotifyConfig { kind, url, secret_file, from, to, user, password_file, .. } = self;
        if *kind != NotifyKind::Email {
            let mails = from.is_some() || !to.is_empty() || user.is_some() || password_file.is_some();
            return match mails {
                true => Err("from, to, user and password_file are for email only: leave them out".to_owned()),
                false => Ok(()),
            };
        }
        if url
            .as_ref()
            .is_some_and(|Address(url)| !["smtps://", "smtp://"].iter().any(|scheme| url.starts_with(scheme)))
        {
            return Err("url does not begin with smtps:// or smtp://".to_owned());
        }
        if secret_file.is_some() {
            return Err("a mail is not signed: leave secret_file out".to_owned());
        }
        if user.is_some() != password_file.is_some() {
            return Err("user and password_file are needed together".to_owned());
        }
        if from.is_none() || to.is_empty() {
            return Err("from and to are needed: from whom, and to whom mail is sent".to_owned());
        }
        for address in from.iter().chain(to) {
            if let Err(error) = address.parse::<lettre::message::Mailbox>() {
                return Err(format!("{address:?} is no address of mail: {error}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, NotifyEvent, NotifyKind};

    fn parsed(notify: &str) -> Result<Config, String> {
        let text = format!("[[source]]\nname = \"shop\"\nrepository = \"/srv\"\n[[notify]]\n{notify}\n");
        Config::parse(&text, "belay.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_receiver_is_told_everything_but_what_was_superseded() {
        let config = parsed("name = \"ops\"\nkind = \"slack\"\nurl_file = \"/etc/belay/slack\"").unwrap();
        let ops = &config.notify[0];
        assert_eq!((ops.kind, ops.sources.len(), ops.allow_private), (NotifyKind::Slack, 0, false));
        assert_eq!((ops.events.len(), ops.events.contains(&NotifyEvent::Superseded)), (10, false));
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        let hook = |rest: &str| parsed(&format!("name = \"ops\"\nkind = \"webhook\"\n{rest}")).unwrap_err();
        let slack = |rest: &str| parsed(&format!("name = \"ops\"\nkind = \"slack\"\n{rest}")).unwrap_err();
        let mail = |rest: &str| {
            parsed(&format!("name = \"m\"\nkind = \"email\"\nurl = \"smtps://m.example\"\n{rest}")).unwrap_err()
        };
        let url = "url = \"https://a.example/token-1\"\n";
        for (error, says) in [
            (hook(""), "receiver \"ops\": one of url and url_file"),
            (hook("url = \"https://a.example\"\nurl_file = \"/a\""), "leave one out"),
            (hook("url = \"http://a.example\""), "allow_private"),
            (hook("url = \"ftp://a.example\"\nallow_private = true"), "https://"),
            (hook(&format!("{url}events = []")), "events is empty"),
            (hook(&format!("{url}events = [\"rolledback\"]")), "rolled-back"),
            (hook(&format!("{url}sources = [\"shpo\"]")), "no source \"shpo\"; did you mean \"shop\"?"),
            (hook(&format!("{url}secret_fil = \"a\"")), "unknown key \"secret_fil\"; did you mean \"secret_file\"?"),
            (slack(url), "url_file"),
            (slack("url_file = \"/a\"\nsecret_file = \"/b\""), "no signature"),
            (parsed(&format!("name = \"hub\"\nkind = \"github\"\n{url}")).unwrap_err(), "token_file is needed"),
            (hook(&format!("{url}token_file = \"/t\"")), "for forges only"),
            (
                parsed(&format!("name = \"hub\"\nkind = \"gitea\"\n{url}token_file = \"/t\"\nevents = [\"held\"]"))
                    .unwrap_err(),
                "leave events out",
            ),
            (parsed("name = \"a b\"\nkind = \"slack\"\nurl_file = \"/a\"").unwrap_err(), "name \"a b\""),
            (parsed("name = \"ops\"\nkind = \"pager\"").unwrap_err(), "pager"),
            (hook(&format!("{url}to = [\"a@example.com\"]")), "for email only"),
            (mail(""), "from and to are needed"),
            (mail("from = \"belay\"\nto = [\"a@example.com\"]"), "\"belay\" is no address of mail"),
            (mail("from = \"b@example.com\"\nto = [\"a@example.com\"]\nuser = \"b\""), "needed together"),
            (mail("secret_file = \"/s\""), "not signed"),
            (parsed(&format!("name = \"m\"\nkind = \"email\"\n{url}")).unwrap_err(), "smtps://"),
            (
                parsed(&format!(
                    "name = \"a\"\nkind = \"webhook\"\n{url}[[notify]]\nname = \"a\"\nkind = \"webhook\"\n{url}"
                ))
                .unwrap_err(),
                "two receivers",
            ),
        ] {
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("token-1"), "the address is shown: {error}");
        }
        let config = parsed(&format!("name = \"ops\"\nkind = \"webhook\"\n{url}")).unwrap();
        assert!(!format!("{config:?}").contains("token-1"));
    }

    #[test]
    fn pages_have_a_public_address() {
        let with = |url: &str| {
            parsed(&format!("name = \"ops\"\nkind = \"slack\"\nurl_file = \"/a\"\n[web]\npublic_url = \"{url}\""))
        };
        assert!(with("https://belay.example.com").is_ok() && with("http://belay.intern/sub/").is_ok());
        for wrong in ["belay.example.com", "javascript:alert(1)", "https://a b", "https://a>b|c"] {
            assert!(with(wrong).unwrap_err().contains("public_url"), "{wrong}");
        }
    }
}
