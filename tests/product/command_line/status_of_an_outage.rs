//! `status` while the API server is away: what the daemon on this machine knew last, and that it is that.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::program::{Ran, Running};
use crate::support::daemon::{config_map, deployment};

/// Returns a daemon that follows one held workload and one object that waits, and has lost its API server; and the commit that
/// is held.
async fn without_server() -> (Fixture, Running, String) {
    let mut stage = Fixture::new().await;
    stage.repository.write(
        "settings.yaml",
        config_map("settings", "1").replace("name: settings", "name: settings\n  namespace: later"),
    );
    let good = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let daemon = Running(stage.command().spawn().unwrap());
    until(&stage, |answer| row(answer, "web")["state"] == "complete" && row(answer, "settings")["state"] == "waiting")
        .await;
    let broken = deployment("web", "web:404", "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2");
    let bad = stage.repository.commit_file("web.yaml", &broken, "Broken");
    stage.repository.push();
    until(&stage, |answer| row(answer, "web")["state"] == "held" && row(answer, "web")["commit"] == good.as_str())
        .await;
    drop(stage.server.take());
    (stage, daemon, bad)
}

fn row<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = ["workloads", "objects"].iter().flat_map(|list| answer[*list].as_array().into_iter().flatten());
    all.clone().find(|row| row["object"]["name"] == name).unwrap_or(&Value::Null)
}

fn answer(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_default()
}

async fn until(stage: &Fixture, condition: impl Fn(&Value) -> bool) {
    let mut last = Value::Null;
    for _ in 0..300 {
        last = answer(&stage.run(&["status", "-A", "-o", "json"]));
        if condition(&last) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("not within a minute\n{last:#}\n{}", stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_the_daemon_knew_last() {
    let (stage, daemon, bad) = without_server().await;
    let table = stage.run(&["status", "-A"]);
    assert_eq!(table.code, 1, "{table:?}");
    let first = table.out.lines().next().unwrap_or_default();
    assert!(first.starts_with("the API server https://127.0.0.1:") && first.contains(" did not answer"), "{table:?}");
    let line = |name: &str| table.out.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line("default/web").contains("  held "), "{table:?}");
    assert!(
        line("default/web").contains("known last: commit ") && line("default/web").contains(" is held: "),
        "{table:?}"
    );
    assert!(
        line("later/settings").contains("  waiting ") && line("later/settings").contains("known last: "),
        "{table:?}"
    );
    assert!(table.err.starts_with("error: failed to "), "{table:?}");

    let ran = stage.run(&["status", "-A", "-o", "json"]);
    let json = answer(&ran);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(json["unanswered"].as_str().is_some_and(|why| why.contains("failed to ")), "{json:#}");
    let web = row(&json, "web");
    assert_eq!((&web["state"], &web["knownLast"]), (&json!("held"), &json!(true)), "{json:#}");
    assert!(web["since"].is_string() && web["available"] == 2, "{json:#}");
    assert_eq!(json["sources"].as_array().unwrap().len(), 1, "{json:#}");

    // One of them, and its namespace alone.
    let one = stage.run(&["status", "web"]);
    assert!(one.code == 1 && one.out.contains("Deployment default/web"), "{one:?}");
    assert!(!one.out.contains("later/settings"), "{one:?}");
    let names = stage.run(&["status", "-A", "-o", "name"]);
    assert_eq!((names.code, names.out.lines().next()), (1, Some("deployment/web")), "{names:?}");
    // Neither what the daemon does not know, nor labels, which it does not publish.
    for args in [&["status", "nothing"][..], &["status", "-l", "app=web"]] {
        let ran = stage.run(args);
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.starts_with("error: failed to "), "{args:?}: {ran:?}");
    }
    // A rollout that ended before needs no server.
    let ended = stage.run(&["status", "--commit", &bad, "--wait"]);
    assert!(ended.code == 3 && ended.out.contains("Deployment default/web: rolled-back"), "{ended:?}");
    // Without a daemon there is nothing to say.
    drop(daemon);
    let alone = stage.run(&["status", "-A"]);
    assert!(alone.code == 1 && alone.out.is_empty() && alone.err.starts_with("error: failed to "), "{alone:?}");
}

/// A person who watches is told when the API server goes away, and sees the last known rows.
#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_being_watched() {
    let (stage, _daemon, _) = without_server().await;
    let globals = stage.globals();
    let mut command = crate::program::belay(stage.home.path());
    command.args(["status", "-A", "--watch", "-o", "json"]).args(&globals);
    let out = stage.home.path().join("watched");
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::process::Stdio::null());
    let mut watching = Running(command.spawn().unwrap());
    let mut said = String::new();
    for _ in 0..300 {
        said = std::fs::read_to_string(&out).unwrap();
        if said.lines().count() >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(watching.0.try_wait().unwrap(), None, "it goes on: {said}");
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["knownLast"] == true), "{said}");
    watching.signal("-INT");
    assert!(watching.ended().await.is_some());
}

/// A daemon that was started while the API server is away has seen no workload. Its history knows the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_server_forgets_no_commit() {
    let (stage, daemon, bad) = without_server().await;
    drop(daemon);
    let _again = Running(stage.command().spawn().unwrap());
    let mut ran = stage.run(&["status", "-A"]);
    for _ in 0..300 {
        if ran.out.contains("seen no workload") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        ran = stage.run(&["status", "-A"]);
    }
    assert!(ran.code == 1 && ran.out.contains("has seen no workload since its start; belay history"), "{ran:?}");
    assert!(ran.out.contains(&format!(" is at {} ", &bad[..7])), "{ran:?}");
    assert!(!ran.out.contains("at no commit yet") && !ran.out.contains("has applied no workload"), "{ran:?}");
}
