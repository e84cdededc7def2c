//! `belay cluster` as a process, with the real kubectl. Real time: these are real processes.
#![allow(clippy::disallowed_methods, reason = "real processes are waited for")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::program::belay;
use crate::support::control_plane::assets;

/// A cluster in a process, and a home for kubectl.
struct Fixture {
    home: tempfile::TempDir,
    assets: PathBuf,
    process: Option<Child>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Fixture {
    fn new(what: &str) -> Option<Fixture> {
        let assets = assets(what)?;
        Some(Fixture { home: tempfile::tempdir().unwrap(), assets, process: None })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// Starts it and waits until it serves.
    fn start(&mut self, args: &[&str]) {
        let log = self.home.path().join("log");
        let mut command = belay(self.home.path());
        command.args(["cluster", "--listen", "127.0.0.1:0", "--kubeconfig-out"]).arg(self.kubeconfig()).args(args);
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        self.process = Some(command.spawn().unwrap());
        for _ in 0..600 {
            if fs::read_to_string(&log).unwrap().contains("serving Kubernetes") {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not serve: {}", fs::read_to_string(&log).unwrap());
    }

    /// Kills it, as nothing that it could prepare for.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        let mut kubectl = Command::new(self.assets.join("kubectl"));
        kubectl.env_clear().env("HOME", self.home.path()).arg("--kubeconfig").arg(self.kubeconfig()).args(args);
        kubectl.output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.kubectl(args);
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let Output { status, stderr, .. } = self.kubectl(args);
        assert!(!status.success(), "{args:?} works");
        String::from_utf8(stderr).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn apply(&self, name: &str, replicas: u32, spec: &str, fate: &str) {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n{spec}  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      \
             annotations: {{kubelet.belay.dev/fate: '{fate}'}}\n    spec: {{containers: [{{name: app, image: 'app:1'}}]}}\n"
        );
        let file = self.write("deployment.yaml", &text);
        self.told(&["apply", "-f", &file]);
    }
}

const WORK: &str = "apiVersion: v1\nkind: Config\ncurrent-context: work\ncontexts:\n- {name: work, context: {cluster: \
                    work, user: work}}\nclusters:\n- {name: work, cluster: {server: 'https://work.example.com'}}\n";

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
                          backups.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Backup, \
                          plural: backups}\n  versions:\n  - {name: v1, served: true, storage: true, schema: \
                          {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n";

#[test]
fn what_was_there_is_there_after_a_kill() {
    let Some(mut stage) = Fixture::new("belay cluster keeps its state") else { return };
    let data = stage.home.path().join("data").display().to_string();
    fs::write(stage.kubeconfig(), WORK).unwrap();
    stage.start(&["--nodes", "2", "--data-dir", &data]);
    let contexts = stage.told(&["config", "get-contexts", "-o", "name"]);
    assert_eq!(contexts.lines().collect::<std::collections::BTreeSet<_>>(), ["work", "belay"].into());
    stage.told(&["wait", "--for=condition=Ready", "node/node-1", "node/node-2", "--timeout=60s"]);
    stage.apply("web", 3, "", "ready");
    stage.told(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let file = stage.write("definition.yaml", DEFINITION);
    stage.told(&["apply", "-f", &file]);
    let file = stage.write("backup.yaml", "apiVersion: example.com/v1\nkind: Backup\nmetadata: {name: nightly}\n");
    stage.told(&["apply", "-f", &file]);
    let file = stage.write("token.json", "{\"kind\": \"TokenRequest\", \"apiVersion\": \"authentication.k8s.io/v1\"}");
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let answer: serde_json::Value = serde_json::from_str(&stage.told(&["create", "--raw", path, "-f", &file])).unwrap();
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let uids = |stage: &Fixture| {
        let kinds = "deployments,replicasets,pods,configmaps,nodes,backups";
        stage.told(&["get", kinds, "-o", "jsonpath={.items[*].metadata.uid}"])
    };
    let known = uids(&stage);
    stage.kill();
    stage.start(&["--nodes", "2", "--data-dir", &data]);
    assert_eq!(uids(&stage), known);
    // Tokens that were signed before are still good, others are not.
    stage.told(&["--token", &token, "get", "namespaces"]);
    assert!(stage.refused(&["--token", &token[1..], "get", "namespaces"]).contains("Unauthorized"));
    // It goes on.
    stage.told(&["set", "image", "deployment/web", "app=app:2"]);
    stage.told(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    stage.told(&["delete", "deployment/web", "--cascade=foreground", "--timeout=60s"]);
    let second = belay(stage.home.path()).args(["cluster", "--listen", "127.0.0.1:0", "--data-dir", &data]).output();
    let second = second.unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && told.contains("another cluster is using it"), "{told}");
}

#[test]
fn logs_are_read_and_what_nobody_can_do_is_told() {
    let Some(mut stage) = Fixture::new("kubectl logs on belay cluster") else { return };
    stage.start(&["--seed", "7"]);
    stage.apply("web", 1, "", "crash-after=500ms,log=\"no database\"");
    for _ in 0..600 {
        let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
        let restarts = stage.told(&["get", "pods", "-o", path]);
        if restarts.trim().parse::<u32>().is_ok_and(|restarts| restarts >= 1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(stage.told(&["logs", "deployment/web", "--previous", "--tail=1"]), "no database\n");
    stage.apply("api", 1, "", "log=hello,exit-after=3s");
    let running = "--for=jsonpath={.status.phase}=Running";
    stage.told(&["rollout", "status", "deployment/api", "--timeout=60s"]);
    stage.told(&["wait", running, "pod", "-l", "app=api", "--timeout=60s"]);
    let followed = stage.told(&["logs", "-l", "app=api", "-f", "--tail=-1"]);
    assert!(followed.contains("\nhello\n") && followed.ends_with("done\n"), "{followed}");
    let pod = stage.told(&["get", "pods", "-l", "app=api", "-o", "name"]).trim().to_owned();
    for args in [&["exec", &pod, "--", "ls"][..], &["port-forward", &pod, ":80"], &["attach", &pod]] {
        let told = stage.refused(args);
        assert!(told.contains("not supported"), "{args:?}: {told}");
    }
}

#[test]
fn time_goes_faster_and_fates_are_read_from_a_file() {
    let Some(mut stage) = Fixture::new("belay cluster --speed") else { return };
    let rules = "rules:\n- {image: 'app:1', namespace: default, pod: 'bad-*', fate: never-ready}\n\
                 - {image: 'app:1', fate: ready-after=30s}\n";
    let fates = stage.write("fates.yaml", rules);
    stage.start(&["--speed", "30x", "--fates", &fates]);
    let begin = tokio::time::Instant::now();
    let of = |name: &str, spec: &str| {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n  selector: {{matchLabels: \
             {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: \
             app, image: 'app:1'}}]}}\n"
        );
        let file = stage.write("deployment.yaml", &text);
        stage.told(&["apply", "-f", &file]);
    };
    of("web", "minReadySeconds: 90");
    of("bad", "progressDeadlineSeconds: 150");
    stage.told(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let took = begin.elapsed();
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(60), "{took:?} for 120 s");
    let told = stage.refused(&["rollout", "status", "deployment/bad", "--timeout=60s"]);
    assert!(told.contains("exceeded its progress deadline"), "{told}");
    let wrong = stage.write("fates.yaml", "rules:\n- {image: a, fate: reddy}\n");
    let refused = belay(stage.home.path()).args(["cluster", "--listen", "127.0.0.1:0", "--fates", &wrong]).output();
    let refused = refused.unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("\"reddy\" is not known"), "{told}");
}

#[test]
fn roles_are_enforced_when_asked_for() {
    let Some(mut stage) = Fixture::new("belay cluster --authorization-mode RBAC") else { return };
    stage.start(&["--authorization-mode", "rbac"]);
    stage.told(&["create", "serviceaccount", "reader"]);
    let token = stage.told(&["create", "token", "reader"]);
    let get = ["--token", token.trim(), "get", "pods"];
    let told = stage.refused(&get);
    let user = "system:serviceaccount:default:reader";
    assert!(told.contains(&format!("User \"{user}\" cannot list resource \"pods\"")), "{told}");
    assert_eq!(stage.refused(&["auth", "can-i", "list", "pods", "--as", user]), "");
    stage.told(&["create", "rolebinding", "readers", "--clusterrole=view", "--serviceaccount=default:reader"]);
    stage.told(&get);
    assert_eq!(stage.told(&["auth", "can-i", "list", "pods", "--as", user]), "yes\n");
    assert!(stage.refused(&["--token", token.trim(), "delete", "pod", "x"]).contains("cannot delete resource"));
    // The bootstrap roles keep what they promise; the kubeconfig's own user may do everything.
    assert_eq!(stage.told(&["auth", "can-i", "*", "*"]), "yes\n");
}
