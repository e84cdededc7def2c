//! A pod's row: the state of its containers, taken together.

use serde_json::{Value, json};

use super::{NONE, Row};
use crate::api::table::duration::human;
use crate::api::time::parse;

/// Restarts, and when the last one was.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<jiff::Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status["restartCount"].as_i64().unwrap_or_default();
        let ended = status["lastState"]["terminated"]["finishedAt"].as_str().and_then(parse);
        self.last = self.last.max(ended);
    }
}

/// The summary of the containers.
struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

pub(super) fn cells(row: &Row<'_>) -> Vec<Value> {
    let summary = summary(row);
    let sidecars = row.list("/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = row.count("/spec/containers") + sidecars;
    let Restarts { count, last } = summary.restarts;
    let restarts = match last.filter(|_| count != 0) {
        Some(last) => format!("{count} ({} ago)", human(row.now.duration_since(last).as_secs())),
        None => count.to_string(),
    };
    let address = row.list("/status/podIPs").first().map_or("", |first| first["ip"].as_str().unwrap_or_default());
    let address = if address.is_empty() { row.text_or("/status/podIP", NONE) } else { address };
    vec![
        row.name(),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        row.age(),
        json!(address),
        json!(row.text_or("/spec/nodeName", NONE)),
        json!(row.text_or("/status/nominatedNodeName", NONE)),
        json!(gates(row)),
    ]
}

/// Returns the condition of a row whose pod has ended.
pub(in crate::api::table) fn pod_condition(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({ "type": "Completed", "status": "True", "reason": reason, "message": message }))
}

fn gates(row: &Row<'_>) -> String {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let holds = |gate: &&Value| condition(row, gate["conditionType"].as_str().unwrap_or_default()) == Some("True");
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

fn condition<'a>(row: &Row<'a>, ty: &str) -> Option<&'a str> {
    let found = row.list("/status/conditions").iter().find(|condition| condition["type"] == ty)?;
    found["status"].as_str()
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn summary(row: &Row<'_>) -> Summary {
    let phase = row.text("/status/phase");
    let own = row.text("/status/reason");
    let mut reason = if own.is_empty() { phase.to_owned() } else { own.to_owned() };
    let gated = row
        .list("/status/conditions")
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut ready = 0;
    let (mut restarts, mut of_sidecars) = (Restarts::default(), Restarts::default());
    let mut initializing = false;
    for (index, status) in row.list("/status/initContainerStatuses").iter().enumerate() {
        let named = row.list("/spec/initContainers").iter().find(|container| container["name"] == status["name"]);
        let sidecar = named.is_some_and(is_sidecar);
        restarts.add(status);
        if sidecar {
            of_sidecars.add(status);
        }
        match not_through(status, sidecar, index, row.count("/spec/initContainers")) {
            Some(why) => {
                reason = why;
                initializing = true;
                break;
            }
            None if sidecar && status["state"]["terminated"].is_null() && status["ready"] == true => ready += 1,
            None => {}
        }
    }
    if !initializing || condition(row, "Initialized") == Some("True") {
        restarts = of_sidecars;
        let mut runs = false;
        for status in row.list("/status/containerStatuses").iter().rev() {
            restarts.add(status);
            if let Some(why) = ended_or_waiting(status) {
                reason = why;
            } else if status["ready"] == true && status["state"]["running"].is_object() {
                runs = true;
                ready += 1;
            }
        }
        if reason == "Completed" && runs {
            let fine = condition(row, "Ready") == Some("True");
            (if fine { "Running" } else { "NotReady" }).clone_into(&mut reason);
        }
    }
    if row.at("/metadata/deletionTimestamp").is_string() {
        if own == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut reason);
        }
    }
    Summary { reason, ready, restarts }
}

/// Returns why the pod still initializes, if it is because of this container.
fn not_through(status: &Value, sidecar: bool, index: usize, total: usize) -> Option<String> {
    let state = &status["state"];
    let terminated = &state["terminated"];
    if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
        return None;
    }
    if sidecar && status["started"] == true {
        return None;
    }
    if terminated.is_object() {
        return Some(format!("Init:{}", end(terminated)));
    }
    let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
    if !waiting.is_empty() && waiting != "PodInitializing" {
        return Some(format!("Init:{waiting}"));
    }
    Some(format!("Init:{index}/{total}"))
}

fn ended_or_waiting(status: &Value) -> Option<String> {
    let state = &status["state"];
    if let Some(reason) = state["waiting"]["reason"].as_str().filter(|reason| !reason.is_empty()) {
        return Some(reason.to_owned());
    }
    state["terminated"].is_object().then(|| end(&state["terminated"]))
}

/// Returns how a container ended.
fn end(terminated: &Value) -> String {
    let number = |field: &str| terminated[field].as_i64().unwrap_or_default();
    match (terminated["reason"].as_str().unwrap_or_default(), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
