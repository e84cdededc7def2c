//! A body becomes an object: text, then types, then the form in which it is stored.

mod base64;
mod duplicates;
mod header;
mod json;
mod node;
mod scalar;
mod typed;
mod yaml;

use serde_json::{Map, Value, json};

use super::canonical::{self, EmptyLists};
use super::{BodyFormat, Definition, FieldValidation, Read, WriteContext, conversions};
use crate::api_error::ApiError;
use kube_facts::Type;

pub use duplicates::duplicates;
pub use header::cannot_be_handled;
pub use node::Node;

/// Reads a body as an object of a built-in kind; see [`super::read`].
///
/// # Errors
/// 400 where the text or a type is wrong, or, if strict, for unknown and duplicate fields.
pub fn read(write: &WriteContext<'_>, body: &[u8], format: BodyFormat) -> Result<Read, ApiError> {
    let definition = write.definition;
    let (node, mut objections) = parse(body, format).map_err(|error| header::unrecognized(definition, &error, body))?;
    header::check(definition, &node, body)?;
    let typed = typed::decode(&node, &definition.schema, &definition.kind)
        .map_err(|error| cannot_be_handled(definition, &node, &error))?;
    objections.extend(typed.objections);
    let warnings = object_or_warn(write, &node, objections)?;
    let mut object = typed.value;
    settle(definition, &mut object, EmptyLists::Stay);
    Ok(Read { object, warnings })
}

/// Reads a body as a value that says that it is of a custom kind; also the keys in it that are written twice.
///
/// # Errors
/// 400 where the text is wrong, or says that it is of another kind.
pub fn read_custom(definition: &Definition, body: &[u8], format: BodyFormat) -> Result<(Node, Vec<String>), ApiError> {
    let (node, mut objections) = parse(body, format).map_err(|error| header::unrecognized(definition, &error, body))?;
    header::check_custom(definition, &node, body)?;
    if format == BodyFormat::Json {
        objections.extend(duplicates(&node));
    }
    Ok((node, objections))
}

/// Reads the body of an apply patch: as it is written, nothing dropped, nothing made canonical.
///
/// # Errors
/// 400 where the text is not YAML or not a map, or, if strict, for keys that are written twice.
pub fn read_applied(write: &WriteContext<'_>, body: &[u8]) -> Result<Read, ApiError> {
    let bad = |error: String| ApiError::bad_request(format!("error decoding YAML: {error}"));
    let document = yaml::parse(body).map_err(|error| bad(format!("error converting YAML to JSON: {error}")))?;
    let object = match document.node {
        Node::Map(_) => document.node.into_value(),
        Node::Null => json!({}),
        other => {
            return Err(bad(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                other.kind()
            )));
        }
    };
    let mut warnings = Vec::new();
    if !document.duplicates.is_empty() {
        match write.field_validation {
            FieldValidation::Strict => {
                let problem = in_one(&document.duplicates);
                let message = format!("error strict decoding YAML: error converting YAML to JSON: {problem}");
                return Err(ApiError::bad_request(message));
            }
            FieldValidation::Warn => warnings = document.duplicates,
            FieldValidation::Ignore => {}
        }
    }
    Ok(Read { object, warnings })
}

/// Reads a value as an object of a built-in kind, as a patch leaves one. Surplus fields are warnings.
///
/// # Errors
/// Fails with the complaint about another kind, or about the first value of a wrong type.
pub fn read_value(definition: &Definition, value: Value) -> Result<Read, String> {
    let node = Node::from_value(value);
    header::mismatch(definition, &node)?;
    let typed = typed::decode(&node, &definition.schema, &definition.kind)?;
    let mut object = typed.value;
    settle(definition, &mut object, EmptyLists::Stay);
    Ok(Read { object, warnings: typed.objections })
}

/// Reads the result of a patch of `old` as [`read_value`] does, with errors that name no place, regardless of its kind.
///
/// # Errors
/// Fails with the complaint about the first value of a wrong type.
pub fn convert_patched(definition: &Definition, old: &Value, patched: Map<String, Value>) -> Result<Read, String> {
    // Parts that the patch has left alone were read when they were stored; most patches leave most of an object alone.
    let (kept, touched): (Map<String, Value>, Map<String, Value>) =
        patched.into_iter().partition(|(name, value)| old.get(name) == Some(value));
    let rest_is_settled = touched.keys().all(|name| name == "status");
    let typed = typed::convert(Value::Object(touched), &definition.schema, &definition.kind)?;
    let mut object = typed.value;
    if rest_is_settled {
        settle(definition, &mut object, EmptyLists::Stay);
    }
    if let Value::Object(fields) = &mut object {
        if rest_is_settled {
            // Fields that are always written are in the rest.
            fields.retain(|name, _| name == "status");
        }
        fields.extend(kept);
    }
    if !rest_is_settled {
        settle(definition, &mut object, EmptyLists::Stay);
    }
    Ok(Read { object, warnings: typed.objections })
}

/// Returns a merged object of an apply as its kind's own type, in its stored form.
///
/// # Errors
/// Fails with the real server's complaint about a value of a wrong type.
pub fn convert(definition: &Definition, value: Value) -> Result<Value, String> {
    let mut object = typed::convert(value, &definition.schema, &definition.kind)?.value;
    settle(definition, &mut object, EmptyLists::Stay);
    Ok(object)
}

/// Brings a decoded object of a built-in kind into its stored form, `apiVersion` and `kind` included.
pub fn settle(definition: &Definition, object: &mut Value, empty: EmptyLists) {
    object["apiVersion"] = json!(api_version(definition));
    object["kind"] = json!(definition.kind);
    conversions::through_internal(definition, object);
    canonical::canonical(object, &definition.schema, empty);
}

/// Returns `apps/v1`, or `v1` for core.
pub fn api_version(definition: &Definition) -> String {
    if definition.group.is_empty() {
        definition.version.clone()
    } else {
        format!("{}/{}", definition.group, definition.version)
    }
}

/// Returns the objections of a strict reader as an error, as warnings, or not at all.
///
/// # Errors
/// 400 if strict and there is something.
pub fn object_or_warn(write: &WriteContext<'_>, node: &Node, objections: Vec<String>) -> Result<Vec<String>, ApiError> {
    match write.field_validation {
        _ if objections.is_empty() => Ok(Vec::new()),
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(objections),
        FieldValidation::Strict => {
            let (twice, others): (Vec<String>, Vec<String>) =
                objections.into_iter().partition(|objection| objection.starts_with("line "));
            let mut all = if twice.is_empty() { Vec::new() } else { vec![in_one(&twice)] };
            all.extend(others);
            let error = format!("strict decoding error: {}", all.join(", "));
            Err(cannot_be_handled(write.definition, node, &error))
        }
    }
}

/// Keys written twice, as YAML's reader puts them into one error.
fn in_one(duplicates: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))
}

/// Returns a text as a value, and duplicate keys that only the text shows.
fn parse(body: &[u8], format: BodyFormat) -> Result<(Node, Vec<String>), String> {
    match format {
        BodyFormat::Json => json::parse(body)
            .map(|node| (node, Vec::new()))
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}")),
        BodyFormat::Yaml => yaml::parse(body).map(|document| (document.node, document.duplicates)),
    }
}

/// Reads the metadata of an object; also the paths in it that there are not.
///
/// # Errors
/// Go's error for the first value of a wrong type.
pub fn metadata_of(node: &Node) -> Result<(Value, Vec<String>), String> {
    if !matches!(node, Node::Map(_) | Node::Null) {
        return Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", node.kind()));
    }
    let ty = Type::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let typed = typed::decode(node, &ty, "ObjectMeta")?;
    let unknown = |objection: String| {
        objection.strip_prefix("unknown field \"").map(|rest| rest.trim_end_matches('"').to_owned())
    };
    Ok((typed.value, typed.objections.into_iter().filter_map(unknown).collect()))
}

/// Returns true when a text is base64.
pub fn is_base64(text: &str) -> bool {
    base64::canonical(text).is_ok()
}

/// Parses JSON with Go's errors.
///
/// # Errors
/// `invalid character 'x' looking for beginning of value` and the like.
pub fn parse_json(body: &[u8]) -> Result<Node, String> {
    json::parse(body)
}

/// Returns the Go name of a built-in struct type, `DeploymentSpec`.
pub fn go_name(ty: &Type) -> Option<&str> {
    match ty {
        Type::Named(name) => name.rsplit('.').next(),
        _ => None,
    }
}
