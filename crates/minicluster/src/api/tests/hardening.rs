//! Whatever comes in is answered, and answered well.

use std::time::Duration;

use http_body_util::StreamBody;
use proptest::prelude::*;

use super::*;

/// Requests of several threads at once, which together give out nearly all ports that there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_made_at_once_get_ports_of_their_own() {
    let (server, _) = server(Access::default());
    let tasks = (0..8).map(|task| {
        let server = server.clone();
        tokio::spawn(async move {
            for number in 0..40 {
                let ports: Vec<Value> =
                    (0..8).map(|port| json!({ "name": format!("p{port}"), "port": 80 + port })).collect();
                let service = json!({
                    "metadata": { "name": format!("s-{task}-{number}") }, "spec": { "type": "NodePort", "ports": ports },
                });
                create(&server, "/api/v1/namespaces/default/services", service).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (_, list) = ask(&server, Method::GET, "/api/v1/services", None, &Value::Null).await;
    let services = list["items"].as_array().unwrap().iter();
    let ports = services.flat_map(|service| service["spec"]["ports"].as_array().unwrap().clone());
    let mut ports: Vec<i64> = ports.filter_map(|port| port["nodePort"].as_i64()).collect();
    assert_eq!(ports.len(), 8 * 40 * 8);
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8 * 40 * 8, "no port was given out twice");
}

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"];

const PATHS: [&str; 22] = [
    "/",
    "/api",
    "/apis",
    "/version",
    "/livez",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/api/v1/pods",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/log",
    "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/finalize",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api/v1/namespaces/default/serviceaccounts/s/token",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/api/v1/namespaces/default/resourcequotas",
];

const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    ";;;",
];

fn json_value() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("metadata".to_owned()),
        Just("spec".to_owned()),
        Just("name".to_owned()),
        Just("kind".to_owned()),
        Just("status".to_owned()),
        Just("finalizers".to_owned()),
        Just("replicas".to_owned()),
        "[a-z/$]{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("p")),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => json_value().prop_map(|value| value.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..64),
        1 => Just(b"[[[[[[[[[[[[[[[[".repeat(1000)),
        1 => Just(b"a: &a [*a, *a]".to_vec()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let query = "[a-zA-Z%=&0-9]{0,24}";
    let known = proptest::sample::select(PATHS.as_slice()).prop_map(str::to_owned);
    let parameter = proptest::sample::select(
        [
            "",
            "limit=1",
            "watch=1&timeoutSeconds=1",
            "continue=x",
            "labelSelector=a%20in%20(",
            "fieldSelector=%5C",
            "fieldManager=a&force=1",
            "dryRun=All",
            "pretty=1",
            "propagationPolicy=Foreground",
            "sendInitialEvents=1",
            "resourceVersion=18446744073709551615",
            "gracePeriodSeconds=-9223372036854775808",
            "follow=1",
        ]
        .as_slice(),
    );
    prop_oneof![
        3 => (known, parameter, query).prop_map(|(path, parameter, query)| format!("{path}?{parameter}&{query}")),
        1 => "/[a-z/%.0-9]{0,40}",
    ]
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(100), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_request_gets_an_answer(
        requests in proptest::collection::vec(
            (proptest::sample::select(METHODS.as_slice()), path(), proptest::sample::select(TYPES.as_slice()), body()), 1..6),
        accept in "[a-z*/;=,+ 0-9.]{0,40}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (server, _) = server(Access::default());
            create(&server, PODS, pod("p", &json!({}))).await;
            for (method, path, media_type, body) in requests {
                let request = Request::builder().method(method).uri(path.as_str());
                let request = request.header("content-type", media_type).header("accept", &accept);
                let Ok(request) = request.body(Full::new(Bytes::from(body))) else { continue };
                let answered = tokio::time::timeout(Duration::from_secs(4000), answer(&server, request)).await;
                let (code, headers, text) = answered.unwrap_or_else(|_| panic!("{method} {path}: no answer"));
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!((200..600).contains(&code), "{method} {path}: {code}");
                assert!(!text.contains("caused apiserver to panic"), "{method} {path}: {text}");
                if code >= 400 && method != "HEAD" && headers["content-type"] == "application/json" {
                    let status: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(status["kind"], "Status", "{method} {path}: {text}");
                    assert_eq!(status["code"], code, "{method} {path}: {text}");
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let (server, _) = server(Access::default());
    let pieces = futures::stream::unfold(0, |count| async move {
        let frame: Result<_, std::convert::Infallible> = Ok(http_body::Frame::data(Bytes::from(vec![b' '; 64 * 1024])));
        Some((frame, count + 1))
    });
    let request = Request::post(PODS).body(StreamBody::new(Box::pin(pieces))).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 413);
    let nothing = futures::stream::pending::<Result<http_body::Frame<Bytes>, std::convert::Infallible>>();
    let request = Request::post(PODS).body(StreamBody::new(nothing)).unwrap();
    let started = tokio::time::Instant::now();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 408);
    assert!(started.elapsed() <= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_all_see_everything() {
    let (server, _) = server(Access::default());
    let watches: Vec<_> = (0..1000)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let path = format!("{PODS}?watch=1&timeoutSeconds=30");
                let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
                let (_, _, text) = answer(&server, request).await;
                text.iter().filter(|byte| **byte == b'\n').count()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    for number in 0..20 {
        create(&server, PODS, pod(&format!("p{number}"), &json!({}))).await;
    }
    for watch in watches {
        assert_eq!(watch.await.unwrap(), 20);
    }
}
