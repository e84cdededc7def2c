//! The paths that systemd hides from a service: a folder that everybody else sees.

use std::path::Path;

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
}
