//! The forge's page of a commit, by the address of the repository.

/// Returns the page of a commit at a forge that is known by its name, with `{commit}` in the place of the id; `None`
/// for others, for which `[web] commit_url` says it.
#[must_use]
pub fn commit_url(repository: &str) -> Option<String> {
    let (host, path) = host_and_path(repository)?;
    let path = path.trim_matches('/').trim_end_matches(".git");
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    if !plain(&host, ".-") || !plain(path, "./-_~") || !path.contains('/') {
        return None;
    }
    let of = |name: &str| host.split('.').any(|part| part == name);
    let commit = if of("gitlab") {
        "-/commit"
    } else if of("bitbucket") {
        "commits"
    } else if of("github") || of("gitea") || of("forgejo") || of("codeberg") {
        "commit"
    } else {
        return None;
    };
    Some(format!("https://{host}/{path}/{commit}/{{commit}}"))
}

/// Returns the host and the path of `https://user@host:port/path`, `ssh://git@host/path` and `git@host:path`; no user,
/// no port.
fn host_and_path(repository: &str) -> Option<(String, &str)> {
    let without_user = |text: &str| text.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    if let Some((scheme, rest)) = repository.split_once("://") {
        let (host, path) = rest.split_once('/')?;
        let known = ["https", "http", "ssh"].contains(&scheme);
        let host = without_user(host);
        return known.then(|| (host.split(':').next().unwrap_or_default().to_owned(), path));
    }
    let (host, path) = repository.split_once(':')?;
    (!host.contains('/')).then(|| (without_user(host), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forges_are_known_by_their_names() {
        for (repository, url) in [
            ("https://github.com/acme/shop.git", Some("https://github.com/acme/shop/commit/{commit}")),
            ("git@github.example.com:acme/shop", Some("https://github.example.com/acme/shop/commit/{commit}")),
            ("ssh://git@gitlab.com:22/a/b/c.git", Some("https://gitlab.com/a/b/c/-/commit/{commit}")),
            ("https://me:secret@bitbucket.org/acme/shop", Some("https://bitbucket.org/acme/shop/commits/{commit}")),
            ("https://codeberg.org/acme/shop/", Some("https://codeberg.org/acme/shop/commit/{commit}")),
            ("https://git.example.com/acme/shop", None),
            ("/srv/git/shop.git", None),
            ("C:shop", None),
            ("https://github.com/\"><script>/x", None),
            ("javascript://github.com/a/b", None),
        ] {
            assert_eq!(commit_url(repository).as_deref(), url, "{repository}");
        }
    }
}
