//! `--push` to a server that wants to know who pushes: the credentials are those of belay's configuration.

use std::path::{Path, PathBuf};

use crate::program::{Ran, belay, finish};
use crate::support::daemon::deployment;
use crate::support::git_server::{self, GitServer, Temper};
use crate::support::repository::Repository;
use crate::support::ssh_server::Sshd;

const TOKEN: &str = "correct-horse-battery";

/// A home with a working copy whose remote is on a server with a password.
struct Copy {
    home: tempfile::TempDir,
    repository: Repository,
    server: GitServer,
    url: String,
}

impl Copy {
    fn new() -> Copy {
        let home = tempfile::tempdir().unwrap();
        let mut repository = Repository::new();
        repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
        repository.push();
        let temper = Temper { password: Some(format!("belay:{TOKEN}")), ..Temper::default() };
        let server = GitServer::start(repository.path().parent().unwrap(), temper);
        let url = server.url(&repository.path().file_name().unwrap().to_string_lossy());
        let folder = home.path().join("copy");
        let copy = git2::Repository::clone(&repository.path().display().to_string(), &folder).unwrap();
        copy.remote_set_url("origin", &url).unwrap();
        let mut config = copy.config().unwrap();
        config.set_str("user.name", "Ada").unwrap();
        config.set_str("user.email", "ada@example.com").unwrap();
        std::fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Copy { home, repository, server, url }
    }

    fn configure(&self, repository: &str, token_file: &str) {
        let credentials = format!("[source.credentials]\nusername = \"belay\"\ntoken_file = {token_file:?}\n");
        let other = "[[source]]\nname = \"other\"\nrepository = \"https://git.example.com/a.git\"\n";
        let config = format!("{other}[[source]]\nname = \"shop\"\nrepository = {repository:?}\n{credentials}");
        std::fs::write(self.home.path().join("belay.toml"), config).unwrap();
    }

    fn belay(&self, line: &str) -> Ran {
        let mut command = belay(self.home.path());
        command.args(line.split(' ')).current_dir(self.home.path().join("copy"));
        let ran = finish(command, "");
        assert!(!ran.out.contains("horse") && !ran.err.contains("horse"), "{ran:?}");
        ran
    }

    fn image_on_the_server(&self) -> String {
        let bare = git2::Repository::open(self.repository.path()).unwrap();
        let tree = bare.find_reference("refs/heads/main").unwrap().peel_to_tree().unwrap();
        let blob = tree.get_path("web.yaml".as_ref()).unwrap().to_object(&bare).unwrap().peel_to_blob().unwrap();
        let text = String::from_utf8(blob.content().to_vec()).unwrap();
        text.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap().to_owned()
    }
}

#[test]
fn the_token_is_that_of_the_configuration() {
    if !git_server::is_there("pushing with a token") {
        return;
    }
    let copy = Copy::new();
    let token = copy.home.path().join("token").display().to_string();
    copy.configure(&copy.url, &token);
    let pushed = copy.belay("set image web app=web:2 --push --config ../belay.toml");
    assert_eq!(pushed.code, 0, "{pushed:?}");
    assert!(pushed.err.contains(&format!("pushed to {}", copy.url)), "{}", pushed.err);
    assert_eq!(copy.image_on_the_server(), "web:2");
    // Another repository on the same server is shown it, too.
    copy.configure(&format!("{}-other.git", copy.url.trim_end_matches(".git")), &token);
    assert_eq!(copy.belay("scale web --replicas 3 --push --config ../belay.toml").code, 0);
    assert!(copy.server.seen().iter().any(|seen| seen.authorization.is_some()));
}

#[test]
fn what_keeps_it_from_being_pushed_is_told() {
    if !git_server::is_there("pushing without a token") {
        return;
    }
    let copy = Copy::new();
    let refused = |line: &str, part: &str| {
        let ran = copy.belay(line);
        assert_eq!(ran.code, 1, "{line}: {ran:?}");
        assert!(ran.err.contains(part), "{line}: {}", ran.err);
    };
    let made = "the commit is made, but it could not be pushed; `git push` does that, too";
    refused("set image web app=web:2 --push", made);
    copy.configure("https://git.example.com/b.git", "/nowhere");
    refused("set image web app=web:3 --push --config ../belay.toml", made);
    copy.configure(&copy.url, "/nowhere");
    refused("set image web app=web:4 --push --config ../belay.toml", "/nowhere");
    std::fs::write(copy.home.path().join("wrong"), "not-the-token\n").unwrap();
    copy.configure(&copy.url, &copy.home.path().join("wrong").display().to_string());
    refused("set image web app=web:5 --push --config ../belay.toml", made);
    refused("set image web app=web:6 --push --config ../missing.toml", "failed to read ../missing.toml");
    std::fs::write(copy.home.path().join("belay.toml"), "[[source]]\nrepository = 3\n").unwrap();
    refused("set image web app=web:7 --push --config ../belay.toml", "belay.toml:2:");
    refused("set image web app=web:8 --config ../belay.toml", "belay.toml:2:");
    assert_eq!(copy.image_on_the_server(), "web:1");
    let here = std::fs::read_to_string(copy.home.path().join("copy/web.yaml")).unwrap();
    assert!(here.contains("web:5"), "what can't be pushed anyhow is not committed: {here}");
}

/// A working copy whose repository is behind the machine's own sshd.
struct OverSsh {
    home: tempfile::TempDir,
    repository: Repository,
    copy: git2::Repository,
    sshd: Sshd,
    url: String,
    replicas: u32,
}

impl OverSsh {
    /// `None`, with one line, where there is no sshd.
    async fn new(tried: &str) -> Option<OverSsh> {
        let home = tempfile::tempdir().unwrap();
        let mut repository = Repository::new();
        repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
        repository.push();
        let sshd = Sshd::start(&home.path().join("sshd"), tried).await?;
        let copy = git2::Repository::clone(&repository.path().display().to_string(), home.path().join("copy")).unwrap();
        let url = sshd.url(repository.path());
        copy.remote_set_url("origin", &url).unwrap();
        let ssh = home.path().join("ssh");
        std::fs::create_dir(&ssh).unwrap();
        let lines = format!(
            "Host *\n  UserKnownHostsFile {0}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  IdentityFile {0}/first\n  \
             IdentityFile {0}/second\nHost shop\n  HostName localhost\n  Port {1}\n",
            ssh.display(),
            sshd.port
        );
        std::fs::write(ssh.join("config"), lines).unwrap();
        let mut config = copy.config().unwrap();
        config.set_str("user.name", "Ada").unwrap();
        config.set_str("user.email", "ada@example.com").unwrap();
        config.set_str("core.sshCommand", &format!("ssh -F {}/config", ssh.display())).unwrap();
        Some(OverSsh { home, repository, copy, sshd, url, replicas: 2 })
    }

    /// Puts a file of sshd's into the folder of ssh's configuration.
    fn put(&self, file: &Path, name: &str) {
        std::fs::copy(file, self.home.path().join("ssh").join(name)).unwrap();
    }

    fn key(&self, name: &str) -> PathBuf {
        self.sshd.folder.join(name)
    }

    fn push(&mut self, variables: &[(&str, &str)], more: &[&str]) -> Ran {
        self.replicas += 1;
        let mut command = belay(self.home.path());
        command.args(["scale", "web", "--replicas", &self.replicas.to_string(), "--push"]).args(more);
        command.current_dir(self.home.path().join("copy")).envs(variables.iter().copied());
        finish(command, "")
    }

    fn is_refused(&mut self, part: &str) {
        let ran = self.push(&[], &[]);
        assert!(ran.code == 1 && ran.err.contains(part), "{part}: {ran:?}");
        assert!(ran.err.contains("the commit is made, but it could not be pushed"), "{}", ran.err);
    }

    fn is_pushed(&mut self, variables: &[(&str, &str)], more: &[&str]) {
        let ran = self.push(variables, more);
        assert!(ran.code == 0 && ran.err.contains("pushed to "), "{ran:?}");
        let bare = git2::Repository::open(self.repository.path()).unwrap();
        let head = bare.find_reference("refs/heads/main").unwrap().target();
        assert_eq!(head, self.copy.head().unwrap().target(), "all of it is there");
    }
}

/// A push with the hosts and the keys of ssh's own configuration.
#[tokio::test(flavor = "multi_thread")]
async fn over_ssh_the_host_must_be_known_and_the_keys_are_the_persons() {
    let Some(mut world) = OverSsh::new("pushing over ssh").await else { return };
    world.is_refused(&format!("ssh-keyscan -p {} localhost", world.sshd.port));
    world.put(&world.sshd.known_hosts("other-host"), "known_hosts");
    world.is_refused("stands in between");
    world.put(&world.sshd.known_hosts("host"), "known_hosts");
    world.is_refused("it takes none of the keys that ssh has");
    world.put(&world.key("stranger"), "first");
    world.is_refused("it takes none of the keys that ssh has");
    world.put(&world.key("locked"), "second");
    world.is_refused("ssh-add");
    world.put(&world.key("client"), "second");
    world.is_pushed(&[], &[]);
    // A host of the configuration of ssh, and the variable that comes before Git's configuration.
    let named = world.url.replace(&format!("localhost:{}", world.sshd.port), "shop");
    world.copy.remote_set_url("origin", &named).unwrap();
    let ran = world.push(&[("GIT_SSH_COMMAND", "false")], &[]);
    assert!(ran.code == 1 && ran.err.contains("the server closed the connection"), "{ran:?}");
    world.is_pushed(&[], &[]);
}

/// A push with the keys of belay's configuration, and of an agent.
#[tokio::test(flavor = "multi_thread")]
async fn over_ssh_the_keys_are_those_of_the_configuration_and_the_agent() {
    let Some(mut world) = OverSsh::new("pushing over ssh, with keys of the configuration").await else { return };
    world.put(&world.sshd.known_hosts("host"), "known_hosts");
    let home = world.home.path().to_owned();
    let (client, locked, passphrase) = (world.key("client"), world.key("locked"), home.join("passphrase"));
    let source = format!("[[source]]\nname = \"shop\"\nrepository = {:?}\n[source.credentials]\n", world.url);
    std::fs::write(home.join("belay.toml"), format!("{source}ssh_key = {client:?}\n")).unwrap();
    world.is_pushed(&[], &["--config", "../belay.toml"]);
    // One with a passphrase, which ssh asks belay for.
    let keys = format!("ssh_key = {locked:?}\nssh_passphrase_file = {passphrase:?}\n");
    std::fs::write(home.join("locked.toml"), format!("{source}{keys}")).unwrap();
    std::fs::write(&passphrase, "hunter3\n").unwrap();
    let ran = world.push(&[], &["--config", "../locked.toml"]);
    assert!(ran.code == 1 && ran.err.contains("is its passphrase right?") && !ran.err.contains("hunter3"), "{ran:?}");
    std::fs::write(&passphrase, "hunter2\n").unwrap();
    world.is_pushed(&[], &["--config", "../locked.toml"]);
    let socket = home.join("agent");
    let Some(_agent) = agent_with(&socket, &client.display().to_string()).await else {
        eprintln!("there is no ssh-agent: skipped: pushing with its keys");
        return;
    };
    world.is_pushed(&[("SSH_AUTH_SOCK", socket.to_str().unwrap())], &[]);
}

/// Returns an ssh-agent that knows that key; `None` if the machine has none.
async fn agent_with(socket: &std::path::Path, key: &str) -> Option<crate::program::Running> {
    let mut agent = std::process::Command::new("ssh-agent");
    agent.args(["-D", "-a"]).arg(socket).stdout(std::process::Stdio::null());
    let agent = crate::program::Running(agent.spawn().ok()?);
    for _ in 0..1_000 {
        if socket.exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut add = std::process::Command::new("ssh-add");
    add.arg("-q").arg(key).env("SSH_AUTH_SOCK", socket);
    assert!(add.status().unwrap().success());
    Some(agent)
}
