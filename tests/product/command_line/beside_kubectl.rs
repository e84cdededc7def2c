//! belay's commands and kubectl's on the same cluster, side by side: the same effect on the objects, the same refusals.

use serde_json::{Value, json};

use crate::program::Ran;
use crate::support::control_plane::assets;
use crate::workstation::{Workstation, path};

/// A workload of each kind for kubectl (`k…`), and its twin for belay (`b…`).
const WORKLOADS: [(&str, &str, &str); 3] = [
    ("Deployment", "deployments", "  replicas: 2\n"),
    ("StatefulSet", "statefulsets", "  replicas: 2\n  serviceName: x\n"),
    ("DaemonSet", "daemonsets", ""),
];

fn manifest(kind: &str, name: &str, more: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}, annotations: {{kubernetes.io/change-cause: \
         {image}}}}}\nspec:\n{more}  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: \
         {{app: {name}}}}}\n    spec:\n      initContainers: [{{name: first, image: 'busybox:1'}}]\n      containers: \
         [{{name: app, image: '{image}', env: [{{name: A, value: a}}]}}, {{name: side, image: 'side:1'}}]\n"
    )
}

const CONTROLLER: &str = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: NAME}\nspec:\n  replicas: 0\n  \
                          selector: {app: NAME}\n  template:\n    metadata: {labels: {app: NAME}}\n    spec: {containers: \
                          [{name: app, image: 'web:1'}]}\n";

/// The arguments of kubectl, and those of belay; `X` is the name of the workload.
const STEPS: &[(&str, &str)] = &[
    ("rollout pause deployment/X", "pause deployment/X"),
    ("rollout pause deployment/X", "pause deployment/X"),
    ("rollout undo deployment/X", "undo deployment/X"),
    ("rollout restart deployment/X", "restart deployment/X"),
    ("rollout resume deployment/X", "resume deployment/X"),
    ("rollout resume deployment/X", "resume deployment/X"),
    ("rollout pause statefulset/X", "pause statefulset/X"),
    ("rollout resume daemonset/X", "resume daemonset/X"),
    ("rollout pause replicationcontroller/X", "pause replicationcontroller/X"),
    ("rollout resume rc X", "resume rc X"),
    ("rollout undo replicationcontroller/X", "undo replicationcontroller/X"),
    ("rollout undo rc/X --to-revision=1", "undo rc/X --to-revision=1"),
    ("rollout restart replicationcontroller/X", "restart replicationcontroller/X"),
    ("rollout restart rc/nobody", "restart rc/nobody"),
    ("rollout pause deployment/nobody", "pause deployment/nobody"),
    ("rollout undo daemonset nobody", "undo daemonset nobody"),
    ("rollout undo deployment/X --to-revision=99", "undo deployment/X --to-revision=99"),
    ("rollout undo deployment/X --to-revision=-1", "undo deployment/X --to-revision=-1"),
    ("rollout undo statefulset/X --to-revision=99", "undo statefulset/X --to-revision=99"),
    ("rollout undo deployment/X --to-revision=2", "undo deployment/X --to-revision=2"),
    ("rollout undo deployment/X", "undo deployment/X"),
    ("rollout undo deployment X", "undo deployment X"),
    ("rollout undo deployment/X --to-revision=3", "undo deployment/X --to-revision=3"),
    ("rollout undo statefulset/X", "undo statefulset/X"),
    ("rollout undo daemonset/X", "undo daemonset/X"),
    ("rollout undo daemonset/X --to-revision=2", "undo daemonset/X --to-revision=2"),
    ("rollout restart deployment/X", "restart deployment/X"),
    ("rollout restart statefulset/X", "restart statefulset/X"),
    ("rollout restart daemonset/X", "restart daemonset/X"),
    ("rollout undo deployment/X --dry-run=server", "undo deployment/X --dry-run"),
    ("rollout undo deployment/X", "undo deployment/X"),
    ("rollout undo statefulset/X -o name", "undo statefulset/X -o name"),
    ("rollout pause deployment -l app=X", "pause deployment -l app=X"),
    ("set image deployment/X app=web:3", "set image --live deployment/X app=web:3"),
    ("set image deployment/X app=web:3", "set image --live deployment/X app=web:3"),
    ("set image deployment/X nope=web:3", "set image --live deployment/X nope=web:3"),
    ("set image statefulset X *=all:1", "set image --live statefulset X *=all:1"),
    ("set image daemonset/X first=busybox:2 side=side:2", "set image --live daemonset/X first=busybox:2 side=side:2"),
    ("set image replicationcontroller/X app=web:3", "set image --live replicationcontroller/X app=web:3"),
    ("set image rc/X nope=web:4", "set image --live rc/X nope=web:4"),
    ("set image rc/X app=web:3", "set image --live rc/X app=web:3"),
    ("set image deployment/nobody app=web:3", "set image --live deployment/nobody app=web:3"),
    (
        "set env statefulset/X --from=secret/keys --keys=k -c side",
        "set env --live statefulset/X --from=secret/keys --keys=k -c side",
    ),
    ("set env statefulset/X --list", "set env --live statefulset/X --list"),
    ("set env deployment/X B=b C=c", "set env --live deployment/X B=b C=c"),
    ("set env deployment/X B=b C=c", "set env --live deployment/X B=b C=c"),
    ("set env deployment/X A-", "set env --live deployment/X A-"),
    ("set env statefulset/X A=z Z=1 -c app", "set env --live statefulset/X A=z Z=1 -c app"),
    ("set env daemonset/X NEW=q --overwrite=false", "set env --live daemonset/X NEW=q --overwrite=false"),
    ("set env deployment/X --list", "set env --live deployment/X --list"),
    (
        "set env deployment/X --from=configmap/conf --prefix=P_",
        "set env --live deployment/X --from=configmap/conf --prefix=P_",
    ),
    ("set env deployment/X --from=secret/keys --keys=k", "set env --live deployment/X --from=secret/keys --keys=k"),
    ("set env deployment/X --list", "set env --live deployment/X --list"),
    ("set env deployment/X K=plain", "set env --live deployment/X K=plain"),
    ("set env replicationcontroller/X A=b", "set env --live replicationcontroller/X A=b"),
    ("set env rc/X A-", "set env --live rc/X A-"),
    ("set env rc/X --list", "set env --live rc/X --list"),
    ("scale deployment/X --replicas=5", "scale --live deployment/X --replicas=5"),
    (
        "scale deployment/X --replicas=3 --current-replicas=9",
        "scale --live deployment/X --replicas=3 --current-replicas=9",
    ),
    (
        "scale statefulset/X --replicas=1 --current-replicas=2",
        "scale --live statefulset/X --replicas=1 --current-replicas=2",
    ),
    ("scale replicationcontroller X --replicas=0", "scale --live replicationcontroller X --replicas=0"),
    ("rollout restart deployment -l app=nothing", "restart deployment -l app=nothing"),
];

async fn prepare(desk: &Workstation) {
    let configuration = "api/v1/namespaces/default/configmaps/conf";
    desk.apply(configuration, "{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}, data: {a.b: x}}").await;
    // kubectl takes the keys of one object in an order of chance: one key each.
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: keys}, stringData: {k: hunter2, l: hunter3}}";
    desk.apply("api/v1/namespaces/default/secrets/keys", secret).await;
    for name in ["kx", "bx"] {
        for image in ["web:1", "web:2"] {
            for (kind, resource, more) in WORKLOADS {
                let at = path(resource, name);
                desk.apply(&at, &manifest(kind, name, more, image)).await;
                desk.synced(&at).await;
            }
        }
        desk.apply(&path("replicationcontrollers", name), &CONTROLLER.replace("NAME", name)).await;
    }
}

/// Returns everything that a person's command may have changed, with the name taken out.
async fn state(desk: &Workstation, name: &str) -> Value {
    let mut all = json!({});
    for (_, resource, _) in WORKLOADS {
        let live = desk.synced(&path(resource, name)).await;
        let mut spec = live["spec"].clone();
        if let Some(at) = spec.pointer_mut("/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt") {
            assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{at}");
            *at = json!("just now");
        }
        all["replicationcontrollers"] =
            desk.get(&path("replicationcontrollers", name)).await.map(|live| live["spec"].clone()).unwrap_or_default();
        all[resource] = json!({"spec": spec, "annotations": live["metadata"]["annotations"],
            "labels": live["metadata"]["labels"], "generation": live["metadata"]["generation"]});
    }
    serde_json::from_str(&all.to_string().replace(name, "X")).unwrap()
}

/// Returns the output, with the name taken out, and kubectl's own words.
fn told(ran: &Ran, name: &str) -> (i32, String, String) {
    let plain = |text: &str| {
        // belay's hints name the workload.
        let resume = "belay resume deployment.apps/X -n default";
        let mut text = text.replace(name, "X").replace("kubectl rollout resume", resume);
        text = text.replace("run rollout resume first", &format!("run {resume} first"));
        let lines = text.lines().map(|line| match line.strip_prefix("Error from server (") {
            Some(rest) => format!("error: {}", rest.split_once("): ").map_or(rest, |(_, message)| message)),
            None => line.to_owned(),
        });
        // kubectl reminds of its own apply; nothing of belay's is to be compared with that.
        // belay says which containers there are.
        let lines = lines.map(|line| match line.split_once("; ") {
            Some((before, _)) if before.contains("unable to find container") => before.to_owned(),
            _ => line,
        });
        lines.filter(|line| !line.starts_with("Warning: ")).collect::<Vec<_>>().join("\n")
    };
    (ran.code, plain(&ran.out), plain(&ran.err))
}

/// Waits until the twins are alike: their controllers work each at its own pace.
async fn alike(desk: &Workstation, after: &str) {
    for _ in 0..100 {
        if state(desk, "kx").await == state(desk, "bx").await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let text = async |name: &str| serde_json::to_string_pretty(&state(desk, name).await).unwrap();
    let (kubectls, belays) = (text("kx").await, text("bx").await);
    let diff = similar::TextDiff::from_lines(&kubectls, &belays);
    panic!("after {after}:\n{}", diff.unified_diff().header("kubectl", "belay"));
}

async fn compare(desk: &Workstation) {
    prepare(desk).await;
    assert_eq!(state(desk, "kx").await, state(desk, "bx").await, "the twins begin alike");
    let mut differences = Vec::new();
    for (kubectl, belay) in STEPS {
        let words = |line: &str, name: &str| line.replace('X', name).split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (kubectl_words, belay_words) = (words(kubectl, "kx"), words(belay, "bx"));
        let kubectls = told(&desk.kubectl(&kubectl_words.iter().map(String::as_str).collect::<Vec<_>>()), "kx");
        let belays = told(&desk.belay(&belay_words.iter().map(String::as_str).collect::<Vec<_>>()), "bx");
        if kubectls != belays {
            differences.push(format!("{belay}\n  kubectl: {kubectls:?}\n  belay:   {belays:?}"));
        }
        alike(desk, belay).await;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_cluster() {
    if assets("belay beside kubectl on the embedded cluster").is_some() {
        compare(&Workstation::embedded().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_real_control_plane() {
    if let Some(assets) = assets("belay beside kubectl on the real control plane") {
        compare(&Workstation::real(&assets).await).await;
    }
}
