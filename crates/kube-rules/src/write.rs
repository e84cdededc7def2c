//! The stages of a write, in the order of the real server.

use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::canonical::EmptyLists;
use crate::value_ext::{self, ValueExt};
use crate::{BodyFormat, Definition, PatchKind, Read, WriteContext};
use crate::{custom, defaults, strategy, validate, warn};

/// The additions of the cluster around an object to a new one, once it is complete and before it is checked by itself.
pub type Admit<'a> = &'a dyn Fn(&mut Value) -> Result<(), ApiError>;

/// Reads a body as an object of a kind: types checked, unknown and duplicate fields treated as asked, canonical form.
///
/// # Errors
/// 400 where the text or a type is wrong, or, if strict, for unknown and duplicate fields.
pub fn read(write: &WriteContext<'_>, body: &[u8], format: BodyFormat) -> Result<Read, ApiError> {
    match &write.definition.custom {
        Some(custom) => custom::read(write, custom, body, format),
        None => crate::read::read(write, body, format),
    }
}

/// Reads the body of an apply patch (YAML or JSON) for [`apply`]: exactly as it is written, since a field that is not
/// written is not owned.
///
/// # Errors
/// 400 where the text is no map, or, if strict, for keys that are written twice.
pub fn read_applied(write: &WriteContext<'_>, body: &[u8]) -> Result<Read, ApiError> {
    crate::read::read_applied(write, body)
}

/// Returns a new object, ready to be stored: fields that a client may not set removed, defaulted, validated, with
/// managed fields. `object` comes from [`read`]; its `metadata` has name, namespace, uid and creation time already.
///
/// # Errors
/// 422 with all causes, and the refusals of `admit`.
pub fn create(write: &WriteContext<'_>, object: Value, admit: Admit<'_>) -> Result<Read, ApiError> {
    let mut object = object;
    strategy::wipe(&mut object);
    let warnings = single_owners(&mut object);
    complete(write.definition, &mut object, EmptyLists::Stay);
    crate::apply::track_update(write, None, &mut object);
    finish_create(write, object, warnings, admit)
}

/// Returns an object after a PUT of `object` (from [`read`]) over `old`, through [`WriteContext::subresource`]: only
/// fields that may change there change, generation counted, defaulted, validated, managed fields brought up to date.
/// Equal to `old` where nothing changes.
///
/// # Errors
/// 422 with all causes.
pub fn update(write: &WriteContext<'_>, old: &Value, object: Value) -> Result<Read, ApiError> {
    crate::patch::check_name(old, &object)?;
    let mut object = object;
    let warnings = single_owners(&mut object);
    complete_changed(write.definition, old, &mut object, EmptyLists::Stay);
    crate::apply::track_update(write, Some(old), &mut object);
    finish_update(write, old, object, warnings)
}

/// Returns `old` with a patch laid over it, read like a body; [`update`] comes next.
///
/// # Errors
/// 400 for a malformed patch, 422 where it can't be applied, 415 for a kind of patch that the object does not take.
pub fn patch(write: &WriteContext<'_>, old: &Value, kind: PatchKind, body: &[u8]) -> Result<Read, ApiError> {
    crate::patch::patch(write, old, kind, body)
}

/// Returns an object after a server-side apply of `applied` (from [`read_applied`]) by [`WriteContext::manager`] over
/// `old`. Equal to `old` where nothing changes.
///
/// # Errors
/// 409 with a cause for every field that another manager owns with another value, unless `force`; 422 as for the rest.
pub fn apply(write: &WriteContext<'_>, old: &Value, applied: &Value, force: bool) -> Result<Read, ApiError> {
    let mut object = crate::apply::apply(write, Some(old), applied, force)?;
    complete_changed(write.definition, old, &mut object, EmptyLists::Stay);
    finish_update(write, old, object, Vec::new())
}

/// Returns a new object from a server-side apply of `applied`, exactly as it was sent. `identity` has the server's own
/// fields: name, namespace, uid and creation time.
///
/// # Errors
/// As [`apply`], and 400 where `applied` does not say its name.
pub fn apply_new(
    write: &WriteContext<'_>,
    identity: &Value,
    applied: &Value,
    admit: Admit<'_>,
) -> Result<Read, ApiError> {
    let mut object = crate::apply::apply(write, None, applied, false)?;
    crate::patch::check_name(&json!({ "metadata": identity }), &object)?;
    for (name, value) in identity.as_object().into_iter().flatten() {
        object["metadata"][name] = value.clone();
    }
    complete(write.definition, &mut object, EmptyLists::Stay);
    strategy::wipe(&mut object);
    finish_create(write, object, Vec::new(), admit)
}

/// Returns true when an update of an object must name the resource version that it was made for.
#[must_use]
pub fn needs_version(definition: &Definition) -> bool {
    strategy::of(definition).versions == strategy::Versions::Required
}

/// Returns a new service as addresses are given to it, if those that it names, and their families, go together.
///
/// # Errors
/// 422 with all causes.
pub fn prepared_service(service: &Value) -> Result<Value, ApiError> {
    let mut service = service.clone();
    strategy::prepare_service(&mut service);
    check_families(&service)?;
    Ok(service)
}

/// Checks that the addresses of a service, and their families, go together.
fn check_families(service: &Value) -> Result<(), ApiError> {
    let mut errors = validate::Errors::new();
    validate::service_families(service, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("", "Service", service["metadata"].text("name"), errors.0))
}

/// Defaults, and the stored form, in which an object is before but for empty lists.
pub fn complete(definition: &Definition, object: &mut Value, empty: EmptyLists) {
    if let Some(custom) = &definition.custom {
        return custom::complete(custom, object);
    }
    let filled = defaults::fill(definition, object);
    settle_filled(definition, object, filled, empty);
}

/// Brings an object, or a part of it, into its stored form once its defaults are in. If none was `filled` in, it is in that
/// form already, but for empty lists.
fn settle_filled(definition: &Definition, object: &mut Value, filled: bool, empty: EmptyLists) {
    if filled || empty == EmptyLists::AreNull {
        crate::read::settle(definition, object, empty);
    } else {
        debug_assert!(
            is_settled(definition, object),
            "what is there of a {} is not in its stored form",
            definition.kind
        );
    }
}

/// Returns true when the present part of an object is in its stored form.
fn is_settled(definition: &Definition, object: &Value) -> bool {
    let mut settled = object.clone();
    crate::read::settle(definition, &mut settled, EmptyLists::Stay);
    value_ext::entries_of(Some(object)).iter().all(|(name, value)| settled.get(name) == Some(value))
}

/// Does the same for an object that was complete as `old`. Most writes change nothing but the status.
fn complete_changed(definition: &Definition, old: &Value, object: &mut Value, empty: EmptyLists) {
    if definition.custom.is_some() || !crate::apply::same_but_status(old, object) {
        return complete(definition, object, empty);
    }
    let Value::Object(fields) = object else { return };
    let mut part = Value::Object(fields.remove_entry("status").into_iter().collect());
    // If there is none, its stored form may have one.
    let filled = part.get_mut("status").is_none_or(|status| defaults::fill_status(definition, status));
    settle_filled(definition, &mut part, filled, empty);
    if let Some(status) = part.get_mut("status").map(Value::take) {
        fields.insert("status".to_owned(), status);
    }
}

/// Finishes a new object once its managed fields are known.
fn finish_create(
    write: &WriteContext<'_>,
    mut object: Value,
    mut warnings: Vec<String>,
    admit: Admit<'_>,
) -> Result<Read, ApiError> {
    let definition = write.definition;
    strategy::admit(definition, &mut object);
    admit(&mut object)?;
    strategy::prepare_create(write, &mut object);
    let bare = object["metadata"].get("labels").is_none();
    complete(definition, &mut object, EmptyLists::AreNull);
    // Labels that a job takes over from those that its pods were given are not checked again.
    let taken =
        if bare { object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("labels")) } else { None };
    let errors = validate::create(definition, &object);
    refuse(definition, &object, errors)?;
    if let Some(labels) = taken {
        object["metadata"]["labels"] = labels;
    }
    warnings.extend(warn::create(definition, &object));
    Ok(Read { object, warnings })
}

/// Finishes a changed object once its managed fields are known.
fn finish_update(
    write: &WriteContext<'_>,
    old: &Value,
    object: Value,
    warnings: Vec<String>,
) -> Result<Read, ApiError> {
    let Read { object, warnings } = changed(write, old, object, warnings)?;
    // A write that changes nothing but when its manager last wrote changes nothing.
    let object = if crate::apply::same_but_times(&object, old) { old.clone() } else { object };
    Ok(Read { object, warnings })
}

/// A changed object as it is stored.
pub fn changed(
    write: &WriteContext<'_>,
    old: &Value,
    mut object: Value,
    mut warnings: Vec<String>,
) -> Result<Read, ApiError> {
    let definition = write.definition;
    if write.subresource.is_none() {
        strategy::admit_change(definition, &mut object);
    }
    strategy::prepare_update(write, old, &mut object);
    complete_changed(definition, old, &mut object, EmptyLists::AreNull);
    if write.subresource.is_none() && definition.group.is_empty() && definition.kind == "Service" {
        // Addresses and ports are given out first, so their errors are reported alone.
        check_families(&object)?;
        strategy::check_node_ports(old, &object, write.effect)?;
    }
    let errors = validate::update(definition, write.subresource, old, &object);
    refuse(definition, &object, errors)?;
    warnings.extend(warn::update(write, old, &object));
    Ok(Read { object, warnings })
}

/// Removes owners that are named twice, which count once; returns the warnings.
fn single_owners(object: &mut Value) -> Vec<String> {
    let Some(Value::Array(owners)) = object["metadata"].get_mut("ownerReferences") else { return Vec::new() };
    let (mut seen, mut twice): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    owners.retain(|owner| {
        let fresh = !seen.contains(owner);
        if fresh {
            seen.push(owner.clone());
        } else {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        fresh
    });
    if twice.is_empty() { Vec::new() } else { vec![warn::duplicate_owners(&twice)] }
}

fn refuse(definition: &Definition, object: &Value, errors: validate::Errors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = if definition.custom.is_some() { object["kind"].as_str().unwrap_or_default() } else { &definition.kind };
    // Events of both groups are one kind inside, and are refused as that.
    let group = if definition.group == "events.k8s.io" { "" } else { &definition.group };
    Err(ApiError::invalid(group, kind, name, errors.0))
}
