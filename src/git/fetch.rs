//! Fetching: the branch as it is now, and everything that it needs.

use git2::{
    AutotagOption, CertificateCheckStatus, Direction, ErrorClass, ErrorCode, FetchOptions, Oid, ProxyOptions,
    RemoteCallbacks, RemoteRedirect, Repository,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::credentials::Answers;
use super::error::{GitError, while_doing};
use super::follow::{Choice, Follow, Offer};
use super::host_keys::{self, ShownKey};
use super::import::Source;
use super::mirror::{Mirror, commit_id};
use crate::rollout::CommitId;

/// What a fetch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The commit that is followed now.
    pub head: CommitId,
    /// The one that was followed before in this mirror, if there was one.
    pub before: Option<CommitId>,
}

impl Mirror {
    /// Looks what `follow` leads to now and brings over what it needs. When nothing has moved that costs one look at the
    /// repository's references and writes nothing.
    ///
    /// The former head stays in the mirror for ever, also when the branch was rewritten.
    ///
    /// # Errors
    ///
    /// When the repository can't be reached or read, does not trust belay or is not trusted, is empty, has no such branch,
    /// tag or commit, or is beyond the [`super::Limits`]; and [`GitError::Cancelled`] soon after `stop`. The mirror stays as it was.
    pub fn fetch(&self, follow: &Follow, stop: &CancellationToken) -> Result<Fetched, GitError> {
        let before = self.head(follow)?;
        if let (Follow::Commit(id), Some(_)) = (follow, &before) {
            return Ok(Fetched { head: id.clone(), before });
        }
        let repository = self.location.to_string();
        let (choice, offer) = match self.location.path() {
            Some(path) => {
                let source = Source::open(path)?;
                let offer = source.offer(follow)?;
                let choice = offer.choose(follow, &repository)?;
                self.bring(&choice, &offer, |mirror, wanted| {
                    source.import(mirror, wanted, &self.limits, stop).map(drop)
                })?;
                (choice, offer)
            }
            None => self.fetch_remote(follow, stop)?,
        };
        self.forget_tags(follow, &offer)?;
        let head = self.head(follow)?.ok_or_else(|| match follow {
            Follow::Commit(commit) => GitError::NoCommit { repository, commit: commit.clone() },
            _ => GitError::NoBranch {
                repository,
                branch: follow.to_string(),
                others: choice.references.into_keys().collect(),
            },
        })?;
        Ok(Fetched { head, before })
    }

    /// What `follow` led to when it was last fetched, without looking again.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read, or the branch or tag is something else than a commit.
    pub fn head(&self, follow: &Follow) -> Result<Option<CommitId>, GitError> {
        self.with(|repository| {
            let name = match follow {
                Follow::Commit(id) => {
                    let found = repository.find_commit(super::mirror::oid(id)?);
                    return Ok(found.ok().map(|_| id.clone()));
                }
                Follow::Branch(name) => format!("refs/heads/{name}"),
                Follow::DefaultBranch => "HEAD".to_owned(),
                Follow::Tag(_) => {
                    let references = self.references(repository)?;
                    let offer = Offer { references, default_branch: None };
                    let Ok(choice) = offer.choose(follow, "") else { return Ok(None) };
                    match choice.head {
                        Some(name) => name,
                        None => return Ok(None),
                    }
                }
            };
            let reference = match repository.find_reference(&name).and_then(|reference| reference.resolve()) {
                Ok(reference) => reference,
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
                Err(error) => return Err(self.damaged(&error)),
            };
            let object = reference.peel(git2::ObjectType::Any).map_err(|error| self.damaged(&error))?;
            match object.as_commit() {
                Some(commit) => Ok(Some(commit_id(commit.id()))),
                None => Err(GitError::NotACommit {
                    repository: self.location.to_string(),
                    reference: follow.to_string(),
                    kind: object.kind().map_or_else(|| "thing unknown".to_owned(), |kind| kind.to_string()),
                }),
            }
        })
    }

    /// Brings over what is wanted and not there, and moves the references.
    fn bring(
        &self,
        choice: &Choice,
        offer: &Offer,
        transfer: impl FnOnce(&Repository, &[Oid]) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        self.with(|mirror| {
            let ours = self.references(mirror)?;
            let moved: Vec<(&String, Oid)> = choice
                .references
                .iter()
                .filter(|(name, id)| ours.get(*name) != Some(id))
                .map(|(n, id)| (n, *id))
                .collect();
            let default = offer.default_branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
            if !moved.is_empty() {
                let _lock = self.lock()?;
                let wanted: Vec<Oid> = moved.iter().map(|(_, id)| *id).collect();
                transfer(mirror, &wanted)?;
                for (name, id) in moved {
                    self.move_reference(mirror, name, ours.get(name).copied(), id)?;
                }
                self.join_packs(mirror)?;
            }
            match (default, mirror.find_reference("HEAD").as_ref().map(git2::Reference::symbolic_target)) {
                (Some(default), Ok(Ok(head))) if head != Some(&default) => {
                    mirror.set_head(&default).map_err(while_doing("note the default branch"))
                }
                _ => Ok(()),
            }
        })
    }

    /// Moves a reference of the mirror. Where the new commit does not come from the old one, the old one is kept.
    fn move_reference(&self, mirror: &Repository, name: &str, before: Option<Oid>, after: Oid) -> Result<(), GitError> {
        if let Some(before) = before
            && !self.comes_from_soon(mirror, after, before)
        {
            self.keep(mirror, before)?;
        }
        let moved = mirror.reference(name, after, true, "belay: fetched");
        moved.map(drop).map_err(while_doing(format!("move {name} in the mirror")))
    }

    /// Deletes the tags of a pattern that the repository no longer has, so that they are not taken for the newest.
    fn forget_tags(&self, follow: &Follow, offer: &Offer) -> Result<(), GitError> {
        let Follow::Tag(pattern) = follow else { return Ok(()) };
        self.with(|mirror| {
            for (name, id) in self.references(mirror)? {
                let fits = name
                    .strip_prefix("refs/tags/")
                    .is_some_and(|tag| host_keys::matches(pattern.as_bytes(), tag.as_bytes()));
                if fits && !offer.references.contains_key(&name) {
                    let _lock = self.lock()?;
                    self.keep(mirror, id)?;
                    let gone = mirror.find_reference(&name).and_then(|mut reference| reference.delete());
                    gone.map_err(while_doing(format!("delete {name} in the mirror")))?;
                }
            }
            Ok(())
        })
    }

    /// The branches and tags of the mirror.
    pub(super) fn references(&self, mirror: &Repository) -> Result<std::collections::BTreeMap<String, Oid>, GitError> {
        let mut found = std::collections::BTreeMap::new();
        for reference in mirror.references().map_err(|error| self.damaged(&error))? {
            let reference = reference.map_err(|error| self.damaged(&error))?;
            if let (Ok(name), Some(target)) = (reference.name(), reference.target()) {
                found.insert(name.to_owned(), target);
            }
        }
        Ok(found)
    }

    fn fetch_remote(&self, follow: &Follow, stop: &CancellationToken) -> Result<(Choice, Offer), GitError> {
        let url = self.location.to_string();
        if stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        self.with(|mirror| {
            let mut remote = mirror.remote_anonymous(&url).map_err(while_doing(format!("use {url}")))?;
            if remote.url().ok() != Some(url.as_str()) {
                return Err(GitError::Refused {
                    repository: url.clone(),
                    message: "Git's configuration turns it into another address (url.….insteadOf); write that one"
                        .to_owned(),
                });
            }
            let watch = Watch::new(self, stop);
            let questions = Questions::new(self);
            let connected = remote.connect_auth(Direction::Fetch, Some(questions.callbacks(&watch)), Some(proxy()));
            let mut connection = match connected {
                Ok(connection) => connection,
                Err(error) => return Err(questions.explain(&watch, &error)),
            };
            let offer = offer(connection.list().map_err(while_doing(format!("read the branches of {url}")))?);
            let choice = offer.choose(follow, &url)?;
            self.bring(&choice, &offer, |mirror, wanted| {
                let odb = mirror.odb().map_err(|error| self.damaged(&error))?;
                let lacks = |id: &Oid| wanted.contains(id) && !odb.exists(*id);
                let refspecs: Vec<&str> =
                    choice.references.iter().filter(|(_, id)| lacks(id)).map(|(name, _)| name.as_str()).collect();
                if refspecs.is_empty() {
                    return Ok(());
                }
                let questions = Questions::new(self);
                let done = {
                    let mut options = FetchOptions::new();
                    options.remote_callbacks(questions.callbacks(&watch));
                    options.proxy_options(proxy());
                    options.download_tags(AutotagOption::None);
                    options.follow_redirects(RemoteRedirect::None);
                    connection.remote().download(&refspecs, Some(&mut options))
                };
                done.map_err(|error| questions.explain(&watch, &error))
            })?;
            Ok((choice, offer))
        })
    }
}

/// Proxies as Git's configuration and the environment name them.
fn proxy() -> ProxyOptions<'static> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}

fn offer(heads: &[git2::RemoteHead<'_>]) -> Offer {
    let mut offer = Offer::default();
    for head in heads {
        if head.name() == "HEAD" {
            let target = head.symref_target().and_then(|target| target.strip_prefix("refs/heads/"));
            offer.default_branch = target.map(str::to_owned);
        } else if !head.name().ends_with("^{}") {
            offer.references.insert(head.name().to_owned(), head.oid());
        }
    }
    offer
}

/// When to give a fetch up.
struct Watch<'a> {
    stop: &'a CancellationToken,
    mirror: &'a Mirror,
    until: Instant,
}

impl Watch<'_> {
    fn new<'a>(mirror: &'a Mirror, stop: &'a CancellationToken) -> Watch<'a> {
        Watch { stop, mirror, until: Instant::now() + mirror.limits.fetch_time }
    }

    fn goes_on(&self, bytes: u64) -> bool {
        self.over(bytes).is_none()
    }

    fn over(&self, bytes: u64) -> Option<GitError> {
        let repository = self.mirror.location.to_string();
        let limits = &self.mirror.limits;
        if self.stop.is_cancelled() {
            Some(GitError::Cancelled)
        } else if bytes > limits.fetch_bytes {
            let what = format!("what {repository} sends");
            Some(GitError::TooLarge { what, size: bytes, limit: limits.fetch_bytes })
        } else if Instant::now() >= self.until {
            Some(GitError::TooSlow { repository, after: limits.fetch_time })
        } else {
            None
        }
    }
}

/// What a server asks, and what it showed, in one connection.
struct Questions<'a> {
    mirror: &'a Mirror,
    said: std::cell::RefCell<Said<'a>>,
}

struct Said<'a> {
    answers: Answers<'a>,
    untrusted: Option<String>,
    bytes: u64,
}

impl<'a> Questions<'a> {
    fn new(mirror: &'a Mirror) -> Questions<'a> {
        let said = Said { answers: mirror.credentials.answers(), untrusted: None, bytes: 0 };
        Questions { mirror, said: std::cell::RefCell::new(said) }
    }

    fn callbacks<'b>(&'b self, watch: &'b Watch<'b>) -> RemoteCallbacks<'b>
    where
        'a: 'b,
    {
        let questions = self;
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(|url, _, allowed| questions.said.borrow_mut().answers.answer(url, allowed));
        callbacks.certificate_check(|certificate, host| {
            let Some(shown) = certificate.as_hostkey() else {
                // Of https: OpenSSL has looked at it, and its judgement stands.
                return Ok(CertificateCheckStatus::CertificatePassthrough);
            };
            let port = questions.mirror.location.origin().map_or(22, |origin| origin.port);
            let kind = shown.hostkey_type().map_or("unknown", |kind| kind.name());
            let key = ShownKey { host, port, kind, bytes: shown.hostkey().unwrap_or_default() };
            match host_keys::check(&key, questions.mirror.credentials.known_hosts_file()) {
                Ok(()) => Ok(CertificateCheckStatus::CertificateOk),
                Err(why) => {
                    questions.said.borrow_mut().untrusted = Some(why);
                    Err(git2::Error::new(ErrorCode::Certificate, ErrorClass::Ssh, "the host key is not trusted"))
                }
            }
        });
        callbacks.transfer_progress(|progress| {
            let bytes = progress.received_bytes() as u64;
            questions.said.borrow_mut().bytes = bytes;
            watch.goes_on(bytes)
        });
        callbacks.sideband_progress(|_| watch.goes_on(0));
        callbacks
    }

    /// What an error of libgit2 means, knowing what was asked and answered before it.
    fn explain(&self, watch: &Watch<'_>, error: &git2::Error) -> GitError {
        let mut said = self.said.borrow_mut();
        let repository = self.mirror.location.to_string();
        if let Some(over) = watch.over(said.bytes) {
            return over;
        }
        if let Some(message) = said.untrusted.take() {
            return GitError::Untrusted { repository, message };
        }
        if let Some(problem) = said.answers.problem.take() {
            return problem;
        }
        let message: String = error.message().chars().filter(|c| !c.is_control()).take(300).collect();
        let status = |code: &str| message.ends_with(&format!("http status code: {code}"));
        let shown = said.answers.shown();
        match (error.code(), error.class()) {
            (ErrorCode::Auth, _) if shown.is_empty() => {
                let message = "it wants credentials, and none are configured for it".to_owned();
                GitError::Refused { repository, message }
            }
            (ErrorCode::Auth, _) => {
                GitError::Refused { repository, message: format!("it does not take {shown} that is configured") }
            }
            (_, ErrorClass::Ssh) if message.contains("private key") => GitError::Refused {
                repository,
                message: format!("the ssh key that is configured can't be used; is its passphrase right? {message}"),
            },
            (ErrorCode::Certificate, _) | (_, ErrorClass::Ssl) => GitError::Untrusted { repository, message },
            _ if status("401") || status("403") => {
                GitError::Refused { repository, message: "these credentials may not read it".to_owned() }
            }
            _ if status("404") => GitError::Refused {
                repository,
                message: "it knows no such repository, or none that these credentials may read".to_owned(),
            },
            _ if message.contains("redirect") => GitError::Refused {
                repository,
                message: format!("{message}; write the new address into the configuration"),
            },
            _ => GitError::Unreachable { repository, message },
        }
    }
}
