//! `belay run` as a process: under systemd, told to stop, killed. Real time: it is a real process.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use belay::minicluster::{Access, Authority, Authorization, Door, Listening, MiniCluster, Token, User};
use tokio::time::Instant;

use crate::program::{Running, belay, run};
use crate::world::daemon::deployment;
use crate::world::repository::Repository;

/// An embedded cluster with a door, a repository, and a home.
struct Stage {
    home: tempfile::TempDir,
    repository: Repository,
    cluster: MiniCluster,
    _door: Listening,
}

impl Stage {
    async fn new() -> Stage {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        let token = "a-token-of-this-test".to_owned();
        let access = Access {
            tokens: vec![Token { token: token.clone(), user: User::admin() }],
            authorization: Authorization::AllowAll,
        };
        let cluster = MiniCluster::builder().access(access).start().await.unwrap();
        let door = cluster.listen(([127, 0, 0, 1], 0).into(), Door::Tls(authority)).await.unwrap();
        std::fs::write(home.path().join("kubeconfig"), door.kubeconfig(Some(&token))).unwrap();
        Stage { home, repository: Repository::new(), cluster, _door: door }
    }

    fn command(&self) -> Command {
        let mut command = belay(self.home.path());
        let repository = self.repository.path().display().to_string();
        command.args(["run", "--interval", "1s", "--repository", &repository]).args(self.globals());
        command.stdout(Stdio::null()).stderr(std::fs::File::create(self.home.path().join("log")).unwrap());
        command
    }

    fn globals(&self) -> [String; 4] {
        let at = |name: &str| self.home.path().join(name).display().to_string();
        ["--kubeconfig".to_owned(), at("kubeconfig"), "--state-dir".to_owned(), at("state")]
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Waits until the history says so of a commit.
    async fn until(&self, commit: &str, outcome: &str) {
        let started = Instant::now();
        loop {
            let globals = self.globals();
            let mut args = vec!["history", "--commit", commit, "-o", "json"];
            args.extend(globals.iter().map(String::as_str));
            let ran = run(self.home.path(), &args);
            let records: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
            let all = records["records"].as_array().cloned().unwrap_or_default();
            if !all.is_empty() && all.iter().all(|record| record["outcome"] == outcome) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{records:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_systemd_and_stops_when_told() {
    let mut stage = Stage::new().await;
    let commit = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let socket = stage.home.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = stage.command();
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "1000000");
    let mut running = Running(command.spawn().unwrap());
    let (mut ready, mut watchdog, mut status) = (false, false, false);
    while !(ready && watchdog && status) {
        let told = receive(&systemd)
            .unwrap_or_else(|| panic!("ready {ready} watchdog {watchdog} status {status}: {}", stage.log()));
        ready |= told.contains("READY=1");
        watchdog |= told.contains("WATCHDOG=1");
        status |= told.contains("STATUS=default at ") && told.contains(&commit[..7]);
    }
    stage.until(&commit, "complete").await;
    running.signal("-TERM");
    let ended = running.ended(Duration::from_secs(5)).await.expect("it stops within 5 s");
    assert!(ended.success(), "{ended}: {}", stage.log());
    let mut told = String::new();
    while let Some(more) = receive(&systemd) {
        told.push_str(&more);
        if told.contains("STOPPING=1") {
            return;
        }
    }
    panic!("it did not say that it stops: {told}");
}

fn receive(socket: &UnixDatagram) -> Option<String> {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_it_goes_on_where_it_was() {
    let mut stage = Stage::new().await;
    let good = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let mut running = Running(stage.command().spawn().unwrap());
    stage.until(&good, "complete").await;
    let slow = deployment("web", "web:2", "").replace(
        "    spec:\n      containers",
        "      annotations: {kubelet.belay.dev/fate: ready-after=5s}\n    spec:\n      containers",
    );
    let second = stage.repository.commit_file("web.yaml", &slow, "Slow to start");
    stage.repository.push();
    stage.until(&second, "under-way").await;
    running.signal("-KILL");
    assert!(running.ended(Duration::from_secs(5)).await.is_some());
    let running = Running(stage.command().spawn().unwrap());
    stage.until(&second, "complete").await;
    drop(running);
    let records = run_history(stage.home.path(), &stage.globals());
    assert_eq!(records.as_array().unwrap().len(), 2, "{records:#}");
    let request = http::Request::get("/apis/apps/v1/namespaces/default/deployments/web").body(Vec::new()).unwrap();
    let live: serde_json::Value = stage.cluster.client().request(request).await.unwrap();
    assert_eq!(live["metadata"]["generation"], 2);
}

fn run_history(home: &Path, globals: &[String]) -> serde_json::Value {
    let mut args = vec!["history", "-o", "json"];
    args.extend(globals.iter().map(String::as_str));
    let ran = run(home, &args);
    serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["records"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn once_is_through_when_the_head_is() {
    let mut stage = Stage::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(0), "{}", stage.log());
    let broken = deployment("web", "web:404", "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2");
    stage.repository.commit_file("web.yaml", &broken, "Broken");
    stage.repository.push();
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(3), "{}", stage.log());
    let globals = stage.globals();
    let text = |args: &[&str]| {
        let mut all: Vec<&str> = args.to_vec();
        all.extend(globals.iter().map(String::as_str));
        run(stage.home.path(), &all)
    };
    let history = text(&["history"]);
    assert!(history.out.contains("rolled back") && history.out.contains("ImagePull"), "{}", history.out);
    let shown = text(&["status"]);
    assert!(shown.out.contains("held"), "{}", shown.out);
    let retried = text(&["retry", "deploy/web"]);
    assert_eq!(retried.code, 0, "{}", retried.err);
    let again = text(&["retry", "deploy/web"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("is not held"), "{}", again.err);
}
