//! CustomResourceDefinitions: names, versions, columns and subresources. Rules and selectors in CEL are not compiled.

use serde_json::Value;

use super::super::look::Look;
use super::errors::{Errors, Path, Shown, immutable};
use super::{names, schemas};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const ONE_STORED: &str = "must have exactly one version marked as storage version";
const APPROVED: &str = "api-approved.kubernetes.io";

/// A CustomResourceDefinition, its metadata apart.
pub fn definition(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let wanted = format!("{}.{}", spec["names"].text("plural"), spec.text("group"));
    if object["metadata"].text("name") != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid(&Path::root("metadata.name"), object["metadata"].text("name"), detail);
    }
    group(object, &at, errors);
    let scope = spec.text("scope");
    if scope.is_empty() {
        errors.required(&at.field("scope"), "");
    } else {
        errors.one_of(spec, "scope", &["Cluster", "Namespaced"], &at);
    }
    versions(spec, &at, errors);
    names_of(&spec["names"], &at.field("names"), errors);
    conversion(&spec["conversion"], &at.field("conversion"), errors);
    if spec.flag("preserveUnknownFields") {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&at.field("preserveUnknownFields"), true, detail);
    }
    if !spec.list("versions").iter().any(|version| version.flag("storage")) {
        errors.invalid(&Path::root("status.storedVersions"), &Value::Null, "must have at least one stored version");
    }
}

/// What may become of a CustomResourceDefinition: what objects are stored as stays.
pub fn definition_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    immutable(before, after, "group", &at, errors);
    if is_established(old) {
        immutable(before, after, "scope", &at, errors);
        immutable(&before["names"], &after["names"], "kind", &at.field("names"), errors);
    }
    immutable(&before["names"], &after["names"], "plural", &at.field("names"), errors);
    let list = Path::root("status.storedVersions");
    for (index, stored) in new["status"].list("storedVersions").iter().enumerate() {
        if !after.list("versions").iter().any(|version| version["name"] == *stored) {
            let name = stored.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.invalid(&list.index(index), name, &detail);
        }
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"].list("conditions");
    conditions.iter().any(|condition| condition.text("type") == "Established" && condition.text("status") == "True")
}

fn group(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (group, at) = (object["spec"].text("group"), at.field("group"));
    if group.is_empty() {
        return errors.required(&at, "");
    }
    let said = names::dns_1123_subdomain(group);
    errors.each_invalid(&at, group, &said);
    if said.is_empty() && !group.contains('.') {
        errors.invalid(&at, group, "should be a domain with at least one dot");
    }
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|start| start.is_empty() || start.ends_with('.')));
    if protected && object["metadata"]["annotations"].text(APPROVED).is_empty() {
        let detail = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.required(&Path::root("metadata.annotations").key(APPROVED), &detail);
    }
}

/// What all versions say alike is said of all of them at once.
fn same_in_all<'a>(versions: &'a [Value], part: &str) -> Option<&'a Value> {
    let first = versions.first()?;
    versions.iter().all(|version| version.get(part) == first.get(part)).then(|| &first[part])
}

fn versions(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (versions, list) = (spec.list("versions"), at.field("versions"));
    let shared = |part: &str| same_in_all(versions, part).is_some();
    for (index, version) in versions.iter().enumerate() {
        let (at, name) = (list.index(index), version.text("name"));
        errors.each_invalid(&at.field("name"), name, &names::dns_1035_label(name));
        if version.has("deprecationWarning") && !version.flag("deprecated") {
            let at = at.field("deprecationWarning");
            errors.invalid(&at, version.text("deprecationWarning"), "can only be set for deprecated versions");
        }
        let schema_at = at.field("schema.openAPIV3Schema");
        match version["schema"].some("openAPIV3Schema") {
            None => errors.required(&schema_at, ""),
            Some(_) if shared("schema") => {}
            Some(schema) => schemas::schema(schema, &schema_at, errors),
        }
        if !shared("subresources") {
            subresources(&version["subresources"], &at.field("subresources"), errors);
        }
        if !shared("additionalPrinterColumns") {
            columns(version.list("additionalPrinterColumns"), &at.field("additionalPrinterColumns"), errors);
        }
        if !shared("selectableFields") {
            selectable(version.list("selectableFields"), &at.field("selectableFields"), errors);
        }
    }
    let plain = || Shown::Plain(Value::from(versions).to_string());
    let twice = |(index, version): (usize, &Value)| versions[..index].iter().any(|o| o["name"] == version["name"]);
    if versions.iter().enumerate().any(twice) {
        errors.invalid(&list, plain(), "must contain unique version names");
    }
    if versions.iter().filter(|version| version.flag("storage")).count() != 1 {
        errors.invalid(&list, plain(), ONE_STORED);
    }
    if let Some(schema) = same_in_all(versions, "schema").and_then(|schema| schema.some("openAPIV3Schema")) {
        schemas::schema(schema, &at.field("validation.openAPIV3Schema"), errors);
    }
    if let Some(shared) = same_in_all(versions, "subresources") {
        subresources(shared, &at.field("subresources"), errors);
    }
    if let Some(Value::Array(shared)) = same_in_all(versions, "additionalPrinterColumns") {
        columns(shared, &at.field("additionalPrinterColumns"), errors);
    }
    if let Some(Value::Array(shared)) = same_in_all(versions, "selectableFields") {
        selectable(shared, &at.field("selectableFields"), errors);
    }
}

fn columns(columns: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (index, column) in columns.iter().enumerate() {
        let at = list.index(index);
        if column.text("name").is_empty() {
            errors.required(&at.field("name"), "");
        }
        for (name, known) in [("type", &COLUMN_TYPES[..]), ("format", &COLUMN_FORMATS[..])] {
            let text = column.text(name);
            if name == "type" && text.is_empty() {
                errors.required(&at.field("type"), &format!("must be one of {}", known.join(",")));
            } else if !text.is_empty() && !known.contains(&text) {
                errors.invalid(&at.field(name), text, &format!("must be one of {}", known.join(",")));
            }
        }
        simple_path(column.text("jsonPath"), &at.field("JSONPath"), errors);
    }
}

/// A path that begins with a dot; whether it is one.
fn simple_path(path: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    if path.is_empty() {
        errors.required(at, "");
    } else if !path.starts_with('.') {
        errors.invalid(at, path, "must be a simple json path starting with .");
    }
    path.starts_with('.')
}

fn selectable(fields: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (index, field) in fields.iter().enumerate() {
        let (at, path) = (list.index(index), field.text("jsonPath"));
        let at = at.field("jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
        } else if !path.starts_with(['.', '[']) {
            errors.invalid(&at, path, &format!("is an invalid path: expected [ or . but got: {path}"));
        }
    }
}

fn subresources(subresources: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(scale) = subresources.some("scale") else { return };
    let at = at.field("scale");
    for (name, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (at, path) = (at.field(name), scale.text(name));
        if simple_path(path, &at, errors) && !path.starts_with(&format!("{root}.")) {
            errors.invalid(&at, path, &format!("should be a json path under {root}"));
        }
    }
    let path = scale.text("labelSelectorPath");
    let at = at.field("labelSelectorPath");
    if !path.is_empty()
        && simple_path(path, &at, errors)
        && ![".spec.", ".status."].iter().any(|root| path.starts_with(root))
    {
        errors.invalid(&at, path, "should be a json path under either .spec or .status");
    }
}

fn names_of(given: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["plural", "singular", "kind", "listKind"] {
        let (at, text) = (at.field(name), given.text(name));
        // What is left out follows from the kind.
        if text.is_empty() {
            if matches!(name, "plural" | "kind") {
                errors.required(&at, "");
            }
        } else if name.ends_with("ind") {
            let said = names::dns_1035_label(&text.to_lowercase());
            let said = said.iter().map(|why| format!("may have mixed case, but should otherwise match: {why}"));
            errors.each_invalid(&at, text, &said.collect::<Vec<_>>());
        } else {
            errors.each_invalid(&at, text, &names::dns_1035_label(text));
        }
    }
    each_name(given, "shortNames", at, errors);
    if !given.text("kind").is_empty() && given.text("kind") == given.text("listKind") {
        errors.invalid(&at.field("listKind"), given.text("listKind"), "kind and listKind may not be the same");
    }
    each_name(given, "categories", at, errors);
}

fn each_name(given: &Value, list: &str, at: &Path<'_>, errors: &mut Errors) {
    let at = at.field(list);
    for (index, name) in given.list(list).iter().enumerate() {
        let text = name.as_str().unwrap_or_default();
        errors.each_invalid(&at.index(index), text, &names::dns_1035_label(text));
    }
}

fn conversion(conversion: &Value, at: &Path<'_>, errors: &mut Errors) {
    if conversion.has("strategy") {
        errors.one_of(conversion, "strategy", &["None", "Webhook"], at);
    }
    if conversion.text("strategy") == "Webhook" {
        if !conversion["webhook"].has("clientConfig") {
            errors.required(&at.field("webhookClientConfig"), "required when strategy is set to Webhook");
        }
        if conversion["webhook"].list("conversionReviewVersions").is_empty() {
            errors.required(&at.field("conversionReviewVersions"), "");
        }
    }
}
