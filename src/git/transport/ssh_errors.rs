//! The meaning of what `ssh` complains of, and what to do.

use super::location::Location;
use super::session::shown;
use super::ssh_command::SshKeys;
use crate::git::error::GitError;

/// Returns what it means that `ssh` ended with this complaint, before the server said anything of Git.
pub(super) fn judge(location: &Location, keys: &SshKeys, complaint: &str) -> GitError {
    let repository = location.to_string();
    if let Some(message) = untrusted(location, keys, complaint) {
        return GitError::Untrusted { repository, message };
    }
    if let (Some(key), Some(why)) = (&keys.key, unusable_key(complaint)) {
        return GitError::Credential { what: "ssh key", path: key.clone(), why };
    }
    if complaint.contains("Permission denied (") || complaint.contains("Too many authentication failures") {
        return GitError::Refused { repository, message: refused_keys(keys) };
    }
    let lower = complaint.to_ascii_lowercase();
    let unknown =
        ["does not appear to be a git repository", "repository not found", "no such repository", "project not found"];
    if unknown.iter().any(|part| lower.contains(part)) {
        let message = "it knows no such repository, or none that these credentials may read".to_owned();
        return GitError::Refused { repository, message };
    }
    if let Some(message) = unknown_user(complaint) {
        return GitError::Unreachable { repository, message };
    }
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty());
    let message = last.map_or_else(|| "the server closed the connection".to_owned(), shown);
    GitError::Unreachable { repository, message }
}

/// Returns what it means that `ssh` ended with this complaint, where the configuration names no files for ssh.
#[must_use]
pub fn ssh_error(location: &Location, complaint: &str) -> GitError {
    judge(location, &SshKeys::default(), complaint)
}

/// Returns why the server's key is not trusted, with what to do.
fn untrusted(location: &Location, keys: &SshKeys, complaint: &str) -> Option<String> {
    let origin = location.origin()?;
    let (address, keyscan) = match origin.port {
        22 => (origin.host.clone(), format!("ssh-keyscan {}", origin.host)),
        port => (format!("[{}]:{port}", origin.host), format!("ssh-keyscan -p {port} {}", origin.host)),
    };
    let file =
        keys.known_hosts.as_ref().map_or_else(|| "~/.ssh/known_hosts".to_owned(), |file| file.display().to_string());
    let shown_key = complaint.lines().map(str::trim).find(|line| line.starts_with("SHA256:")).map(|line| {
        let key = line.trim_end_matches('.');
        format!(" {}", shown(key))
    });
    let shown_key = shown_key.unwrap_or_default();
    if complaint.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return Some(format!(
            "its key{shown_key} is not the one in {file}: either the server has a new key, or somebody stands in between; \
             ask its administrator, then: ssh-keygen -R '{address}' -f {file}"
        ));
    }
    if complaint.contains("REVOKED HOST KEY DETECTED") || complaint.contains("is marked as revoked") {
        return Some(format!("its key is revoked in {file}"));
    }
    complaint.contains("Host key verification failed").then(|| {
        format!("its key is not in {file}; compare it with what its administrator says, then: {keyscan} >> {file}")
    })
}

/// Returns why `ssh` can't use the key that is configured.
fn unusable_key(complaint: &str) -> Option<String> {
    if complaint.contains("UNPROTECTED PRIVATE KEY FILE") || complaint.contains("bad permissions") {
        return Some("others may read it, and ssh takes no such key; then: chmod 600".to_owned());
    }
    let loading = complaint.lines().find(|line| line.trim_start().starts_with("Load key "))?;
    let why = loading.rsplit(": ").next().unwrap_or(loading);
    Some(format!("ssh can't use it: {}", shown(why)))
}

/// Returns what to do where `ssh` does not begin, because the machine knows no user with belay's number.
fn unknown_user(complaint: &str) -> Option<String> {
    let number = complaint.lines().find_map(|line| line.trim().strip_prefix("No user exists for uid "))?;
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    Some(format!(
        "ssh runs only as a user that is in /etc/passwd, and {number} is not: add it there (in a container: to the image; for a unit \
         with DynamicUser=: install libnss-systemd), run belay as another user, or take an https address"
    ))
}

fn refused_keys(keys: &SshKeys) -> String {
    match (&keys.key, &keys.passphrase) {
        (Some(_), Some(_)) => "it does not take the ssh key that is configured; is its passphrase right?".to_owned(),
        (Some(_), None) => "it does not take the ssh key that is configured; one with a passphrase needs \
                            ssh_passphrase_file"
            .to_owned(),
        (None, _) => "it takes none of the keys that ssh has, from ~/.ssh and the ssh agent; one with a passphrase is \
                      for the agent: ssh-add"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(complaint: &str, keys: &SshKeys) -> String {
        let location: Location = "ssh://git.example.com:2222/deploy.git".parse().unwrap();
        judge(&location, keys, complaint).to_string()
    }

    /// The words of OpenSSH 9.2.
    #[test]
    fn complaints_say_what_to_do() {
        let none = SshKeys::default();
        let key = SshKeys { key: Some("/etc/belay/key".into()), ..SshKeys::default() };
        let locked = SshKeys { passphrase: Some("/etc/belay/passphrase".into()), ..key.clone() };
        let changed = "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nThe fingerprint for the ED25519 key sent by \
                       the remote host is\nSHA256:abc.\nHost key verification failed.\n";
        let unknown = "No ED25519 host key is known for [git.example.com]:2222 and you have requested strict \
                       checking.\nHost key verification failed.\n";
        for (complaint, keys, part) in [
            (changed, &none, "its key SHA256:abc is not the one in ~/.ssh/known_hosts: either"),
            (unknown, &none, "ssh-keyscan -p 2222 git.example.com >> ~/.ssh/known_hosts"),
            ("git@git.example.com: Permission denied (publickey).", &none, "for the agent: ssh-add"),
            ("git@git.example.com: Permission denied (publickey).", &key, "the ssh key that is configured; one with"),
            ("git@git.example.com: Permission denied (publickey).", &locked, "is its passphrase right?"),
            (
                "Load key \"/etc/belay/key\": error in libcrypto\r\nx: Permission denied (publickey).",
                &key,
                "failed to read the ssh key /etc/belay/key: ssh can't use it: error in libcrypto",
            ),
            (
                "Permissions 0644 for '/etc/belay/key' are too open.\nLoad key \"/etc/belay/key\": bad permissions",
                &key,
                "chmod 600",
            ),
            ("ERROR: Repository not found.\n", &none, "refused belay: it knows no such repository"),
            ("fatal: '/srv/x' does not appear to be a git repository\n", &none, "it knows no such repository"),
            (
                "ssh: Could not resolve hostname git.example.com: Name or service not known\n",
                &none,
                "failed to fetch from ssh://git.example.com:2222/deploy.git: ssh: Could not resolve",
            ),
            ("No user exists for uid 12345\r\n", &none, "in /etc/passwd, and 12345 is not: add it there"),
            ("", &none, "the server closed the connection"),
            ("\u{1b}[31mconnection refused\n", &none, "deploy.git: [31mconnection refused"),
        ] {
            let said = judged(complaint, keys);
            assert!(said.contains(part), "{complaint}\n{said}");
        }
    }
}
