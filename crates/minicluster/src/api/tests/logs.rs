use std::time::Duration;

use futures::StreamExt;

use super::*;

async fn with_pod(statuses: Value) -> (ApiServer, PodLogs, String) {
    let (server, logs) = server(Access::default());
    let created = create(&server, PODS, pod("p", &json!({}))).await;
    say(&server, statuses).await;
    (server, logs, created["metadata"]["uid"].as_str().unwrap().to_owned())
}

/// The node reports the states of the pod's containers.
async fn say(server: &ApiServer, statuses: Value) {
    let mut object = pod("p", &json!({}));
    object["status"] = json!({ "phase": "Running", "containerStatuses": statuses });
    let (code, answer) = ask(server, Method::PUT, &format!("{PODS}/p/status"), None, &object).await;
    assert_eq!(code, 200, "{answer}");
}

fn container(state: &Value, last: &Value) -> Value {
    json!([{ "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state, "lastState": last }])
}

async fn log(server: &ApiServer, query: &str) -> (u16, Value) {
    ask(server, Method::GET, &format!("{PODS}/p/log?{query}"), None, &Value::Null).await
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_running_container_is_read() {
    let (server, logs, uid) = with_pod(container(&json!({ "running": {} }), &json!({}))).await;
    logs.begin(&uid, "c");
    for (second, text) in ["one", "two", "three"].iter().enumerate() {
        logs.append(&uid, "c", Timestamp::from_second(second as i64).unwrap(), text);
    }
    assert_eq!(log(&server, "").await, (200, json!("one\ntwo\nthree\n")));
    assert_eq!(log(&server, "tailLines=2").await, (200, json!("two\nthree\n")));
    assert_eq!(log(&server, "limitBytes=6").await, (200, json!("one\ntw")));
    assert_eq!(log(&server, "sinceTime=1970-01-01T00:00:01Z").await, (200, json!("two\nthree\n")));
    let (code, refusal) = log(&server, "previous=true").await;
    let message = "previous terminated container \"c\" in pod \"p\" not found";
    assert_eq!((code, refusal["message"].as_str()), (400, Some(message)));
    logs.begin(&uid, "c");
    logs.append(&uid, "c", Timestamp::UNIX_EPOCH, "again");
    let ended = json!({ "terminated": { "exitCode": 1 } });
    say(&server, container(&json!({ "waiting": { "reason": "CrashLoopBackOff" } }), &ended)).await;
    assert_eq!(log(&server, "").await, (200, json!("again\n")));
    assert_eq!(log(&server, "previous=true&tailLines=1").await, (200, json!("three\n")));
}

#[tokio::test(start_paused = true)]
async fn containers_that_wait_have_no_log() {
    for (reason, end) in [
        ("ContainerCreating", "ContainerCreating"),
        ("ErrImagePull", "image can't be pulled"),
        ("ImagePullBackOff", "trying and failing to pull image"),
    ] {
        let (server, ..) = with_pod(container(&json!({ "waiting": { "reason": reason } }), &json!({}))).await;
        let (code, refusal) = log(&server, "").await;
        assert_eq!(code, 400);
        let message = format!("container \"c\" in pod \"p\" is waiting to start: {end}");
        assert_eq!(
            (refusal["message"].as_str(), refusal["reason"].as_str()),
            (Some(message.as_str()), Some("BadRequest"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_followed_to_the_containers_end() {
    let (server, logs, uid) = with_pod(container(&json!({ "running": {} }), &json!({}))).await;
    logs.begin(&uid, "c");
    logs.append(&uid, "c", Timestamp::UNIX_EPOCH, "one");
    let request = Request::get(format!("{PODS}/p/log?follow=true")).body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let mut lines = response.into_body().into_data_stream();
    assert_eq!(lines.next().await.unwrap().unwrap(), "one\n");
    let more = tokio::time::timeout(Duration::from_secs(60), lines.next()).await;
    assert!(more.is_err(), "nothing is written, and nothing ends");
    logs.append(&uid, "c", Timestamp::UNIX_EPOCH, "two");
    assert_eq!(lines.next().await.unwrap().unwrap(), "two\n");
    logs.append(&uid, "c", Timestamp::UNIX_EPOCH, "last words");
    say(&server, container(&json!({ "terminated": { "exitCode": 0 } }), &json!({}))).await;
    assert_eq!(lines.next().await.unwrap().unwrap(), "last words\n");
    assert!(lines.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_with_a_simulated_container_is_said() {
    let (server, ..) = with_pod(container(&json!({ "running": {} }), &json!({}))).await;
    for what in ["exec", "attach", "portforward"] {
        let (code, refusal) = ask(&server, Method::POST, &format!("{PODS}/p/{what}"), None, &Value::Null).await;
        assert_eq!(code, 501);
        assert!(refusal["message"].as_str().unwrap().contains(&format!("{what} is not supported")), "{refusal}");
    }
}
