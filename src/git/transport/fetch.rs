//! Fetching: the branch as it is now, and everything that it needs.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use git2::{AutotagOption, Direction, ErrorCode, FetchOptions, Oid, Reference, RemoteHead, RemoteRedirect, Repository};
use tokio_util::sync::CancellationToken;

use super::completeness::{check_complete, delete_packs};
use super::import::{PackSource, tips};
use super::session::ServerSession;
use crate::git::error::{GitError, while_doing};
use crate::git::mirror::damage::{files, sync_packs};
use crate::git::mirror::memory;
use crate::git::mirror::{Mirror, commit_id};
use crate::git::read::follow::{Choice, Follow, Offer};
use crate::git::read::limits::{NAMES, REFERENCES};
use crate::git::read::wildcard;
use belay_core::rollout::CommitId;

/// The longest time until a server lists its branches.
const GREETING: Duration = Duration::from_mins(2);

/// The result of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The commit that is followed now.
    pub head: CommitId,
    /// The one that was followed before in this mirror, if there was one.
    pub before: Option<CommitId>,
}

impl Mirror {
    /// Resolves `follow` on the server and brings over the objects that it needs. When nothing has moved that costs one
    /// request for the repository's references and writes nothing.
    ///
    /// The former head stays in the mirror for ever, also when the branch was rewritten.
    ///
    /// # Errors
    ///
    /// When the repository can't be reached or read, does not trust belay or is not trusted, is empty, has no such branch,
    /// tag or commit, or is beyond the [`crate::git::Limits`]; and [`GitError::Cancelled`] soon after `stop`. The mirror stays as it was.
    pub fn fetch(&self, follow: &Follow, stop: &CancellationToken) -> Result<Fetched, GitError> {
        if !self.is_there() {
            // Somebody has deleted it, or parts of it.
            self.start_over()?;
        }
        let (fetched, used) = memory::bounded(|| self.fetch_within_limits(follow, stop));
        self.free_memory(&used, fetched.is_err());
        fetched.map_err(|error| self.out_of_memory(error, used.refused))
    }

    fn fetch_within_limits(&self, follow: &Follow, stop: &CancellationToken) -> Result<Fetched, GitError> {
        let before = self.head(follow)?;
        if let (Follow::Commit(id), Some(_)) = (follow, &before) {
            return Ok(Fetched { head: id.clone(), before });
        }
        let repository = self.location.to_string();
        let (choice, offer) = match self.location.path() {
            Some(path) => {
                let (source, offer) = PackSource::look(path, follow)?;
                let choice = offer.choose(follow, &repository)?;
                self.bring(&choice, &offer, |mirror, wanted| {
                    source.import(mirror, wanted, &self.limits, stop).map(drop)
                })?;
                (choice, offer)
            }
            None => self.fetch_remote(follow, stop)?,
        };
        self.forget_tags(follow, &offer)?;
        let fetched = self.head(follow)?;
        if fetched != before {
            // Packs were joined and deleted perhaps, and handles keep them open.
            self.close_handles();
        }
        let head = fetched.ok_or_else(|| match follow {
            Follow::Commit(commit) => GitError::NoCommit { repository, commit: commit.clone() },
            _ => GitError::NoBranch {
                repository,
                branch: follow.to_string(),
                others: choice.references.into_keys().collect(),
            },
        })?;
        Ok(Fetched { head, before })
    }

    /// Returns the head of `follow` at the last fetch, without another one.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read, or the branch or tag is something else than a commit.
    pub fn head(&self, follow: &Follow) -> Result<Option<CommitId>, GitError> {
        self.with(|repository| {
            let name = match follow {
                Follow::Commit(id) => {
                    let found = repository.find_commit(crate::git::mirror::oid(id)?);
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
            // A name that can't be a branch is none. git2 panics at a NUL.
            if name.contains('\0') || (name != "HEAD" && !Reference::is_valid_name(&name)) {
                return Ok(None);
            }
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

    /// Brings over the wanted objects that are missing, and moves the references.
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
                let _attempt = self.attempt();
                let _lock = self.lock()?;
                let wanted: Vec<Oid> = moved.iter().map(|(_, id)| *id).collect();
                let known = files(&mirror.path().join("objects/pack"))?;
                transfer(mirror, &wanted)?;
                sync_packs(mirror.path(), &known)?;
                for (name, id) in moved {
                    self.move_reference(mirror, name, ours.get(name).copied(), id)?;
                }
                self.join_packs(mirror)?;
            }
            match (default, mirror.find_reference("HEAD").as_ref().map(Reference::symbolic_target)) {
                (Some(default), Ok(Ok(head))) if head != Some(&default) => {
                    mirror.set_head(&default).map_err(while_doing("note the default branch"))
                }
                _ => Ok(()),
            }
        })
    }

    /// Moves a reference of the mirror. If the new commit does not come from the old one, the old one is kept.
    fn move_reference(&self, mirror: &Repository, name: &str, before: Option<Oid>, after: Oid) -> Result<(), GitError> {
        if let Some(before) = before
            && !self.comes_from_soon(mirror, after, before)
        {
            self.keep(mirror, before)?;
        }
        self.make_room(mirror, name)?;
        let moved = mirror.reference(name, after, true, "belay: fetched");
        moved.map(drop).map_err(while_doing(format!("move {name} in the mirror")))
    }

    /// Lets go of references that stand in the way of one: of `feature` when there is now a `feature/web`, and the other
    /// way round. The repository can't have them any more.
    fn make_room(&self, mirror: &Repository, name: &str) -> Result<(), GitError> {
        if mirror.find_reference(name).is_ok() {
            return Ok(());
        }
        let inside = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
        for (other, id) in self.references(mirror)? {
            if inside(name, &other) || inside(&other, name) {
                self.let_go(mirror, &other, id)?;
            }
        }
        Ok(())
    }

    /// Deletes a reference of the mirror and keeps its objects.
    fn let_go(&self, mirror: &Repository, name: &str, id: Oid) -> Result<(), GitError> {
        self.keep(mirror, id)?;
        let gone = mirror.find_reference(name).and_then(|mut reference| reference.delete());
        gone.map_err(while_doing(format!("delete {name} in the mirror")))
    }

    /// Deletes the tags of a pattern that the repository no longer has, so that they are not taken for the newest.
    fn forget_tags(&self, follow: &Follow, offer: &Offer) -> Result<(), GitError> {
        let Follow::Tag(pattern) = follow else { return Ok(()) };
        self.with(|mirror| {
            for (name, id) in self.references(mirror)? {
                let fits = name
                    .strip_prefix("refs/tags/")
                    .is_some_and(|tag| wildcard::matches(pattern.as_bytes(), tag.as_bytes()));
                if fits && !offer.references.contains_key(&name) {
                    let _lock = self.lock()?;
                    self.let_go(mirror, &name, id)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the branches and tags of the mirror.
    pub(in crate::git) fn references(&self, mirror: &Repository) -> Result<BTreeMap<String, Oid>, GitError> {
        let mut found = BTreeMap::new();
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
            if remote.url().ok() != Some(&url) {
                return Err(GitError::Refused {
                    repository: url,
                    message: "Git's configuration turns it into another address (url.….insteadOf); write that one"
                        .to_owned(),
                });
            }
            let (session, _current) =
                ServerSession::begin(&self.location, &self.credentials, &self.limits, mirror, stop);
            session.allow(self.limits.fetch_time.min(GREETING));
            let connected = remote.connect_auth(Direction::Fetch, Some(session.callbacks()), None);
            let mut connection = connected.map_err(|error| session.explain(&error))?;
            let heads = connection.list().map_err(while_doing(format!("read the branches of {url}")))?;
            let offer = offer(&url, heads)?;
            let choice = offer.choose(follow, &url)?;
            session.allow(self.limits.fetch_time);
            self.bring(&choice, &offer, |mirror, wanted| {
                let (known, packs) = (tips(mirror)?, files(&mirror.path().join("objects/pack"))?);
                let odb = mirror.odb().map_err(|error| self.damaged(&error))?;
                let lacks = |id: &Oid| wanted.contains(id) && !odb.exists(*id);
                let refspecs: Vec<&str> =
                    choice.references.iter().filter(|(_, id)| lacks(id)).map(|(name, _)| name.as_str()).collect();
                if refspecs.is_empty() {
                    return Ok(());
                }
                let done = {
                    let mut options = FetchOptions::new();
                    options.remote_callbacks(session.callbacks());
                    options.download_tags(AutotagOption::None);
                    options.follow_redirects(RemoteRedirect::None);
                    connection.remote().download(&refspecs, Some(&mut options))
                };
                let done = done.map_err(|error| session.explain(&error));
                let complete = done.and_then(|()| check_complete(mirror, &url, (&known, wanted), &|| session.over()));
                complete.inspect_err(|_| delete_packs(mirror.path(), &packs))
            })?;
            Ok((choice, offer))
        })
    }
}

/// The branches and tags that a server names. A name that can't be one is passed over.
fn offer(url: &str, heads: &[RemoteHead<'_>]) -> Result<Offer, GitError> {
    let (mut offer, mut bytes) = (Offer::default(), 0);
    for head in heads {
        // git2 panics at a name that is not UTF-8, and has no other way to ask. Anybody who may push can make one.
        let named = std::panic::catch_unwind(AssertUnwindSafe(|| (head.name(), head.symref_target())));
        match named {
            Ok(("HEAD", target)) => {
                let target = target.filter(|target| is_followed(target));
                let branch = target.and_then(|target| target.strip_prefix("refs/heads/"));
                offer.default_branch = branch.map(str::to_owned);
            }
            Ok((name, _)) if is_followed(name) => {
                bytes += name.len();
                if offer.references.len() == REFERENCES {
                    let what = format!("{url} has too many branches and tags");
                    return Err(GitError::TooMany { what, limit: REFERENCES });
                }
                if bytes > NAMES {
                    let what = format!("what the branches and tags of {url} are called");
                    return Err(GitError::TooLarge { what, size: bytes as u64, limit: NAMES as u64 });
                }
                offer.references.insert(name.to_owned(), head.oid());
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(offer)
}

/// Returns true for the name of a branch or a tag.
fn is_followed(name: &str) -> bool {
    (name.starts_with("refs/heads/") || name.starts_with("refs/tags/")) && Reference::is_valid_name(name)
}
