//! The global options, on commands that read and on commands that write: as with kubectl.

use serde_json::{Value, json};

use crate::program::{Ran, belay, finish};
use crate::served::Served;

/// Commands that look, and commands that write, all of them about `web`.
const LINES: [&str; 5] = [
    "status web",
    "pause web",
    "resume web",
    "set image deploy/web app=web:2 --live",
    "scale deploy web --replicas 3 --live",
];

async fn deploy(served: &Served, namespace: &str, name: &str, tier: &str) {
    let labels = json!({"app": name, "tier": tier, "belay.dev/source": "shop"});
    let template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "web:1"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}});
    served.post(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment).await;
}

/// Namespaces `default` (web), `other` (web, api); contexts `belay`, `elsewhere` (namespace `other`) and `gone`.
async fn world() -> Served {
    let served = Served::new().await;
    served
        .post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    deploy(&served, "default", "web", "front").await;
    deploy(&served, "other", "web", "front").await;
    deploy(&served, "other", "api", "back").await;
    let file = served.home().join(".kube/config");
    let mut config: Value = serde_yaml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let mut context = config["contexts"][0].clone();
    context["name"] = json!("elsewhere");
    context["context"]["namespace"] = json!("other");
    let gone = json!({"name": "gone", "context": {"cluster": "gone", "user": context["context"]["user"]}});
    config["contexts"].as_array_mut().unwrap().extend([context, gone]);
    let nowhere = json!({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}});
    config["clusters"].as_array_mut().unwrap().push(nowhere);
    std::fs::write(file, serde_yaml::to_string(&config).unwrap()).unwrap();
    served
}

fn run(served: &Served, line: &str, more: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').chain(more.split_whitespace()).collect();
    served.run(&words)
}

async fn image(served: &Served, namespace: &str) -> Value {
    let live = served.get(&format!("/apis/apps/v1/namespaces/{namespace}/deployments/web")).await;
    live["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_namespace_is_the_one_that_is_said() {
    let served = world().await;
    let elsewhere = "--context elsewhere";
    for where_else in ["-n other", "--namespace=other", elsewhere] {
        for line in LINES {
            let ran = run(&served, line, where_else);
            assert_eq!(ran.code, 0, "{line} {where_else}: {ran:?}");
        }
        assert_eq!((image(&served, "other").await, image(&served, "default").await), ("web:2".into(), "web:1".into()));
        run(&served, "set image deploy/web app=web:1 --live", where_else);
    }
    // Once: two restarts in one second are refused.
    assert_eq!(run(&served, "restart deploy/web", "-n other").code, 0);
    // The option on the line counts more than the context.
    assert_eq!(run(&served, "set image deploy/web app=web:3 --live", "--context elsewhere -n default").code, 0);
    assert_eq!(image(&served, "default").await, "web:3");
    assert_eq!(run(&served, "pause api", "").code, 1, "it is in the other namespace");
    let listed = run(&served, "status -A -o name", "").out;
    assert_eq!(listed.lines().collect::<std::collections::BTreeSet<_>>(), ["deployment/web", "deployment/api"].into());
    assert_eq!(run(&served, "status -o name", "").out, "deployment/web\n");
    assert_eq!(run(&served, "pause web", "-A").code, 2, "no command writes in all namespaces");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_say_which() {
    let served = world().await;
    assert_eq!(run(&served, "status -o name -A -l tier=back", "").out, "deployment/api\n");
    assert_eq!(run(&served, "status -o name -A --selector tier!=back", "").out, "deployment/web\ndeployment/web\n");
    let paused = run(&served, "pause -l tier=back", "-n other");
    assert_eq!((paused.code, paused.out.as_str()), (0, "deployment.apps/api paused\n"), "{paused:?}");
    let scaled = run(&served, "scale deploy --live --replicas 2 -l tier=back", "-n other");
    assert_eq!((scaled.code, scaled.out.as_str()), (0, "deployment.apps/api scaled\n"), "{scaled:?}");
    // The ReplicaSets and pods of a Deployment have its labels, and are changed with it.
    let set = run(&served, "set image -l app=web app=web:2 --live", "");
    assert_eq!((set.code, set.out.as_str()), (0, "deployment.apps/web image updated\n"), "{set:?}");
    let all = run(&served, "set env deploy --all A=1 --live --yes", "-n other");
    assert_eq!(all.out, "deployment.apps/api env updated\ndeployment.apps/web env updated\n", "{all:?}");
    let none = run(&served, "restart -l tier=none", "-n other");
    assert_eq!((none.code, none.err.as_str()), (0, "No resources found in other namespace.\n"));
    for line in ["status -l =", "pause -l ="] {
        let ran = run(&served, line, "");
        assert!(ran.code == 1 && ran.err.starts_with("error: "), "{line}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_the_one_that_is_said() {
    let served = world().await;
    let moved = served.home().join("moved");
    std::fs::rename(served.home().join(".kube/config"), &moved).unwrap();
    let file = format!("--kubeconfig {}", moved.display());
    for line in LINES {
        let ran = run(&served, line, "");
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("--kubeconfig"), "{line}: {ran:?}");
        assert_eq!(run(&served, line, &file).code, 0, "{line}");
        let unknown = run(&served, line, &format!("{file} --context nobody"));
        assert!(unknown.code == 1 && unknown.err.contains("nobody"), "{line}: {unknown:?}");
        let gone = run(&served, line, &format!("{file} --context gone --request-timeout 2s"));
        assert!(gone.code == 1 && gone.out.is_empty() && gone.err.contains("error: "), "{line}: {gone:?}");
        let missing = run(&served, line, "--kubeconfig /nowhere");
        assert!(missing.code == 1 && missing.err.contains("/nowhere"), "{line}: {missing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_done_in_somebody_elses_name() {
    let served = world().await;
    for line in LINES {
        let nobody = run(&served, line, "--as nobody");
        assert_eq!((nobody.code, nobody.out.as_str()), (1, ""), "{line}: {nobody:?}");
        assert!(nobody.err.contains("\"nobody\"") && nobody.err.contains("cannot"), "{line}: {}", nobody.err);
        let master = run(&served, line, "--as nobody --as-group system:masters");
        assert_eq!(master.code, 0, "{line}: {master:?}");
        assert_eq!(run(&served, line, "--as-group system:masters").code, 2, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_is_said_on_standard_error_only() {
    let served = world().await;
    for line in ["status web -o name", "scale deploy web --replicas 1 --live"] {
        let (quiet, loud) = (run(&served, line, ""), run(&served, line, "-vvv"));
        assert_eq!((quiet.code, &quiet.out), (loud.code, &loud.out), "{line}");
        assert!(quiet.err.len() < loud.err.len() && loud.err.contains("DEBUG"), "{line}: {}", loud.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_misspelt_is_named_rightly() {
    let served = world().await;
    for (line, hint) in [
        ("pause wep", "; there is deployment.apps/web"),
        ("pause deploy/wbe", "deployments.apps \"wbe\" not found; there is deployment.apps/web"),
        ("undo deploy wep", "; there is deployment.apps/web"),
        ("restart completely-else", "in namespace default\n"),
        ("scale deploy/ap --replicas 1 --live -n other", "; there is deployment.apps/api"),
    ] {
        let ran = run(&served, line, "");
        assert!(ran.code == 1 && ran.err.contains(hint), "{line}: {ran:?}");
    }
    for (line, hint) in [("paus web", "'pause'"), ("staus", "'status'"), ("undo web --to-comit 1", "'--to-commit'")] {
        let ran = run(&served, line, "");
        assert!(ran.code == 2 && ran.err.contains(hint), "{line}: {ran:?}");
    }
}

/// A connection without verification needs nothing to verify with: a machine may have no certificates of authorities.
#[test]
fn an_unverified_server_needs_no_authorities() {
    let home = tempfile::tempdir().unwrap();
    let none = home.path().join("none.pem");
    std::fs::write(&none, "").unwrap();
    let ran = |server: &str, skip: bool| {
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server, "insecure-skip-tls-verify": skip}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        let file = home.path().join("kubeconfig");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = belay(home.path());
        command.args(["status", "-A", "--kubeconfig"]).arg(file);
        command.env("SSL_CERT_FILE", &none).env("SSL_CERT_DIR", home.path());
        finish(command, "")
    };
    for (server, skip) in [("https://127.0.0.1:1", true), ("http://127.0.0.1:1", false)] {
        let ran = ran(server, skip);
        assert!(ran.code == 1 && ran.err.contains("refused"), "{server}: {ran:?}");
    }
    let ran = ran("https://127.0.0.1:1", false);
    assert!(ran.err.contains("CA certificates"), "here they are missed: {ran:?}");
}
