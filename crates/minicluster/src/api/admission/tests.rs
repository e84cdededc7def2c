//! The rules with nothing but a store: no server, no requests.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Admission;
use crate::api::registry::Registry;
use crate::api::route::Target;
use crate::api::store::Store;
use crate::{Clock, Random};

/// Returns the rules for a store with these objects, each with its group and plural.
fn admission(objects: &[(&str, &str, Value)]) -> Admission {
    Admission::new(Store::of(objects), Clock::new(|| Timestamp::UNIX_EPOCH), Random::new(0), true)
}

fn target(group: &str, resource: &str, namespace: Option<&str>) -> Target {
    let resource = Registry::built_in().any_version(group, resource).unwrap().clone();
    Target { resource, namespace: namespace.map(str::to_owned), name: None, subresource: None, watch: false }
}

fn class(name: &str, value: i64, default: bool) -> (&'static str, &'static str, Value) {
    let object = json!({ "metadata": { "name": name }, "value": value, "globalDefault": default });
    ("scheduling.k8s.io", "priorityclasses", object)
}

#[test]
fn a_pod_gets_the_least_important_default_class() {
    let rules = admission(&[class("high", 10, true), class("low", 5, true), class("lowest", 1, false)]);
    let mut pod = json!({ "metadata": { "name": "x" }, "spec": {} });
    rules.set_priority(&mut pod).unwrap();
    assert_eq!((&pod["spec"]["priorityClassName"], &pod["spec"]["priority"]), (&json!("low"), &json!(5)));
    let mut other = json!({ "metadata": { "name": "x" }, "spec": { "priorityClassName": "none" } });
    let refused = rules.set_priority(&mut other).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (403, "pods \"x\" is forbidden: no PriorityClass with name none was found")
    );
}

#[test]
fn a_claim_gets_the_newest_default_class() {
    let class = |name: &str, made: &str, default: &str| {
        let annotations = json!({ "storageclass.kubernetes.io/is-default-class": default });
        let metadata = json!({ "name": name, "creationTimestamp": made, "annotations": annotations });
        ("storage.k8s.io", "storageclasses", json!({ "metadata": metadata }))
    };
    let rules = admission(&[
        class("old", "2026-01-01T00:00:00Z", "true"),
        class("new", "2026-02-01T00:00:00Z", "true"),
        class("newest", "2026-03-01T00:00:00Z", "false"),
    ]);
    let mut claim = json!({ "spec": {} });
    rules.set_storage_class(&mut claim);
    assert_eq!(claim["spec"]["storageClassName"], "new");
}

#[test]
fn a_quota_is_charged_for_what_a_change_adds() {
    let hard = json!({ "pods": "2" });
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q", "namespace": "a", "uid": "u" },
        "spec": { "hard": hard }, "status": { "hard": hard, "used": { "pods": "1" } },
    });
    let rules = admission(&[("", "resourcequotas", quota)]);
    let pods = target("", "pods", Some("a"));
    let pod = json!({ "metadata": { "name": "x", "namespace": "a" }, "spec": {}, "status": { "phase": "Pending" } });
    let charged = rules.quota_changes(&pods, None, Some(&pod)).unwrap();
    let [quota] = charged.as_slice() else { panic!("{charged:?}") };
    assert_eq!(quota.object.as_ref().unwrap()["status"]["used"]["pods"], "2");
    // An existing object is not charged again, nor one in a namespace without limits.
    assert!(rules.quota_changes(&pods, Some(&pod), Some(&pod)).unwrap().is_empty());
    assert!(!rules.has_quotas(&target("", "pods", Some("b"))) && rules.has_quotas(&pods));
}

#[test]
fn a_service_gets_no_port_that_another_has() {
    let service = |name: &str| {
        let metadata = json!({ "name": name, "namespace": "a" });
        let ports = json!([{ "port": 80, "nodePort": 30_080, "protocol": "TCP" }]);
        json!({ "metadata": metadata, "spec": { "type": "NodePort", "clusterIP": "None", "ports": ports } })
    };
    let rules = admission(&[("", "services", service("first"))]);
    let services = Target { name: Some("second".to_owned()), ..target("", "services", Some("a")) };
    let refused = rules.assign(&services, None, &mut service("second"), super::Effect::Stored).unwrap_err();
    assert!(refused.message.contains("30080: provided port is already allocated"), "{}", refused.message);
}
