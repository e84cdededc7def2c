//! The machine's own sshd on a free port of loopback, if there is one, with keys and an account of its own making.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running sshd. It stops when it is dropped.
pub struct Sshd {
    process: Child,
    pub port: u16,
    /// The keys: `client` and `locked` (passphrase `hunter2`) may come in, `stranger` may not.
    pub folder: PathBuf,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Sshd {
    /// Starts it, with keys of its own in a new folder; `None`, with one line, if that is not possible.
    pub async fn start(folder: &Path, what: &str) -> Option<Sshd> {
        let skipped = |why: &str| eprintln!("{why}: skipped: {what}");
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

    /// Returns a file of known hosts in which the server has this key.
    pub fn known_hosts(&self, host_key: &str) -> PathBuf {
        let key = fs::read_to_string(self.folder.join(format!("{host_key}.pub"))).unwrap();
        let path = self.folder.join(format!("known_hosts-{host_key}"));
        fs::write(&path, format!("[localhost]:{} {key}", self.port)).unwrap();
        path
    }

    /// Returns the address of a repository on this machine, for the user that this test runs as.
    pub fn url(&self, repository: &Path) -> String {
        let user = Command::new("id").arg("-un").output().expect("id").stdout;
        let user = String::from_utf8(user).expect("a name");
        format!("ssh://{}@localhost:{}{}", user.trim(), self.port, repository.display())
    }
}
