//! `belay run` as a process: under systemd, told to stop, killed. Real time: it is a real process.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::fixture::Fixture;
use crate::program::{Running, belay, run};
use crate::support::daemon::{config_map, deployment};
use crate::support::git_server::{self, GitServer, Temper};
use crate::support::repository::Repository;

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_systemd_and_stops_when_told() {
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let socket = stage.home.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    let systemd = listening(systemd);
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
    let ended = running.ended().await.expect("it stops");
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

/// Hears at once whatever is said, as systemd does: a socket that nobody reads is soon full, and who writes to it waits.
pub fn listening(socket: UnixDatagram) -> Receiver<String> {
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            if tell.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                return;
            }
        }
    });
    heard
}

pub fn receive(systemd: &Receiver<String>) -> Option<String> {
    systemd.recv_timeout(Duration::from_secs(60)).ok()
}

/// A manager that hangs: its socket is full before belay begins, and nobody reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_systemd_that_does_not_listen_keeps_it_from_nothing() {
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let socket = stage.home.path().join("notify");
    let _deaf = UnixDatagram::bind(&socket).unwrap();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"X=1", &socket).is_ok() {}
    let mut command = stage.command();
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "100000");
    let mut running = Running(command.spawn().unwrap());
    stage.until(&commit, "complete").await;
    running.signal("-TERM");
    let ended = running.ended().await.expect("it stops");
    assert!(ended.success(), "{ended}: {}", stage.log());
    let said = stage.log().matches("failed to tell systemd").count();
    assert_eq!(said, 1, "{}", stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_it_goes_on_where_it_was() {
    let mut stage = Fixture::new().await;
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
    stage.until(&second, "progressing").await;
    running.signal("-KILL");
    assert!(running.ended().await.is_some());
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
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(0), "{}", stage.log());
    let broken = deployment("web", "web:404", "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2");
    stage.repository.commit_file("web.yaml", &broken, "Broken");
    stage.repository.push();
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(3), "{}", stage.log());
    let history = stage.run(&["history"]);
    assert!(history.out.contains("rolled-back") && history.out.contains("ImagePull"), "{}", history.out);
    let shown = stage.run(&["status"]);
    assert!(shown.out.contains("held"), "{}", shown.out);
    let retried = stage.run(&["retry", "deploy/web"]);
    assert_eq!(retried.code, 0, "{}", retried.err);
    let again = stage.run(&["retry", "deploy/web"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("is not held"), "{}", again.err);
}

/// An embedded cluster ends with its daemon: a status after that says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_cluster_that_ended_is_told_of() {
    let mut repository = Repository::new();
    repository.commit_file("web.yaml", &config_map("web", "1"), "First version");
    repository.push();
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state").display().to_string();
    let repository = repository.path().display().to_string();
    let ran = run(home.path(), &["run", "--embedded", "--once", "--repository", &repository, "--state-dir", &state]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = run(home.path(), &["status", "-A", "--state-dir", &state]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&format!("no daemon answers in {state}, and its embedded cluster ended")), "{ran:?}");
}

/// A configuration is tried online: its cluster, its repository, and the folders that it follows there.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_tried_online() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("app/web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let kubeconfig = stage.home.path().join("kubeconfig").display().to_string();
    for (path, wrong) in [
        ("\"app\"", None),
        ("\"\"", None),
        ("[\"app\", \"ap*\"]", None),
        ("\"apps\"", Some("has no folder apps; it has app")),
        ("[\"app\", \"more/*\"]", Some("has no folder more/*, which the source follows")),
    ] {
        let config =
            format!("[[source]]\nname = \"shop\"\nrepository = {:?}\npath = {path}\n", stage.repository.path());
        let file = stage.home.path().join("belay.toml");
        std::fs::write(&file, config).unwrap();
        let file = file.display().to_string();
        let args = ["run", "--check-config", "--online", "--config", &file, "--kubeconfig", &kubeconfig];
        let ran = run(stage.home.path(), &args);
        assert!(ran.out.contains("source shop: the cluster is reached: Kubernetes "), "{path}: {ran:?}");
        assert_eq!((ran.code, ran.err.is_empty()), (i32::from(wrong.is_some()), wrong.is_none()), "{path}: {ran:?}");
        assert!(ran.err.contains(wrong.unwrap_or_default()), "{path}: {ran:?}");
    }
}

/// A configuration with two sources: a path that is asked once an hour, so that only a push can wake belay, and a server
/// that wants a token.
#[tokio::test(flavor = "multi_thread")]
async fn it_follows_a_path_and_a_server_side_by_side() {
    if !git_server::is_there("following a server") {
        return;
    }
    let mut stage = Fixture::new().await;
    let mut other = Repository::new();
    let api = other.commit_file("staging/api.yaml", &deployment("api", "api:1", ""), "The other one");
    other.push();
    let served = other.path().parent().unwrap();
    let server = GitServer::start(served, Temper { password: Some("belay:hunter2".to_owned()), ..Temper::default() });
    let token = stage.home.path().join("token");
    std::fs::write(&token, "hunter2\n").unwrap();
    let name = other.path().file_name().unwrap().to_string_lossy().into_owned();
    let config = format!(
        "[[source]]\nname = \"path\"\nrepository = {:?}\ninterval = \"1h\"\n\n[[source]]\nname = \"server\"\nrepository = \
         {:?}\npath = \"staging\"\ninterval = \"1s\"\n[source.credentials]\nusername = \"belay\"\ntoken_file = {:?}\n",
        stage.repository.path().display().to_string(),
        server.url(&name),
        token.display().to_string(),
    );
    let file = stage.home.path().join("belay.toml");
    std::fs::write(&file, config).unwrap();
    let first = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let mut command = belay(stage.home.path());
    command.arg("run").arg("--config").arg(&file).args(stage.globals());
    command.stdout(Stdio::null()).stderr(std::fs::File::create(stage.home.path().join("log")).unwrap());
    let running = Running(command.spawn().unwrap());
    stage.until(&first, "complete").await;
    stage.until(&api, "complete").await;
    let second = stage.repository.commit_file("web.yaml", &deployment("web", "web:2", ""), "Second version");
    stage.repository.push();
    stage.until(&second, "complete").await;
    let next = other.commit_file("staging/api.yaml", &deployment("api", "api:2", ""), "And again");
    other.push();
    stage.until(&next, "complete").await;
    drop(running);
    assert!(!stage.log().contains("hunter2"), "{}", stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_leaves_the_state_of_the_first_alone() {
    let stage = Fixture::new().await;
    let state = stage.home.path().join("state");
    std::fs::create_dir(&state).unwrap();
    // The first daemon: it has the folder, and its history can't be read just now.
    let identity = std::fs::File::create(state.join("identity")).unwrap();
    identity.lock().unwrap();
    std::fs::write(state.join("history.db"), "in the middle of something").unwrap();
    let repository = stage.repository.path().display().to_string();
    let ran = stage.run(&["run", "--once", "--repository", &repository]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("another belay runs with the state folder"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(state.join("history.db")).unwrap(), "in the middle of something");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 2, "nothing was set aside");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_a_file_is_told_and_holds_nothing_up() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let pipe = |path: &Path| {
        drop(std::fs::remove_file(path));
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let repository = stage.repository.path().to_owned();
    pipe(&repository.join("packed-refs"));
    let shown = repository.display().to_string();
    let ran = stage.run(&["run", "--once", "--timeout", "20s", "--repository", &shown]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("packed-refs: it is not a regular file but a named pipe"), "{}", ran.err);
    // The same of the files that the configuration, and the command line, name.
    let named = stage.home.path().join("pipe");
    pipe(&named);
    let named = named.display().to_string();
    for (code, args) in
        [(2, ["run", "--check-config", "--config", &named]), (1, ["status", "-A", "--kubeconfig", &named])]
    {
        let ran = run(stage.home.path(), &args);
        assert!(ran.code == code && ran.err.contains("a named pipe"), "{args:?}: {ran:?}");
    }
}

/// A pipe in the place of each file of belay's own: it starts, or says what is there and what to do. A copy of the repository,
/// or a history, that has one is set aside.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_state_folder_is_told_and_holds_nothing_up() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &config_map("web", "1"), "First version");
    stage.repository.push();
    let shown = stage.repository.path().display().to_string();
    let once = ["run", "--once", "--timeout", "30s", "--repository", &shown];
    let ran = stage.run(&once);
    assert_eq!(ran.code, 0, "{ran:?}");
    let state = stage.home.path().join("state");
    let source = std::fs::read_dir(state.join("sources")).unwrap().next().unwrap().unwrap().path();
    let mirror = source.join("repository.git");
    for (path, code, wanted) in [
        (state.join("identity"), 1, "remove it"),
        (state.join("history.db-wal"), 1, "remove it"),
        (source.join("lock"), 1, "remove it"),
        (source.join("attempt"), 1, "remove it"),
        (state.join("history.db"), 0, "set aside"),
        (mirror.join("config"), 0, "set aside"),
        (mirror.join("HEAD"), 0, "set aside"),
        (mirror.join("refs/heads/pipe"), 0, "set aside"),
        (mirror.join("objects/pack/pack-1.idx"), 0, "set aside"),
    ] {
        let former = std::fs::read(&path).ok();
        drop(std::fs::remove_file(&path));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        // A command beside it waits for nobody, either.
        let told = stage.run(&["history"]);
        let ran = stage.run(&once);
        assert!(ran.code == code && ran.err.contains(wanted), "{}: {ran:?}", path.display());
        assert!(ran.err.contains("a named pipe"), "{}: {ran:?}", path.display());
        assert!(told.code == 0 || told.err.contains("a named pipe"), "{}: {told:?}", path.display());
        if code == 1 {
            std::fs::remove_file(&path).unwrap();
            former.into_iter().for_each(|bytes| std::fs::write(&path, bytes).unwrap());
        }
    }
}

/// Receivers that take a connection and never say anything: of each kind of them one is being told when belay is to stop.
#[tokio::test(flavor = "multi_thread")]
async fn it_stops_while_no_receiver_answers() {
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("web.yaml", &config_map("web", "1"), "First version");
    stage.repository.push();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let (tell, connected) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept() {
            held.push(connection);
            if tell.send(held.len()).is_err() {
                return;
            }
        }
    });
    let secret = |name: &str, text: &str| {
        let path = stage.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let url = format!("http://127.0.0.1:{port}/hooks/hunter2");
    let kinds = [
        format!("kind = \"webhook\"\nurl = \"{url}\""),
        format!("kind = \"slack\"\nurl_file = {:?}", secret("slack", &url)),
        format!(
            "kind = \"email\"\nurl = \"smtp://127.0.0.1:{port}\"\nfrom = \"b@example.com\"\nto = [\"a@example.com\"]"
        ),
        format!(
            "kind = \"github\"\nurl = \"http://127.0.0.1:{port}/repos/o/r\"\ntoken_file = {:?}",
            secret("token", "x")
        ),
    ];
    let mut config = format!("[[source]]\nname = \"shop\"\nrepository = {:?}\n", stage.repository.path());
    for (number, kind) in kinds.iter().enumerate() {
        config.push_str(&format!("[[notify]]\nname = \"r{number}\"\nallow_private = true\n{kind}\n"));
    }
    let file = secret("belay.toml", &config);
    let mut command = belay(stage.home.path());
    command.args(["run", "--config", &file]).args(stage.globals());
    command.stdout(Stdio::null()).stderr(std::fs::File::create(stage.home.path().join("log")).unwrap());
    let mut running = Running(command.spawn().unwrap());
    stage.until(&commit, "complete").await;
    while connected.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{}", stage.log())) < kinds.len() {}
    running.signal("-TERM");
    // Less than the 20 s for which a receiver may take its time.
    let ended = running.ended_within(Duration::from_secs(15)).await;
    assert!(ended.is_some_and(|ended| ended.success()), "{ended:?}: {}", stage.log());
    assert!(!stage.log().contains("hunter2"), "{}", stage.log());
}
