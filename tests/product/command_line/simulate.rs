//! `belay simulate`: cases as data, and what data can't say.
//!
//! A case is a folder in `tests/cases/simulate`: its files, `command` with the arguments, `output.txt` with the exit code
//! and what is printed. A new case needs no code: put the folder there and run the test with `BELAY_RECORD=1`.

use std::fs;
use std::path::{Path, PathBuf};

use minicluster::MiniCluster;
use serde_json::Value;

use crate::cluster_port;
use crate::program::{Ran, belay, finish};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/simulate")
}

#[test]
fn the_cases_are_as_expected() {
    let home = tempfile::tempdir().unwrap();
    let mut cases: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in cases {
        let args = fs::read_to_string(case.join("command")).unwrap();
        let mut command = belay(home.path());
        command.arg("simulate").args(args.split_whitespace()).current_dir(&case).env("COLUMNS", "90");
        let Ran { code, out, err } = finish(command, "");
        let shown = format!("exit {code}\n{out}{err}");
        let expected = case.join("output.txt");
        if std::env::var_os("BELAY_RECORD").is_some() {
            fs::write(&expected, &shown).unwrap();
        }
        for line in out.lines() {
            assert!(!line.ends_with(' '), "{}: {line:?}", case.display());
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if shown != expected {
            wrong.push(format!("{}:\n{shown}\nexpected:\n{expected}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The numbers of the documents that the project began with: at most, at least, most, least.
#[test]
fn the_documents_numbers() {
    let home = tempfile::tempdir().unwrap();
    for (case, file, numbers) in [
        ("five-pods", "web.yaml", [6, 4, 6, 4]),
        ("two-pods-99-percent", "web.yaml", [3, 1, 3, 1]),
        ("ten-pods-30-percent", "web.yaml", [13, 7, 13, 7]),
        ("four-pods-by-default", "web.yaml", [5, 3, 5, 3]),
        ("two-pods-by-default", "nginx.yaml", [3, 2, 3, 2]),
        ("none-unavailable", "nginx.yaml", [3, 2, 3, 2]),
    ] {
        let mut command = belay(home.path());
        command.args(["simulate", file, "-o", "json"]).current_dir(folder().join(case));
        let Ran { code, out, err } = finish(command, "");
        assert_eq!(code, 0, "{case}: {err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        let bounds = &value["bounds"];
        let seen = [&bounds["atMost"], &bounds["atLeast"], &bounds["most"]["pods"], &bounds["least"]["pods"]];
        assert_eq!(seen.map(|number| number.as_i64().unwrap()), numbers, "{case}: {bounds}");
        assert!(bounds["held"] == true && value["outcome"] == "complete", "{case}");
        let steps = value["steps"].as_array().unwrap();
        let last = &steps.last().unwrap()["counts"];
        assert_eq!((&last["old"]["pods"], &last["new"]["available"]), (&Value::from(0), &value["desired"]), "{case}");
        // With nothing unavailable, each new pod is followed by the end of one old pod.
        if case == "none-unavailable" {
            let acts = steps.iter().map(|step| step["act"].as_str().unwrap());
            let of_pods: Vec<&str> = acts.filter(|act| ["created", "ready", "deleted"].contains(act)).collect();
            assert_eq!(of_pods, ["created", "ready", "deleted", "created", "ready", "deleted"]);
        }
    }
}

#[test]
fn wrong_usage_is_told() {
    let home = tempfile::tempdir().unwrap();
    for (args, code, part) in [
        (&["simulate"][..], 2, "FILE|KIND/NAME"),
        (&["simulate", "missing.yaml"], 1, "failed to read missing.yaml"),
        (&["simulate", "a.yaml", "--max-surge", "x"], 2, "not a number of pods"),
        (&["simulate", "a.yaml", "--broken", "--ready-after", "5s"], 2, "cannot be used with"),
        (&["simulate", "a.yaml", "b.yaml", "--first"], 2, "cannot be used with"),
    ] {
        let mut command = belay(home.path());
        command.args(args);
        let Ran { code: is, err, .. } = finish(command, "");
        assert!(is == code && err.contains(part), "{args:?}: {is} {err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_workload_is_only_read() {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    let (cluster, _server) = cluster_port::open(MiniCluster::builder(), &kubeconfig).await;
    let body = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}]}}},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let request = http::Request::post(path).header("content-type", "application/json");
    let client = cluster.client();
    let created: Value = client.request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
    let simulate = |args: &[&str]| {
        let mut command = belay(home.path());
        command.arg("simulate").args(args).arg("--kubeconfig").arg(&kubeconfig);
        tokio::task::spawn_blocking(|| finish(command, ""))
    };
    let Ran { code, out, err } = simulate(&["deploy/web", "--image", "web=web:2", "--replicas", "5"]).await.unwrap();
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("web:1 → web:2, from 3 to 5 replicas") && out.contains("Complete after"), "{out}");
    let Ran { code, err, .. } = simulate(&["deploy/web", "--image", "web:2"]).await.unwrap();
    assert!(code == 1 && err.contains("several containers: web, proxy"), "{err}");
    let Ran { code, err, .. } = simulate(&["deploy/api", "--image", "web:2"]).await.unwrap();
    assert!(code == 1 && err.contains("there is no Deployment default/api"), "{err}");
    let Ran { code, out, .. } = simulate(&["deploy/web", "--image", "web=web:404"]).await.unwrap();
    assert!(code == 3 && out.contains("ImagePullBackOff"), "{out}");
    let request = http::Request::get(format!("{path}/web")).body(Vec::new()).unwrap();
    let live: Value = client.request(request).await.unwrap();
    assert_eq!((&live["spec"], &live["metadata"]["generation"]), (&created["spec"], &Value::from(1)));
}
