//! The person who types: the user of this machine, and the one that the cluster is asked as.

use std::os::unix::fs::MetadataExt as _;

use crate::cli::Globals;

/// The longest name that is written down, in characters.
const LONGEST: usize = 100;

/// Returns the name for the history: `ada as shop-admin`.
pub(in crate::cli) fn who(globals: &Globals) -> String {
    let local = local_user();
    let name = match globals.as_user.clone().or_else(|| kubeconfig_user(globals)) {
        Some(user) if user != local => format!("{local} as {user}"),
        _ => local,
    };
    name.chars().filter(|c| !belay_core::manifest::is_hidden(*c)).take(LONGEST).collect()
}

/// Returns the user that the kubeconfig names in the context; `None` in a pod.
fn kubeconfig_user(globals: &Globals) -> Option<String> {
    let config = globals.kubeconfig_as_read()?;
    let context = globals.context.clone().or(config.current_context)?;
    let named = config.contexts.into_iter().find(|named| named.name == context)?;
    named.context?.user.filter(|user| !user.is_empty())
}

fn local_user() -> String {
    let from = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    from("USER").or_else(|| from("LOGNAME")).unwrap_or_else(|| {
        // The owner of this process is the person who runs it.
        let id = std::fs::metadata("/proc/self").map(|process| process.uid()).ok();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        id.map_or_else(|| "somebody".to_owned(), |id| named(&users, id).unwrap_or_else(|| format!("user {id}")))
    })
}

/// Returns the name of a user in the text of `/etc/passwd`.
fn named(users: &str, id: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1001:1001::/home/ada:/bin/sh\n";
        assert_eq!(named(users, 0).as_deref(), Some("root"));
        assert_eq!(named(users, 1001).as_deref(), Some("ada"));
        assert_eq!(named(users, 7), None);
    }
}
