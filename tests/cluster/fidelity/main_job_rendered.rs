//! Rendered units on the real control plane: belay takes over from a release that Helm installed, and from there on rolls
//! out the chart, and a kustomization beside it, and takes back.

use std::collections::BTreeMap;
use std::process::Command;

use belay::config::HelmConfig;
use belay_core::rollout::{Hold, Outcome, marks};
use serde_json::{Value, json};

use crate::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, config_map, deployment, image, path_of, real_tools};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
const KUSTOMIZATION: &str = "resources: [app.yaml]\nconfigMapGenerator: [{name: settings, literals: [a=1]}]\n";

/// Returns a template as `helm create` writes it, with Helm's own label and a checksum of its configuration.
fn template() -> String {
    let workload = deployment("{{ .Release.Name }}", "web:{{ .Values.tag }}", "")
        .replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 4")
        .replacen(
            "name: {{ .Release.Name }}",
            "name: {{ .Release.Name }}\n  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}",
            1,
        );
    format!("{workload}---\n{}", config_map("{{ .Release.Name }}-config", "{{ .Values.tag }}"))
}

/// Returns a workload that reads what the kustomization generates.
fn reader(image: &str) -> String {
    let reads = "        envFrom: [{configMapRef: {name: settings}}]\n";
    format!("{}{reads}", deployment("app", image, ""))
}

fn printed(mut command: Command, args: &[&str]) -> String {
    let ran = command.args(args).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&ran.stdout));
    String::from_utf8(ran.stdout).unwrap()
}

fn helm(plane: &ControlPlane) -> Command {
    let mut helm = Command::new(plane.program("helm"));
    helm.arg("--kubeconfig").arg(plane.kubeconfig()).env("HOME", plane.kubeconfig().parent().unwrap());
    helm
}

/// Returns the output of `belay plan` for a clone of the repository, as JSON.
fn plan(plane: &ControlPlane, world: &World, name: &str, tag: &str) -> Value {
    let clone = world.repository.clone_to(name);
    let values = clone.join("web/values.yaml");
    std::fs::write(&values, format!("tag: {tag}\n")).unwrap();
    let config = format!(
        "[render]\nhelm = {:?}\nkustomize = {:?}\n[[source]]\nrepository = \"https://git.example.com/shop.git\"\n\
         [[source.helm]]\nchart = \"web\"\nrelease = \"shop\"\n",
        plane.program("helm"),
        plane.program("kubectl"),
    );
    let file = world.repository.beside("belay.toml");
    std::fs::write(&file, config).unwrap();
    let mut belay = Command::new(env!("CARGO_BIN_EXE_belay"));
    belay.env("HOME", clone.parent().unwrap()).arg("--kubeconfig").arg(plane.kubeconfig());
    belay.args(["plan", "-o", "json", "--config"]).arg(file).arg("--from").arg(&clone);
    let ran = belay.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    // 3 says that something would change.
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{:?} {said}", ran.status);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Returns the plan's step for the Deployment of the release.
fn step_of(plan: &Value) -> &Value {
    let steps = plan["steps"].as_array().unwrap();
    steps.iter().find(|step| step["object"]["kind"] == "Deployment" && step["object"]["name"] == "shop").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_is_taken_over() {
    let Some(tools) = real_tools() else { return };
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.tools = tools;
    world.config.helm = vec![HelmConfig {
        chart: "web".to_owned(),
        release: Some("shop".to_owned()),
        namespace: None,
        values: Vec::new(),
        set: BTreeMap::new(),
    }];
    world.repository.write("web/Chart.yaml", CHART).write("web/values.yaml", "tag: \"1\"\n");
    world.repository.write("web/templates/web.yaml", template());
    world.repository.write("over/kustomization.yaml", KUSTOMIZATION).write("over/app.yaml", reader("app:1"));
    let first = world.repository.commit("The chart");
    world.repository.push();

    let installed = world.repository.clone_to("installed").join("web").display().to_string();
    printed(helm(&plane), &["install", "shop", &installed, "--namespace", "default", "--wait", "--timeout", "60s"]);
    let before = world.get(&path_of("shop")).await.unwrap();
    let (same, other) = (plan(&plane, &world, "same", "\"1\""), plan(&plane, &world, "other", "\"2\""));
    let only_the_label = json!([{ "path": "metadata.labels[belay.dev/source]", "after": "default" }]);
    assert_eq!((&step_of(&same)["rollsOut"], &step_of(&same)["changes"]), (&json!(false), &only_the_label));
    assert_eq!(step_of(&other)["rollsOut"], true, "{other:#}");
    world.start();
    world.through(&first).await;
    let taken = world.get(&path_of("shop")).await.unwrap();
    assert_eq!(taken["spec"], before["spec"], "no pod is replaced");
    assert_eq!(taken["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(taken["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(marks::annotation(&taken, "meta.helm.sh/release-name"), Some("shop"));
    printed(plane.kubectl(), &["delete", "secret", "-l", "owner=helm,name=shop"]);
    assert_eq!(printed(helm(&plane), &["list", "--short"]).trim(), "");

    let good = world.push("web/values.yaml", "tag: \"2\"\n", "Second version");
    world.through(&good).await;
    assert_eq!(world.record(&good, "Deployment default/shop").outcome, Outcome::Complete);
    assert_eq!(world.get("api/v1/namespaces/default/configmaps/shop-config").await.unwrap()["data"]["A"], "2");
    let bad = world.push("web/values.yaml", "tag: \"404\"\n", "Third version");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/shop").outcome, Outcome::RolledBack);
    let live = world.get(&path_of("shop")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:2", bad.as_str()));

    // The kustomization beside it: the ConfigMap that was read stays for as long as its template may be gone back to.
    let other = KUSTOMIZATION.replace("a=1", "a=2");
    let rolled = world.push("over/kustomization.yaml", &other, "Other settings");
    world.through(&rolled).await;
    let record = world.record(&rolled, "Deployment default/app");
    assert_eq!(record.outcome, Outcome::Complete);
    assert_eq!(record.written_at().unwrap(), "over/app.yaml:1:1 (rendered by over/kustomization.yaml)");
    let maps = world.list("api/v1/namespaces/default/configmaps").await;
    let settings = maps.iter().filter(|map| map["metadata"]["name"].as_str().unwrap().starts_with("settings-"));
    assert_eq!(settings.count(), 2);
    world.stop().await;
    nodes.stop().await;
}
