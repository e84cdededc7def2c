//! A repository behind ssh, with the machine's own sshd on loopback where there is one.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use belay::git::{Credentials, GitError, Limits, Location, Mirror};

use super::mirror::{fetch, id};
use crate::world::repository::Repository;

struct Sshd {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Sshd {
    /// Starts it; `None`, with one line, where that is not possible.
    async fn start(folder: &Path) -> Option<Sshd> {
        let skipped = |why: &str| eprintln!("{why}: skipped: fetching over ssh");
        let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            skipped("sshd is not installed");
            return None;
        };
        fs::create_dir(folder).unwrap();
        for (name, passphrase) in
            [("host", ""), ("other-host", ""), ("client", ""), ("locked", "hunter2"), ("stranger", "")]
        {
            let arguments = ["-q", "-t", "ed25519", "-N", passphrase, "-f"];
            let made = Command::new("ssh-keygen").args(arguments).arg(folder.join(name)).status();
            if !made.is_ok_and(|status| status.success()) {
                skipped("ssh-keygen is not installed");
                return None;
            }
        }
        let key = |name: &str| fs::read_to_string(folder.join(format!("{name}.pub"))).unwrap();
        let authorized = folder.join("authorized_keys");
        fs::write(&authorized, key("client") + &key("locked")).unwrap();
        fs::set_permissions(&authorized, fs::Permissions::from_mode(0o600)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized_keys\nStrictModes \
             no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n",
            folder.display()
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        let process = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(folder.join("sshd_config"))
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut sshd = Sshd { process, port, folder: folder.to_owned() };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(sshd);
            }
            if sshd.process.try_wait().unwrap().is_some() {
                break;
            }
            // Real time: this is a real process.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        skipped(&format!("sshd does not start: {}", fs::read_to_string(folder.join("log")).unwrap().trim()));
        None
    }

    /// A file of known hosts in which the server has this key.
    fn known_hosts(&self, host_key: &str) -> PathBuf {
        let key = fs::read_to_string(self.folder.join(format!("{host_key}.pub"))).unwrap();
        let path = self.folder.join(format!("known_hosts-{host_key}"));
        fs::write(&path, format!("[localhost]:{} {key}", self.port)).unwrap();
        path
    }
}

#[tokio::test]
async fn a_push_is_fetched_over_ssh() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let Some(sshd) = Sshd::start(&repository.beside("sshd")).await else { return };
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    let url = format!("ssh://{}@localhost:{}{}", user.trim(), sshd.port, repository.path().display());
    let location: Location = url.parse().unwrap();
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
