//! Settings that libgit2 keeps for the whole process: its transports and the size of its caches.

use std::sync::Once;

use git2::{ConfigLevel, Repository, opts};

use super::memory;
use crate::git::transport::register;

/// How many bytes of objects libgit2 may keep in memory, all repositories together. Its own default is 256 MiB; belay
/// reads almost every object once.
const CACHE_BYTES: isize = 8 << 20;
/// How many bytes of packs may be mapped into memory at once. Its own default is 8 GiB of address space; the mapped part
/// counts as memory of the process when it is measured.
const MAPPED_BYTES: usize = 32 << 20;
/// How many bytes one mapping has. Its own default is 1 GiB.
const WINDOW_BYTES: usize = 8 << 20;

static ONCE: Once = Once::new();

/// One setting of a person's configuration, as Git would read it: `GIT_CONFIG_COUNT` and its pairs first, then the files.
/// (libgit2 knows `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM` and `GIT_CONFIG_NOSYSTEM` where a repository is opened so.)
pub(in crate::git) fn get(repository: &Repository, name: &str) -> Option<String> {
    from_pairs(name, |variable| std::env::var(variable).ok()).or_else(|| {
        let config = repository.config().ok()?.snapshot().ok()?;
        let found = config.get_entry(name).ok()?;
        // With a file named for it, $XDG_CONFIG_HOME/git/config is not read.
        if found.level() == ConfigLevel::XDG && std::env::var_os("GIT_CONFIG_GLOBAL").is_some() {
            return config.open_level(ConfigLevel::System).ok()?.get_string(name).ok();
        }
        config.get_string(name).ok()
    })
}

/// A setting of `GIT_CONFIG_KEY_<n>` and `GIT_CONFIG_VALUE_<n>`: the last that is called so.
fn from_pairs(name: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    /// More pairs than anybody writes.
    const MOST: usize = 1000;
    let count = variable("GIT_CONFIG_COUNT")?.parse::<usize>().ok()?.min(MOST);
    let of = |at: usize| variable(&format!("GIT_CONFIG_KEY_{at}")).filter(|key| key.eq_ignore_ascii_case(name));
    (0..count).rev().find_map(|at| of(at).and_then(|_| variable(&format!("GIT_CONFIG_VALUE_{at}"))))
}

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

#[cfg(test)]
mod tests {
    use super::from_pairs;

    #[test]
    fn the_last_pair_of_a_name_counts() {
        let pairs = |count: &'static str| {
            move |variable: &str| {
                let value = match variable {
                    "GIT_CONFIG_COUNT" => count,
                    "GIT_CONFIG_KEY_0" | "GIT_CONFIG_KEY_2" => "user.name",
                    "GIT_CONFIG_KEY_1" => "User.Email",
                    "GIT_CONFIG_VALUE_0" => "Ada",
                    "GIT_CONFIG_VALUE_1" => "ada@example.com",
                    "GIT_CONFIG_VALUE_2" => "Grace",
                    _ => return None,
                };
                Some(value.to_owned())
            }
        };
        assert_eq!(from_pairs("user.name", pairs("3")).as_deref(), Some("Grace"));
        assert_eq!(from_pairs("user.name", pairs("2")).as_deref(), Some("Ada"));
        assert_eq!(from_pairs("user.email", pairs("2")).as_deref(), Some("ada@example.com"));
        assert_eq!(from_pairs("user.name", pairs("no")), None);
        assert_eq!(from_pairs("core.editor", pairs("3")), None);
    }
}
