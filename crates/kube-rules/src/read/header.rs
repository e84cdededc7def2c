//! `apiVersion` and `kind`: those of a body, against those of its address.

use super::node::Node;
use super::{Definition, api_version};
use crate::api_error::ApiError;
use kube_facts::facts;

const HEADER: &str =
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
const SCHEME: &str = "pkg/runtime/scheme.go:111";
/// So much of a body is shown.
const SHOWN: usize = 30;

/// Versions that the real server still reads, and no longer serves.
const RETIRED: [(&str, &[&str]); 12] = [
    ("apps/v1beta1", &["Deployment", "StatefulSet", "ControllerRevision"]),
    ("apps/v1beta2", &["Deployment", "StatefulSet", "ControllerRevision", "DaemonSet", "ReplicaSet"]),
    ("extensions/v1beta1", &["Deployment", "DaemonSet", "ReplicaSet", "Ingress", "NetworkPolicy"]),
    ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
    ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
    ("batch/v1beta1", &["CronJob"]),
    ("policy/v1beta1", &["PodDisruptionBudget"]),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    ("rbac.authorization.k8s.io/v1beta1", &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]),
    ("events.k8s.io/v1beta1", &["Event"]),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
];

/// A group, a version and a kind; a missing one is empty.
struct Header {
    group: String,
    version: String,
    kind: String,
}

/// Checks that a body says that it is of the kind that it was sent to.
///
/// # Errors
/// 400 in the real server's words.
pub fn check(definition: &Definition, node: &Node, body: &[u8]) -> Result<(), ApiError> {
    let header = read(definition, node).map_err(|error| unrecognized(definition, &error, body))?;
    if retired_version(definition, &header) {
        return Err(ApiError::bad_request(other_version(definition, &header)));
    }
    compare(definition, &header, node).map_err(|error| cannot_be_handled(definition, node, &error))
}

/// Checks that the body of an object of a custom kind names its kind at all.
///
/// # Errors
/// 400 in the real server's words.
pub fn check_custom(definition: &Definition, node: &Node, body: &[u8]) -> Result<(), ApiError> {
    read(definition, node).map_err(|error| unrecognized(definition, &error, body))?;
    if node.get("kind").is_some_and(|kind| *kind != Node::Text(String::new()) && *kind != Node::Null) {
        return Ok(());
    }
    let text = match body.first() {
        Some(b'{' | b'n') => String::from_utf8_lossy(body).into_owned(),
        _ => node.to_value().to_string(),
    };
    Err(unrecognized(definition, &format!("Object 'Kind' is missing in '{text}'"), body))
}

/// Fails with the complaint about an object that is not of the kind, in whatever version.
///
/// # Errors
/// The words.
pub fn mismatch(definition: &Definition, node: &Node) -> Result<(), String> {
    let header = read(definition, node)?;
    if retired_version(definition, &header) {
        return Ok(());
    }
    compare(definition, &header, node)
}

fn other_version(definition: &Definition, header: &Header) -> String {
    let (said, expected) = (join(&header.group, &header.version), api_version(definition));
    format!("the API version in the data ({said}) does not match the expected API version ({expected})")
}

/// Returns true when an object is of the right kind, in another version that the real server reads.
fn retired_version(definition: &Definition, header: &Header) -> bool {
    let said = join(&header.group, &header.version);
    let retired = RETIRED.iter().any(|(version, kinds)| *version == said && kinds.contains(&header.kind.as_str()));
    header.kind == definition.kind && said != api_version(definition) && (retired || is_registered(definition, header))
}

fn compare(definition: &Definition, header: &Header, node: &Node) -> Result<(), String> {
    if header.group == definition.group && header.version == definition.version && header.kind == definition.kind {
        return Ok(());
    }
    if !is_registered(definition, header) {
        let (kind, said) = (super::super::words::quote(&header.kind), join(&header.group, &header.version));
        return Err(format!("no kind {kind} is registered for version \"{said}\" in scheme \"{SCHEME}\""));
    }
    if let Some(schema) = facts().schema(&header.group, &header.version, &header.kind) {
        super::typed::decode(node, schema, &header.kind)?;
    }
    let internal = format!("{}.{}", package(&definition.group), definition.kind);
    Err(format!("converting ({}.{}) to ({internal}): unknown conversion", header.version, header.kind))
}

/// Returns 400 for a body whose kind is known.
pub fn cannot_be_handled(definition: &Definition, node: &Node, error: &str) -> ApiError {
    let header = read(definition, node).ok();
    let (version, kind) = header
        .map_or_else(|| (definition.version.clone(), definition.kind.clone()), |header| (header.version, header.kind));
    let expected = &definition.kind;
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {error}"))
}

/// Returns 400 for a body whose kind can't be made out.
pub fn unrecognized(definition: &Definition, error: &str, body: &[u8]) -> ApiError {
    let kind = &definition.kind;
    let shown = shown(body);
    ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error} ({shown})"))
}

/// Returns the start of a body: as it is if it looks like JSON, else in hexadecimal.
fn shown(body: &[u8]) -> String {
    let start = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{more}")
        }
    }
}

fn read(definition: &Definition, node: &Node) -> Result<Header, String> {
    let problem = |error: String| format!("couldn't get version/kind; json parse error: json: {error}");
    let entries = match node {
        Node::Map(entries) => entries.as_slice(),
        Node::Null => &[],
        other => return Err(problem(format!("cannot unmarshal {} into Go value of type {HEADER}", other.kind()))),
    };
    let (mut api_version, mut kind) = ("", "");
    for (key, value) in entries {
        // Go takes a key in whatever case here.
        let (name, place) = match () {
            () if key.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut api_version),
            () if key.eq_ignore_ascii_case("kind") => ("kind", &mut kind),
            () => continue,
        };
        match value {
            Node::Text(text) => *place = text,
            Node::Null => {}
            other => {
                let what = other.kind();
                return Err(problem(format!("cannot unmarshal {what} into Go struct field .{name} of type string")));
            }
        }
    }
    let (group, version) = match api_version.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        Some((group, version)) => (group, version),
        None => ("", api_version),
    };
    let (group, version) = match (group, version) {
        ("", "") => (definition.group.as_str(), definition.version.as_str()),
        (group, "") if group == definition.group => (group, definition.version.as_str()),
        said => said,
    };
    let kind = if kind.is_empty() { definition.kind.as_str() } else { kind };
    Ok(Header { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
}

/// Definitions and API services are read by servers of their own, which know no other kinds.
fn is_registered(definition: &Definition, header: &Header) -> bool {
    const APART: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
    let own = APART.iter().any(|group| *group == definition.group || *group == header.group);
    (!own || definition.group == header.group) && facts().schema(&header.group, &header.version, &header.kind).is_some()
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Returns the Go package of a group's internal types.
fn package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        other => other.split('.').next().unwrap_or(other),
    }
}
