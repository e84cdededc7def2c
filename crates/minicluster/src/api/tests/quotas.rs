use super::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(server: &ApiServer, hard: Value) {
    create(server, QUOTAS, json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } })).await;
}

async fn used(server: &ApiServer) -> Value {
    ask(server, Method::GET, &format!("{QUOTAS}/q"), None, &Value::Null).await.1["status"]["used"].clone()
}

fn asking(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] })
}

#[tokio::test(start_paused = true)]
async fn what_is_used_follows_what_is_there() {
    let (server, _) = server(Access::default());
    create(&server, PODS, pod("before", &asking("100m"))).await;
    quota(&server, json!({ "pods": "3", "requests.cpu": "1" })).await;
    assert_eq!(used(&server).await, json!({ "pods": "1", "requests.cpu": "100m" }), "counted at the start");
    create(&server, PODS, pod("one", &asking("600m"))).await;
    assert_eq!(used(&server).await, json!({ "pods": "2", "requests.cpu": "700m" }));
    let (code, refusal) = ask(&server, Method::POST, PODS, None, &pod("two", &asking("400m"))).await;
    let message = "pods \"two\" is forbidden: exceeded quota: q, requested: requests.cpu=400m, used: \
                   requests.cpu=700m, limited: requests.cpu=1";
    assert_eq!((code, refusal["message"].as_str()), (403, Some(message)));
    let mut ended = pod("one", &asking("600m"));
    ended["status"] = json!({ "phase": "Succeeded" });
    ask(&server, Method::PUT, &format!("{PODS}/one/status"), None, &ended).await;
    assert_eq!(used(&server).await, json!({ "pods": "1", "requests.cpu": "100m" }), "an ended pod uses nothing");
    ask(&server, Method::DELETE, &format!("{PODS}/before?gracePeriodSeconds=0"), None, &Value::Null).await;
    ask(&server, Method::DELETE, &format!("{PODS}/one"), None, &Value::Null).await;
    assert_eq!(used(&server).await, json!({ "pods": "0", "requests.cpu": "0" }));
}

#[tokio::test(start_paused = true)]
async fn nothing_slips_past_a_quota() {
    let (server, _) = server(Access::default());
    quota(&server, json!({ "pods": "5" })).await;
    let all = (0..20).map(|number| {
        let server = server.clone();
        tokio::spawn(
            async move { ask(&server, Method::POST, PODS, None, &pod(&format!("p{number}"), &json!({}))).await.0 },
        )
    });
    let codes = futures::future::join_all(all).await;
    assert_eq!(codes.iter().filter(|code| *code.as_ref().unwrap() == 201).count(), 5);
    assert_eq!(used(&server).await, json!({ "pods": "5" }));
}

#[tokio::test(start_paused = true)]
async fn addresses_come_and_go_with_their_services() {
    let (server, _) = server(Access::default());
    let services = "/api/v1/namespaces/default/services";
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let count = || async {
        ask(&server, Method::GET, addresses, None, &Value::Null).await.1["items"].as_array().unwrap().len()
    };
    let before = count().await;
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    let created = create(&server, services, service.clone()).await;
    let address = created["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let (_, object) = ask(&server, Method::GET, &format!("{addresses}/{address}"), None, &Value::Null).await;
    let parent = json!({ "resource": "services", "namespace": "default", "name": "s" });
    assert_eq!(object["spec"]["parentRef"], parent);
    let dry = ask(
        &server,
        Method::POST,
        &format!("{services}?dryRun=All"),
        None,
        &json!({ "metadata": { "name": "t" }, "spec": { "ports": [{ "port": 80 }] } }),
    )
    .await;
    assert!(dry.1["spec"]["clusterIP"].is_string());
    assert_eq!(count().await, before + 1);
    ask(&server, Method::DELETE, &format!("{services}/s"), None, &Value::Null).await;
    assert_eq!(count().await, before);
}
