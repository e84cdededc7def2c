//! The passphrase of a key: `ssh` starts belay as the program of `SSH_ASKPASS` and reads it from its output.

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::credentials::secret;

/// The file with the passphrase.
pub(super) const PASSPHRASE_FILE: &str = "BELAY_SSH_PASSPHRASE_FILE";
/// The key that it is for.
pub(super) const PASSPHRASE_KEY: &str = "BELAY_SSH_PASSPHRASE_KEY";

/// Answers `ssh`, where it has started this program to ask for a passphrase. Returns whether there was an answer; nothing
/// where the program was started for anything else.
#[must_use]
pub fn answer_ssh() -> Option<bool> {
    let file = PathBuf::from(env::var_os(PASSPHRASE_FILE)?);
    let question = env::args_os().nth(1).unwrap_or_default();
    let Some(passphrase) = env::var_os(PASSPHRASE_KEY).and_then(|key| answer(&question, &key, &file)) else {
        return Some(false);
    };
    Some(writeln!(std::io::stdout(), "{passphrase}").is_ok())
}

/// Returns the passphrase, where the question is for that of the key. `ssh` may ask for others, or for a password.
fn answer(question: &OsString, key: &OsString, file: &Path) -> Option<String> {
    let (question, key) = (question.to_str()?, key.to_str()?);
    let is_for_it = question.contains("passphrase") && question.contains(&format!("'{key}'"));
    if is_for_it { secret("passphrase file", file).ok().map(|secret| secret.0) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_passphrase_of_that_key_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passphrase");
        std::fs::write(&file, "hunter2\n").unwrap();
        let asked = |question: &str| answer(&question.into(), &"/etc/belay/key".into(), &file);
        assert_eq!(asked("Enter passphrase for key '/etc/belay/key': ").as_deref(), Some("hunter2"));
        for other in [
            "Enter passphrase for key '/home/ada/.ssh/id_rsa': ",
            "git@git.example.com's password: ",
            "Are you sure you want to continue connecting (yes/no)? ",
            "",
        ] {
            assert_eq!(asked(other), None, "{other}");
        }
    }
}
