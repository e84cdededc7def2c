//! Objects that were first made by `kubectl apply`: taking them over so that nothing of them stays behind.
//!
//! A client-side apply owns its fields as the manager `kubectl-client-side-apply`. Were they left with it, a field that
//! the repository does not have would stay for ever: no apply of belay's ever gives up fields that belay does not own.
//! So before the first apply the fields are written over to belay; that apply then removes fields that the manifest
//! does not name.
//! <https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply-to-server-side-apply>

use serde_json::{Value, json};

use super::ignored_fields::IgnoredFields;
use super::list_items::Below;
use super::managers::{Takeover, unchanged, with_managers};
use super::owned::{is_belays, owned_fields};
use super::recreated_object::{left_behind, readopt};
use super::surplus::{Reach, Surplus};
use crate::rollout::marks;
use crate::rollout::plan::strategy_default::own_strategy_default;

/// The manager of `kubectl apply`.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";
/// The annotation that `kubectl apply` keeps on the object for itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns how a live object is taken over, if `kubectl apply` created it and belay has not applied it yet, or if
/// somebody has created it again. `body` is the body that belay would send.
#[must_use]
pub fn takeover(live: &Value, body: &Value) -> Option<Takeover> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    if entries.iter().any(is_belays) {
        return left_behind(live, body);
    }
    let at = entries.iter().position(|entry| {
        entry["manager"] == CLIENT_SIDE && entry["operation"] == "Update" && entry.get("subresource").is_none()
    })?;
    let mut managers = entries.clone();
    let fields = managers[at]["fieldsV1"].clone();
    managers[at]["manager"] = json!(marks::FIELD_MANAGER);
    managers[at]["operation"] = json!("Apply");
    // All of them and not this one's number: what was read of the object leaves out entries that are none.
    let mut patch = with_managers(live, managers);
    if let (Some(patch), Some(_)) = (patch.as_array_mut(), marks::annotation(live, LAST_APPLIED)) {
        let name = LAST_APPLIED.replace('~', "~0").replace('/', "~1");
        patch.push(json!({"op": "remove", "path": format!("/metadata/annotations/{name}")}));
    }
    let template = fields.pointer("/f:spec/f:template").unwrap_or(&Value::Null);
    Some(Takeover {
        in_template: stays_behind(template, body["spec"].get("template")),
        leaves_fields: stays_behind(&without_last_applied(&fields), Some(body)),
        patch,
    })
}

/// Returns the JSON patch that must come before an apply of `body`, if there is one: fields that others own for reasons
/// of the past, and that would stay or come back, become belay's alone. It fails if the object has changed meanwhile.
#[must_use]
pub fn before_apply(live: &Value, body: &Value, ignored: &IgnoredFields, reach: Reach) -> Option<Value> {
    let over = takeover(live, body).map(|over| over.patch);
    let surplus = || Surplus::of(live, body, ignored, reach, None).map(|surplus| surplus.patch(live));
    over.or_else(|| readopt(live))
        .or_else(|| old_hold(live, body))
        .or_else(surplus)
        .or_else(|| own_strategy_default(live, body))
}

/// Returns the JSON patch that removes a hold that `body` does not have and that somebody else wrote: an undo with kubectl
/// brings the annotations of its revision along, and no apply of belay's removes them.
pub(in crate::rollout) fn old_hold(live: &Value, body: &Value) -> Option<Value> {
    marks::annotation(live, marks::HOLD)?;
    let is_sent = marks::annotation(body, marks::HOLD).is_some();
    let own = owned_fields(live).and_then(|own| own.get("f:metadata")?.get("f:annotations"));
    let is_own = own.is_some_and(|own| own.get(format!("f:{}", marks::HOLD)).is_some());
    let path = format!("/metadata/annotations/{}", marks::HOLD.replace('/', "~1"));
    (!is_sent && !is_own).then(|| json!([unchanged(live), {"op": "remove", "path": path}]))
}

fn without_last_applied(fields: &Value) -> Value {
    let mut fields = fields.clone();
    let annotations = fields.pointer_mut("/f:metadata/f:annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(&format!("f:{LAST_APPLIED}"));
        if annotations.keys().all(|key| key == ".")
            && let Some(metadata) = fields["f:metadata"].as_object_mut()
        {
            metadata.remove("f:annotations");
        }
    }
    fields
}

/// Returns true when some fields of a set are not sent.
fn stays_behind(fields: &Value, sent: Option<&Value>) -> bool {
    let Some(fields) = fields.as_object() else { return false };
    let sent = Below::of(sent);
    fields.iter().filter(|(key, _)| *key != ".").any(|(key, inner)| {
        let of_it = sent.at(key);
        of_it.is_none() || stays_behind(inner, of_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        json!({"metadata": {"resourceVersion": "7", "annotations": {LAST_APPLIED: "{}"}, "managedFields": [
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {}},
            {"manager": CLIENT_SIDE, "operation": "Update", "fieldsV1": {
                "f:metadata": {"f:annotations": {".": {}, format!("f:{LAST_APPLIED}"): {}}},
                "f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}}}]}})
    }

    fn body(spec: Value) -> Value {
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    #[test]
    fn a_hold_of_somebody_elses_goes_with_what_it_held() {
        let hold = |manager: &str, operation: &str| {
            json!({"metadata": {"resourceVersion": "7", "annotations": {marks::HOLD: "{}"}, "managedFields": [
                {"manager": manager, "operation": operation, "fieldsV1": {
                    "f:metadata": {"f:annotations": {format!("f:{}", marks::HOLD): {}}}}}]}})
        };
        let (none, held) = (body(json!({})), json!({"metadata": {"annotations": {marks::HOLD: "{}"}}}));
        let patch = old_hold(&hold("kubectl", "Update"), &none).unwrap();
        assert_eq!(patch[1], json!({"op": "remove", "path": "/metadata/annotations/belay.dev~1hold"}));
        assert_eq!(old_hold(&hold("kubectl", "Update"), &held), None, "it is sent");
        assert_eq!(old_hold(&hold(marks::FIELD_MANAGER, "Apply"), &none), None, "the apply removes it");
        assert_eq!(old_hold(&json!({"metadata": {}}), &none), None, "there is none");
    }

    #[test]
    fn what_the_manifest_lacks_stays_behind() {
        let template = json!({"spec": {"containers": [{"name": "app", "image": "web:1"}]}});
        let all = takeover(&live(), &body(json!({"paused": true, "template": template}))).unwrap();
        assert!(!all.leaves_fields && !all.in_template, "{all:?}");
        let less = takeover(&live(), &body(json!({"template": template}))).unwrap();
        assert!(less.leaves_fields && !less.in_template, "{less:?}");
        let other = json!({"spec": {"containers": [{"name": "other", "image": "web:1"}]}});
        let other = takeover(&live(), &body(json!({"paused": true, "template": other}))).unwrap();
        assert!(other.leaves_fields && other.in_template, "{other:?}");
    }

    #[test]
    fn the_patch_names_the_entry_and_the_revision_that_was_seen() {
        let patch = takeover(&live(), &body(json!({}))).unwrap().patch;
        assert_eq!(patch[0]["value"], "7");
        assert_eq!(
            (&patch[1]["path"], &patch[1]["value"][1]["manager"]),
            (&json!("/metadata/managedFields"), &json!("belay"))
        );
        assert_eq!(patch[2]["path"], "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration");
    }

    #[test]
    fn what_belay_has_applied_is_its_own_already() {
        let mut live = live();
        let own = json!({"manager": marks::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {}});
        live["metadata"]["managedFields"].as_array_mut().unwrap().push(own);
        assert_eq!(takeover(&live, &body(json!({}))), None);
        assert_eq!(takeover(&json!({"metadata": {}}), &body(json!({}))), None);
    }
}
