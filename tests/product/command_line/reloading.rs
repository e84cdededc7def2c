//! The configuration file is read again: at SIGHUP, and when it has changed.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio::time::Instant;

use crate::fixture::Fixture;
use crate::program::{Running, belay};
use crate::run::{listening, receive};
use crate::support::daemon::config_map;

/// Writes a configuration of these folders, each a source, as a mounted ConfigMap changes: a link leads to another file.
fn configure(stage: &Fixture, folders: &[&str], more: &str) {
    let repository = stage.repository.path().display();
    let source = |folder: &&str| {
        format!(
            "[[source]]\nname = \"{folder}\"\nrepository = \"{repository}\"\npath = \"{folder}\"\ninterval = \"1s\"\n"
        )
    };
    let text = folders.iter().map(source).collect::<String>() + more;
    let home = stage.home.path();
    let version = (0..).map(|number| home.join(format!("belay.{number}"))).find(|path| !path.exists()).unwrap();
    fs::write(&version, text).unwrap();
    let (link, next) = (home.join("belay.toml"), home.join("next"));
    std::os::unix::fs::symlink(version, &next).unwrap();
    fs::rename(next, link).unwrap();
}

fn start(stage: &Fixture, notify: &Path) -> Running {
    let mut command = belay(stage.home.path());
    command.args(["run", "--config", "belay.toml"]).args(stage.globals()).env("NOTIFY_SOCKET", notify);
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.home.path().join("log")).unwrap());
    Running(command.spawn().unwrap())
}

/// Waits until `belay status` says so.
async fn until_status(stage: &Fixture, about: &str, is_so: impl Fn(&str) -> bool) {
    let began = Instant::now();
    loop {
        let ran = stage.run(&["status"]);
        if is_so(&ran.out) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{about}: {ran:?}\n{}", stage.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Receives systemd's messages until one begins so.
fn receive_until(systemd: &Receiver<String>, begins: &str) -> String {
    std::iter::from_fn(|| receive(systemd)).find(|message| message.starts_with(begins)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_come_and_go_and_a_broken_file_changes_nothing() {
    let mut stage = Fixture::new().await;
    for folder in ["one", "two"] {
        stage.repository.write(format!("{folder}/settings.yaml"), config_map(folder, "1"));
    }
    stage.repository.commit("Both");
    stage.repository.push();
    let socket = stage.home.path().join("notify");
    let systemd = listening(UnixDatagram::bind(&socket).unwrap());
    configure(&stage, &["one"], "");
    let daemon = start(&stage, &socket);
    receive_until(&systemd, "READY=1");
    until_status(&stage, "the first", |said| said.contains("one is at") && said.contains("synced")).await;
    // `systemctl reload` sends the signal, and waits for both messages.
    configure(&stage, &["one", "two"], "");
    daemon.signal("-HUP");
    assert!(receive_until(&systemd, "RELOADING=1").contains("MONOTONIC_USEC="));
    receive_until(&systemd, "READY=1");
    until_status(&stage, "the second", |said| said.matches("synced").count() == 2).await;
    // A file that changes is read without a signal.
    configure(&stage, &["two"], "branches = 1\n");
    until_status(&stage, "refused", |said| said.contains("belay.toml:") && said.contains("of before is followed"))
        .await;
    assert!(stage.run(&["status"]).out.contains("one is at"), "all of it is refused");
    configure(&stage, &["two"], "");
    until_status(&stage, "the first is gone", |said| !said.contains("one is at") && said.contains("two is at")).await;
    until_status(&stage, "no warning", |said| !said.contains("of before")).await;
    assert!(stage.log().contains("the source left the configuration"), "{}", stage.log());
}

/// A manager that hangs: the messages about the reload are not taken.
#[tokio::test(flavor = "multi_thread")]
async fn it_stops_although_systemd_takes_no_message_about_the_reload() {
    let mut stage = Fixture::new().await;
    stage.repository.write("one/settings.yaml", config_map("one", "1"));
    stage.repository.commit("One");
    stage.repository.push();
    let socket = stage.home.path().join("notify");
    let _deaf = UnixDatagram::bind(&socket).unwrap();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"X=1", &socket).is_ok() {}
    configure(&stage, &["one"], "");
    let mut daemon = start(&stage, &socket);
    until_status(&stage, "it follows", |said| said.contains("one is at") && said.contains("synced")).await;
    daemon.signal("-HUP");
    let began = Instant::now();
    while !stage.log().contains("the configuration was read again") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", stage.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    daemon.signal("-TERM");
    let ended = daemon.ended().await.expect("it stops");
    assert!(ended.success(), "{ended}: {}", stage.log());
}
