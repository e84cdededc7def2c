//! Settings that libgit2 keeps for the whole process: its transports and the size of its caches.

use std::sync::Once;

use git2::opts;

use super::memory;
use crate::git::transport::register;

/// How many bytes of objects libgit2 may keep in memory, all repositories together. Its own default is 256 MiB; belay
/// reads almost every object once.
const CACHE_BYTES: isize = 8 << 20;
/// The largest number of bytes of packs that may be mapped into memory at once. Its own default is 8 GiB of address
/// space; the mapped part counts as memory of the process when it is measured.
const MAPPED_BYTES: usize = 32 << 20;
/// The number of bytes of one mapping. Its own default is 1 GiB.
const WINDOW_BYTES: usize = 8 << 20;

static ONCE: Once = Once::new();

/// Sets them, the first time it is called. Every way into this room calls it before it touches libgit2.
pub(in crate::git) fn apply() {
    ONCE.call_once(|| {
        #[expect(
            unsafe_code,
            reason = "libgit2 keeps these in globals and has no other way to set them; inside a \
                                        Once that stands before every use of libgit2 in this room, nobody reads \
                                        them meanwhile"
        )]
        // SAFETY: the functions write C globals without a lock. `ONCE` makes all other callers of this room wait, and
        // this room is the only one that uses libgit2.
        let done = unsafe {
            memory::install();
            [
                register::install(),
                opts::set_cache_max_size(CACHE_BYTES),
                opts::set_mwindow_size(WINDOW_BYTES),
                opts::set_mwindow_mapped_limit(MAPPED_BYTES),
            ]
        };
        for error in done.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "failed to set a limit of libgit2; its default stays");
        }
    });
}
