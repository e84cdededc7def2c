//! Workloads that keep pods running: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::value_ext::{ValueExt, remove, repeats};
use super::counts::{amount, at_most_all, count_or_percent, not_negative};
use super::errors::{Errors, Path, Shown};
use super::storage::claims;
use super::{names, pod, selector};

/// Checks a Deployment.
pub fn deployment(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    not_negative(spec, "replicas", &at, errors);
    required_selector(spec, "deployment", &at, errors);
    replicated_template(spec, "ReplicaSet", "invalid label selector", &at, errors);
    deployment_strategy(&spec["strategy"], &at.field("strategy"), errors);
    not_negative(spec, "minReadySeconds", &at, errors);
    not_negative(spec, "revisionHistoryLimit", &at, errors);
    if let Some(deadline) = spec.int("progressDeadlineSeconds") {
        not_negative(spec, "progressDeadlineSeconds", &at, errors);
        if deadline <= spec.int("minReadySeconds").unwrap_or_default() {
            errors.invalid(&at.field("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds");
        }
    }
}

/// Checks a ReplicaSet.
pub fn replica_set(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    not_negative(spec, "replicas", &at, errors);
    not_negative(spec, "minReadySeconds", &at, errors);
    required_selector(spec, "deployment", &at, errors);
    replicated_template(spec, "ReplicaSet", "invalid label selector", &at, errors);
}

fn required_selector(spec: &Value, kind: &str, at: &Path<'_>, errors: &mut Errors) {
    let at = at.field("selector");
    match spec.some("selector") {
        None => errors.required(&at, ""),
        Some(given) => {
            selector::selector(given, &at, errors);
            if selector::is_empty(given) {
                let shown = Shown::Plain(selector::shown(given));
                errors.invalid(&at, shown, &format!("empty selector is invalid for {kind}"));
            }
        }
    }
}

/// The template of pods that are kept running for ever.
fn replicated_template(spec: &Value, kind: &str, bad_selector: &str, at: &Path<'_>, errors: &mut Errors) {
    let (template, given) = (&spec["template"], &spec["selector"]);
    let template_at = at.field("template");
    let labels = template["metadata"].get("labels");
    match selector::matches(given, labels) {
        None => {
            errors.invalid(&at.field("selector"), Shown::Plain(selector::shown(given)), bad_selector);
            return;
        }
        Some(false) if given.is_null() || !selector::is_empty(given) => {
            mismatch(labels, &template_at, errors);
        }
        Some(_) => {}
    }
    pod::template(template, &template_at, errors);
    runs_for_ever(template, kind, &template_at, errors);
}

fn mismatch(labels: Option<&Value>, template: &Path<'_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    let shown = labels.unwrap_or(&Value::Null);
    errors.invalid(&metadata.field("labels"), shown, "`selector` does not match template `labels`");
}

fn runs_for_ever(template: &Value, kind: &str, at: &Path<'_>, errors: &mut Errors) {
    let (spec, at) = (&template["spec"], at.field("spec"));
    let policy = spec.text("restartPolicy");
    if policy != "Always" {
        errors.not_supported(&at.field("restartPolicy"), policy, &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&at.field("activeDeadlineSeconds"), &detail);
    }
}

fn deployment_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rolling_at = at.field("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if strategy.has("rollingUpdate") {
                errors.forbidden(&rolling_at, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let unavailable_at = rolling_at.field("maxUnavailable");
            count_or_percent(unavailable, &unavailable_at, errors);
            count_or_percent(surge, &rolling_at.field("maxSurge"), errors);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                errors.invalid(&unavailable_at, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(unavailable, &unavailable_at, errors);
        }
        other => {
            let rolling = rolling_as_go(&strategy["rollingUpdate"]);
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(other));
            errors.not_supported(at, Shown::Plain(shown), &["Recreate", "RollingUpdate"]);
        }
    }
}

/// Returns a rolling update as the internal type's JSON shows it.
fn rolling_as_go(rolling: &Value) -> String {
    if rolling.is_null() {
        return "null".to_owned();
    }
    let field = |name: &str| if rolling[name].is_null() { "0".to_owned() } else { rolling[name].to_string() };
    format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", field("maxUnavailable"), field("maxSurge"))
}

/// Checks a ReplicationController.
pub fn replication_controller(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    not_negative(spec, "minReadySeconds", &at, errors);
    let labels = spec.entries("selector");
    if labels.is_empty() {
        errors.required(&at.field("selector"), "");
    }
    not_negative(spec, "replicas", &at, errors);
    let template_at = at.field("template");
    let Some(template) = spec.some("template") else {
        errors.required(&template_at, "");
        return;
    };
    let own = template["metadata"].entries("labels");
    if !labels.is_empty() && !selector::plain_matches(labels, own) {
        mismatch(template["metadata"].get("labels"), &template_at, errors);
    }
    pod::template(template, &template_at, errors);
    runs_for_ever(template, "ReplicationController", &template_at, errors);
}

/// The choice if claims are checked: those of an old StatefulSet stay as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    New,
    Old,
}

/// Checks a new StatefulSet.
pub fn new_stateful_set(object: &Value, errors: &mut Errors) {
    any_stateful_set(object, Claims::New, errors);
}

/// Checks a StatefulSet.
pub fn stateful_set(object: &Value, errors: &mut Errors) {
    any_stateful_set(object, Claims::Old, errors);
}

fn any_stateful_set(object: &Value, claimed: Claims, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let given = &spec["selector"];
    match spec.text("podManagementPolicy") {
        "" => errors.required(&at.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&at.field("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'"),
    }
    stateful_set_strategy(&spec["updateStrategy"], &at.field("updateStrategy"), errors);
    let policy_at = at.field("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let policy = spec["persistentVolumeClaimRetentionPolicy"].text(name);
        if !["Delete", "Retain"].contains(&policy) {
            errors.not_supported(&policy_at.field(name), policy, &["Retain", "Delete"]);
        }
    }
    let claims_at = at.field("volumeClaimTemplates");
    for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate().filter(|_| claimed == Claims::New) {
        claims::spec(&claim["spec"], &claims_at.index(index).field("spec"), errors);
    }
    not_negative(spec, "replicas", &at, errors);
    not_negative(spec, "minReadySeconds", &at, errors);
    if let Some(ordinals) = spec.some("ordinals") {
        not_negative(ordinals, "start", &at.field("ordinals"), errors);
    }
    let name = spec.text("serviceName");
    if !name.is_empty() && claimed == Claims::New {
        errors.each_invalid(&at.field("serviceName"), name, &names::dns_1123_label(name));
    }
    required_selector(spec, "statefulset", &at, errors);
    let (template, template_at) = (&spec["template"], at.field("template"));
    let labels = template["metadata"].get("labels");
    match selector::matches(given, labels) {
        None => errors.invalid(&at.field("selector"), Shown::Plain(selector::shown(given)), ""),
        Some(matches) => {
            if !matches && (given.is_null() || !selector::is_empty(given)) {
                mismatch(labels, &template_at, errors);
            }
            pod::template(&with_claims(spec), &template_at, errors);
        }
    }
    runs_for_ever(template, "StatefulSet", &template_at, errors);
}

/// Returns the template as its pods will be: each claim a volume.
fn with_claims(spec: &Value) -> Value {
    let claims = spec.list("volumeClaimTemplates");
    let mut template = spec["template"].clone();
    if !template["spec"].is_object() {
        return template;
    }
    // The controller sets them, pod by pod.
    remove(&mut template["spec"], "hostname");
    remove(&mut template["spec"], "subdomain");
    if claims.is_empty() {
        return template;
    }
    let name = |claim: &Value| claim["metadata"].text("name").to_owned();
    let volume = |claim: &Value| json!({ "name": name(claim), "persistentVolumeClaim": { "claimName": name(claim) } });
    let (repeated, names) = (repeats(claims.iter().map(name)), claims.iter().map(name).collect::<BTreeSet<String>>());
    let once = claims.iter().zip(repeated).filter(|(_, repeated)| !repeated);
    let mut volumes: Vec<Value> = once.map(|(claim, _)| volume(claim)).collect();
    volumes.extend(template["spec"].list("volumes").iter().filter(|own| !names.contains(own.text("name"))).cloned());
    template["spec"]["volumes"] = Value::Array(volumes);
    template
}

fn stateful_set_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rolling_at = at.field("rollingUpdate");
    match strategy.text("type") {
        "" => errors.required(at, ""),
        "OnDelete" => {
            if let Some(rolling) = strategy.some("rollingUpdate") {
                let partition = rolling.int("partition").unwrap_or_default();
                let shown = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling["maxUnavailable"]);
                errors.invalid(&rolling_at, Shown::Plain(shown), "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            let Some(rolling) = strategy.some("rollingUpdate") else { return };
            not_negative(rolling, "partition", &rolling_at, errors);
        }
        other => {
            let rolling = match strategy.some("rollingUpdate") {
                Some(rolling) => format!(
                    "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
                    rolling.int("partition").unwrap_or_default(),
                    rolling["maxUnavailable"]
                ),
                None => "null".to_owned(),
            };
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(other));
            errors.invalid(at, Shown::Plain(shown), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// Checks a DaemonSet.
pub fn daemon_set(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let (given, template) = (&spec["selector"], &spec["template"]);
    let template_at = at.field("template");
    selector::selector(given, &at.field("selector"), errors);
    let labels = template["metadata"].get("labels");
    if selector::matches(given, labels) == Some(false) {
        mismatch(labels, &template_at, errors);
    }
    if !given.is_null() && selector::is_empty(given) {
        let shown = Shown::Plain(selector::shown(given));
        errors.invalid(&at.field("selector"), shown, "empty selector is invalid for daemonset");
    }
    pod::template(template, &template_at, errors);
    runs_for_ever(template, "DaemonSet", &template_at, errors);
    not_negative(spec, "minReadySeconds", &at, errors);
    daemon_set_strategy(&spec["updateStrategy"], &at.field("updateStrategy"), errors);
    not_negative(spec, "revisionHistoryLimit", &at, errors);
}

fn daemon_set_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (rolling, at) = (&strategy["rollingUpdate"], at.field("rollingUpdate"));
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            count_or_percent(unavailable, &at.field("maxUnavailable"), errors);
            count_or_percent(surge, &at.field("maxSurge"), errors);
            at_most_all(unavailable, &at.field("maxUnavailable"), errors);
            at_most_all(surge, &at.field("maxSurge"), errors);
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    errors.invalid(&at.field("maxSurge"), surge, "may not be set when maxUnavailable is non-zero");
                }
                (false, false) => errors.required(&at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        other => {
            let rolling = rolling_as_go(&strategy["rollingUpdate"]);
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(other));
            errors.not_supported(at, Shown::Plain(shown), &["RollingUpdate", "OnDelete"]);
        }
    }
}
