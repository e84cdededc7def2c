//! belay as another user than root, and a state folder of another user. Only root can try that; else it is skipped.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Ran, finish};
use crate::support::daemon::{config_map, real_tools};
use crate::support::programs::copy_program;
use crate::support::repository::Repository;
use crate::support::ssh_server::Sshd;

/// `nobody`, whom `ssh` finds in `/etc/passwd`.
const NOBODY: u32 = 65534;
/// A user without a name.
const NAMELESS: u32 = 54_321;

/// Folders that users other than root may enter, and the program in one of them.
struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    /// Returns them; `None`, with one line, where this is not root.
    fn new() -> Option<Shared> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not root: skipped: belay as another user");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let shared = Shared { folder };
        shared.program(Path::new(env!("CARGO_BIN_EXE_belay")), "belay");
        for user in [0, NOBODY, NAMELESS] {
            let home = shared.home(user);
            fs::create_dir(&home).unwrap();
            chown(&home, Some(user), Some(user)).unwrap();
        }
        Some(shared)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn home(&self, user: u32) -> PathBuf {
        self.at(&format!("home-{user}"))
    }

    /// Puts a program where everybody may run it.
    fn program(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.at(name);
        copy_program(from, &to);
        to
    }

    /// Runs belay as a user.
    fn run(&self, user: u32, args: &[&str]) -> Ran {
        let mut command = Command::new(self.at("belay"));
        command.env_clear().env("HOME", self.home(user)).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
        command.current_dir(self.home(user)).args(args);
        if user != 0 {
            command.uid(user).gid(user);
        }
        finish(command, "")
    }

    /// Runs the daemon on a repository until its head is through.
    fn once(&self, user: u32, config: &str, state: &Path) -> Ran {
        let file = self.at("belay.toml");
        fs::write(&file, config).unwrap();
        let args =
            ["run", "--embedded", "--once", "--timeout", "60s", "--config", shown(&file), "--state-dir", shown(state)];
        self.run(user, &args)
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Gives a file, or a folder with all that is in it, to a user.
fn give(path: &Path, user: u32) {
    let status = Command::new("chown").args(["-R", &format!("{user}:{user}")]).arg(path).status().unwrap();
    assert!(status.success());
}

/// Returns the paths below a folder that belong to a user.
fn of_user(folder: &Path, user: u32) -> String {
    let found = Command::new("find").arg(folder).args(["-uid", &user.to_string()]).output().unwrap();
    String::from_utf8(found.stdout).unwrap()
}

/// Returns a repository with a plain file and, where the tools are there, a kustomization and a chart. It belongs to a user.
fn repository(shared: &Shared, user: u32, rendered: bool) -> PathBuf {
    let mut repository = Repository::new();
    repository.write("plain.yaml", config_map("plain", "1"));
    if rendered {
        repository.write("over/kustomization.yaml", "resources: [map.yaml]\nnamePrefix: p-\n");
        repository.write("over/map.yaml", config_map("over", "1"));
        repository.write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
        repository.write("chart/templates/map.yaml", config_map("{{ .Release.Name }}", "1"));
    }
    repository.commit("First");
    repository.push();
    let to = shared.at(&format!("repository-{user}.git"));
    let status = Command::new("cp").arg("-r").arg(repository.path()).arg(&to).status().unwrap();
    assert!(status.success());
    give(&to, user);
    to
}

#[test]
fn it_runs_as_another_user_and_its_state_is_that_users_alone() {
    let Some(shared) = Shared::new() else { return };
    let tools = real_tools().map(|tools| {
        let program = |from: Option<PathBuf>, name| shared.program(&from.expect("a path"), name);
        let (kustomize, helm) = (program(tools.kustomize, "kubectl"), program(tools.helm, "helm"));
        format!("[render]\nkustomize = {kustomize:?}\nhelm = {helm:?}\n")
    });
    let repository = repository(&shared, NOBODY, tools.is_some());
    let config =
        format!("[[source]]\nname = \"shop\"\nrepository = {repository:?}\n{}", tools.clone().unwrap_or_default());
    let state = shared.home(NOBODY).join("state");
    let ran = shared.once(NOBODY, &config, &state);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains("WARN"), "{}", ran.err);
    let objects = if tools.is_some() { "3 complete" } else { "1 complete" };
    let history = shared.run(NOBODY, &["history", "--state-dir", shown(&state)]);
    assert!(history.code == 0 && history.out.contains(objects), "{history:?}");

    // root reads it, and leaves nothing of its own in it; it runs no daemon on it.
    let history = shared.run(0, &["history", "--state-dir", shown(&state)]);
    assert!(history.code == 0 && history.out.contains(objects), "{history:?}");
    let ran = shared.once(0, &config, &state);
    assert!(ran.code == 1 && ran.err.contains("belongs to user 65534"), "{ran:?}");
    assert_eq!(of_user(&state, 0), "");

    // Somebody else hears whose it is, once.
    for args in [["history"], ["status"]] {
        let ran = shared.run(NAMELESS, &[&args[..], &["--state-dir", shown(&state)]].concat());
        assert!(ran.code == 1 && ran.err.contains("as that user or as root"), "{args:?}: {ran:?}");
    }
    let ran = shared.once(NAMELESS, &config, &state);
    assert!(ran.code == 1 && ran.err.contains("give it to user 54321, as whom belay runs"), "{ran:?}");
    assert_eq!(ran.err.matches("Permission denied").count(), 1, "{ran:?}");
    assert_eq!(of_user(&state, NAMELESS), "");

    // All is as it was.
    let ran = shared.once(NOBODY, &config, &state);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn what_belongs_to_another_user_in_its_state_is_named_with_what_to_do() {
    let Some(shared) = Shared::new() else { return };
    let repository = repository(&shared, NOBODY, false);
    let config = format!("[[source]]\nname = \"shop\"\nrepository = {repository:?}\n");
    let state = shared.home(NOBODY).join("state");
    assert_eq!(shared.once(NOBODY, &config, &state).code, 0);
    for (name, advice) in [
        ("history.db", "let belay's user read and write it"),
        ("identity", "see that belay's user may write the state folder"),
        ("sources/shop/repository.git/config", "give it to user 65534, as whom belay runs"),
        ("sources/shop", "give it to user 65534, as whom belay runs"),
    ] {
        let path = state.join(name);
        let mode = fs::metadata(&path).unwrap().permissions();
        chown(&path, Some(0), Some(0)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(if path.is_dir() { 0o700 } else { 0o600 })).unwrap();
        let ran = shared.once(NOBODY, &config, &state);
        assert!(ran.code == 1 && ran.err.contains(shown(&path)) && ran.err.contains(advice), "{name}: {ran:?}");
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, mode).unwrap();
        let left = fs::read_dir(state.join("sources/shop")).unwrap().flatten().map(|entry| entry.file_name());
        let aside: Vec<_> = left.filter(|name| name.to_string_lossy().contains("damaged")).collect();
        assert!(aside.is_empty(), "{name}: what can't be read is not damaged: {aside:?}");
    }
    assert_eq!(shared.once(NOBODY, &config, &state).code, 0);
}

#[tokio::test]
async fn it_reaches_ssh_as_another_user_and_says_what_a_user_without_a_name_needs() {
    let Some(shared) = Shared::new() else { return };
    let repository = repository(&shared, 0, false);
    let Some(sshd) = Sshd::start(&shared.at("sshd"), "ssh as another user").await else { return };
    fs::set_permissions(&sshd.folder, fs::Permissions::from_mode(0o755)).unwrap();
    let hosts = sshd.known_hosts("host");
    for (user, code, said) in
        [(NOBODY, 0, ""), (NAMELESS, 1, "ssh runs only as a user that is in /etc/passwd, and 54321 is not")]
    {
        let key = shared.home(user).join("key");
        fs::copy(sshd.folder.join("client"), &key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        give(&key, user);
        let config = format!(
            "[[source]]\nname = \"shop\"\nrepository = {:?}\n[source.credentials]\nssh_key = {key:?}\nknown_hosts = {hosts:?}\n",
            sshd.url(&repository)
        );
        let file = shared.at("belay.toml");
        fs::write(&file, config).unwrap();
        let (state, file) = (shared.home(user).join("state"), shown(&file).to_owned());
        let timeout = if code == 0 { "60s" } else { "5s" };
        let args =
            ["run", "--embedded", "--once", "--timeout", timeout, "--config", &file, "--state-dir", shown(&state)];
        let ran = shared.run(user, &args);
        assert!(ran.code == code && ran.err.contains(said), "{user}: {ran:?}");
    }
}
