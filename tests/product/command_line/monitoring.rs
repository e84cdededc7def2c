//! The files in `manifests/monitoring/` for Prometheus and Grafana.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_yaml::from_str(&file(name)).unwrap()
}

/// Skipped where Prometheus' promtool is not installed (Debian: prometheus).
#[test]
fn the_alerts_fire_when_they_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (what, path) in [("check", "manifests/monitoring/alerts.yaml"), ("test", "tests/cases/monitoring/alerts.yaml")]
    {
        let Ok(answer) = Command::new("promtool").args([what, "rules"]).arg(root.join(path)).output() else {
            eprintln!("skipped: promtool is not installed");
            return;
        };
        let said = [answer.stdout, answer.stderr].concat();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn every_alert_says_what_to_do_and_has_a_case() {
    let cases = file("tests/cases/monitoring/alerts.yaml");
    for rule in yaml("manifests/monitoring/alerts.yaml")["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(cases.contains(name), "{name} has no case");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].is_string(), "{name} has no {text}");
        }
        assert!(["info", "warning", "critical"].map(Value::from).contains(&rule["labels"]["severity"]), "{name}");
    }
}

#[test]
fn the_operators_rules_are_the_same() {
    let (plain, operators) =
        (yaml("manifests/monitoring/alerts.yaml"), yaml("manifests/monitoring/prometheus-rule.yaml"));
    assert_eq!(plain["groups"], operators["spec"]["groups"]);
}

/// Each panel asks something of the data source that the reader chooses, has a place of its own, and there is no id twice.
#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&file("manifests/monitoring/dashboard.json")).unwrap();
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{title}: its id is another's");
        let place = &panel["gridPos"];
        for column in place["x"].as_i64().unwrap()..place["x"].as_i64().unwrap() + place["w"].as_i64().unwrap() {
            for row in place["y"].as_i64().unwrap()..place["y"].as_i64().unwrap() + place["h"].as_i64().unwrap() {
                assert!(column < 24 && places.insert((column, row)), "{title}: its place is another's");
            }
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let asks =
            panel["targets"].as_array().unwrap().iter().all(|target| !target["expr"].as_str().unwrap().is_empty());
        assert!(asks && !panel["targets"].as_array().unwrap().is_empty(), "{title}: asks nothing");
    }
    let names: Vec<&str> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "source"]);
}

/// The monitor finds the Service, and the Service the pod and port of `manifests/belay/`.
#[test]
fn the_monitor_finds_the_daemon() {
    let text = file("manifests/monitoring/service-monitor.yaml");
    let all: Vec<Value> = text.split("\n---\n").map(|text| serde_yaml::from_str(text).unwrap()).collect();
    let [service, monitor] = all.as_slice() else { panic!("{} objects", all.len()) };
    let deployment = yaml("manifests/belay/4-deployment.yaml");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]);
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    let port = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
    assert_eq!(service["spec"]["ports"][0]["port"], port["containerPort"]);
}
