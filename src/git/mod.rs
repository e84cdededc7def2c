//! IN. The only room that says git2 and notify: where the branch stands, what changed between two commits, who changed
//! it, texts at a commit.
//!
//! A [`Mirror`] is belay's own bare copy of a repository. Nothing is ever checked out, no link followed, no submodule
//! entered, no program started. Everything here blocks; call it from `spawn_blocking`.

mod attribution;
mod commits;
mod credentials;
mod error;
mod fetch;
mod follow;
mod graph;
mod host_keys;
mod import;
mod limits;
mod location;
mod mirror;
mod packs;
mod pins;
mod settings;
mod tree;
mod wake;

pub use attribution::{Before, Chain, Link, Next};
pub use commits::{Relation, Resolved};
pub use credentials::Credentials;
pub use error::GitError;
pub use fetch::Fetched;
pub use follow::Follow;
pub use limits::Limits;
pub use location::{InvalidLocation, Location, Origin, Scheme};
pub use mirror::{Mirror, Opened};
pub use tree::{BlobId, Change, Changes, Entry, EntryKind, Files, OddPath};
pub use wake::{Wake, Watching};
