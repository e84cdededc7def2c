//! The addresses of repositories, and the words of the servers that they name.

use belay::git::{Location, redirected, ssh_error};

use super::text::{sections, steers};

/// The path that follows the repository's address in a request.
const SERVICE: &str = "/info/refs?service=git-upload-pack";
/// The longest error, in characters: some sentences with a host, a path and a line of the server.
const LONGEST_ERROR: usize = 4000;

/// An address is one of the kinds that are allowed, and is read again as the same; a redirect stays with its server; and
/// what `ssh` complains of is a bounded text. The first section is an address, `redirect` a redirect, `ssh` a complaint.
pub fn address(data: &[u8]) {
    let data = &data[..data.len().min(16 << 10)];
    let sections = sections(data);
    let text = |wanted: &str| {
        let section = sections.iter().find(|(heading, _)| *heading == wanted.as_bytes());
        section.map(|(_, bytes)| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned())
    };
    let Some(address) = text("") else { return };
    let Ok(location) = address.parse::<Location>() else { return };
    let shown = location.to_string();
    assert!(!steers(&shown) && !shown.starts_with('-'), "{shown:?}");
    if let Some(origin) = location.origin() {
        assert!(!origin.host.is_empty() && !origin.host.starts_with('-') && origin.port > 0, "{shown}");
        assert!(location.user().is_none_or(|user| !user.starts_with('-') && !user.contains([':', '@'])), "{shown}");
        assert_eq!(shown.parse::<Location>().as_ref(), Ok(&location), "{address:?}");
    }
    if let Some(to) = text("redirect") {
        match redirected(location.origin(), &to, SERVICE) {
            Ok(repository) => {
                let repository: Location = repository.parse().expect("a location");
                assert!(
                    repository.origin().is_some() && repository.origin() == location.origin(),
                    "{to}: {repository}"
                );
            }
            Err(error) => assert!(error.starts_with("it redirects to "), "{error}"),
        }
    }
    if let Some(complaint) = text("ssh") {
        let error = ssh_error(&location, &complaint).to_string();
        let own = address.chars().count() * 4;
        assert!(!steers(&error) && !error.contains('\n'), "{error:?}");
        assert!(error.chars().count() <= LONGEST_ERROR + own, "{} characters", error.chars().count());
    }
}
