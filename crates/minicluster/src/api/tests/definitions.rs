use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_as_soon_as_it_is_defined_and_goes_with_its_objects() {
    let (server, _) = server(Access::default());
    let things = "/apis/example.com/v1/namespaces/default/things";
    assert_eq!(ask(&server, Method::GET, things, None, &Value::Null).await.0, 404);
    create(&server, DEFINITIONS, definition("things", "Thing")).await;
    let thing = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "a" } });
    create(&server, things, thing.clone()).await;
    let mut held = thing;
    held["metadata"] = json!({ "name": "held", "finalizers": ["example.com/x"] });
    let held = create(&server, things, held).await;
    let (_, document) = ask(&server, Method::GET, "/openapi/v3/apis/example.com/v1", None, &Value::Null).await;
    assert!(document["components"]["schemas"]["com.example.v1.Thing"].is_object());
    let one = format!("{DEFINITIONS}/things.example.com");
    let (code, _) = ask(&server, Method::DELETE, &one, None, &Value::Null).await;
    assert_eq!(code, 200);
    let (_, left) = ask(&server, Method::GET, things, None, &Value::Null).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "one has a finalizer");
    assert_eq!(ask(&server, Method::GET, &one, None, &Value::Null).await.0, 200, "the definition waits for it");
    let mut free = held;
    free["metadata"] = json!({ "name": "held", "resourceVersion": left["items"][0]["metadata"]["resourceVersion"] });
    let (code, answer) = ask(&server, Method::PUT, &format!("{things}/held"), None, &free).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(ask(&server, Method::GET, &one, None, &Value::Null).await.0, 404);
    assert_eq!(ask(&server, Method::GET, things, None, &Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn names_are_given_once() {
    let (server, _) = server(Access::default());
    create(&server, DEFINITIONS, definition("things", "Thing")).await;
    create(&server, DEFINITIONS, definition("others", "Thing")).await;
    let (_, second) = ask(&server, Method::GET, &format!("{DEFINITIONS}/others.example.com"), None, &Value::Null).await;
    let status = |ty: &str| {
        let mut conditions = second["status"]["conditions"].as_array().unwrap().iter();
        conditions.find(|condition| condition["type"] == ty).unwrap()["status"].clone()
    };
    assert_eq!((status("NamesAccepted"), status("Established")), (json!("False"), json!("False")));
    let others = "/apis/example.com/v1/namespaces/default/others";
    assert_eq!(ask(&server, Method::GET, others, None, &Value::Null).await.0, 404);
    ask(&server, Method::DELETE, &format!("{DEFINITIONS}/things.example.com"), None, &Value::Null).await;
    assert_eq!(ask(&server, Method::GET, others, None, &Value::Null).await.0, 200, "now the name is free");
}
