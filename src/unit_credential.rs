//! The credentials of a service of systemd: files in a folder of its own, which the lines `LoadCredential=` of its unit fill.

use std::path::Path;

/// Returns the line of the unit that a missing credential needs. `None` if the path is that of no credential.
#[must_use]
pub fn line_of_missing(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    is_credential(path).then(|| {
        format!(
            "the service has no such credential: add LoadCredential={name}:/etc/belay/{name} (systemctl edit belay)"
        )
    })
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
    fn a_missing_credential_names_the_line_of_the_unit() {
        let line = line_of_missing(Path::new("/run/credentials/belay.service/token")).unwrap();
        assert!(line.contains("LoadCredential=token:/etc/belay/token"), "{line}");
        for elsewhere in ["/etc/belay/token", "/run/credentials/token", "token", "/"] {
            assert_eq!(line_of_missing(Path::new(elsewhere)), None, "{elsewhere}");
        }
    }
}
