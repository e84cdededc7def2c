//! Two answers, compared: what differs by nature is made equal first.

use std::fmt;

use serde_json::{Value, json};

use super::step::{Answer, Step};

/// Something that the two sides disagree about.
#[derive(Debug)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns everything that differs between what was expected and what came.
pub fn compare(index: usize, step: &Step, expected: &Answer, got: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let place = format!(
        "step {} ({:?}{})",
        index + 1,
        step.r#do,
        step.sub.as_ref().map(|sub| format!(" {sub}")).unwrap_or_default()
    );
    let mut differ = |what: &str, expected: &dyn fmt::Display, got: &dyn fmt::Display| {
        found.push(Difference(format!("  {place}: {what}\n    real:     {expected}\n    embedded: {got}")));
    };
    if expected.code != got.code {
        let text = |answer: &Answer| format!("{} {}", answer.code, answer.body["message"]);
        differ("code", &text(expected), &text(got));
        return found;
    }
    let (mut real, mut embedded) = (normal(&expected.body), normal(&got.body));
    let (left, right) = (take_causes(&mut real), take_causes(&mut embedded));
    for cause in left.iter().filter(|cause| !right.contains(cause)) {
        differ("a cause is missing", &said(cause), &"-");
    }
    for cause in right.iter().filter(|cause| !left.contains(cause)) {
        differ("a cause too many", &"-", &said(cause));
    }
    if left.len() == right.len() && left != right && left.iter().all(|cause| right.contains(cause)) {
        let first = left.iter().zip(&right).position(|(one, other)| one != other).unwrap_or_default();
        let fields = |causes: &[Value]| causes[first..].iter().take(3).map(said).collect::<Vec<_>>().join(" | ");
        differ("the order of causes", &fields(&left), &fields(&right));
    }
    for path in differing(&real, &embedded, String::new()) {
        let at = |value: &Value| value.pointer(&path).map_or("-".to_owned(), Value::to_string);
        differ(if path.is_empty() { "body" } else { &path }, &at(&real), &at(&embedded));
    }
    // Warnings before a refusal are the server's to send.
    let mut warned: Vec<&String> = got.warnings.iter().filter(|warning| !is_of_ours_alone(warning)).collect();
    let mut wanted: Vec<&String> = expected.warnings.iter().collect();
    // Formats come from a map.
    for warnings in [&mut warned, &mut wanted] {
        warnings.chunk_by_mut(|one, other| is_of_a_format(one) && is_of_a_format(other)).for_each(<[_]>::sort);
    }
    if expected.code < 300 && wanted != warned {
        differ("warnings", &format!("{wanted:?}"), &format!("{warned:?}"));
    }
    if expected.code < 300 && !step.dry && expected.unchanged != got.unchanged {
        differ(&format!("unchanged {}", step.resource().kind), &expected.unchanged, &got.unchanged);
    }
    found
}

fn take_causes(body: &mut Value) -> Vec<Value> {
    let details = body.get_mut("details").and_then(Value::as_object_mut);
    match details.and_then(|details| details.remove("causes")) {
        Some(Value::Array(causes)) => causes,
        _ => Vec::new(),
    }
}

fn said(cause: &Value) -> String {
    let text = |name: &str| cause[name].as_str().unwrap_or_default();
    format!("{} {}: {}", text("reason"), text("field"), text("message"))
}

/// The last moment that cases speak of. Later ones are the server's.
const LAST: &str = "2026-02-01T00:00:00Z";

/// Returns an answer without what differs by nature.
fn normal(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
            // The real server sorts by time first, and all times are now.
            entries.sort_by_key(|entry| format!("{}{}{}", entry["operation"], entry["manager"], entry["subresource"]));
        }
    }
    if body["kind"] == "Namespace"
        && let Some(Value::Array(finalizers)) = body["metadata"].get_mut("finalizers")
    {
        // In the real server they are a set while a namespace is deleted, in any order.
        finalizers.sort_by_key(Value::to_string);
    }
    if body["kind"] == "Service" {
        without_allocations(&mut body["spec"]);
    }
    if body["kind"] == "Status" {
        status(&mut body);
    }
    without_times(&mut body);
    body
}

/// Takes away which addresses and ports a server gave out.
fn without_allocations(spec: &mut Value) {
    let address = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("10.0."));
    if address(&spec["clusterIP"]) {
        spec["clusterIP"] = json!("(address)");
    }
    for one in spec.get_mut("clusterIPs").and_then(Value::as_array_mut).into_iter().flatten().filter(|one| address(one))
    {
        *one = json!("(address)");
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    let ports = ports.into_iter().flatten().filter_map(|port| port.get_mut("nodePort"));
    let health = |port: &&mut Value| port.as_i64().is_some_and(|port| port >= 30_000);
    ports.filter(health).for_each(|port| *port = json!("(port)"));
    if let Some(port) = spec.get_mut("healthCheckNodePort") {
        *port = json!("(port)");
    }
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(without_times),
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::String(text) => {
            let last: jiff::Timestamp = LAST.parse().unwrap();
            if text.parse::<jiff::Timestamp>().is_ok_and(|time| time > last) {
                *text = "(time)".to_owned();
            }
            // JSON within text: the order of its keys says nothing.
            if text.starts_with("[{")
                && let Ok(inner) = serde_json::from_str::<Value>(text)
            {
                *text = inner.to_string();
            }
        }
        _ => {}
    }
}

/// Causes in an order that does not depend on how Go walks a map, each once.
fn status(body: &mut Value) {
    if let Some(("failed to create typed patch object", _)) =
        body["message"].as_str().and_then(|text| text.split_once(" ("))
    {
        // So does it with the fields that do not fit.
        let mut lines: Vec<String> = body["message"].as_str().unwrap().lines().map(str::to_owned).collect();
        lines[1..].sort();
        body["message"] = json!(lines.join("\n"));
    }
    // Numbers that a server gave out, or counted.
    let versions = ["duplicate nodePort", "the ResourceVersion in the precondition", "ResourceVersion in precondition"];
    if let Some(text) = body["message"].as_str().filter(|text| versions.iter().any(|said| text.contains(said))) {
        body["message"] = json!(text.replace(|letter: char| letter.is_ascii_digit(), ""));
    }
    if body["details"].as_object().is_some_and(serde_json::Map::is_empty) {
        body.as_object_mut().unwrap().remove("details");
    }
    let body_kind = body["details"]["kind"].as_str().unwrap_or_default().to_owned();
    let Some(Value::Array(causes)) = body.get_mut("details").and_then(|details| details.get_mut("causes")) else {
        return;
    };
    let mut unique: Vec<Value> = Vec::new();
    for mut cause in causes.drain(..) {
        if let Some(plain) = without_go_value(cause["message"].as_str().unwrap_or_default()) {
            cause["message"] = json!(plain);
        }
        let message = cause["message"].as_str().unwrap().to_owned();
        if body_kind == "StatefulSet" {
            // Claims become volumes in the order in which Go walks a map.
            cause["field"] = json!(without_volume_index(cause["field"].as_str().unwrap_or_default()));
        }
        let differs = [
            "pod updates may not change fields",
            "spec is immutable after creation except",
            "spec.persistentvolumesource is immutable after creation",
        ];
        if differs.iter().any(|start| message.contains(start)) {
            // The rest is a difference between two Go values.
            cause["message"] = json!(message.lines().next());
        }
        if cause["reason"] == "FieldValueDuplicate" && message.len() == "Duplicate value: 30000".len() {
            // A port that was given out.
            cause["message"] = json!(message.replace(|letter: char| letter.is_ascii_digit(), ""));
        }
        if let Some((start, rest)) = message.split_once("IPAddress.networking.k8s.io \"10.") {
            // An address that would have been given out.
            let end = rest.split_once('"').map_or("", |(_, end)| end);
            cause["message"] = json!(format!("{start}{end}"));
        }
        if cause["field"] == "patch" {
            // The whole object stands there, its keys in the order of Go's types.
            let text = cause["message"].as_str().unwrap();
            let end = text.find("\"}\": ").or(text.find("}\": ")).map_or(0, |at| at);
            cause["message"] = json!(text[end..]);
        }
        if !unique.contains(&cause) {
            unique.push(cause);
        }
    }
    if unique.iter().any(|cause| cause["reason"] == "FieldManagerConflict") {
        // The real server walks a map of managers.
        unique.sort_by_key(Value::to_string);
    }
    let group = |cause: &Value| {
        let field = cause["field"].as_str().unwrap_or_default();
        if field.starts_with("metadata.") {
            // Some kinds look at metadata before what may change of it, some after.
            return "metadata".to_owned();
        }
        let key = field.match_indices('[').find(|(at, _)| !field[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
        let end = key.map_or(field.len(), |(at, _)| field[..at].rfind('.').unwrap_or(at));
        // So do the sources of a metric.
        let end = field.find("spec.metrics[").map_or(end, |at| at + field[at..].find(']').unwrap_or_default());
        // Amounts come from maps, and so do the gates of scheduling that a change adds.
        let maps = [".resources", ".capacity.", ".allocatable.", "schedulingGates["];
        let end = maps.iter().filter_map(|map| field.find(map)).fold(end, usize::min);
        // So does all of a schema.
        const SCHEMA: &str = "openAPIV3Schema";
        let end = field.find(SCHEMA).map_or(end, |at| at + SCHEMA.len());
        field[..end].to_owned()
    };
    unique.chunk_by_mut(|one, other| group(one) == group(other)).for_each(|run| run.sort_by_key(Value::to_string));
    let message = body["message"].as_str().unwrap_or_default();
    if body["reason"] == "Invalid"
        && let Some(end) = message.find(" is invalid: ")
    {
        let start = message[..end].to_owned();
        body["message"] = json!(start);
    }
    body["details"]["causes"] = json!(unique);
}

/// Returns the way to a volume of a template, whichever it is.
fn without_volume_index(field: &str) -> String {
    let volumes = "spec.template.spec.volumes[";
    match field.strip_prefix(volumes).and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => format!("{volumes}*]{rest}"),
        None => field.to_owned(),
    }
}

/// Returns a message that shows a value as Go's own type has it, with all fields under Go's names, without that value.
fn without_go_value(message: &str) -> Option<String> {
    let (start, rest) = message.split_once(" value: ")?;
    let shows = rest.starts_with(['{', '[']) || rest.starts_with("null");
    if shows && rest.ends_with(['}', ']']) {
        return Some(format!("{start} value"));
    }
    // The text behind the value is never in a value.
    let end = rest.rfind("]: ").max(rest.rfind("}: ")).max(rest.rfind("null: ")).filter(|_| shows)?;
    Some(format!("{start} value{}", &rest[end..].trim_start_matches(|letter| letter != ':')))
}

/// Returns the innermost places at which two values differ.
fn differing(one: &Value, other: &Value, path: String) -> Vec<String> {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
            names.sort();
            names.dedup();
            let below = |name: &&String| {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (left.get(*name), right.get(*name)) {
                    (Some(one), Some(other)) => differing(one, other, path),
                    _ => vec![path],
                }
            };
            names.iter().flat_map(below).collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.flat_map(|(index, (one, other))| differing(one, other, format!("{path}/{index}"))).collect()
        }
        _ if one == other => Vec::new(),
        _ => vec![path],
    }
}

fn is_of_a_format(warning: &str) -> bool {
    warning.starts_with("unrecognized format")
}

/// A field that is stored here without an effect has a warning; the reference has none.
fn is_of_ours_alone(warning: &str) -> bool {
    warning.ends_with("by this server")
}
