//! The unit of a service of systemd: the paths that it hides, and the credentials that its lines `LoadCredential=` hand over.

use std::io::ErrorKind;
use std::path::Path;

/// Returns what to do about a file that can't be opened, if the unit is the reason.
#[must_use]
pub fn advice(path: &Path, error: ErrorKind) -> Option<String> {
    match error {
        ErrorKind::NotFound => about_missing_credential(path).or_else(|| hidden_by_systemd(path)),
        ErrorKind::PermissionDenied => hidden_by_systemd(path).or_else(about_rights),
        _ => None,
    }
}

/// Returns why a path of this machine may not be seen, if belay runs as a service of systemd, and how to show it to
/// belay.
#[must_use]
pub fn hidden_by_systemd(path: &Path) -> Option<String> {
    // systemd sets it for whatever it starts.
    std::env::var_os("INVOCATION_ID")?;
    setting(path).map(|setting| {
        let path = path.display();
        format!("the unit's {setting} hides it from belay: put it elsewhere, or show it with BindReadOnlyPaths={path}")
    })
}

/// Returns the setting of `systemd/belay.service` that hides a path.
fn setting(path: &Path) -> Option<&'static str> {
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    match () {
        () if below(&["/home", "/root", "/run/user"]) => Some("ProtectHome="),
        () if below(&["/tmp", "/var/tmp"]) => Some("PrivateTmp="),
        () => None,
    }
}

fn about_rights() -> Option<String> {
    std::env::var_os("INVOCATION_ID")?;
    Some("the user of the service must be able to read it, or gets a copy by LoadCredential= of the unit".to_owned())
}

fn about_missing_credential(path: &Path) -> Option<String> {
    if let Some(unit) = stopped_unit(path) {
        return Some(format!("systemd puts credentials there while {unit} runs"));
    }
    let (name, unit) = (path.file_name()?.to_str()?, unit_of(path)?);
    let service = unit.trim_end_matches(".service");
    Some(format!(
        "the service has no such credential: add LoadCredential={name}:/etc/belay/{name} (systemctl edit {service})"
    ))
}

/// Returns the unit that a credential is of, if it does not run: systemd puts the credential there with the start.
#[must_use]
pub fn stopped_unit(path: &Path) -> Option<&str> {
    unit_of(path).filter(|_| path.parent().is_some_and(|folder| !folder.exists()))
}

/// Returns true if systemd gives a service the file, or its replacement (`SetCredential=`).
#[must_use]
pub fn is_credential(path: &Path) -> bool {
    unit_of(path).is_some()
}

/// Returns the unit that a credential is of; `None` for other files.
fn unit_of(path: &Path) -> Option<&str> {
    let folder = path.parent().filter(|folder| folder.parent() == Some(Path::new("/run/credentials")))?;
    folder.file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_hides_a_path_is_named() {
        for (path, expected) in [
            ("/home/ada/shop.git", Some("ProtectHome=")),
            ("/root/shop.git", Some("ProtectHome=")),
            ("/tmp/shop.git", Some("PrivateTmp=")),
            ("/var/tmp/shop.git", Some("PrivateTmp=")),
            ("/srv/git/home/shop.git", None),
            ("/homes/shop.git", None),
        ] {
            assert_eq!(setting(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn only_credentials_get_advice() {
        let missing = Path::new("/run/credentials/no-such-unit.service/token");
        let advice = about_missing_credential(missing).unwrap();
        assert_eq!(advice, "systemd puts credentials there while no-such-unit.service runs");
        assert_eq!(stopped_unit(missing), Some("no-such-unit.service"));
        for elsewhere in ["/etc/belay/token", "/run/credentials/token", "token", "/"] {
            let elsewhere = Path::new(elsewhere);
            assert_eq!(about_missing_credential(elsewhere), None, "{elsewhere:?}");
            assert_eq!(stopped_unit(elsewhere), None, "{elsewhere:?}");
        }
    }
}
