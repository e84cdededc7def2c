//! `--push` to a server that wants to know who pushes: the credentials are those of belay's configuration.

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

/// A push to the machine's own sshd, with the keys of ssh's configuration, of the agent, and of belay's configuration.
#[tokio::test(flavor = "multi_thread")]
async fn over_ssh_the_host_must_be_known_and_the_keys_are_the_persons() {
    let home = tempfile::tempdir().unwrap();
    let mut repository = Repository::new();
    repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    repository.push();
    let Some(sshd) = Sshd::start(&home.path().join("sshd"), "pushing over ssh").await else { return };
    let folder = home.path().join("copy");
    let copy = git2::Repository::clone(&repository.path().display().to_string(), &folder).unwrap();
    let url = sshd.url(repository.path());
    copy.remote_set_url("origin", &url).unwrap();
    let mut config = copy.config().unwrap();
    config.set_str("user.name", "Ada").unwrap();
    config.set_str("user.email", "ada@example.com").unwrap();
    let ssh = home.path().join("ssh");
    std::fs::create_dir(&ssh).unwrap();
    let lines = format!(
        "Host *\n  UserKnownHostsFile {0}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  IdentityFile {0}/first\n  \
         IdentityFile {0}/second\nHost shop\n  HostName localhost\n  Port {1}\n",
        ssh.display(),
        sshd.port
    );
    std::fs::write(ssh.join("config"), lines).unwrap();
    config.set_str("core.sshCommand", &format!("ssh -F {}/config", ssh.display())).unwrap();
    let mut replicas = 2;
    let mut push = |variables: &[(&str, &str)], more: &[&str]| {
        replicas += 1;
        let mut command = belay(home.path());
        command.args(["scale", "web", "--replicas", &replicas.to_string(), "--push"]).args(more).current_dir(&folder);
        command.envs(variables.iter().copied());
        finish(command, "")
    };
    let mut refused = |part: &str| {
        let ran = push(&[], &[]);
        assert!(ran.code == 1 && ran.err.contains(part), "{part}: {ran:?}");
        assert!(ran.err.contains("the commit is made, but it could not be pushed"), "{}", ran.err);
    };
    refused(&format!("ssh-keyscan -p {} localhost", sshd.port));
    std::fs::copy(sshd.known_hosts("other-host"), ssh.join("known_hosts")).unwrap();
    refused("stands in between");
    std::fs::copy(sshd.known_hosts("host"), ssh.join("known_hosts")).unwrap();
    refused("it takes none of the keys that ssh has");
    std::fs::copy(sshd.folder.join("stranger"), ssh.join("first")).unwrap();
    refused("it takes none of the keys that ssh has");
    std::fs::copy(sshd.folder.join("locked"), ssh.join("second")).unwrap();
    refused("ssh-add");
    std::fs::copy(sshd.folder.join("client"), ssh.join("second")).unwrap();
    let ran = push(&[], &[]);
    assert!(ran.code == 0 && ran.err.contains(&format!("pushed to {url}")), "{ran:?}");
    // A host of the configuration of ssh, and the variable that comes before Git's configuration.
    copy.remote_set_url("origin", &url.replace(&format!("localhost:{}", sshd.port), "shop")).unwrap();
    let ran = push(&[("GIT_SSH_COMMAND", "false")], &[]);
    assert!(ran.code == 1 && ran.err.contains("the server closed the connection"), "{ran:?}");
    let ran = push(&[], &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    copy.remote_set_url("origin", &url).unwrap();
    std::fs::remove_file(ssh.join("second")).unwrap();
    // The configuration's key for that repository.
    let key = sshd.folder.join("client").display().to_string();
    let text = format!("[[source]]\nname = \"shop\"\nrepository = {url:?}\n[source.credentials]\nssh_key = {key:?}\n");
    std::fs::write(home.path().join("belay.toml"), &text).unwrap();
    let ran = push(&[], &["--config", "../belay.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // One with a passphrase, which ssh asks belay for.
    let (locked, passphrase) = (sshd.folder.join("locked"), home.path().join("passphrase"));
    let more = format!("ssh_key = {locked:?}\nssh_passphrase_file = {passphrase:?}\n");
    std::fs::write(home.path().join("locked.toml"), text.replace(&format!("ssh_key = {key:?}\n"), &more)).unwrap();
    std::fs::write(&passphrase, "hunter3\n").unwrap();
    let ran = push(&[], &["--config", "../locked.toml"]);
    assert!(ran.code == 1 && ran.err.contains("is its passphrase right?") && !ran.err.contains("hunter3"), "{ran:?}");
    std::fs::write(&passphrase, "hunter2\n").unwrap();
    let ran = push(&[], &["--config", "../locked.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // An agent that knows the key.
    let socket = home.path().join("agent");
    let Some(_agent) = agent_with(&socket, &key).await else {
        eprintln!("there is no ssh-agent: skipped: pushing with its keys");
        return;
    };
    let ran = push(&[("SSH_AUTH_SOCK", socket.to_str().unwrap())], &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let bare = git2::Repository::open(repository.path()).unwrap();
    let head = bare.find_reference("refs/heads/main").unwrap().target();
    assert_eq!(head, copy.head().unwrap().target(), "all of it is there");
}

/// An ssh-agent that knows that key; `None` where the machine has none.
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
