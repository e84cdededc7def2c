//! The behaviours that depend on Kubernetes' own conduct, on the real control plane: every kind of workload goes back,
//! refusals of the cluster are reported, objects of others are taken over, objects that left the repository go, and
//! changes by others are corrected. One control plane for all of it: starting one takes longer than most of the steps.

use std::fs;
use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Trigger, marks};
use serde_json::{Value, json};

use super::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, config_map, deployment, image, path_of};

const STATEFUL: &str = "apis/apps/v1/namespaces/default/statefulsets/db";
const DAEMON: &str = "apis/apps/v1/namespaces/default/daemonsets/agent";
const READS: &str = "        envFrom:\n        - configMapRef: {name: settings}\n";

/// Returns a StatefulSet of two pods, with a deadline of belay's.
fn stateful(image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n  annotations: {{belay.dev/progress-deadline-seconds: \
         \"5\"}}\nspec:\n  replicas: 2\n  serviceName: db\n  selector:\n    matchLabels: {{app: db}}\n  template:\n    metadata:\n      \
         labels: {{app: db}}\n    spec:\n      containers:\n      - name: app\n        image: {image}\n"
    )
}

fn daemon(image: &str) -> String {
    let stateful = stateful(image).replace("  replicas: 2\n  serviceName: db\n", "");
    stateful.replace("StatefulSet", "DaemonSet").replace("db", "agent")
}

fn job(name: &str, image: &str, fate: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      \
         annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      restartPolicy: Never\n      containers:\n      - \
         name: app\n        image: {image}\n"
    )
}

/// Returns the image `web:404` can't be pulled.
fn web(image: &str) -> String {
    let short = deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 5");
    format!("{short}{READS}")
}

fn run(plane: &ControlPlane, args: &[&str]) {
    let ran = plane.kubectl().args(args).output().unwrap();
    assert!(ran.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Creates the objects from before belay: a Deployment that kubectl applied, with more than the repository says, and a
/// namespace with room for one pod.
fn before_belay(plane: &ControlPlane, world: &World) {
    let older = deployment("old", "web:1", "  minReadySeconds: 1\n");
    let file = world.repository.beside("old.yaml");
    fs::write(&file, format!("{older}        env: [{{name: OLD, value: \"1\"}}]\n")).unwrap();
    run(plane, &["apply", "-f", &file.display().to_string()]);
    run(plane, &["create", "namespace", "tight"]);
    run(plane, &["create", "quota", "one", "--hard=pods=1", "-n", "tight"]);
}

async fn eventually(world: &World, path: &str, what: &str, met: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        if let Some(live) = world.get(path).await.filter(&met) {
            return live;
        }
        // Real time: these are real processes.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not within a minute: {what}: {:#?}", world.get(path).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_goes_back_and_what_others_do_is_understood() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.config.prune = true;
    world.config.prune_limit = "1".to_owned();
    before_belay(&plane, &world);
    world.start();
    let first = first_push(&mut world).await;
    taken_over(&world, &first).await;
    let second = everything_breaks(&mut world, &first).await;
    drift_is_put_right(&mut world, &plane, &second).await;
    noise_is_none(&mut world, &second).await;
    pruned(&mut world).await;
    world.stop().await;
    nodes.stop().await;
}

/// Returns its pods run as an account that nobody has made, or as the usual one.
fn named(account: Option<&str>) -> String {
    let short = deployment("named", "web:1", "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 5");
    let account = account.map_or_else(String::new, |account| format!("      serviceAccountName: {account}\n"));
    short.replace("      containers", &format!("{account}      containers"))
}

async fn first_push(world: &mut World) -> String {
    let many = deployment("many", "web:1", "").replace("  name: many\n", "  name: many\n  namespace: tight\n");
    world.repository.write("many.yaml", many.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 3"));
    world.repository.write("db.yaml", stateful("db:1")).write("agent.yaml", daemon("agent:1"));
    world.repository.write("well.yaml", job("well", "migrate:1", "exit-after=1s,code=0"));
    world.repository.write("ill.yaml", job("ill", "migrate:1", "exit-after=1s,code=1"));
    world.repository.write("settings.yaml", config_map("settings", "1")).write("web.yaml", web("web:1"));
    world.repository.write("old.yaml", deployment("old", "web:1", "")).write("named.yaml", named(None));
    world.repository.write("spare.yaml", config_map("spare", "1")).write("other.yaml", config_map("other", "1"));
    let first = world.repository.commit("First version");
    world.repository.push();
    world.through(&first).await;
    for object in ["StatefulSet default/db", "DaemonSet default/agent", "Job default/well", "Deployment default/web"] {
        let record = world.record(&first, object);
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    }
    let ill = world.record(&first, "Job default/ill");
    assert_eq!(ill.outcome, Outcome::Failed, "{ill:#?}");
    // Its second pod is one too many: nothing is wrong with the pods there are.
    let many = world.record(&first, "Deployment tight/many");
    assert_eq!(many.outcome, Outcome::Failed, "{many:#?}");
    let reason = many.reason.unwrap().message;
    assert!(reason.contains("exceeded quota"), "{reason}");
    first
}

/// An object of `kubectl apply` is belay's, and nothing is left behind.
async fn taken_over(world: &World, first: &str) {
    assert_eq!(world.record(first, "Deployment default/old").outcome, Outcome::Complete);
    let old = world.get(&path_of("old")).await.unwrap();
    assert_eq!(old["spec"].get("minReadySeconds"), None, "{old:#}");
    assert_eq!(old["spec"]["template"]["spec"]["containers"][0].get("env"), None, "{old:#}");
    assert_eq!(marks::annotation(&old, "kubectl.kubernetes.io/last-applied-configuration"), None);
    let managers = old["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().all(|one| one["manager"] != "kubectl-client-side-apply"), "{managers:#?}");
}

/// Returns one commit that breaks a workload of each kind, changes what can't change, and takes something away.
async fn everything_breaks(world: &mut World, good: &str) -> String {
    world.repository.write("db.yaml", stateful("db:404")).write("agent.yaml", daemon("agent:404"));
    world.repository.write("settings.yaml", config_map("settings", "2")).write("web.yaml", web("web:404"));
    world.repository.write("well.yaml", job("well", "migrate:2", "exit-after=1s,code=0"));
    world.repository.write("named.yaml", named(Some("robot")));
    let bad = world.repository.commit("Break everything");
    world.repository.push();
    world.through(&bad).await;
    for (object, path, back) in [
        ("StatefulSet default/db", STATEFUL, "db:1"),
        ("DaemonSet default/agent", DAEMON, "agent:1"),
        ("Deployment default/web", &path_of("web"), "web:1"),
        ("Deployment default/named", &path_of("named"), "web:1"),
    ] {
        let record = world.record(&bad, object);
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        assert_eq!(record.back_to.as_ref().map(|commit| commit.as_str()), Some(good), "{object}");
        let live = world.get(path).await.unwrap();
        assert_eq!(image(&live), back, "{object}");
        assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad, "{object}");
        assert_eq!(marks::annotation(&live, marks::COMMIT), Some(good), "{object}");
    }
    let pods = &world.get(&path_of("named")).await.unwrap()["spec"]["template"]["spec"];
    assert_eq!((pods.get("serviceAccountName"), pods.get("serviceAccount")), (None, None), "{pods:#}");
    // The pod that was stuck at the failed revision has gone back with its set, which its controller does not see to.
    let db = world.get(STATEFUL).await.unwrap();
    assert_eq!(db["status"]["readyReplicas"], 2, "{db:#}");
    let agent = world.get(DAEMON).await.unwrap();
    assert_eq!(agent["status"]["numberAvailable"], agent["status"]["desiredNumberScheduled"]);
    for pod in world.list("api/v1/namespaces/default/pods").await {
        let going = !pod["metadata"]["deletionTimestamp"].is_null();
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
        assert!(going || !image.ends_with(":404"), "{image} is still there: {}", pod["metadata"]["name"]);
    }
    let settings = world.get("api/v1/namespaces/default/configmaps/settings").await.unwrap();
    assert_eq!(settings["data"]["A"], "1", "the configuration goes back with what reads it");
    let with_it = world.records().into_iter().rfind(|record| record.object.kind == "ConfigMap").unwrap();
    assert_eq!((with_it.trigger.word(), with_it.outcome), ("together", Outcome::RolledBack));
    assert_eq!(with_it.trigger.who().as_deref(), Some("Deployment default/web"));
    let changed = world.record(&bad, "Job default/well");
    assert_eq!(changed.outcome, Outcome::Rejected, "{changed:#?}");
    let complaint = &changed.complaints[0];
    let hint = complaint.hint.clone().unwrap_or_default();
    assert!(complaint.place.path.as_ref() == "well.yaml" && hint.contains("kubectl delete job/well"), "{changed:#?}");
    bad
}

/// The real kubectl scales: while one manifest is held, while nothing is.
async fn drift_is_put_right(world: &mut World, plane: &ControlPlane, head: &str) {
    for (name, path) in [("deployment/web", path_of("web")), ("statefulset/db", STATEFUL.to_owned())] {
        run(plane, &["scale", name, "--replicas=3"]);
        eventually(world, &path, "its replicas are put right", |live| live["spec"]["replicas"] == 2).await;
    }
    run(plane, &["delete", "deployment/old", "--wait=true"]);
    eventually(world, &path_of("old"), "it is made again", |live| live["status"]["availableReplicas"] == 2).await;
    world.through(head).await;
    let drifted = world.records().into_iter().filter(|record| matches!(&record.trigger, Trigger::Drift(_))).count();
    assert!(drifted >= 2, "{:#?}", world.outcomes());
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "held all the while");
}

/// Fields that others write beside belay, and values that the server writes otherwise than the manifest, are no drift.
async fn noise_is_none(world: &mut World, head: &str) {
    world.through(head).await;
    let records = world.records().len();
    let beside = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"minReadySeconds": 1}});
    world.patch(&path_of("old"), "somebody", &beside).await;
    let written_otherwise = deployment("units", "web:1", "")
        + "        resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5}}\n";
    let other = world.push("units.yaml", &written_otherwise, "A thousand thousandths");
    world.through(&other).await;
    let before = world.get(&path_of("units")).await.unwrap();
    assert_eq!(before["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
    world.stop().await;
    world.start();
    world.through(&other).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.through(&other).await;
    let after = world.get(&path_of("units")).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    let old = world.get(&path_of("old")).await.unwrap();
    assert_eq!((&old["spec"]["minReadySeconds"], &old["metadata"]["labels"]["team"]), (&json!(1), &json!("a")));
    assert_eq!(world.records().len(), records + 1, "{:#?}", world.outcomes());
}

/// Two that left are more than may go; one goes.
async fn pruned(world: &mut World) {
    world.repository.remove("spare.yaml").remove("other.yaml");
    let gone = world.repository.commit("Two less");
    world.repository.push();
    world.through(&gone).await;
    let map = |name: &str| format!("api/v1/namespaces/default/configmaps/{name}");
    let refused = world.record(&gone, "ConfigMap default/spare");
    assert_eq!(refused.outcome, Outcome::Orphaned, "{refused:#?}");
    assert!(world.get(&map("spare")).await.is_some() && world.get(&map("other")).await.is_some());
    let allowed = world.push("note.yaml", "# two\n", "It is meant so\n\nBelay-Allow-Prune: 2\n");
    world.through(&allowed).await;
    assert_eq!((world.get(&map("spare")).await, world.get(&map("other")).await), (None, None));
    // The root certificate that the cluster puts there is not belay's.
    assert!(world.get(&map("kube-root-ca.crt")).await.is_some());
}
