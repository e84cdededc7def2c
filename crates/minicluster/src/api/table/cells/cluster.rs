//! Rows of kinds that keep the cluster itself in order.

use serde_json::{Value, json};

use super::{Row, plain};

pub(super) fn cells(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    Some(match kind {
        "clusterroles" | "roles" | "customresourcedefinitions" => vec![name, row.created()],
        "clusterrolebindings" | "rolebindings" => binding(row),
        "leases" => vec![name, json!(row.text("/spec/holderIdentity")), age],
        "priorityclasses" => vec![
            name,
            json!(row.number("/value")),
            json!(row.at("/globalDefault") == true),
            age,
            json!(row.text("/preemptionPolicy")),
        ],
        "runtimeclasses" => vec![name, json!(row.text("/handler")), age],
        "apiservices" => {
            let service = match row.at("/spec/service") {
                Value::Null => "Local".to_owned(),
                service => format!("{}/{}", plain(&service["namespace"]), plain(&service["name"])),
            };
            let available = row.list("/status/conditions").iter().find(|condition| condition["type"] == "Available");
            let available = available.map_or("Unknown".to_owned(), |condition| {
                match (plain(&condition["status"]), plain(&condition["reason"])) {
                    (status, _) if status == "True" => status,
                    (status, reason) => format!("{status} ({reason})"),
                }
            });
            vec![name, json!(service), json!(available), age]
        }
        _ => return policies(row, kind),
    })
}

/// Returns the cells of kinds that refuse or change requests.
fn policies(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    let reference = |pointer: &str, parts: [&str; 2]| match row.at(pointer) {
        Value::Null => "<unset>".to_owned(),
        value => parts.map(|part| plain(&value[part])).join("/"),
    };
    Some(match kind {
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            vec![name, json!(row.count("/webhooks")), age]
        }
        "validatingadmissionpolicies" => {
            let parameters = reference("/spec/paramKind", ["apiVersion", "kind"]);
            vec![name, json!(row.count("/spec/validations")), json!(parameters), age]
        }
        "mutatingadmissionpolicies" => {
            let parameters = reference("/spec/paramKind", ["apiVersion", "kind"]);
            vec![name, json!(row.count("/spec/mutations")), json!(parameters), age]
        }
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
            let parameters = reference("/spec/paramRef", ["namespace", "name"]);
            vec![name, json!(row.text("/spec/policyName")), json!(parameters), age]
        }
        _ => return None,
    })
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let of_kind = |kind: &str| {
        let subjects = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = subjects
            .map(|subject| match subject["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{}", plain(&subject["name"])),
                _ => plain(&subject["name"]),
            })
            .collect();
        names.join(", ")
    };
    vec![
        row.name(),
        json!(format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"))),
        row.age(),
        json!(of_kind("User")),
        json!(of_kind("Group")),
        json!(of_kind("ServiceAccount")),
    ]
}
