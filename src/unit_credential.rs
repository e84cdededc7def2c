//! The credentials of a service of systemd: files in a folder of its own, which the lines `LoadCredential=` of its unit fill.

use std::path::Path;

/// Returns what to do about a missing credential. `None` if the path is that of no credential.
#[must_use]
pub fn advice_about_missing(path: &Path) -> Option<String> {
    let (name, folder) = (path.file_name()?.to_str()?, path.parent()?);
    let unit = folder.file_name()?.to_str()?;
    if !is_credential(path) {
        return None;
    }
    if !folder.exists() {
        return Some(format!("systemd puts credentials there while {unit} runs"));
    }
    let service = unit.trim_end_matches(".service");
    Some(format!(
        "the service has no such credential: add LoadCredential={name}:/etc/belay/{name} (systemctl edit {service})"
    ))
}

/// Returns what to do about a file that a service of systemd may not read. `None` for other processes, and for what the unit
/// hides from its service.
#[must_use]
pub fn advice_about_rights(path: &Path) -> Option<String> {
    std::env::var_os("INVOCATION_ID")?;
    let is_hidden = ["/home", "/root", "/run/user"].iter().any(|folder| path.starts_with(folder));
    (!is_hidden).then(|| {
        "the user of the service must be able to read it, or gets a copy by LoadCredential= of the unit".to_owned()
    })
}

/// Returns true for a credential of a service that does not run: systemd puts it there with the start.
#[must_use]
pub fn comes_with_the_start(path: &Path) -> bool {
    is_credential(path) && path.parent().is_some_and(|folder| !folder.exists())
}

/// Returns true if systemd gives a service the file, or its replacement (`SetCredential=`).
#[must_use]
pub fn is_credential(path: &Path) -> bool {
    path.parent().and_then(Path::parent) == Some(Path::new("/run/credentials"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_credentials_get_advice() {
        let missing = Path::new("/run/credentials/no-such-unit.service/token");
        let advice = advice_about_missing(missing).unwrap();
        assert_eq!(advice, "systemd puts credentials there while no-such-unit.service runs");
        assert!(comes_with_the_start(missing));
        for elsewhere in ["/etc/belay/token", "/run/credentials/token", "token", "/"] {
            let elsewhere = Path::new(elsewhere);
            assert_eq!(advice_about_missing(elsewhere), None, "{elsewhere:?}");
            assert!(!comes_with_the_start(elsewhere), "{elsewhere:?}");
        }
    }
}
