use super::*;
use crate::rollout::guess;

/// Returns a Deployment that belay applied, with these other managers' fields of it.
fn deployment(spec: Value, others: &[(&str, Value)]) -> Value {
    let own = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {
        "f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {},
            "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}});
    object("apps/v1", "Deployment", json!({"template": {"spec": spec}}), own, others)
}

fn object(api_version: &str, kind: &str, spec: Value, own: Value, others: &[(&str, Value)]) -> Value {
    let mut entries = vec![json!({"manager": "belay", "operation": "Apply", "fieldsV1": own})];
    let entry =
        |(manager, fields): &(&str, Value)| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
    entries.extend(others.iter().map(entry));
    json!({"apiVersion": api_version, "kind": kind, "spec": spec,
        "metadata": {"name": "web", "resourceVersion": "7", "managedFields": entries}})
}

fn sent() -> Value {
    let container = json!({"name": "app", "image": "web:1", "env": [{"name": "A", "value": "1"}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}})
}

fn template(fields: Value) -> Value {
    json!({"f:spec": {"f:template": fields}})
}

fn found(live: &Value, body: &Value) -> Option<Surplus> {
    Surplus::of(live, body, &IgnoredFields::default(), Reach::Manifest, None)
}

fn paths(surplus: Option<Surplus>) -> Vec<String> {
    surplus.map(|found| found.fields.into_iter().map(|field| field.path).collect()).unwrap_or_default()
}

/// Each case is an addition to a pod template, its entry in `managedFields`, and its path.
#[test]
fn what_others_add_to_a_pod_template_is_surplus() {
    let app = json!({"name": "app", "image": "web:1", "env": [{"name": "A", "value": "1"}]});
    let with_env = json!({"name": "app", "image": "web:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
    let renamed = json!({"name": "app", "image": "web:1", "env": [{"name": "B", "value": "1"}]});
    let other = json!({"name": "web2", "image": "web:1"});
    let in_app = |fields: Value| template(json!({"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": fields}}}));
    let item = json!({".": {}, "f:name": {}, "f:value": {}});
    let cases: Vec<(Value, Value, Vec<&str>)> = vec![
        (
            json!({"containers": [app], "nodeSelector": {"disk": "ssd"}}),
            template(json!({"f:spec": {"f:nodeSelector": {}}})),
            vec!["spec.template.spec.nodeSelector"],
        ),
        (
            json!({"containers": [with_env]}),
            in_app(json!({"f:env": {"k:{\"name\":\"B\"}": item}})),
            vec!["spec.template.spec.containers[name=app].env[name=B]"],
        ),
        (
            json!({"containers": [renamed]}),
            in_app(json!({"f:env": {".": {}, "k:{\"name\":\"B\"}": item}})),
            vec!["spec.template.spec.containers[name=app].env[name=B]"],
        ),
        (
            json!({"containers": [other]}),
            template(
                json!({"f:spec": {"f:containers": {"k:{\"name\":\"web2\"}": {".": {}, "f:image": {}, "f:name": {}}}}}),
            ),
            vec!["spec.template.spec.containers[name=web2]"],
        ),
        // A field that belay sends is another question.
        (json!({"containers": [app]}), in_app(json!({"f:image": {}})), vec![]),
        (json!({"containers": [app]}), json!({"f:spec": {"f:minReadySeconds": {}}}), vec![]),
        (
            json!({"containers": [app]}),
            template(json!({"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}})),
            vec![],
        ),
    ];
    for (spec, fields, expected) in cases {
        let live = deployment(spec, &[("kubectl-edit", fields.clone())]);
        let surplus = found(&live, &sent());
        assert_eq!(paths(surplus.clone()), expected, "{fields}");
        let Some(surplus) = surplus else { continue };
        assert!(surplus.in_template);
        assert_eq!(surplus.fields[0].manager, "kubectl-edit");
        let mut without = live.clone();
        surplus.take_out(&mut without);
        without["metadata"]["managedFields"] = surplus.patch(&live)[1]["value"].clone();
        let text = without["spec"].to_string();
        assert!(!text.contains("ssd") && !text.contains("\"B\"") && !text.contains("web2"), "{text}");
        let entries = without["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "nothing is left of the other: {entries:?}");
        assert_eq!(found(&without, &sent()), None, "once is enough");
    }
}

#[test]
fn what_stays_others_and_what_a_revision_does_not_have() {
    let live = |manager: &str, annotation: &str| {
        let fields = template(json!({"f:metadata": {"f:annotations": {".": {}, format!("f:{annotation}"): {}}}}));
        let mut live = deployment(json!({"containers": []}), &[(manager, fields)]);
        live["spec"]["template"]["metadata"] = json!({"annotations": {annotation: "now"}});
        live
    };
    let reach = |live: &Value, reach: Reach| {
        Surplus::of(live, &sent(), &IgnoredFields::default(), reach, None).map(|surplus| surplus.fields.len())
    };
    for (manager, annotation, manifest, revision) in [
        ("kubectl-rollout", marks::RESTARTED_AT, None, Some(1)),
        ("kubectl-edit", "team", Some(1), Some(1)),
        ("before-belay", "team", None, Some(1)),
        ("kubectl-edit", marks::CONFIG_HASH, None, None),
    ] {
        let live = live(manager, annotation);
        let seen = (reach(&live, Reach::Manifest), reach(&live, Reach::Revision));
        assert_eq!(seen, (manifest, revision), "{manager} {annotation}");
    }
    let team = "/spec/template/metadata/annotations/team".parse().unwrap();
    let ignored = IgnoredFields::of([&team]);
    assert_eq!(Surplus::of(&live("kubectl-edit", "team"), &sent(), &ignored, Reach::Revision, None), None);
}

#[test]
fn defaults_of_the_server_are_no_surplus() {
    let container = json!({"name": "app", "image": "web:1", "imagePullPolicy": "Never"});
    let fields = template(json!({"f:spec": {"f:dnsPolicy": {},
        "f:containers": {"k:{\"name\":\"app\"}": {"f:imagePullPolicy": {}}}}}));
    let live = deployment(json!({"containers": [container], "dnsPolicy": "ClusterFirst"}), &[("helm", fields)]);
    let all = found(&live, &sent()).unwrap();
    assert!(all.may_be_defaults);
    assert_eq!(all.removal(&live)[0]["path"], "/spec");
    let mut defaulted = live.clone();
    defaulted["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    let of =
        |defaulted: &Value| Surplus::of(&live, &sent(), &IgnoredFields::default(), Reach::Manifest, Some(defaulted));
    assert_eq!(paths(of(&defaulted)), ["spec.template.spec.containers[name=app].imagePullPolicy"]);
    assert_eq!(of(&live), None);
}

fn service(ports: Value, own: &[u16], theirs: &[u16]) -> Value {
    let fields = |ports: &[u16]| {
        let item = |port: &u16| {
            (format!("k:{{\"port\":{port},\"protocol\":\"TCP\"}}"), json!({".": {}, "f:port": {}, "f:name": {}}))
        };
        json!({"f:spec": {"f:ports": Value::Object(ports.iter().map(item).collect())}})
    };
    object("v1", "Service", json!({"ports": ports}), fields(own), &[("kubectl-patch", fields(theirs))])
}

#[test]
fn an_item_whose_key_somebody_changed_is_surplus_and_one_that_somebody_added_is_not() {
    let port = |port: u16, name: &str| json!({"port": port, "name": name, "protocol": "TCP"});
    let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}});
    let changed = service(json!([port(83, "http"), port(443, "https")]), &[443], &[83]);
    let surplus = found(&changed, &body).unwrap();
    assert_eq!(surplus.fields[0].path, "spec.ports[port=83,protocol=TCP]");
    assert!(!surplus.in_template && !surplus.may_be_defaults);
    assert_eq!(guess(&changed, &body, &surplus)["spec"]["ports"][0], json!({"port": 80, "name": "http"}));
    let added = service(json!([port(80, "http"), port(443, "https"), port(83, "more")]), &[80, 443], &[83]);
    assert_eq!(found(&added, &body), None);
    let fields = foreign_fields(&changed, &body, &IgnoredFields::default());
    assert_eq!(fields.iter().map(|field| field.manager.as_str()).collect::<Vec<_>>(), ["kubectl-patch"]);
}

#[test]
fn a_field_that_another_took_is_named_with_its_manager() {
    let image = template(json!({"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {"f:image": {}}}}}));
    let mut live = deployment(json!({"containers": [{"name": "app", "image": "web:9"}]}), &[("updater", image)]);
    let fields = |live: &Value| foreign_fields(live, &sent(), &IgnoredFields::default());
    assert_eq!(fields(&live), [], "both own it, so it is as both say");
    let own = "/metadata/managedFields/0/fieldsV1/f:spec/f:template/f:spec/f:containers";
    let containers = live.pointer_mut(own).unwrap();
    containers["k:{\"name\":\"app\"}"].as_object_mut().unwrap().remove("f:image");
    let expected = ForeignField {
        path: "spec.template.spec.containers[name=app].image".to_owned(),
        manager: "updater".to_owned(),
    };
    assert_eq!(fields(&live), [expected]);
}

#[test]
fn a_size_that_somebody_scaled_to_is_named_with_its_manager_unless_it_is_left_alone() {
    let mut live = deployment(json!({"containers": [{"name": "app", "image": "web:1"}]}), &[]);
    let entry = |manager: &str, subresource: &str, fields: Value| json!({"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": fields});
    let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
    entries[0]["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:replicas");
    entries.push(entry("kubectl", "scale", json!({"f:spec": {"f:replicas": {}}})));
    entries.push(entry("kube-controller-manager", "status", json!({"f:status": {"f:replicas": {}}})));
    let mut body = sent();
    body["spec"]["replicas"] = json!(3);
    let expected = ForeignField { path: "spec.replicas".to_owned(), manager: "kubectl".to_owned() };
    assert_eq!(foreign_fields(&live, &body, &IgnoredFields::default()), [expected]);
    assert_eq!(foreign_fields(&live, &body, &IgnoredFields::default().and_replicas()), []);
}

#[test]
fn keys_that_left_string_data_are_surplus() {
    let own = json!({"f:stringData": {"f:new": {}, "f:old": {}}});
    let mut live = object("v1", "Secret", Value::Null, own, &[]);
    live["data"] = json!({"old": "YQ==", "new": "Yg=="});
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "data": {"new": "Yg=="}});
    let surplus = found(&live, &body).unwrap();
    assert_eq!(surplus.fields[0].path, "data.old");
    let entries = &surplus.patch(&live)[1]["value"];
    assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:new": {}, "f:old": {}}}));
    surplus.take_out(&mut live);
    assert_eq!(live["data"], json!({"new": "Yg=="}));
    assert_eq!(foreign_fields(&live, &body, &IgnoredFields::default()), []);
}
