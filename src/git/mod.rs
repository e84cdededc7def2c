//! IN. The only room that says git2 and notify: where the branch stands, what changed between two commits, who changed
//! it, texts at a commit.
//!
//! | part | what it is |
//! |---|---|
//! | [`Location`], [`Credentials`], [`Follow`], [`Limits`] | which repository, as whom, what of it, how much of it |
//! | [`Mirror`] | belay's own bare copy: fetched into, compared, read; nothing of it is ever checked out |
//! | [`Wake`] | notices a push to a repository on this machine at once |
//! | [`WorkingCopy`] | a person's files, for the commands that edit and commit them |
//!
//! Of a repository that is followed no link is followed, no submodule entered, no hook or filter run, no program started.
//! Everything here blocks, on the disk or on the network: call it from `spawn_blocking`. Only [`Wake`] is for async code.

mod attempt;
mod attribution;
mod commits;
mod credentials;
mod damage;
mod error;
mod fetch;
mod follow;
mod garbage;
mod graph;
mod hidden;
mod host_keys;
mod identity;
mod import;
mod limits;
mod listing;
mod location;
mod memory;
mod mirror;
mod names;
mod packs;
mod pins;
mod push;
mod revision;
mod settings;
mod signing;
mod transport;
mod tree;
mod wake;
mod working_copy;

pub use attempt::Attempt;
pub use attribution::{Chain, ChainLink, FileBefore, Next};
pub use commits::{Relation, ResolvedRevision};
pub use credentials::Credentials;
pub use error::GitError;
pub use fetch::Fetched;
pub use follow::Follow;
pub use hidden::hidden_by_systemd;
pub use limits::Limits;
pub use listing::{Listed, TreeId};
pub use location::{InvalidLocation, Location, Origin, Scheme};
pub use mirror::{Mirror, Opened};
pub use names::OddPath;
pub use revision::Revision;
pub use signing::Signing;
pub use tree::{BlobId, Change, Changes, Entry, EntryKind, Files};
pub use wake::{Wake, Watching};
pub use working_copy::{Edit, WorkingCopy, create_bare};
