//! Rows of workloads, and of the kinds that govern them.

use serde_json::{Value, json};

use super::{NONE, Row, joined, labels, plain, selector};
use crate::api::table::duration::human;
use crate::api::time::parse;

pub(super) fn cells(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    Some(match kind {
        "deployments" => {
            let ready = format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"));
            let counts = [row.number("/status/updatedReplicas"), row.number("/status/availableReplicas")];
            with_template(row, vec![name, json!(ready), json!(counts[0]), json!(counts[1]), age])
        }
        "replicasets" => {
            let counts =
                ["/spec/replicas", "/status/replicas", "/status/readyReplicas"].map(|at| json!(row.number(at)));
            let [desired, current, ready] = counts;
            with_template(row, vec![name, desired, current, ready, age])
        }
        "statefulsets" => {
            let ready = format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"));
            let (containers, images) = containers(row);
            vec![name, json!(ready), age, json!(containers), json!(images)]
        }
        "daemonsets" => {
            let mut cells = vec![name];
            for field in [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ] {
                cells.push(json!(row.number(&format!("/status/{field}"))));
            }
            cells.push(json!(labels(row.at("/spec/template/spec/nodeSelector"))));
            cells.push(age);
            with_template(row, cells)
        }
        "controllerrevisions" => {
            vec![name, json!(controller(row)), json!(row.number("/revision")), age]
        }
        "jobs" => job(row),
        "cronjobs" => cron_job(row),
        "poddisruptionbudgets" => {
            let limit = |pointer: &str| match row.at(pointer) {
                Value::Null => "N/A".to_owned(),
                value => plain(value),
            };
            let allowed = json!(row.number("/status/disruptionsAllowed"));
            vec![name, json!(limit("/spec/minAvailable")), json!(limit("/spec/maxUnavailable")), allowed, age]
        }
        "horizontalpodautoscalers" => autoscaler(row),
        "scales" => vec![name, json!(row.number("/spec/replicas")), json!(row.number("/status/replicas")), age],
        _ => return None,
    })
}

/// The names of the template's containers, and their images.
pub(super) fn containers(row: &Row<'_>) -> (String, String) {
    let containers = row.list("/spec/template/spec/containers");
    (joined(containers, "name"), joined(containers, "image"))
}

fn with_template(row: &Row<'_>, mut cells: Vec<Value>) -> Vec<Value> {
    let (containers, images) = containers(row);
    cells.extend([json!(containers), json!(images), json!(selector(row.at("/spec/selector")))]);
    cells
}

fn controller(row: &Row<'_>) -> String {
    let owners = row.list("/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else { return NONE.to_owned() };
    let (kind, name) = (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{}{group}/{name}", kind.to_lowercase())
}

fn job(row: &Row<'_>) -> Vec<Value> {
    let holds = |ty: &str| {
        row.list("/status/conditions").iter().any(|condition| condition["type"] == ty && condition["status"] == "True")
    };
    let status = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let status = match status.into_iter().find(|ty| holds(ty)) {
        Some("SuccessCriteriaMet") => "SuccessCriteriaMet",
        Some(known) => known,
        None if row.at("/metadata/deletionTimestamp").is_string() => "Terminating",
        None => "Running",
    };
    let succeeded = row.number("/status/succeeded");
    let completions = match (row.at("/spec/completions").as_i64(), row.number("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let start = row.at("/status/startTime").as_str().and_then(parse);
    let end = row.at("/status/completionTime").as_str().and_then(parse);
    let duration = start.map_or(String::new(), |start| human(end.unwrap_or(row.now).duration_since(start).as_secs()));
    with_template(row, vec![row.name(), json!(status), json!(completions), json!(duration), row.age()])
}

fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let last = match row.at("/status/lastScheduleTime") {
        Value::Null => NONE.to_owned(),
        _ => row.ago("/status/lastScheduleTime"),
    };
    let template = row.list("/spec/jobTemplate/spec/template/spec/containers");
    vec![
        row.name(),
        json!(row.text("/spec/schedule")),
        json!(row.text_or("/spec/timeZone", NONE)),
        json!(if row.at("/spec/suspend") == true { "True" } else { "False" }),
        json!(row.count("/status/active")),
        json!(last),
        row.age(),
        json!(joined(template, "name")),
        json!(joined(template, "image")),
        json!(selector(row.at("/spec/jobTemplate/spec/selector"))),
    ]
}

fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let target = format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name"));
    let minimum = match row.at("/spec/minReplicas") {
        Value::Null => "<unset>".to_owned(),
        value => plain(value),
    };
    vec![
        row.name(),
        json!(target),
        json!(metrics(row)),
        json!(minimum),
        json!(row.number("/spec/maxReplicas")),
        json!(row.number("/status/currentReplicas")),
        row.age(),
    ]
}

/// Returns the present and the wanted value of each metric; the first two, and how many more there are.
fn metrics(row: &Row<'_>) -> String {
    let wanted = row.list("/spec/metrics");
    if wanted.is_empty() {
        return NONE.to_owned();
    }
    let current = row.list("/status/currentMetrics");
    let each: Vec<String> =
        wanted.iter().enumerate().map(|(index, metric)| metric_text(metric, current.get(index))).collect();
    match each.as_slice() {
        [one] => one.clone(),
        [one, two] => format!("{one}, {two}"),
        [one, two, more @ ..] => format!("{one}, {two} + {} more...", more.len()),
        [] => NONE.to_owned(),
    }
}

fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let ty = metric["type"].as_str().unwrap_or_default();
    let key = format!("{}{}", ty[..ty.len().min(1)].to_lowercase(), ty.get(1..).unwrap_or_default());
    let (wanted, present) =
        (&metric[&key]["target"], current.map_or(&Value::Null, |current| &current[&key]["current"]));
    let shown = |value: &Value, field: &str, unit: &str| match &value[field] {
        Value::Null => "<unknown>".to_owned(),
        other => format!("{}{unit}", plain(other)),
    };
    let prefix = match ty {
        "Resource" | "ContainerResource" => format!("{}: ", metric[&key]["name"].as_str().unwrap_or_default()),
        _ => String::new(),
    };
    for (field, unit, note) in [("averageUtilization", "%", ""), ("averageValue", "", " (avg)"), ("value", "", "")] {
        if !wanted[field].is_null() {
            let note = if prefix.is_empty() { note } else { "" };
            return format!("{prefix}{}/{}{note}", shown(present, field, unit), shown(wanted, field, unit));
        }
    }
    "<unknown type>".to_owned()
}
