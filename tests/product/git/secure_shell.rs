//! A repository behind ssh, with the machine's own sshd on loopback if there is one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use belay::git::{Credentials, GitError, Limits, Location, Mirror};

use super::hostile_answers;
use super::mirror::{fetch, id};
use crate::support::repository::Repository;
use crate::support::ssh_server::Sshd;

#[test]
fn a_push_is_fetched_over_ssh() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let started = runtime.block_on(Sshd::start(&repository.beside("sshd"), "fetching over ssh"));
    let Some(sshd) = started else { return };
    let location: Location = sshd.url(repository.path()).parse().unwrap();
    let with = |credentials: Credentials| {
        Mirror::open(&repository.beside("mirror"), location.clone(), credentials, Limits::default()).unwrap().0
    };
    let credentials = |key: &str, host_key: &str| {
        Credentials::new(&location).key_file(sshd.folder.join(key)).known_hosts(sshd.known_hosts(host_key))
    };
    let error = fetch(&with(credentials("client", "other-host"))).unwrap_err();
    assert!(matches!(&error, GitError::Untrusted { message, .. } if message.contains("stands in between")), "{error}");
    let empty = sshd.folder.join("known_hosts-empty");
    fs::write(&empty, "").unwrap();
    let unknown = credentials("client", "host").known_hosts(&empty);
    let error = fetch(&with(unknown)).unwrap_err();
    let hint = format!("ssh-keyscan -p {} localhost", sshd.port);
    assert!(matches!(&error, GitError::Untrusted { message, .. } if message.contains(&hint)), "{error}");

    let error = fetch(&with(credentials("stranger", "host"))).unwrap_err();
    assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("the ssh key")), "{error}");
    let error = fetch(&with(credentials("missing", "host"))).unwrap_err();
    assert!(matches!(&error, GitError::Credential { .. }), "{error}");

    assert_eq!(fetch(&with(credentials("client", "host"))).unwrap().head, id(&first));
    let error = fetch(&with(credentials("locked", "host"))).unwrap_err();
    assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("ssh_passphrase_file")), "{error}");
    let open = sshd.folder.join("open");
    fs::copy(sshd.folder.join("client"), &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let error = fetch(&with(credentials("open", "host"))).unwrap_err();
    assert!(matches!(&error, GitError::Credential { why, .. } if why.contains("chmod 600")), "{error}");
    let nowhere: Location = sshd.url(&repository.beside("nowhere")).parse().unwrap();
    let credentials = Credentials::new(&nowhere).key_file(sshd.folder.join("client"));
    let credentials = credentials.known_hosts(sshd.known_hosts("host"));
    let mirror = Mirror::open(&repository.beside("other"), nowhere, credentials, Limits::default()).unwrap().0;
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("no such repository")), "{error}");
}

/// Scripts that run in the place of `git upload-pack`, and the words of the error of each.
const HOSTILE: [(&str, &[&str]); 9] = [
    ("exit 3", &["failed to fetch"]),
    ("exec sleep 60", &["took longer"]),
    ("yes noise >&2", &["took longer", "failed to fetch"]),
    ("yes noise", &["failed to fetch"]),
    (
        "yes 0123456789012345678901234567890123456789 | sed 's,$, refs/heads/x,; s,^,003a,'",
        &["took longer", "the limit is"],
    ),
    ("while :; do printf 0004; done", &["failed to fetch", "took longer", "the limit is"]),
    ("printf '\\033[31m%s' ERR", &["failed to fetch"]),
    ("REAL | head -c 100", &["failed to fetch", "took longer"]),
    ("REAL | head -c 300", &["failed to fetch", "took longer"]),
];

#[tokio::test]
async fn a_hostile_upload_pack_is_given_up() {
    let mut repository = Repository::new();
    let noise: String = (0..20_000_u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    let first = repository.commit_file("a.yaml", &noise, "First");
    repository.push();
    let Some(sshd) = Sshd::start(&repository.beside("sshd"), "a hostile upload-pack").await else { return };
    let (key, hosts) = (sshd.folder.join("client"), sshd.known_hosts("host"));
    let public = fs::read_to_string(sshd.folder.join("client.pub")).unwrap();
    let runs = |script: &str| {
        let real = format!("git upload-pack '{}'", repository.path().display());
        let file = sshd.folder.join("script");
        fs::write(&file, format!("{}\n", script.replace("REAL", &real))).unwrap();
        let forced = format!("command=\"sh {}\" {public}", file.display());
        fs::write(sshd.folder.join("authorized_keys"), forced).unwrap();
    };
    let fetched = |number: usize| {
        let folder = repository.beside(&format!("mirror-{number}"));
        hostile_answers::fetched(&sshd.url(repository.path()), &folder, &[key.clone(), hosts.clone()])
    };
    for (number, (script, words)) in HOSTILE.into_iter().enumerate() {
        runs(script);
        let came = fetched(number);
        assert!(words.iter().any(|word| came.said.contains(word)), "{script}: {}", came.said);
        assert_eq!(came.head, "None", "{script}: {}", came.said);
    }
    runs("REAL");
    assert_eq!(fetched(HOSTILE.len()).said, format!("took {first}"));
}
