//! Whether an ssh server is the one that it says: `known_hosts`, strictly. A server that no file names is not spoken to.
//!
//! The format is OpenSSH's (`sshd(8)`, "SSH_KNOWN_HOSTS FILE FORMAT"): plain names, patterns, `[host]:port`, names hashed
//! with HMAC-SHA1, and `@revoked`. Lines with `@cert-authority` are not used: libssh2 knows no host certificates.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::regular_file::read_regular;

/// No file of host keys is longer.
const FILE_LIMIT: u64 = 16 << 20;

/// A key that a server showed.
pub(in crate::git) struct ShownKey<'a> {
    pub(in crate::git) host: &'a str,
    pub(in crate::git) port: u16,
    /// `ssh-ed25519`.
    pub(in crate::git) kind: &'a str,
    /// The key in ssh's own form, which names its kind once more.
    pub(in crate::git) bytes: &'a [u8],
}

/// Checks a key against the files. Returns why it is not trusted, with what to do.
pub(in crate::git) fn check(key: &ShownKey<'_>, file: Option<&Path>) -> Result<(), String> {
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => usual_files(),
    };
    let mut text = String::new();
    for path in &files {
        match read_regular(path, FILE_LIMIT) {
            Ok(bytes) => {
                text.push_str(&String::from_utf8_lossy(&bytes));
                text.push('\n');
            }
            Err(error) if file.is_none() && error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("failed to read {}: {error}", path.display())),
        }
    }
    judge(key, &text).map_err(|why| {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        why.replace("{file}", &names.join(" or "))
    })
}

fn usual_files() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".ssh/known_hosts"));
    home.into_iter().chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]).collect()
}

fn judge(key: &ShownKey<'_>, known_hosts: &str) -> Result<(), String> {
    let mut kinds = Vec::new();
    let mut found = false;
    for line in known_hosts.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(mut names) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let marker = if names.starts_with('@') {
            let marker = names;
            let Some(next) = words.next() else { continue };
            names = next;
            Some(marker)
        } else {
            None
        };
        let (Some(kind), Some(encoded)) = (words.next(), words.next()) else { continue };
        if !names_host(names, key.host, key.port) {
            continue;
        }
        let same = kind == key.kind && decode(encoded).is_some_and(|bytes| bytes == key.bytes);
        match marker {
            Some("@revoked") if same => return Err(format!("its key {} is revoked in {{file}}", fingerprint(key))),
            Some(_) => {}
            None => {
                found |= same;
                kinds.push(kind);
            }
        }
    }
    if found {
        return Ok(());
    }
    let address = address(key.host, key.port);
    let shown = format!("{} key {}", key.kind, fingerprint(key));
    if kinds.contains(&key.kind) {
        return Err(format!(
            "its {shown} is not the one in {{file}}: either the server has a new key, or somebody stands in between; \
             ask its administrator, then: ssh-keygen -R '{address}'"
        ));
    }
    let keyscan = match key.port {
        22 => format!("ssh-keyscan {}", key.host),
        port => format!("ssh-keyscan -p {port} {}", key.host),
    };
    if kinds.is_empty() {
        return Err(format!(
            "its {shown} is not in {{file}}; compare it with what its administrator says, then: {keyscan} >> {{file}}"
        ));
    }
    Err(format!("it showed its {shown}, and {{file}} has only its {}; then: {keyscan} >> {{file}}", kinds.join(", ")))
}

/// `SHA256:…`, as ssh-keygen shows it.
fn fingerprint(key: &ShownKey<'_>) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key.bytes)))
}

fn address(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// Whether the first word of a line names this host. A key of the host without a port counts for its other ports too, as
/// ssh does it.
fn names_host(names: &str, host: &str, port: u16) -> bool {
    let candidates = [address(host, port), host.to_owned()];
    if let Some(hashed) = names.strip_prefix("|1|") {
        return candidates.iter().any(|name| is_hash_of(hashed, name));
    }
    candidates.iter().any(|name| {
        let fits = |pattern: &str| matches(pattern.to_ascii_lowercase().as_bytes(), name.as_bytes());
        let refused = names.split(',').filter_map(|pattern| pattern.strip_prefix('!')).any(fits);
        !refused && names.split(',').filter(|pattern| !pattern.starts_with('!')).any(fits)
    })
}

fn is_hash_of(salt_and_hash: &str, name: &str) -> bool {
    let Some((salt, hash)) = salt_and_hash.split_once('|') else { return false };
    let (Some(salt), Some(hash)) = (decode(salt), decode(hash)) else { return false };
    hmac_sha1(&salt, name.as_bytes()).as_slice() == hash
}

/// RFC 2104.
fn hmac_sha1(key: &[u8], text: &[u8]) -> [u8; 20] {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block[..20].copy_from_slice(&Sha1::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |byte: u8| block.map(|key| key ^ byte);
    let inner = Sha1::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha1::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()
}

/// A pattern with `*` and `?`.
pub(in crate::git) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                // Back to the last star, which takes one byte more.
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    const OTHER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn judged(port: u16, known_hosts: &str) -> Result<(), String> {
        let bytes = decode(ED25519).unwrap();
        judge(&ShownKey { host: "git.example.com", port, kind: "ssh-ed25519", bytes: &bytes }, known_hosts)
    }

    #[test]
    fn a_host_that_is_known_is_trusted() {
        for names in
            ["git.example.com", "a,git.example.com", "*.example.com", "GIT.example.com,1.2.3.4", "git.exa?ple.com"]
        {
            assert_eq!(judged(22, &format!("# a comment\n\n{names} ssh-ed25519 {ED25519} ada\n")), Ok(()), "{names}");
        }
        assert_eq!(judged(2222, &format!("[git.example.com]:2222 ssh-ed25519 {ED25519}")), Ok(()));
        assert_eq!(judged(2222, &format!("git.example.com ssh-ed25519 {ED25519}")), Ok(()));
    }

    #[test]
    fn hashed_names_are_known() {
        // Made with: ssh-keygen -H
        let salt = STANDARD.encode([7_u8; 20]);
        let hash = STANDARD.encode(hmac_sha1(&[7; 20], b"[git.example.com]:2222"));
        assert_eq!(judged(2222, &format!("|1|{salt}|{hash} ssh-ed25519 {ED25519}")), Ok(()));
        assert!(judged(22, &format!("|1|{salt}|{hash} ssh-ed25519 {ED25519}")).is_err());
    }

    #[test]
    fn hmac_is_that_of_the_rfc() {
        // RFC 2202, cases 1 and 6.
        let hex = |bytes: [u8; 20]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(hmac_sha1(&[0x0b; 20], b"Hi There")), "b617318655057264e28bc0b6fb378c8ef146be00");
        let long = hmac_sha1(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(long), "aa4ae5e15272d00e95705637ce8a3b55ed402112");
    }

    #[test]
    fn everything_else_is_not() {
        let unknown = judged(22, "").unwrap_err();
        assert!(unknown.contains("ssh-keyscan git.example.com") && unknown.contains("SHA256:"), "{unknown}");
        let changed = judged(22, &format!("git.example.com ssh-ed25519 {OTHER}")).unwrap_err();
        assert!(changed.contains("stands in between"), "{changed}");
        let other_kind = judged(22, "git.example.com ssh-rsa AAAAB3NzaC1yc2E=").unwrap_err();
        assert!(other_kind.contains("has only its ssh-rsa"), "{other_kind}");
        let revoked = format!("git.example.com ssh-ed25519 {ED25519}\n@revoked git.example.com ssh-ed25519 {ED25519}");
        assert!(judged(22, &revoked).unwrap_err().contains("revoked"));
        assert!(judged(22, &format!("@cert-authority *.example.com ssh-ed25519 {ED25519}")).is_err());
        assert!(judged(22, &format!("*,!git.example.com ssh-ed25519 {ED25519}")).is_err());
        assert!(judged(22, &format!("[git.example.com]:2222 ssh-ed25519 {ED25519}")).is_err());
        assert!(judged(22, &format!("example.com ssh-ed25519 {ED25519}")).is_err());
    }

    proptest! {
        #[test]
        fn no_file_is_too_odd(text in "(@revoked |[|]1[|])?[a-z.*?!,|\\[\\]: =@\n]{0,80}") {
            prop_assert!(judged(22, &text).is_err());
        }

        #[test]
        fn patterns_match_as_simply_as_can_be(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn simply(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern.split_first(), text.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), None) => simply(rest, text),
                    (Some((b'*', rest)), Some((_, less))) => simply(rest, text) || simply(pattern, less),
                    (Some((p, rest)), Some((t, less))) => (*p == b'?' || p == t) && simply(rest, less),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), simply(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
