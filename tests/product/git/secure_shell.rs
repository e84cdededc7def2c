//! A repository behind ssh, with the machine's own sshd on loopback where there is one.

use std::fs;

use belay::git::{Credentials, GitError, Limits, Location, Mirror};

use super::mirror::{fetch, id};
use crate::support::repository::Repository;
use crate::support::ssh_server::Sshd;

#[tokio::test]
async fn a_push_is_fetched_over_ssh() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let Some(sshd) = Sshd::start(&repository.beside("sshd"), "fetching over ssh").await else { return };
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
    let passphrase = sshd.folder.join("passphrase");
    fs::write(&passphrase, "hunter2\n").unwrap();
    let locked = credentials("locked", "host").passphrase_file(&passphrase);
    assert_eq!(fetch(&with(locked)).unwrap().head, id(&first));
    fs::write(&passphrase, "hunter3\n").unwrap();
    let error = fetch(&with(credentials("locked", "host").passphrase_file(&passphrase))).unwrap_err();
    assert!(matches!(&error, GitError::Refused { .. } | GitError::Credential { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter3"));
}
