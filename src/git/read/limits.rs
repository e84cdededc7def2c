//! The limits of a repository's cost. Everything read from one is bounded by these.

use std::time::Duration;

/// The largest number of branches, tags and other references of a repository.
pub(in crate::git) const REFERENCES: usize = 200_000;

/// The most bytes of their names, all together.
pub(in crate::git) const NAMES: usize = 32 << 20;

/// How many parents of a commit are looked at. One that has more is charged with all that it brought.
pub(in crate::git) const PARENTS: usize = 64;

/// Bounds on reading a repository; each has a default that no repository of manifests comes near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of bytes of one fetch, 4 GiB by default.
    pub fetch_bytes: u64,
    /// The longest time of one fetch, 10 minutes by default. A server that says nothing at all is given up sooner:
    /// after 15 s while connecting, after 60 s later on.
    pub fetch_time: Duration,
    /// The largest number of files and folders of one comparison or listing, 1,000,000 by default.
    pub entries: usize,
    /// The largest number of bytes of memory for the paths of one comparison or listing, 48 MiB by default: some
    /// 300,000 paths.
    pub listing_bytes: usize,
    /// The depth to which folders may stand inside each other, 64 by default.
    pub depth: usize,
    /// The number of commits that are searched for the one that changed a file, 50,000 by default.
    pub walk: usize,
    /// The largest number of commits of a history, 2,000,000 by default. Some 60 bytes of memory each, and only once a
    /// question needs the whole graph.
    pub history: usize,
    /// The number of packs that the mirror may have before the small ones are joined, 32 by default.
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
