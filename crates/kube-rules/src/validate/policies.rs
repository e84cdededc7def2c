//! Policies about new and changed objects, and their bindings.

use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_texts, repeated_values};
use super::errors::{Errors, Path, Shown};
use super::registrations::{FAILURES, MATCHES, conditions, rule_of};
use super::{names, selector};

/// Checks the common part of both kinds of policy: their subjects. The expressions are not compiled.
fn about(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.one_of(spec, "failurePolicy", &FAILURES, at);
    if let Some(kind) = spec.some("paramKind") {
        let at = at.field("paramKind");
        for name in ["apiVersion", "kind"] {
            if kind.text(name).is_empty() {
                errors.required(&at.field(name), "");
            }
        }
    }
    match spec.some("matchConstraints") {
        None => errors.required(&at.field("matchConstraints"), ""),
        Some(constraints) => {
            let at = at.field("matchConstraints");
            match_resources(constraints, &at, errors);
            if constraints.list("resourceRules").is_empty() {
                errors.required(&at.field("resourceRules"), "");
            }
        }
    }
}

/// Checks the conditions of a policy, and the names in its expressions.
fn named(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    conditions(spec.list("matchConditions"), &at.field("matchConditions"), errors);
    let list = at.field("variables");
    for (index, variable) in spec.list("variables").iter().enumerate() {
        variable_of(variable, &list.index(index), errors);
    }
}

/// Checks a ValidatingAdmissionPolicy, its metadata apart.
pub fn policy(object: &Value, errors: &mut Errors) {
    const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
    let (spec, at) = (&object["spec"], Path::root("spec"));
    about(spec, &at, errors);
    named(spec, &at, errors);
    let (validations, annotations) = (spec.list("validations"), spec.list("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&at.field("validations"), detail);
        errors.required(&at.field("auditAnnotations"), detail);
        return;
    }
    let list = at.field("validations");
    for (index, validation) in validations.iter().enumerate() {
        let at = list.index(index);
        if validation.text("expression").trim().is_empty() {
            errors.required(&at.field("expression"), "expression is not specified");
        }
        message(validation, &at, errors);
        errors.one_of(validation, "reason", &REASONS[..3], &at);
    }
    let list = at.field("auditAnnotations");
    let repeated = repeated_texts(annotations, "key");
    for (index, annotation) in annotations.iter().enumerate() {
        let (at, key) = (list.index(index), annotation.text("key"));
        let whole = format!("{}/{key}", object["metadata"].text("name"));
        errors.each_invalid(&at.field("key"), whole.as_str(), &names::qualified_name(&whole));
        if annotation.text("valueExpression").trim().is_empty() {
            errors.required(&at.field("valueExpression"), "valueExpression is not specified");
        }
        if repeated[index] {
            errors.duplicate(&at.field("key"), key);
        }
    }
}

/// Checks the message about an object that a rule refuses.
fn message(validation: &Value, at: &Path<'_>, errors: &mut Errors) {
    let given = validation.text("messageExpression");
    if !given.is_empty() && given.trim().is_empty() {
        errors.invalid(&at.field("messageExpression"), given, "must be non-empty if specified");
    }
    let (said, at) = (validation.text("message"), at.field("message"));
    if !said.is_empty() && said.trim().is_empty() {
        errors.invalid(&at, said, "must be non-empty if specified");
    } else if said.trim().contains('\n') {
        errors.invalid(&at, said, "must not contain line breaks");
    }
}

/// Checks a variable that expressions may name.
fn variable_of(variable: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = variable.text("name");
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if name.is_empty() {
        errors.required(&at.field("name"), "name is not specified");
    } else if !starts || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        errors.invalid(&at.field("name"), name, "must be a valid CEL identifier");
    }
    if variable.text("expression").trim().is_empty() {
        errors.required(&at.field("expression"), "expression is not specified");
    }
}

fn match_resources(matches: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.one_of(matches, "matchPolicy", &MATCHES, at);
    for name in ["namespaceSelector", "objectSelector"] {
        selector::selector(&matches[name], &at.field(name), errors);
    }
    for part in ["resourceRules", "excludeResourceRules"] {
        let list = at.field(part);
        for (index, rule) in matches.list(part).iter().enumerate() {
            let at = list.index(index);
            let named = at.field("resourceNames");
            let known = rule.list("resourceNames");
            let repeated = repeated_values(known);
            for (index, name) in known.iter().enumerate() {
                let text = name.as_str().unwrap_or_default();
                errors.each_invalid(&named.index(index), text, &names::path_segment(text));
                if repeated[index] {
                    errors.duplicate(&named.index(index), name);
                }
            }
            rule_of(rule, &at, errors);
        }
    }
}

/// Checks a MutatingAdmissionPolicy, its metadata apart.
pub fn mutation(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    about(spec, &at, errors);
    no_deletions(&spec["matchConstraints"], &at.field("matchConstraints"), errors);
    named(spec, &at, errors);
    let (mutations, list) = (spec.list("mutations"), at.field("mutations"));
    if mutations.is_empty() {
        errors.required(&list, "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        one_mutation(mutation, &list.index(index), errors);
    }
    if spec.text("reinvocationPolicy").is_empty() {
        errors.required(&at.field("reinvocationPolicy"), "");
    } else {
        errors.one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &at);
    }
}

/// Checks that a change is written in one of two ways, and only in the one that it names.
fn one_mutation(mutation: &Value, at: &Path<'_>, errors: &mut Errors) {
    const WAYS: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    let ty = mutation.text("patchType");
    if ty.is_empty() {
        return errors.required(&at.field("patchType"), "");
    }
    let Some((_, own)) = WAYS.iter().find(|(known, _)| *known == ty) else {
        return errors.not_supported(&at.field("patchType"), ty, &WAYS.map(|(known, _)| known));
    };
    let own_at = at.field(own);
    match mutation.some(own) {
        None => errors.required(&own_at, &format!("must be specified when patchType is {ty}")),
        Some(way) if way.text("expression").trim().is_empty() => errors.required(&own_at.field("expression"), ""),
        Some(_) => {}
    }
    for (_, other) in WAYS.iter().filter(|(_, name)| name != own && mutation.has(name)) {
        let shown = format!("{{{other}}}");
        errors.invalid(&at.field(other), shown.as_str(), &format!("must not be specified when patchType is {ty}"));
    }
}

/// Checks a binding of a ValidatingAdmissionPolicy, its metadata apart.
pub fn policy_binding(object: &Value, errors: &mut Errors) {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let (spec, at) = (&object["spec"], Path::root("spec"));
    bound(spec, &at, errors);
    let (actions, list) = (spec.list("validationActions"), at.field("validationActions"));
    if actions.is_empty() {
        errors.required(&list, "at least one validation action is required");
    }
    let repeated = repeated_values(actions);
    for (index, action) in actions.iter().enumerate() {
        if repeated[index] {
            errors.duplicate(&list.index(index), action);
        } else if !ACTIONS.iter().any(|known| action == known) {
            errors.not_supported(&list.index(index), action, &ACTIONS);
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let shown = Shown::Plain(Value::from(actions).to_string());
        errors.invalid(
            &list,
            shown,
            "must not contain both Deny and Warn (repeating the same validation failure \
                       information in the API response and headers serves no purpose)",
        );
    }
}

/// Checks a binding of a MutatingAdmissionPolicy, its metadata apart.
pub fn mutation_binding(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    bound(spec, &at, errors);
    no_deletions(&spec["matchResources"], &at.field("matchResources"), errors);
}

/// Checks that the policy is not about deletions: a deleted object can't be changed on its way.
fn no_deletions(matches: &Value, at: &Path<'_>, errors: &mut Errors) {
    const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let at = at.field("resourceRules.operations");
    for operation in matches.list("resourceRules").iter().flat_map(|rule| rule.list("operations")) {
        if !OPERATIONS.iter().any(|known| operation == known) {
            errors.not_supported(&at, operation, &OPERATIONS);
        }
    }
}

/// Checks a binding: its policy, its subject, its parameters.
fn bound(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let policy = spec.text("policyName");
    if policy.is_empty() {
        errors.required(&at.field("policyName"), "");
    } else {
        errors.each_invalid(&at.field("policyName"), policy, &names::object_name(policy));
    }
    if let Some(parameters) = spec.some("paramRef") {
        let at = at.field("paramRef");
        let (named, selected) = (!parameters.text("name").is_empty(), parameters.has("selector"));
        const NOT_BOTH: &str = "name and selector are mutually exclusive";
        if named {
            let name = parameters.text("name");
            errors.each_invalid(&at.field("name"), name, &names::path_segment(name));
        }
        if !named && !selected {
            errors.required(&at, "one of name or selector must be specified");
        }
        if named && selected {
            errors.forbidden(&at.field("name"), NOT_BOTH);
        }
        if selected {
            selector::selector(&parameters["selector"], &at.field("selector"), errors);
        }
        if named && selected {
            errors.forbidden(&at.field("selector"), NOT_BOTH);
        }
        if !parameters.text("parameterNotFoundAction").is_empty() {
            errors.one_of(parameters, "parameterNotFoundAction", &["Deny", "Allow"], &at);
        } else {
            errors.required(&at.field("parameterNotFoundAction"), "");
        }
    }
    if let Some(matches) = spec.some("matchResources") {
        match_resources(matches, &at.field("matchResources"), errors);
    }
}
