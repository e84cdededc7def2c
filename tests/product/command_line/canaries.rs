//! `belay promote`, `belay abort` and `belay show --verify`, beside a daemon that rolls out in steps.

use std::fs;
use std::process::Stdio;

use minicluster::MiniCluster;
use tokio::net::TcpListener;

use crate::fixture::Fixture;
use crate::program::{Ran, Running, belay};
use crate::support::canary::{of_kind, with_steps};
use crate::support::daemon::{broken, deployment};
use crate::support::prometheus::answer_over_http;
use crate::support::workloads::KINDS;

fn web(image: &str) -> String {
    with_steps("1 0", &deployment("web", image, ""))
}

/// Waits until a workload's row says this.
async fn until_status(stage: &Fixture, words: &str) {
    let seen = async {
        loop {
            let status = stage.run(&["status", "-o", "wide"]);
            if status.out.contains(words) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(2), seen).await;
    assert!(waited.is_ok(), "{words:?} is not in: {:?}\n{}", stage.run(&["status", "-o", "wide"]), stage.log());
}

/// Starts a daemon with these keys of its source, and these tables.
fn start(stage: &Fixture, keys: &str, tables: &str) -> Running {
    let repository = stage.repository.path().display();
    let config =
        format!("[[source]]\nname = \"shop\"\nrepository = \"{repository}\"\ninterval = \"1s\"\n{keys}{tables}");
    fs::write(stage.home.path().join("belay.toml"), config).unwrap();
    let mut command = belay(stage.home.path());
    command.args(["run", "--config", "belay.toml"]).args(stage.globals());
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.home.path().join("log")).unwrap());
    Running(command.spawn().unwrap())
}

fn push_text(stage: &mut Fixture, text: &str, subject: &str) -> String {
    let commit = stage.repository.commit_file("web.yaml", text, subject);
    stage.repository.push();
    commit
}

fn push(stage: &mut Fixture, image: &str, subject: &str) -> String {
    push_text(stage, &web(image), subject)
}

fn through(stage: &Fixture, commit: &str) -> Ran {
    stage.run(&["status", "--commit", commit, "--wait", "--timeout", "90s"])
}

/// Runs a command that is refused, and asserts that it says why.
fn refused(stage: &Fixture, args: &[&str], why: &str) {
    let ran = stage.run(args);
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains(why), "{args:?} {why:?}: {ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_promoted_and_aborted() {
    let mut stage = Fixture::new().await;
    let _daemon = start(&stage, "", "");

    let first = push(&mut stage, "web:1", "First version");
    assert_eq!(through(&stage, &first).code, 0, "{}", stage.log());
    let idle = stage.run(&["promote", "deployment/web"]);
    assert_eq!(idle.code, 1, "{idle:?}");
    assert!(idle.err.contains("no canary of it is under way"), "{idle:?}");

    let second = push(&mut stage, "web:2", "Second version");
    until_status(&stage, "canary step 1 of 1: 1 of 1 new pods are ready; waits for belay promote or belay abort").await;
    for (command, words) in [("undo", "take it back with 'belay abort"), ("pause", "has a canary under way")] {
        let refused = stage.run(&[command, "deployment/web"]);
        assert!(refused.code == 1 && refused.err.contains(words), "{refused:?}");
    }
    let tried = stage.run(&["promote", "web", "--dry-run"]);
    assert_eq!(tried.out, "deployment.apps/web promoted at canary step 1 of 1 (server dry run)\n", "{tried:?}");
    let promoted = stage.run(&["promote", "web", "--note", "looks good"]);
    assert_eq!(promoted.out, "deployment.apps/web promoted at canary step 1 of 1\n", "{promoted:?}");
    assert!(promoted.err.contains("all pods are replaced when the new pods of the step are ready"), "{promoted:?}");
    assert_eq!(through(&stage, &second).code, 0, "{}", stage.log());
    let shown = stage.run(&["show", &second, "--steps"]);
    for words in ["canary step 1 of 1: 1 new pod", "looks good", "the canary is over: all pods are replaced"] {
        assert!(shown.out.contains(words), "{words:?} is missing: {}", shown.out);
    }

    let third = push(&mut stage, "web:3", "Third version");
    until_status(&stage, "waits for belay promote or belay abort").await;
    let aborted = stage.run(&["abort", "web"]);
    assert_eq!(aborted.out, "deployment.apps/web aborted at canary step 1 of 1\n", "{aborted:?}");
    let waited = through(&stage, &third);
    assert_eq!(waited.code, 3, "{waited:?}\n{}", stage.log());
    assert!(waited.out.contains("taken back by hand (belay abort)"), "{waited:?}");
    let figures = stage.run(&["history", "--stats", "-o", "wide"]);
    assert!(figures.out.contains("by-hand"), "{figures:?}");
}

/// Returns a StatefulSet and a DaemonSet of the same name.
fn sets(image: &str) -> String {
    let daemons = of_kind(KINDS[2], "1 0", image, "ready").replace("app: web", "app: logs");
    format!("{}---\n{daemons}", of_kind(KINDS[1], "1 0", image, "ready"))
}

/// Waits until both sets wait in their step.
async fn until_both_wait(stage: &Fixture) {
    let words = "canary step 1 of 1: 1 of 1 new pods are ready; waits for belay promote or belay abort";
    let seen = async {
        while stage.run(&["status", "-o", "wide"]).out.matches(words).count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(2), seen).await;
    assert!(waited.is_ok(), "{}\n{}", stage.run(&["status", "-o", "wide"]).out, stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canaries_of_sets_are_promoted_and_aborted() {
    let mut stage = Fixture::of(MiniCluster::builder().nodes(3)).await;
    let _daemon = start(&stage, "", "");
    let first = push_text(&mut stage, &sets("web:1"), "First version");
    assert_eq!(through(&stage, &first).code, 0, "{}", stage.log());
    for command in ["promote", "abort"] {
        for set in ["sts/web", "ds/web"] {
            refused(&stage, &[command, set], "\"web\": no canary of it is under way; `belay status` shows what is");
        }
    }

    let second = push_text(&mut stage, &sets("web:2"), "Second version");
    until_both_wait(&stage).await;
    refused(&stage, &["promote", "web"], "there are several: say statefulset.apps/web or daemonset.apps/web");
    refused(&stage, &["promote", "sts/web", "ds/web"], "say --yes to act on all of them");
    let unknown = "statefulsets.apps \"wep\" not found; there is statefulset.apps/web";
    refused(&stage, &["abort", "sts/wep"], unknown);
    refused(
        &stage,
        &["promote", "wep"],
        "there is no Deployment or StatefulSet or DaemonSet \"wep\" in namespace default",
    );
    let elsewhere = "statefulsets.apps \"web\" not found; there is statefulset.apps/web -n default";
    refused(&stage, &["promote", "sts/web", "-n", "shop"], elsewhere);
    let elsewhere = "in namespace shop; there is daemonset.apps/web -n default, statefulset.apps/web -n default";
    refused(&stage, &["abort", "web", "-n", "shop"], elsewhere);
    let tried = stage.run(&["promote", "sts/web", "--dry-run"]);
    assert_eq!(tried.out, "statefulset.apps/web promoted at canary step 1 of 1 (server dry run)\n", "{tried:?}");
    let promoted = stage.run(&["promote", "sts/web", "ds/web", "--yes", "--note", "looks good"]);
    let told =
        "statefulset.apps/web promoted at canary step 1 of 1\ndaemonset.apps/web promoted at canary step 1 of 1\n";
    assert_eq!((promoted.code, promoted.out.as_str()), (0, told), "{promoted:?}");
    let waited = through(&stage, &second);
    assert_eq!(waited.code, 0, "{waited:?}\n{}", stage.log());
    let shown = stage.run(&["show", &second, "--steps"]);
    assert_eq!(shown.out.matches("looks good").count(), 2, "{shown:?}");

    let third = push_text(&mut stage, &sets("web:3"), "Third version");
    until_both_wait(&stage).await;
    let aborted = stage.run(&["abort", "ds", "web"]);
    assert_eq!(aborted.out, "daemonset.apps/web aborted at canary step 1 of 1\n", "{aborted:?}");
    let promoted = stage.run(&["promote", "sts", "web"]);
    assert_eq!(promoted.out, "statefulset.apps/web promoted at canary step 1 of 1\n", "{promoted:?}");
    let waited = through(&stage, &third);
    assert!(waited.code == 3 && waited.out.contains("taken back by hand (belay abort)"), "{waited:?}\n{}", stage.log());
    let image = |set: &str| {
        let shown = stage.run(&["history", set, "--commit", &third, "-o", "json"]);
        let answer: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        answer["records"][0]["outcome"].clone()
    };
    assert_eq!((image("sts/web"), image("ds/web")), ("complete".into(), "rolled-back".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_has_failed_and_is_left_takes_no_request() {
    let mut stage = Fixture::new().await;
    let _daemon = start(&stage, "on_failure = \"report\"\n", "");
    let first = push(&mut stage, "web:1", "First version");
    assert_eq!(through(&stage, &first).code, 0, "{}", stage.log());
    let bad = push_text(&mut stage, &with_steps("1 0", &broken("web", "crash-after=3s")), "Crashes");
    let waited = through(&stage, &bad);
    assert_eq!(waited.code, 3, "{waited:?}\n{}", stage.log());
    let why = "its canary has failed at step 1 of 1, where it is left; a newer commit takes its place";
    refused(&stage, &["promote", "web"], why);
    refused(&stage, &["abort", "web"], why);
    refused(&stage, &["undo", "deployment/web"], "is left at canary step 1 of 1, which has failed; revert its commit");
    let back = push(&mut stage, "web:1", "Back to the first");
    assert_eq!(through(&stage, &back).code, 0, "{}", stage.log());
    refused(&stage, &["promote", "web"], "no canary of it is under way");
}

/// Returns the counters of four old pods and a new one: 1,000 requests a second each, of which one in fifty is bad.
fn counters(request: &str, second: i64) -> Vec<(&'static str, i64)> {
    let count = if request.contains("query=bad") { second * 20 } else { second * 1_000 };
    // The names of the old pods have a hash of 6 to 10 characters.
    let pods: &[&str] = if request.contains("%7B6") { &["a", "b", "c", "d"] } else { &["new"] };
    pods.iter().map(|pod| (*pod, count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_promoted_early_is_verified() {
    let mut stage = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let prometheus = listener.local_addr().unwrap();
    let answering = tokio::spawn(answer_over_http(listener, counters));
    let analysis = format!(
        "[[analysis]]\nname = \"errors\"\nprometheus = \"http://{prometheus}\"\nbad = 'bad{{pod=~\"{{{{pods}}}}\"}}'\ntotal = \
         'all{{pod=~\"{{{{pods}}}}\"}}'\nprove = 2\ninterval = \"5s\"\n"
    );
    let daemon = start(&stage, "", &analysis);
    let version = |image: &str| {
        let text = with_steps("1 10m", &deployment("web", image, ""));
        text.replacen("annotations: {", "annotations: {belay.dev/analysis: errors, ", 1)
    };
    let first = push_text(&mut stage, &version("web:1"), "First version");
    assert_eq!(through(&stage, &first).code, 0, "{}", stage.log());
    let second = push_text(&mut stage, &version("web:2"), "Second version");
    let waited = through(&stage, &second);
    assert_eq!(waited.code, 0, "{waited:?}\n{}", stage.log());
    let verified = stage.run(&["show", &second, "--verify"]);
    assert!(verified.code == 0 && verified.out.contains("looks, each as recorded"), "{verified:?}");
    let proof =
        "that is less than 2 times the old error rate, which is said of at most 1% of versions that are 2 times worse";
    assert!(verified.out.contains(proof), "{verified:?}");
    let shown = stage.run(&["show", &second, "--steps"]);
    assert!(shown.out.contains("promoted early: analysis \"errors\": the new pods gave "), "{shown:?}");
    let json: serde_json::Value = serde_json::from_str(&stage.run(&["show", &second, "-o", "json"]).out).unwrap();
    let look = &json["records"][0]["measurements"][3];
    for key in ["analysis", "at", "verdict", "newBad", "newTotal", "oldBad", "oldTotal", "evidence", "proof", "step"] {
        assert!(!look[key].is_null(), "{key} is missing: {look:#}");
    }
    drop(daemon);
    answering.abort();

    let file = stage.home.path().join("state/history.db");
    // The checkpoint takes the last writes of the killed daemon into the file.
    let history = rusqlite::Connection::open(&file).unwrap();
    history.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(history);
    let kept = fs::read(&file).unwrap();
    let unproved = "it was promoted early, and this is not proved: analysis \"errors\"";
    for (change, told) in [
        (
            "UPDATE steps SET detail = replace(detail, 'the new pods gave ', 'the new pods gave 1') WHERE step = 'note'",
            unproved,
        ),
        ("DELETE FROM measurements", unproved),
        (
            "UPDATE measurements SET measurement = replace(measurement, '\"verdict\":\"pass\"', '\"verdict\":\"fail\"')",
            "it is pass",
        ),
        (
            "UPDATE measurements SET measurement = json_set(measurement, '$.newBad', 0) WHERE number = 3",
            "analysis errors: at ",
        ),
        ("UPDATE measurements SET measurement = json_set(measurement, '$.proof', 1000)", "analysis errors: at "),
    ] {
        fs::write(&file, &kept).unwrap();
        let history = rusqlite::Connection::open(&file).unwrap();
        assert!(history.execute(change, []).unwrap() > 0, "{change}");
        drop(history);
        let tampered = stage.run(&["show", &second, "--verify"]);
        assert!(tampered.code == 3 && tampered.out.contains(told), "{change}: {tampered:?}");
    }
}
