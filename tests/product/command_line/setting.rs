//! `belay set resources`, `volume`, `port`, `security`, `serviceaccount` and `selector`: the wanted lines and no others.

use std::fs;

use serde_json::{Value, json};

use crate::editing::Copy;
use crate::program::Ran;
use crate::served::Served;

/// Returns the pods' specification as the file says it after these commands.
fn pods(copy: &Copy) -> Value {
    let text = fs::read_to_string(copy.folder.join("shop/web.yaml")).unwrap();
    assert!(text.starts_with("# The shop's front.\n") && text.contains("# keep\n"), "comments stay: {text}");
    let object: Value = serde_yaml::from_str(&text).unwrap();
    object["spec"]["template"]["spec"].clone()
}

fn set(copy: &Copy, line: &str) -> Ran {
    let words: Vec<&str> = ["set"].into_iter().chain(line.split(' ')).collect();
    let ran = copy.belay(&words);
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    ran
}

#[test]
fn each_of_them_edits_the_manifest_and_commits() {
    let copy = Copy::new();
    set(&copy, "resources web -c app --limits cpu=1,memory=512Mi --requests cpu=100m");
    let expected = json!({"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m"}});
    assert_eq!(pods(&copy)["containers"][0]["resources"], expected);
    assert!(pods(&copy)["containers"][1].get("resources").is_none());
    set(&copy, "resources web -c app --limits cpu- --requests cpu-");
    assert_eq!(pods(&copy)["containers"][0]["resources"], json!({"limits": {"memory": "512Mi"}}));

    set(&copy, "volume web --add --name conf --configmap web --mount-path /etc/web --read-only -c app");
    set(&copy, "volume web --add --name keys --secret web-keys --mount-path /keys --sub-path key -c app");
    set(&copy, "volume web --add --name data --claim web-data --mount-path /data");
    set(&copy, "volume web --add --name tmp --empty-dir --mount-path /tmp");
    let all = pods(&copy);
    let volumes = json!([
        {"name": "conf", "configMap": {"name": "web"}},
        {"name": "keys", "secret": {"secretName": "web-keys"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    assert_eq!(all["volumes"], volumes);
    let mounts = json!([
        {"name": "conf", "mountPath": "/etc/web", "readOnly": true},
        {"name": "keys", "mountPath": "/keys", "subPath": "key"},
        {"name": "data", "mountPath": "/data"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]);
    assert_eq!(all["containers"][0]["volumeMounts"], mounts);
    assert_eq!(all["containers"][1]["volumeMounts"].as_array().unwrap().len(), 2);
    for name in ["conf", "keys", "data", "tmp"] {
        set(&copy, &format!("volume web --remove --name {name}"));
    }
    assert!(pods(&copy).get("volumes").is_none() && pods(&copy)["containers"][1].get("volumeMounts").is_none());

    set(&copy, "port web http=8080 53/UDP --container app");
    let ports = json!([{"name": "http", "containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]);
    assert_eq!(pods(&copy)["containers"][0]["ports"], ports);
    set(&copy, "port web 8080- --container app");
    assert_eq!(pods(&copy)["containers"][0]["ports"], json!([{"containerPort": 53, "protocol": "UDP"}]));

    set(
        &copy,
        "security web -c app --run-as-user 1000 --run-as-non-root --read-only-root-filesystem --drop-capability ALL --add-capability NET_BIND_SERVICE",
    );
    let security = json!({"runAsUser": 1000, "runAsNonRoot": true, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}});
    assert_eq!(pods(&copy)["containers"][0]["securityContext"], security);

    set(&copy, "serviceaccount web shop");
    assert_eq!(pods(&copy)["serviceAccountName"], "shop");
    set(&copy, "image web --container app --image nginx:2 --commit 1a2b3c4 --note Newer");
    assert_eq!(pods(&copy)["containers"][0]["image"], "nginx:2");
    assert_eq!(copy.git(&["log", "-1", "--format=%B"]).trim_end(), "Newer\n\nSource-Commit: 1a2b3c4");
    assert_eq!(copy.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_can_not_be_is_refused() {
    let copy = Copy::new();
    for (line, code, words) in [
        ("resources web", 1, "no limit and no request:"),
        ("resources web --limits cpu", 1, "NAME=AMOUNT"),
        ("volume web --name a", 2, "--add"),
        ("volume web --add --name a", 1, "--configmap"),
        ("volume web --remove --name a", 1, "has no volume \"a\""),
        ("volume web --add --name a --mount-path /a", 1, "has no volume \"a\""),
        ("port web 8080", 1, "several containers: app, side"),
        ("port web --container app", 1, "no port:"),
        ("port web 8080- --container app", 1, "has no port 8080/TCP"),
        ("security web", 1, "no setting:"),
        ("selector deploy/web app=x", 1, "keeps its selector for good"),
        ("image web --image a:1", 2, "--container"),
    ] {
        let words_of_line: Vec<&str> = ["set"].into_iter().chain(line.split(' ')).collect();
        let ran = copy.belay(&words_of_line);
        assert!(ran.code == code && ran.err.contains(words), "{line}: {ran:?}");
    }
    assert_eq!(copy.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_done_in_the_cluster() {
    let served = Served::new().await;
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "web:1"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
    served.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web", "tier": "old"}, "ports": [{"port": 80}]}});
    served.post("/api/v1/namespaces/default/services", &service).await;
    for line in [
        "set resources deploy/web --limits cpu=1 --live --note Limited --description Why",
        "set volume deploy/web --add --name tmp --empty-dir --mount-path /tmp --live",
        "set port deploy/web http=8080 --live",
        "set security deploy/web --run-as-non-root --live",
        "set serviceaccount deploy/web default --live",
        "set selector service/web app=web --live",
    ] {
        let ran = served.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    let live = served.get("/apis/apps/v1/namespaces/default/deployments/web").await;
    let spec = &live["spec"]["template"]["spec"];
    let app = &spec["containers"][0];
    assert_eq!((&app["resources"]["limits"]["cpu"], &app["ports"][0]["name"]), (&json!("1"), &json!("http")));
    assert_eq!(
        (&app["volumeMounts"][0]["mountPath"], &app["securityContext"]["runAsNonRoot"]),
        (&json!("/tmp"), &json!(true))
    );
    assert_eq!(spec["serviceAccountName"], "default");
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/change-cause"], "Limited");
    assert_eq!(annotations["kubernetes.io/description"], "Why");
    assert_eq!(served.get("/api/v1/namespaces/default/services/web").await["spec"]["selector"], json!({"app": "web"}));
    let noted = served.run(&["restart", "deploy/web", "--note", "Again"]);
    assert_eq!(noted.code, 0, "{noted:?}");
    let live = served.get("/apis/apps/v1/namespaces/default/deployments/web").await;
    assert_eq!(live["metadata"]["annotations"]["kubernetes.io/change-cause"], "Again");
}
