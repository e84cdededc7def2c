use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;

use super::*;

fn access() -> Access {
    let token = |name: &str, groups: &[&str]| Token {
        token: format!("{name}-token"),
        user: User {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..User::default()
        },
    };
    Access {
        tokens: vec![token("root", &["system:masters"]), token("ann", &["readers"]), token("bob", &[])],
        authorization: Authorization::Rbac,
    }
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test(start_paused = true)]
async fn only_what_roles_say_is_allowed() {
    let (server, _) = server(access());
    let get = |path: &'static str, token: &'static str| {
        let server = server.clone();
        async move { ask(&server, Method::GET, path, Some(token), &Value::Null).await }
    };
    assert_eq!(get(PODS, "root-token").await.0, 200);
    assert_eq!(get(PODS, "nobody's").await.0, 401);
    let (code, refusal) = get(PODS, "bob-token").await;
    assert_eq!(code, 403);
    let message = "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" in the namespace \
                   \"default\"";
    assert_eq!(refusal["message"], message);
    assert_eq!(refusal["details"], json!({ "kind": "pods" }));
    let (code, refusal) = get(PODS, "").await;
    assert_eq!((code, refusal["message"].as_str().unwrap().contains("system:anonymous")), (403, true));
    let binding = json!({
        "metadata": { "name": "readers" }, "roleRef": { "kind": "ClusterRole", "name": "system:aggregate-to-view", "apiGroup": "rbac.authorization.k8s.io" },
        "subjects": [{ "kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io" }],
    });
    create(&server, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    assert_eq!(get(PODS, "ann-token").await.0, 200);
    assert_eq!(get("/api/v1/pods", "ann-token").await.0, 403, "only in that namespace");
    assert_eq!(get("/api/v1/namespaces/default/secrets", "ann-token").await.0, 403);
    let (code, _) = ask(&server, Method::DELETE, &format!("{PODS}/x"), Some("ann-token"), &Value::Null).await;
    assert_eq!(code, 403);
}

#[tokio::test(start_paused = true)]
async fn everybody_may_look_around() {
    let (server, _) = server(access());
    for (path, anonymous, known) in [
        ("/version", 200, 200),
        ("/livez", 200, 200),
        ("/apis", 403, 200),
        ("/openapi/v3", 403, 200),
        ("/nope", 403, 403),
    ] {
        for (token, code) in [("", anonymous), ("bob-token", known)] {
            let answer = ask(&server, Method::GET, path, Some(token), &Value::Null).await;
            assert_eq!(answer.0, code, "{path} as {token:?}: {}", answer.1);
        }
    }
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let question = json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    let (code, answer) = ask(&server, Method::POST, review, Some("bob-token"), &question).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn who_shows_no_token_is_not_let_in_where_everybody_may_do_everything() {
    let (server, _) = server(Access { authorization: Authorization::AllowAll, ..access() });
    for path in ["/api/v1/secrets", "/version", "/livez", "/healthz", "/openapi/v2", "/nope"] {
        for token in ["", "guess"] {
            let (code, refusal) = ask(&server, Method::GET, path, Some(token), &Value::Null).await;
            assert_eq!((code, &refusal["reason"]), (401, &json!("Unauthorized")), "{path} with {token:?}");
        }
    }
    assert_eq!(ask(&server, Method::GET, "/api/v1/secrets", Some("bob-token"), &Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn service_accounts_are_known_by_their_tokens() {
    let (server, _) = server(access());
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(&server, accounts, json!({ "metadata": { "name": "robot" } })).await;
    let issued = create(&server, &format!("{accounts}/robot/token"), json!({ "spec": {} })).await;
    let token = issued["status"]["token"].as_str().unwrap().to_owned();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, known) = ask(&server, Method::POST, review, Some(&token), &json!({})).await;
    assert_eq!(known["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(ask(&server, Method::POST, review, Some(&forged), &json!({})).await.0, 401);
    let binding = json!({
        "metadata": { "name": "robot" }, "roleRef": { "kind": "ClusterRole", "name": "system:aggregate-to-edit", "apiGroup": "rbac.authorization.k8s.io" },
        "subjects": [{ "kind": "ServiceAccount", "name": "robot", "namespace": "default" }],
    });
    create(&server, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    assert_eq!(ask(&server, Method::POST, PODS, Some(&token), &pod("x", &json!({}))).await.0, 201);
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    assert_eq!(ask(&server, Method::GET, PODS, Some(&token), &Value::Null).await.0, 401, "it has run out");
}

#[tokio::test(start_paused = true)]
async fn only_those_who_may_act_as_others() {
    let (server, _) = server(access());
    let who = |token: &'static str, as_user: &'static str| {
        let server = server.clone();
        async move {
            let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
                .extension(Peer::default())
                .header("authorization", format!("Bearer {token}"))
                .header("impersonate-user", as_user)
                .header("impersonate-group", "climbers")
                .body(Full::new(Bytes::from_static(b"{}")))
                .unwrap();
            let (code, _, text) = answer(&server, request).await;
            (code, serde_json::from_slice::<Value>(&text).unwrap())
        }
    };
    let (code, review) = who("root-token", "carl").await;
    assert_eq!(code, 201);
    let groups = json!(["climbers", "system:authenticated"]);
    assert_eq!(review["status"]["userInfo"], json!({ "username": "carl", "groups": groups }));
    assert_eq!(who("bob-token", "root").await.0, 403);
}

/// The server would hold a body whose sender may not write.
#[tokio::test(start_paused = true)]
async fn a_body_is_read_only_of_who_may_send_it() {
    let (server, _) = server(access());
    for (path, code) in [(PODS.to_owned(), 403), (format!("{PODS}/p/log"), 403), ("/nope".to_owned(), 403)] {
        let pulled = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&pulled);
        let pieces = futures::stream::repeat_with(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from_static(b"{")))
        });
        let body = http_body_util::StreamBody::new(pieces.take(10));
        let request = Request::post(&path).extension(Peer::default()).header("authorization", "Bearer bob-token");
        let response = server.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        assert_eq!(response.status(), code, "{path}");
        assert_eq!(pulled.load(Ordering::Relaxed), 0, "{path}");
    }
}
