//! Git's configuration of the user that belay runs as.

use git2::{ConfigLevel, Repository};

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
