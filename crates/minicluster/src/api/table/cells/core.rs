//! Rows of the core group's kinds.

use serde_json::{Value, json};

use super::{NONE, Row, joined, labels, plain, pods, storage};

pub(super) fn cells(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    Some(match kind {
        "pods" => pods::cells(row),
        "events" => event(row),
        "configmaps" => vec![name, json!(row.count("/data") + row.count("/binaryData")), age],
        "secrets" => vec![name, json!(row.text("/type")), json!(row.count("/data")), age],
        "namespaces" => vec![name, json!(row.text("/status/phase")), age],
        "serviceaccounts" => vec![name, age],
        "limitranges" => vec![name, row.created()],
        "nodes" => node(row),
        "services" => service(row),
        "endpoints" => vec![name, json!(endpoints(row)), age],
        "replicationcontrollers" => {
            let counts =
                ["/spec/replicas", "/status/replicas", "/status/readyReplicas"].map(|at| json!(row.number(at)));
            let [desired, current, ready] = counts;
            let containers = row.list("/spec/template/spec/containers");
            let (names, images) = (joined(containers, "name"), joined(containers, "image"));
            let selector = labels(row.at("/spec/selector"));
            vec![name, desired, current, ready, age, json!(names), json!(images), json!(selector)]
        }
        "podtemplates" => {
            let containers = row.list("/template/spec/containers");
            let labels = labels(row.at("/template/metadata/labels"));
            vec![name, json!(joined(containers, "name")), json!(joined(containers, "image")), json!(labels)]
        }
        "resourcequotas" => {
            let (requests, limits) = quota(row);
            vec![name, json!(requests), json!(limits), age]
        }
        "persistentvolumeclaims" => storage::claim(row),
        "persistentvolumes" => storage::volume(row),
        "componentstatuses" => component(row),
        _ => return None,
    })
}

fn component(row: &Row<'_>) -> Vec<Value> {
    let healthy = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
    let field = |name: &str| healthy.map_or("", |healthy| healthy[name].as_str().unwrap_or_default());
    let status = match field("status") {
        "True" => "Healthy",
        "False" => "Unhealthy",
        _ => "Unknown",
    };
    vec![row.name(), json!(status), json!(field("message")), json!(field("error"))]
}

fn node(row: &Row<'_>) -> Vec<Value> {
    let conditions = row.list("/status/conditions").iter().filter(|condition| condition["type"] == "Ready");
    let mut status: Vec<&str> =
        conditions.map(|ready| if ready["status"] == "True" { "Ready" } else { "NotReady" }).collect();
    if status.is_empty() {
        status.push("Unknown");
    }
    if row.at("/spec/unschedulable") == true {
        status.push("SchedulingDisabled");
    }
    let own = row.at("/metadata/labels").as_object().into_iter().flatten();
    let mut roles: Vec<&str> = own
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role).filter(|role| !role.is_empty()),
            None if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            None => None,
        })
        .collect();
    roles.sort_unstable();
    let roles = if roles.is_empty() { NONE.to_owned() } else { roles.join(",") };
    let address = |ty: &str| {
        let found = row.list("/status/addresses").iter().find(|address| address["type"] == ty);
        found.and_then(|address| address["address"].as_str()).unwrap_or(NONE)
    };
    let info = |field: &str| row.text_or(&format!("/status/nodeInfo/{field}"), "<unknown>");
    vec![
        row.name(),
        json!(status.join(",")),
        json!(roles),
        row.age(),
        json!(row.text("/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(info("kernelVersion")),
        json!(info("containerRuntimeVersion")),
    ]
}

fn service(row: &Row<'_>) -> Vec<Value> {
    let ty = row.text("/spec/type");
    let addresses: Vec<&str> = row.list("/spec/clusterIPs").iter().filter_map(Value::as_str).collect();
    let internal = addresses.first().copied().unwrap_or_else(|| row.text_or("/spec/clusterIP", NONE));
    let ports: Vec<String> = row
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64().unwrap_or_default() {
                0 => format!("{}/{protocol}", port["port"]),
                node => format!("{}:{node}/{protocol}", port["port"]),
            }
        })
        .collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    vec![
        row.name(),
        json!(ty),
        json!(internal),
        json!(external(row, ty)),
        json!(ports),
        row.age(),
        json!(labels(row.at("/spec/selector"))),
    ]
}

fn external(row: &Row<'_>, ty: &str) -> String {
    let named: Vec<&str> = row.list("/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    let given: Vec<&str> = row
        .list("/status/loadBalancer/ingress")
        .iter()
        .filter_map(|ingress| ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str()))
        .collect();
    match ty {
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        "LoadBalancer" if given.is_empty() && named.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => [given, named].concat().join(","),
        _ if named.is_empty() => NONE.to_owned(),
        _ => named.join(","),
    }
}

/// Returns the first three addresses with their ports, and how many more there are.
fn endpoints(row: &Row<'_>) -> String {
    const SHOWN: usize = 3;
    let mut all = Vec::new();
    for subset in row.list("/subsets") {
        let addresses = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| plain(&address["ip"])));
        }
        for port in ports {
            all.extend(addresses.iter().map(|address| format!("{}:{}", plain(&address["ip"]), port["port"])));
        }
    }
    match all.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN),
        _ => all.join(","),
    }
}

fn quota(row: &Row<'_>) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("/status/hard").as_object().into_iter().flatten() {
        let used = row.at("/status/used").get(resource).map_or("0".to_owned(), plain);
        let text = format!("{resource}: {used}/{}", plain(hard));
        if resource.starts_with("limits") {
            limits.push(text);
        } else {
            requests.push(text);
        }
    }
    (requests.join(", "), limits.join(", "))
}

/// Returns an event.
pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let about = row.at("/involvedObject");
    let field = |name: &str| about[name].as_str().unwrap_or_default();
    let object = match field("name") {
        "" => field("kind").to_lowercase(),
        name => format!("{}/{name}", field("kind").to_lowercase()),
    };
    let moment = |pointer: &str| row.at(pointer).as_str().map(str::to_owned);
    let first = moment("/firstTimestamp").or_else(|| moment("/eventTime"));
    let last = moment("/series/lastObservedTime").or_else(|| moment("/lastTimestamp")).or_else(|| first.clone());
    let ago = |moment: Option<String>| super::ago(moment.as_deref(), row.now);
    let count = row.at("/series/count").as_i64().unwrap_or_else(|| row.number("/count"));
    let count = if count == 0 { 1 } else { count };
    let (component, host) = match row.text("/source/component") {
        "" => (row.text("/reportingComponent"), row.text("/reportingInstance")),
        component => (component, row.text("/source/host")),
    };
    let host = if host.is_empty() { String::new() } else { format!(", {host}") };
    vec![
        json!(ago(last)),
        json!(row.text("/type")),
        json!(row.text("/reason")),
        json!(object),
        json!(field("fieldPath")),
        json!(format!("{component}{host}")),
        json!(row.text("/message").trim()),
        json!(ago(first)),
        json!(count),
        row.name(),
    ]
}
