//! CustomResourceDefinitions: names, versions, columns, subresources and conversion. Rules in CEL are not compiled.
//!
//! Checked in the real server's order: first the words common to all versions (`spec.validation`), then each version's
//! own.

mod defaults;
mod naming;
mod pattern;
mod schema;
mod selectable;
mod structure;
mod versions;
mod words;

use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_later, repeats, texts};
use super::errors::{Errors, Path, immutable};
use super::{names, registrations};

const APPROVED: &str = "api-approved.kubernetes.io";
const PROPOSAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Checks a new CustomResourceDefinition, its metadata apart.
pub fn definition(object: &Value, errors: &mut Errors) {
    let name = object["metadata"].text("name");
    if name != format!("{}.{}", object["spec"]["names"].text("plural"), object["spec"].text("group")) {
        errors.invalid(&Path::root("metadata.name"), name, "must be spec.names.plural+\".\"+spec.group");
    }
    spec(&object["spec"], errors);
    outcome(object, errors);
    approval(None, object, errors);
    everything_kept(object, errors);
}

/// Checks a changed CustomResourceDefinition: the kind of stored objects stays.
pub fn definition_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    spec(after, errors);
    if is_established(old) {
        immutable(before, after, "scope", &at, errors);
        immutable(&before["names"], &after["names"], "kind", &at.field("names"), errors);
    }
    immutable(before, after, "group", &at, errors);
    immutable(&before["names"], &after["names"], "plural", &at.field("names"), errors);
    outcome(new, errors);
    approval(Some(old), new, errors);
    everything_kept(new, errors);
}

/// Checks the status of a CustomResourceDefinition.
pub fn definition_status(object: &Value, errors: &mut Errors) {
    naming::names_of(&object["status"]["acceptedNames"], &Path::root("status.acceptedNames"), errors);
}

fn spec(spec: &Value, errors: &mut Errors) {
    let at = Path::root("spec");
    group(spec.text("group"), &at.field("group"), errors);
    if spec.text("scope").is_empty() {
        errors.required(&at.field("scope"), "");
    } else {
        errors.one_of(spec, "scope", &["Cluster", "Namespaced"], &at);
    }
    versions::each(spec, &at, errors);
    naming::required(&spec["names"], &at.field("names"), errors);
    naming::names_of(&spec["names"], &at.field("names"), errors);
    versions::shared(spec, &at, errors);
    conversion(spec, &at.field("conversion"), errors);
}

/// Checks the outcome so far.
fn outcome(object: &Value, errors: &mut Errors) {
    definition_status(object, errors);
    let (list, stored) = (Path::root("status.storedVersions"), object["status"].list("storedVersions"));
    let versions = object["spec"].list("versions");
    if stored.is_empty() {
        return errors.invalid(&list, &Value::Null, "must have at least one stored version");
    }
    let repeated = repeats(versions.iter().map(|version| version["name"].to_string()));
    for (index, version) in versions.iter().enumerate() {
        // A name counts once, even where several versions have it.
        if version.flag("storage") && (repeated[index] || !stored.contains(&version["name"])) {
            let detail = format!("must have the storage version {}", version.text("name"));
            errors.invalid(&list, &Value::from(stored), &detail);
        }
    }
    let (again, names) = (repeated_later(stored.iter().map(Value::to_string)), texts(versions, "name"));
    for (index, name) in stored.iter().enumerate().filter_map(|(index, name)| Some((index, name.as_str()?))) {
        if !again[index] && !names.contains(name) {
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

fn group(group: &str, at: &Path<'_>, errors: &mut Errors) {
    if group.is_empty() {
        return errors.required(at, "");
    }
    let said = names::dns_1123_subdomain(group);
    if !said.is_empty() {
        errors.invalid(at, group, &said.join(","));
    } else if !group.contains('.') {
        errors.invalid(at, group, "should be a domain with at least one dot");
    }
}

/// The state of approval of a group that is Kubernetes' own.
#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Given,
    Unreadable,
}

fn approval_of(object: &Value) -> Approval {
    let said = object["metadata"]["annotations"].text(APPROVED);
    let is_address = said.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.split(['/', '?', '#']).next().unwrap_or_default().is_empty()
    });
    match said {
        "" => Approval::Missing,
        said if said.starts_with("unapproved") || is_address => Approval::Given,
        _ => Approval::Unreadable,
    }
}

fn approval(old: Option<&Value>, new: &Value, errors: &mut Errors) {
    let group = new["spec"].text("group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|start| start.is_empty() || start.ends_with('.')));
    let state = approval_of(new);
    if !protected || old.is_some_and(|old| approval_of(old) == state) {
        return;
    }
    let at = Path::root("metadata.annotations");
    let must = format!("protected groups must have approval annotation {APPROVED:?}");
    match state {
        Approval::Given => {}
        Approval::Missing => errors.required(&at.key(APPROVED), &format!("{must}, {PROPOSAL}")),
        Approval::Unreadable => {
            let detail = format!("{must} with either a URL or a reason starting with \"unapproved\", {PROPOSAL}");
            errors.invalid(&at.key(APPROVED), new["metadata"]["annotations"].text(APPROVED), &detail);
        }
    }
}

fn everything_kept(object: &Value, errors: &mut Errors) {
    if object["spec"].flag("preserveUnknownFields") {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&Path::root("spec.preserveUnknownFields"), true, detail);
    }
}

fn conversion(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(conversion) = spec.some("conversion") else { return };
    let strategy = conversion.text("strategy");
    if spec.flag("preserveUnknownFields") && strategy != "None" {
        errors.invalid(&at.field("strategy"), strategy, "must be None if spec.preserveUnknownFields is true");
    }
    if strategy.is_empty() {
        errors.required(&at.field("strategy"), "");
    } else {
        errors.one_of(conversion, "strategy", &["None", "Webhook"], at);
    }
    let (webhook, client_at) = (&conversion["webhook"], at.field("webhookClientConfig"));
    let (reviews, reviews_at) = (webhook.list("conversionReviewVersions"), at.field("conversionReviewVersions"));
    if strategy == "Webhook" {
        match webhook.some("clientConfig") {
            None => errors.required(&client_at, "required when strategy is set to Webhook"),
            Some(client) => registrations::client(client, &client_at, errors),
        }
        if reviews.is_empty() {
            errors.required(&reviews_at, "");
        } else {
            registrations::review_versions(reviews, &reviews_at, errors);
        }
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if webhook.has("clientConfig") {
        errors.forbidden(&client_at, detail);
    }
    if !reviews.is_empty() {
        errors.forbidden(&reviews_at, detail);
    }
}
