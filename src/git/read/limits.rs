//! How much a repository may cost. Everything read from one is bounded by these.

use std::time::Duration;

/// How many branches, tags and other references a repository may have.
pub(in crate::git) const REFERENCES: usize = 200_000;

/// How many bytes their names may have, all together.
pub(in crate::git) const NAMES: usize = 32 << 20;

/// How many parents of a commit are looked at. One that has more is charged with all that it brought.
pub(in crate::git) const PARENTS: usize = 64;

/// Bounds on what belay reads from a repository; each has a default that no repository of manifests comes near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes one fetch may bring, 4 GiB by default.
    pub fetch_bytes: u64,
    /// How long one fetch may take, 10 minutes by default. A server that says nothing at all is given up sooner: after
    /// 15 s while connecting, after 60 s later on.
    pub fetch_time: Duration,
    /// How many files and folders one comparison or listing may touch, 1,000,000 by default.
    pub entries: usize,
    /// How many bytes of memory the paths of one comparison or listing may take, 48 MiB by default: some 300,000 paths.
    pub listing_bytes: usize,
    /// How many folders may stand inside each other, 64 by default.
    pub depth: usize,
    /// How many commits are looked at to find the one that changed a file, 50,000 by default.
    pub walk: usize,
    /// How many commits a history may have at all, 2,000,000 by default. Some 60 bytes of memory each, and only once a
    /// question needs the whole graph.
    pub history: usize,
    /// How many packs the mirror may have before the small ones are joined, 32 by default.
    pub packs: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            fetch_bytes: 4 << 30,
            fetch_time: Duration::from_secs(600),
            entries: 1_000_000,
            listing_bytes: 48 << 20,
            depth: 64,
            walk: 50_000,
            history: 2_000_000,
            packs: 32,
        }
    }
}
