//! `belay rolling-update` as a process: what it prints where, how it exits, killed and taken up again. Real time.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::Ran;
use crate::served::Served;

const FAST: [&str; 4] = ["--update-period", "100ms", "--poll-interval", "50ms"];

fn controller(name: &str, image: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata: {{name: {name}}}\nspec:\n  replicas: 2\n  selector: {{app: \
         {name}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      annotations: {{kubelet.belay.dev/fate: \
         ready-after=100ms}}\n    spec: {{containers: [{{name: app, image: \"{image}\"}}{more}]}}\n"
    )
}

async fn make(served: &Served, name: &str, image: &str, more: &str) {
    let manifest: serde_json::Value = yaml(&controller(name, image, more));
    served.post("/api/v1/namespaces/default/replicationcontrollers", &manifest).await;
}

/// Makes a controller whose pods do what their image's tag says: nothing else says it. Those of tag 404 never start.
async fn make_by_image(served: &Served, name: &str, image: &str) {
    let mut manifest = yaml(&controller(name, image, ""));
    manifest["spec"]["template"]["metadata"].as_object_mut().unwrap().remove("annotations");
    served.post("/api/v1/namespaces/default/replicationcontrollers", &manifest).await;
}

fn yaml(text: &str) -> serde_json::Value {
    let bytes =
        belay_core::manifest::read_file("one.yaml", text.as_bytes(), &belay_core::manifest::Scopes::new("default"));
    bytes.manifests[0].value()
}

fn roll(served: &Served, args: &[&str]) -> Ran {
    let all: Vec<&str> = ["rolling-update"].iter().chain(args).chain(&FAST).copied().collect();
    served.run(&all)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_each_step_and_then_the_result() {
    let served = Served::new().await;
    make(&served, "web", "web:1", "").await;
    let dry = roll(&served, &["web", "web-v2", "--image=web:2", "--dry-run"]);
    assert_eq!((dry.code, dry.out.as_str()), (0, "Rolling from:\nweb\nTo:\nweb-v2\n"), "{dry:?}");
    let ran = roll(&served, &["web", "--image=web:2"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "replicationcontroller/web rolling updated\n"), "{ran:?}");
    let said: Vec<&str> = ran.err.lines().collect();
    assert!(said[0].starts_with("Created web-"), "{said:?}");
    assert!(said[1].ends_with("to 0 (keep 2 pods available, don't exceed 3 pods)"), "{said:?}");
    assert_eq!(said[3], "Scaling web down to 1");
    let named = roll(&served, &["web", "web-v3", "--image=web:3", "-o", "name"]);
    assert_eq!((named.code, named.out.as_str()), (0, "replicationcontroller/web-v3\n"), "{named:?}");
    let json = roll(&served, &["web-v3", "--image=web:4", "-o", "json"]);
    let live: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:4", "{json:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_to_do() {
    let served = Served::new().await;
    let refused = |args: &[&str], code: i32, text: &str| {
        let ran = roll(&served, args);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
    };
    refused(&["none", "--image=web:2"], 1, "error: replicationcontrollers \"none\" not found");
    refused(&["none", "--rollback"], 1, "\"none\" not found");
    refused(&["none"], 2, "--image");
    refused(&["none", "other"], 1, "\"none\" not found");
    refused(&["deployment/web", "--image=web:2"], 1, "say belay set image deployment/web -n default CONTAINER=web:2");
    refused(&[], 2, "<OLD>");
    refused(&["web", "--image=a", "--rollback"], 2, "cannot be used with");
    refused(&["web", "--image=a", "-f", "b.yaml"], 2, "cannot be used with");
    refused(&["web", "--image=a", "--deployment-label-key="], 1, "--deployment-label-key can not be empty");
    refused(&["web", "-f", "none.yaml"], 1, "failed to read none.yaml");
    make(&served, "two", "web:1", ", {name: log, image: log}").await;
    refused(&["two", "--image=web:2"], 1, "must specify container to update when updating a multi-container pod");
    refused(&["two", "--image=web:2", "--container=app", "--commit=1234567"], 1, "commit \"1234567\"");
    served.write("two.yaml", &controller("two-b", "web:2", "").replace("app: two-b", "app: two"));
    refused(
        &["two", "-f", "two.yaml"],
        1,
        "two-b must specify a matching key with non-equal value in Selector for two",
    );
    served.write("many.yaml", &format!("{}---\n{}", controller("a", "a", ""), controller("b", "b", "")));
    refused(
        &["two", "-f", "many.yaml"],
        1,
        "many.yaml must hold exactly one ReplicationController; it holds 2 objects",
    );
    served.write("wrong.yaml", &controller("a", "a", "").replace("replicas", "replica"));
    refused(&["two", "-f", "wrong.yaml"], 1, "replica");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_never_serve_end_it_with_4() {
    let served = Served::new().await;
    make_by_image(&served, "web", "web:1").await;
    let ran = roll(&served, &["web", "--image=web:404", "--timeout", "1s"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("timed out waiting for any update progress to be made"), "{}", ran.err);
    let other = roll(&served, &["web", "--image=web:3"]);
    assert_eq!(other.code, 1);
    assert!(other.err.contains("Found existing in-progress update to image (web:404)."), "{}", other.err);
    let back = roll(&served, &["web", "--rollback"]);
    assert_eq!(
        (back.code, back.out.as_str()),
        (0, "replicationcontroller/web rolling updated to \"web\"\n"),
        "{back:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_its_end_it_says_that_it_is_done() {
    let served = Served::new().await;
    make(&served, "web", "web:1", "").await;
    for said in ["replicationcontroller/web rolling updated\n", "replicationcontroller/web rolling updated already\n"] {
        let ran = roll(&served, &["web", "--image=web:2"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, said), "{ran:?}");
    }
    let said = "replicationcontroller/web-b rolling updated to \"web-b\"";
    for (args, said) in [
        (&["rc/web", "web-b", "--image=web:3"][..], format!("{said}\n")),
        (&["web", "web-b", "--image=web:3"], format!("{said} already\n")),
        (&["web", "web-b"], format!("{said} already\n")),
    ] {
        let ran = roll(&served, args);
        assert_eq!((ran.code, ran.out), (0, said), "{args:?}: {}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_another_kind_it_says_what_does_it() {
    let served = Served::new().await;
    let mut manifest = yaml(&controller("web", "web:1", ""));
    manifest["apiVersion"] = "apps/v1".into();
    manifest["kind"] = "Deployment".into();
    manifest["spec"]["selector"] = serde_json::json!({"matchLabels": {"app": "web"}});
    served.post("/apis/apps/v1/namespaces/default/deployments", &manifest).await;
    for (args, command) in [
        (&["web", "--image=web:2"][..], "belay set image deployment/web -n default app=web:2"),
        (&["web", "web-b", "--image=web:2", "--dry-run"], "belay set image deployment/web -n default app=web:2"),
        (&["web", "--rollback"], "belay undo deployment/web -n default"),
    ] {
        let ran = roll(&served, args);
        let told = ran.err.contains("web is a Deployment, no ReplicationController") && ran.err.contains(command);
        assert!(ran.code == 1 && told, "{args:?}: {ran:?}");
    }
}

/// The command says before it rolls a controller of a source how its daemon will react.
#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_a_source_s_controller_is_said_first() {
    let served = Served::new().await;
    let hold = r#"{"manifest":"a","template":"b","commit":"1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d","reason":"failed","since":"2026-01-01T00:00:00Z"}"#;
    for (name, annotations, said) in [
        ("plain", serde_json::json!({}), "warning: plain belongs to the source \"shop\": belay leaves it alone while"),
        ("held", serde_json::json!({"belay.dev/hold": hold}), "which holds what commit 1a2b3c4 says of it"),
        ("still", serde_json::json!({"belay.dev/suspend": "later"}), "and is suspended: belay leaves it alone until"),
    ] {
        let mut manifest = yaml(&controller(name, "web:1", ""));
        manifest["spec"]["replicas"] = 0.into();
        manifest["metadata"]["labels"] = serde_json::json!({"belay.dev/source": "shop"});
        manifest["metadata"]["annotations"] = annotations;
        served.post("/api/v1/namespaces/default/replicationcontrollers", &manifest).await;
        let ran = roll(&served, &[name, "--image=web:2"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        assert_eq!(ran.err.contains("warning"), name == "plain", "{}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_it_goes_on_by_the_same_command() {
    let served = Served::new().await;
    make(&served, "web", "web:1", "").await;
    let mut slow = served.command();
    slow.args(["rolling-update", "web", "--image=web:2", "--update-period", "30s", "--poll-interval", "50ms"]);
    let mut slow = slow.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    served
        .until(async || {
            let all = served.get("/api/v1/namespaces/default/replicationcontrollers").await;
            all["items"].as_array().unwrap().iter().any(|one| one["spec"]["replicas"] == 1)
        })
        .await;
    slow.kill().unwrap();
    slow.wait().unwrap();
    let ran = roll(&served, &["web", "--image=web:2"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "replicationcontroller/web rolling updated\n"), "{ran:?}");
    assert!(ran.err.starts_with("Found existing update in progress (web-"), "{}", ran.err);
    assert!(ran.err.lines().next().unwrap().ends_with("), resuming."), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_all_change() {
    let served = Served::new().await;
    make(&served, "web", "web:1", "").await;
    let mut slow = served.command();
    slow.args(["rolling-update", "web", "--image=web:2", "--update-period", "30s", "--poll-interval", "50ms"]);
    let slow = slow.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(Command::new("/bin/kill").args(["-INT", &slow.id().to_string()]).status().unwrap().success());
    let ended = slow.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("the same command goes on, --rollback goes back"), "{said}");
    let controllers = async || {
        let all = served.get("/api/v1/namespaces/default/replicationcontrollers").await;
        all["items"].as_array().unwrap().iter().map(|one| one["spec"].clone()).collect::<Vec<_>>()
    };
    let left = controllers().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(controllers().await, left, "nothing is changed by anybody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_may_come_from_standard_input_and_a_commit_is_recorded() {
    let served = Served::new().await;
    make(&served, "web", "web:1", "").await;
    let mut repository = crate::support::repository::Repository::new();
    repository.author("Ada", "ada@example.com");
    let commit = repository.commit_file("web.yaml", "a: b", "Second version");
    repository.push();
    let copy = served.home().join("copy");
    git2::Repository::clone(&repository.path().display().to_string(), &copy).unwrap();
    let mut command = served.command();
    command.args(["rolling-update", "web", "-f", "-", "--commit", &commit]).args(FAST);
    command.current_dir(&copy).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    running.stdin.take().unwrap().write_all(controller("web-b", "web:2", "").as_bytes()).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let live = served.get("/api/v1/namespaces/default/replicationcontrollers/web-b").await;
    assert_eq!(live["metadata"]["annotations"]["belay.dev/commit"], commit);
    let cause = live["metadata"]["annotations"]["kubernetes.io/change-cause"].as_str().unwrap();
    assert_eq!(cause, format!("{} Second version (Ada)", &commit[..7]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_it_is_kept() {
    let served = Served::new().await;
    make_by_image(&served, "web", "web:1").await;
    let annotations = async || {
        let live = served.get("/api/v1/namespaces/default/replicationcontrollers/web").await;
        live["metadata"]["annotations"].clone()
    };
    let ran = roll(&served, &["web", "--image=web:2", "--note=faster", "--description=It was slow."]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "replicationcontroller/web rolling updated\n"), "{ran:?}");
    let now = annotations().await;
    assert_eq!(
        (&now["kubernetes.io/change-cause"], &now["kubernetes.io/description"]),
        (&"faster".into(), &"It was slow.".into())
    );
    // Broken off half-way, and taken back.
    let stuck = roll(&served, &["web", "--image=web:404", "--timeout=1s"]);
    assert_eq!(stuck.code, 4, "{stuck:?}");
    let back = roll(&served, &["web", "--rollback", "--note=not yet"]);
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(annotations().await["kubernetes.io/change-cause"], "not yet");
}
