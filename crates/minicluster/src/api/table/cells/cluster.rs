//! Rows of kinds that keep the cluster itself in order.

use serde_json::{Value, json};

use super::{NONE, Row, plain};

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
        "certificatesigningrequests" => request(row),
        "resourceclaims" => {
            let state = claim_state(row);
            vec![name, json!(state), age]
        }
        "resourceslices" => vec![
            name,
            json!(row.text("/spec/nodeName")),
            json!(row.text("/spec/driver")),
            json!(row.text("/spec/pool/name")),
            age,
        ],
        _ => return policies(row, kind),
    })
}

/// Returns the cells of kinds that refuse, change or slow requests.
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
        "flowschemas" => {
            let dangles = row.list("/status/conditions").iter().find(|condition| condition["type"] == "Dangling");
            vec![
                name,
                json!(row.text("/spec/priorityLevelConfiguration/name")),
                json!(row.number("/spec/matchingPrecedence")),
                json!(row.text_or("/spec/distinguisherMethod/type", NONE)),
                age,
                json!(dangles.map_or("?".to_owned(), |condition| plain(&condition["status"]))),
            ]
        }
        "prioritylevelconfigurations" => {
            let queuing = "/spec/limited/limitResponse/queuing";
            let number = |pointer: String| match row.at(&pointer) {
                Value::Null => json!(NONE),
                value => value.clone(),
            };
            let shares = if row.at("/spec/exempt").is_null() { "limited" } else { "exempt" };
            vec![
                name,
                json!(row.text("/spec/type")),
                number(format!("/spec/{shares}/nominalConcurrencyShares")),
                number(format!("{queuing}/queues")),
                number(format!("{queuing}/handSize")),
                number(format!("{queuing}/queueLengthLimit")),
                age,
            ]
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

fn request(row: &Row<'_>) -> Vec<Value> {
    let conditions = row.list("/status/conditions");
    let has = |ty: &str| conditions.iter().any(|condition| condition["type"] == ty);
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").as_i64();
    vec![
        row.name(),
        row.age(),
        json!(row.text_or("/spec/signerName", NONE)),
        json!(row.text("/spec/username")),
        json!(duration.map_or(NONE.to_owned(), crate::api::table::duration::human)),
        json!(condition),
    ]
}

fn claim_state(row: &Row<'_>) -> String {
    let mut states = Vec::new();
    if row.at("/metadata/deletionTimestamp").is_string() {
        states.push("deleted");
    }
    if row.at("/status/allocation").is_object() {
        states.push("allocated");
    } else if row.at("/metadata/deletionTimestamp").is_null() {
        states.push("pending");
    }
    if row.count("/status/reservedFor") > 0 {
        states.push("reserved");
    }
    states.join(",")
}
