//! The only room that uses git2 and notify: the head of a branch, the difference between two commits and its
//! authors, texts at a commit.
//!
//! | part | contents |
//! |---|---|
//! | [`Location`], [`Credentials`], [`Follow`], [`Limits`] | which repository, as whom, what of it, how much of it |
//! | [`answer_ssh`] | the passphrase of a key, where `ssh` starts belay to ask for it |
//! | [`Mirror`] | belay's own bare copy: fetched into, compared, read; nothing of it is ever checked out |
//! | [`Wake`] | notices a push to a repository on this machine at once |
//! | [`WorkingCopy`] | a person's files, for the commands that edit and commit them |
//!
//! In a repository that is read, no link is followed, no submodule entered, no hook or filter run, and no program started but `ssh`.
//! Everything here blocks, on the disk or on the network: call it from `spawn_blocking`. Only [`Wake`] is for async code.

mod error;
mod mirror;
mod read;
mod transport;
mod worktree;

pub use error::GitError;
pub use mirror::attempt::Attempt;
pub use mirror::{Mirror, Opened};
pub use read::attribution::{Chain, ChainLink, FileBefore, Next};
pub use read::commits::{Relation, ResolvedRevision};
pub use read::follow::Follow;
pub use read::limits::Limits;
pub use read::listing::{Listed, TreeId};
pub use read::names::OddPath;
pub use read::tree::{BlobId, Change, Changes, Entry, EntryKind, Files};
pub use transport::askpass::answer_ssh;
pub use transport::credentials::Credentials;
pub use transport::fetch::Fetched;
pub use transport::location::{InvalidLocation, Location, Origin, Scheme};
pub use transport::redirect::redirected;
pub use transport::ssh_errors::ssh_error;
pub use transport::wake::{Wake, Watching};
pub use worktree::lost_folders::LostFolder;
pub use worktree::revision::Revision;
pub use worktree::signing::Signing;
pub use worktree::working_copy::{Edit, WorkingCopy, create_bare};
