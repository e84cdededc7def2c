//! The command line of `ssh`: never a question, never a server that is not known.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::askpass::{PASSPHRASE_FILE, PASSPHRASE_KEY};
use super::credentials::Credentials;
use super::location::Location;
use crate::git::error::GitError;

/// The options of every session: no question is asked, no server is trusted that is not known, and nothing is forwarded.
const OPTIONS: [&str; 9] = [
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "LogLevel=ERROR",
];

/// The files that the configuration names for ssh.
#[derive(Clone, Debug, Default)]
pub(super) struct SshKeys {
    pub(super) key: Option<PathBuf>,
    pub(super) passphrase: Option<PathBuf>,
    pub(super) known_hosts: Option<PathBuf>,
}

impl SshKeys {
    /// Looks whether they are there.
    pub(super) fn of(credentials: &Credentials) -> Result<SshKeys, GitError> {
        let owned = |path: Option<&Path>| path.map(Path::to_owned);
        Ok(SshKeys {
            key: owned(credentials.ssh_key()?),
            passphrase: owned(credentials.ssh_passphrase()?),
            known_hosts: owned(credentials.known_hosts_file()?),
        })
    }
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SshLine {
    pub(super) program: String,
    /// The signal at the end of belay.
    pub(super) end: Signal,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
}

/// Returns the command line that starts a program of Git on the server. `configured` is `core.sshCommand`; the environment's
/// `GIT_SSH_COMMAND` comes before it, as in Git.
pub(super) fn line(
    location: &Location,
    credentials: &Credentials,
    keys: &SshKeys,
    program: &str,
    configured: Option<&str>,
) -> SshLine {
    let named = std::env::var("GIT_SSH_COMMAND").ok().or_else(|| configured.map(str::to_owned));
    let mut arguments = options(location, keys);
    let host = location.origin().map_or("", |origin| origin.host.as_str());
    arguments.push(format!("{}@{host}", location.user().unwrap_or_else(|| credentials.user_name())).into());
    arguments.push(format!("{program} {}", quoted(location.path_on_server())).into());
    let (program, end, arguments) = match named.filter(|named| !named.trim().is_empty()) {
        None => ("ssh".to_owned(), Signal::KILL, arguments),
        Some(named) => {
            // It is a line for the shell, as in Git. The shell ends its group when belay is gone. What a shell starts beside itself
            // has no input, unless it is given one.
            let line =
                format!("trap 'kill -KILL 0' TERM; exec 3<&0; {{ {named} \"$@\"\n}} <&3 3<&- & exec 3<&-; wait $!");
            let mut whole = vec![OsString::from("-c"), line.into(), named.into()];
            whole.append(&mut arguments);
            ("sh".to_owned(), Signal::TERM, whole)
        }
    };
    SshLine { program, end, arguments, environment: environment(keys) }
}

fn options(location: &Location, keys: &SshKeys) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("-T")];
    let mut option = |text: &str| arguments.extend(["-o".into(), text.into()]);
    OPTIONS.iter().for_each(|text| option(text));
    match &keys.passphrase {
        // ssh asks the program of SSH_ASKPASS for it.
        Some(_) => option("NumberOfPasswordPrompts=1"),
        None => option("BatchMode=yes"),
    }
    if keys.key.is_some() {
        option("IdentitiesOnly=yes");
    }
    if let Some(file) = &keys.known_hosts {
        option(&format!("UserKnownHostsFile={}", in_option(file)));
        option("GlobalKnownHostsFile=/dev/null");
    }
    if let Some(key) = &keys.key {
        option(&format!("IdentityFile={}", in_option(key)));
    }
    if let Some(port) = location.origin().map(|origin| origin.port).filter(|port| *port != 22) {
        arguments.extend(["-p".into(), port.to_string().into()]);
    }
    arguments
}

fn environment(keys: &SshKeys) -> Vec<(&'static str, OsString)> {
    // Complaints are read, and these are in English.
    let mut environment = vec![("LC_ALL", OsString::from("C"))];
    if let (Some(file), Some(key), Ok(belay)) = (&keys.passphrase, &keys.key, std::env::current_exe()) {
        environment.push(("SSH_ASKPASS", belay.into()));
        environment.push(("SSH_ASKPASS_REQUIRE", "force".into()));
        environment.push((PASSPHRASE_FILE, file.into()));
        environment.push((PASSPHRASE_KEY, key.into()));
    }
    environment
}

/// Returns a path as a value of an option: ssh splits at spaces, and puts in values for what follows a `%`.
fn in_option(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('%', "%%"))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(url: &str, keys: &SshKeys, configured: Option<&str>) -> SshLine {
        let location: Location = url.parse().unwrap();
        line(&location, &Credentials::new(&location), keys, "git-upload-pack", configured)
    }

    fn shown(line: &SshLine) -> String {
        line.arguments.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ssh_asks_nobody_and_trusts_nobody_new() {
        let line = words("git@git.example.com:shop/deploy.git", &SshKeys::default(), None);
        let said = shown(&line);
        assert!(said.contains("-o StrictHostKeyChecking=yes") && said.contains("-o BatchMode=yes"), "{said}");
        for nothing_forwarded in ["-o ClearAllForwardings=yes", "-o ForwardAgent=no", "-o PasswordAuthentication=no"] {
            assert!(said.contains(nothing_forwarded), "{said}");
        }
        assert!(said.ends_with(" git@git.example.com git-upload-pack 'shop/deploy.git'"), "{said}");
        assert!(!said.contains("Identity") && !said.contains("KnownHosts") && !said.contains(" -p "), "{said}");
        assert_eq!((line.program.as_str(), line.environment.len()), ("ssh", 1));
    }

    #[test]
    fn configured_files_are_the_only_ones() {
        let keys = SshKeys {
            key: Some("/etc/be lay/100%".into()),
            passphrase: Some("/run/passphrase".into()),
            known_hosts: Some("/etc/belay/known_hosts".into()),
        };
        let line = words("ssh://ada@git.example.com:2222/srv/deploy.git", &keys, None);
        let said = shown(&line);
        assert!(
            said.contains("-o IdentitiesOnly=yes") && said.contains("IdentityFile=\"/etc/be lay/100%%\""),
            "{said}"
        );
        assert!(
            said.contains("UserKnownHostsFile=\"/etc/belay/known_hosts\" -o GlobalKnownHostsFile=/dev/null"),
            "{said}"
        );
        assert!(said.ends_with(" -p 2222 ada@git.example.com git-upload-pack '/srv/deploy.git'"), "{said}");
        assert!(!said.contains("BatchMode") && said.contains("NumberOfPasswordPrompts=1"), "{said}");
        let environment: Vec<&str> = line.environment.iter().map(|(name, _)| *name).collect();
        assert_eq!(environment, ["LC_ALL", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", PASSPHRASE_FILE, PASSPHRASE_KEY]);
    }

    #[test]
    fn a_command_of_ones_own_is_a_line_for_the_shell() {
        let line = words("ssh://git.example.com/deploy.git", &SshKeys::default(), Some("ssh -F /etc/belay/ssh_config"));
        assert_eq!(line.program, "sh");
        let said = shown(&line);
        assert!(said.starts_with("-c trap 'kill -KILL 0' TERM; "), "{said}");
        assert!(said.contains("{ ssh -F /etc/belay/ssh_config \"$@\"\n} "), "{said}");
        assert!(said.contains(" wait $! ssh -F /etc/belay/ssh_config -T -o "), "{said}");
        assert_eq!(line.end, Signal::TERM);
    }
}
