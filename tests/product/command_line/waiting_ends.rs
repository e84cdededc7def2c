//! Every command that waits ends, and says why: for a commit that changes nothing, a branch or a folder that is not there, a
//! cluster that is away, a namespace that is missing.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::fixture::Fixture;
use crate::program::{Ran, belay, finish};
use crate::reading::told;
use crate::support::daemon::{broken, config_map, deployment};

/// Runs the daemon until it ends by itself.
fn once(stage: &Fixture, more: &[&str]) -> Ran {
    let mut command = stage.command();
    command.arg("--once").args(more);
    finish(command, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_changes_nothing_here_is_waited_for_no_longer() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    let older = stage.repository.commit_file("README.md", "words\n", "Only words");
    stage.repository.commit_file("settings.yaml", &config_map("settings", "1"), "Settings");
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 0, "{}", stage.log());
    let words = stage.repository.commit_file("README.md", "more words\n", "More words");
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 0, "{}", stage.log());
    let began = Instant::now();
    for commit in [&older, &words] {
        let waited = stage.run(&["status", "--commit", commit, "--wait"]);
        assert_eq!(waited.code, 0, "{waited:?}");
        assert!(waited.out.starts_with(&format!("commit {} changes nothing here", &commit[..7])), "{waited:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "at once, and not at the limit of 15 minutes");
    let waited = stage.run(&["status", "--commit", &words[..8], "--wait", "-o", "json"]);
    let value: Value = serde_json::from_str(&waited.out).unwrap();
    assert_eq!((&value["commit"], &value["complete"]), (&words.as_str().into(), &true.into()), "{value:#}");
    // An object that leaves with pruning off is an answer as well.
    stage.repository.remove("settings.yaml");
    let gone = stage.repository.commit("Away with them");
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 0, "{}", stage.log());
    let waited = stage.run(&["status", "--commit", &gone, "--wait"]);
    assert_eq!(waited.code, 0, "{waited:?}");
    let shown = stage.run(&["show", &gone]);
    assert!(shown.out.contains("ConfigMap default/settings: orphaned"), "{}", shown.out);
    let status = stage.run(&["status"]);
    assert!(status.out.contains("synced (1 complete, 1 orphaned)"), "{}", status.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_wait_is_json_where_that_is_asked_for() {
    let (stage, good, bad) = told().await;
    for (commit, code, complete) in [(&good, 0, true), (&bad, 3, false)] {
        let waited = stage.run(&["status", "--commit", commit, "--wait", "-o", "json"]);
        assert_eq!(waited.code, code, "{waited:?}");
        let value: Value = serde_json::from_str(&waited.out).unwrap();
        assert_eq!((&value["commit"], &value["complete"]), (&commit.as_str().into(), &complete.into()), "{value:#}");
        assert_eq!(value["records"][0]["commit"], commit.as_str());
    }
    let waited = stage.run(&["status", "--commit", "0123456", "--wait", "--timeout", "100ms", "-o", "json"]);
    assert_eq!(waited.code, 4, "{waited:?}");
    let value: Value = serde_json::from_str(&waited.out).unwrap();
    assert_eq!(value["timedOut"], true, "{value:#}");
    let nobody = stage.run(&["status", "--commit", "no-such-branch", "--wait"]);
    assert_eq!((nobody.code, nobody.out.as_str()), (1, ""), "{nobody:?}");
    assert!(nobody.err.contains("no commit \"no-such-branch\""), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_ends_with_the_reason_where_there_is_nothing_to_follow() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let branch = once(&stage, &["--branch", "elsewhere"]);
    assert_eq!(branch.code, 1, "{branch:?}");
    assert!(branch.err.contains("has no branch elsewhere"), "{}", branch.err);
    let folder = once(&stage, &["--path", "nowhere"]);
    assert_eq!(folder.code, 1, "{folder:?}");
    assert!(folder.err.contains("has no folder nowhere"), "{}", folder.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_says_what_is_waited_for_when_its_time_is_over() {
    let mut stage = Fixture::new().await;
    let lost = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: later}\n";
    let commit = stage.repository.commit_file("settings.yaml", lost, "Into a namespace that is not there");
    stage.repository.push();
    let ran = once(&stage, &["--timeout", "3s"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let told = "ConfigMap later/settings: waiting: ";
    assert!(
        ran.err.contains(told) && ran.err.contains("waits for the namespace later, which does not exist: "),
        "{}",
        ran.err
    );
    let status = stage.run(&["status", "-A"]);
    let row = status.out.lines().find(|line| line.contains("later/settings")).unwrap_or_default();
    assert!(
        row.contains(" waiting ") && row.contains(" waits for the namespace later, which does not exist: "),
        "{}",
        status.out
    );
    let shown = stage.run(&["show", &commit]);
    assert!(shown.out.contains("settings: waiting") && shown.out.contains("  waiting:  "), "{}", shown.out);
    let value: Value = serde_json::from_str(&stage.run(&["show", &commit, "-o", "json"]).out).unwrap();
    let record = &value["records"][0];
    assert_eq!(record["outcome"], "waiting");
    assert!(record["waitsFor"].as_str().unwrap().contains("later"), "{record:#}");
    let waited = stage.run(&["status", "--commit", &commit, "--wait", "--timeout", "100ms"]);
    assert_eq!(waited.code, 4);
    assert!(waited.err.contains(told), "{}", waited.err);
}

/// A kind that nobody defines and a namespace that nobody makes are given up after `outage_timeout`; `belay retry` names them.
#[tokio::test(flavor = "multi_thread")]
async fn once_ends_with_what_is_missing() {
    let mut stage = Fixture::new().await;
    stage
        .repository
        .write("settings.yaml", config_map("settings", "1").replace("name: ", "namespace: later\n  name: "));
    stage.repository.write("one.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {}\n");
    let commit = stage.repository.commit("Both need something that is missing");
    stage.repository.push();
    let file = stage.home.path().join("belay.toml");
    let repository = stage.repository.path().display().to_string();
    let text = format!("[[source]]\nname = \"default\"\nrepository = \"{repository}\"\noutage_timeout = \"2s\"\n");
    std::fs::write(&file, text).unwrap();
    let mut command = belay(stage.home.path());
    command.args(["run", "--once", "--timeout", "60s", "--config", &file.display().to_string()]).args(stage.globals());
    let ran = finish(command, "");
    assert_eq!(ran.code, 3, "{ran:?}");
    for words in [
        "ConfigMap later/settings: failed: ",
        "waits for the namespace later, which does not exist: ",
        "kubectl create namespace later",
        "Widget default/one: failed: ",
        "waits for the kind Widget of example.com, which the cluster does not know",
        "add its CustomResourceDefinition to the repository, or install it",
        "waited for all of outage_timeout, 2 s",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let waited = stage.run(&["status", "--commit", &commit, "--wait"]);
    assert_eq!(waited.code, 3, "{waited:?}");
    // The daemon tries it again by itself; somebody may ask for that.
    for (object, namespace) in [("configmap/settings", "later"), ("widget/one", "default")] {
        let retried = stage.run(&["retry", object, "-n", namespace]);
        assert!(retried.code == 0 && retried.out.contains("will be tried again"), "{retried:?}");
    }
    let asked = stage.run(&["retry", "--all", "-A"]);
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.err.contains("configmap/settings -n later"), "{asked:?}");
    let one = stage.run(&["retry", "--all", "-n", "default", "-o", "json"]);
    assert_eq!(
        (one.code, serde_json::from_str::<serde_json::Value>(&one.out).unwrap()),
        (0, serde_json::json!({"triedAgain": ["Widget default/one"]}))
    );
    let all = stage.run(&["retry", "--all", "-A", "--yes"]);
    assert!(all.code == 0 && all.out.matches("will be tried again").count() == 2, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_ends_although_the_cluster_is_away() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    // Nobody listens at a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = stage.home.path().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let at = text.find("https://").unwrap();
    let server: String = text[at..].chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
    std::fs::write(&kubeconfig, text.replace(&server, &format!("https://{free}"))).unwrap();
    let ran = once(&stage, &["--timeout", "3s"]);
    assert!([1, 4].contains(&ran.code), "{ran:?}");
    assert!(ran.err.contains("error: "), "{}", ran.err);
}

/// The daemon is through, and the manifests that it could not read are in the status, with their places.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_is_in_the_status() {
    let mut stage = Fixture::new().await;
    stage.repository.write("good.yaml", config_map("good", "1"));
    stage.repository.write("web.yaml", deployment("web", "web:1", ""));
    stage.repository.commit_file(
        "deep/bad.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {nam: x}\n",
        "One is wrong",
    );
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 3, "{}", stage.log());
    let status = stage.run(&["status"]);
    assert_eq!(status.code, 3, "{status:?}");
    let first = status.out.lines().next().unwrap_or_default();
    assert!(first.ends_with(": degraded (1 rejected, 2 complete)"), "{}", status.out);
    assert!(status.out.contains("rejected") && status.out.contains("deep/bad.yaml:"), "{}", status.out);
    let value: Value = serde_json::from_str(&stage.run(&["status", "-o", "json"]).out).unwrap();
    assert_eq!(value["sources"][0]["state"], "degraded");
    assert_eq!(value["objects"][0]["state"], "rejected");
    assert_eq!(value["objects"][0]["place"]["path"], "deep/bad.yaml");
    assert_eq!(value["workloads"][0]["state"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_ends_by_the_state_of_the_head_each_time() {
    let mut stage = Fixture::new().await;
    let quick = |manifest: String| manifest.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 3");
    stage.repository.commit_file("web.yaml", &quick(deployment("web", "web:1", "")), "First version");
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 0, "{}", stage.log());
    stage.repository.commit_file("web.yaml", &quick(broken("web", "never-ready")), "Broken");
    stage.repository.push();
    for run in 1..=3 {
        let ran = once(&stage, &[]);
        assert_eq!(ran.code, 3, "run {run}: {ran:?}");
        assert!(ran.err.contains("Deployment default/web: held"), "run {run}: {}", ran.err);
    }
    stage.repository.commit_file("web.yaml", &quick(deployment("web", "web:3", "")), "Mended");
    stage.repository.push();
    assert_eq!(once(&stage, &[]).code, 0, "{}", stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_tells_what_happens_and_ends_where_only_a_hand_helps() {
    let mut stage = Fixture::new().await;
    let paused = deployment("web", "web:1", "").replace("spec:\n  replicas", "spec:\n  paused: true\n  replicas");
    let commit = stage.repository.commit_file("web.yaml", &paused, "Paused");
    stage.repository.push();
    let mut daemon = stage.command().spawn().unwrap();
    let waited = stage.run(&["status", "--commit", &commit, "--wait", "--timeout", "60s"]);
    drop((daemon.kill(), daemon.wait()));
    assert_eq!(waited.code, 3, "{waited:?}\n{}", stage.log());
    assert!(
        waited.out.contains("Deployment default/web: is paused (belay resume deployment.apps/web -n default"),
        "{waited:?}"
    );
    assert!(waited.err.contains("Deployment default/web: progressing: "), "{waited:?}");
}

/// Without a configuration file a hangup changes nothing, and that is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_does_not_end_the_daemon() {
    let mut stage = Fixture::new().await;
    let first = stage.repository.commit_file("settings.yaml", &config_map("settings", "1"), "Settings");
    stage.repository.push();
    let mut daemon = stage.command().spawn().unwrap();
    stage.until(&first, "complete").await;
    let hangup = std::process::Command::new("kill").args(["-HUP", &daemon.id().to_string()]).status().unwrap();
    assert!(hangup.success());
    let second = stage.repository.commit_file("settings.yaml", &config_map("settings", "2"), "Other settings");
    stage.repository.push();
    stage.until(&second, "complete").await;
    assert!(daemon.try_wait().unwrap().is_none(), "{}", stage.log());
    drop((daemon.kill(), daemon.wait()));
    assert!(stage.log().contains("SIGHUP changes nothing"), "{}", stage.log());
}
