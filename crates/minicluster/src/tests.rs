use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::*;

async fn cluster() -> MiniCluster {
    // The API server alone: writes of others would be among those counted here.
    let builder =
        MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).without(Part::ServiceAccounts);
    builder.clock(Clock::tokio(Timestamp::UNIX_EPOCH)).start().await.unwrap()
}

fn map(name: &str, value: &str) -> ConfigMap {
    let object = json!({ "metadata": { "name": name, "labels": { "value": value } }, "data": { "key": value } });
    serde_json::from_value(object).unwrap()
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn refusal(error: kube::Error) -> (u16, String, String) {
    let kube::Error::Api(status) = error else { panic!("{error}") };
    (status.code, status.reason.clone(), status.message.clone())
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_changed_and_deleted() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    let created = maps.create(&PostParams::default(), &map("one", "1")).await.unwrap();
    assert_eq!(created.namespace().as_deref(), Some("default"));
    assert!(created.uid().is_some() && created.resource_version().is_some());
    assert_eq!(created.creation_timestamp().unwrap().0, Timestamp::UNIX_EPOCH);
    let mut changed = maps.get("one").await.unwrap();
    changed.data = Some([("key".to_owned(), "2".to_owned())].into());
    let changed = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(changed.resource_version(), created.resource_version());
    let again = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(changed.resource_version(), again.resource_version(), "nothing changed");
    let stale = refusal(maps.replace("one", &PostParams::default(), &created).await.unwrap_err());
    assert_eq!((stale.0, stale.1.as_str()), (409, "Conflict"));
    let deleted = maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(deleted.right().unwrap().details.unwrap().name, "one");
    let missing = refusal(maps.get("one").await.unwrap_err());
    assert_eq!(missing, (404, "NotFound".to_owned(), "configmaps \"one\" not found".to_owned()));
    let nowhere: Api<ConfigMap> = Api::namespaced(cluster.client(), "nowhere");
    let missing = refusal(nowhere.create(&PostParams::default(), &map("one", "1")).await.unwrap_err());
    assert_eq!(missing.2, "namespaces \"nowhere\" not found");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lists_are_selected_and_paged() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    for number in 0..10 {
        maps.create(&PostParams::default(), &map(&format!("map-{number}"), &(number % 2).to_string())).await.unwrap();
    }
    let odd = maps.list(&ListParams::default().labels("value=1")).await.unwrap();
    assert_eq!(odd.items.len(), 5);
    let mut page = ListParams::default().limit(4);
    let mut names = Vec::new();
    loop {
        let list = maps.list(&page).await.unwrap();
        names.extend(list.iter().map(ResourceExt::name_any));
        assert_eq!(list.metadata.remaining_item_count.unwrap_or_default(), 10 - names.len() as i64);
        match list.metadata.continue_ {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
        if names.len() == 4 {
            maps.delete("map-7", &DeleteParams::default()).await.unwrap();
        }
    }
    assert_eq!(names.len(), 10, "all pages show the same revision");
    let one = maps.list(&ListParams::default().fields("metadata.name=map-3")).await.unwrap();
    assert_eq!(one.items[0].name_any(), "map-3");
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_of_every_change_and_of_revisions_in_between() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let params = WatchParams::default().labels("value=1").timeout(290);
    let mut stream = maps.watch(&params, &start).await.unwrap().boxed();
    let mut first = maps.create(&PostParams::default(), &map("one", "1")).await.unwrap();
    maps.create(&PostParams::default(), &map("other", "2")).await.unwrap();
    first.metadata.labels = Some([("value".to_owned(), "3".to_owned())].into());
    let left = maps.replace("one", &PostParams::default(), &first).await.unwrap();
    let WatchEvent::Added(added) = stream.try_next().await.unwrap().unwrap() else { panic!("added") };
    assert_eq!(added.name_any(), "one");
    let WatchEvent::Deleted(gone) = stream.try_next().await.unwrap().unwrap() else { panic!("left the selection") };
    assert_eq!(gone.resource_version(), left.resource_version());
    assert_eq!(gone.labels()["value"], "1");
    let before = tokio::time::Instant::now();
    let WatchEvent::Bookmark(mark) = stream.try_next().await.unwrap().unwrap() else { panic!("a bookmark") };
    assert_eq!(Some(mark.metadata.resource_version), left.resource_version());
    assert_eq!(before.elapsed(), Duration::from_secs(60));
    let rest: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(rest.len(), 4, "three more bookmarks and one before the end: {rest:?}");
    assert_eq!(before.elapsed(), Duration::from_secs(290));
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_and_recovers_from_forgotten_revisions() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut seen = watcher(maps.clone(), config).default_backoff().touched_objects().boxed();
        let name = format!("map-{}", cluster.api().store_revision());
        maps.create(&PostParams::default(), &map(&name, "1")).await.unwrap();
        loop {
            let map = seen.try_next().await.unwrap().unwrap();
            if map.name_any() == name {
                break;
            }
        }
    }
    let old = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("late", "1")).await.unwrap();
    cluster.api().compact();
    let mut stream = maps.watch(&WatchParams::default(), &old).await.unwrap().boxed();
    let WatchEvent::Error(error) = stream.try_next().await.unwrap().unwrap() else { panic!("an error") };
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_objects_back() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    let mut held = map("held", "1");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    let marked = maps.delete("held", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let mut held = maps.get("held").await.unwrap();
    held.metadata.finalizers = None;
    maps.replace("held", &PostParams::default(), &held).await.unwrap();
    assert_eq!(refusal(maps.get("held").await.unwrap_err()).0, 404);
    maps.create(&PostParams::default(), &map("owner", "1")).await.unwrap();
    let foreground = DeleteParams::foreground();
    let marked = maps.delete("owner", &foreground).await.unwrap().left().unwrap();
    assert_eq!(marked.finalizers(), ["foregroundDeletion"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_stores_nothing() {
    let cluster = cluster().await;
    let maps = maps(&cluster.client());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let answer = maps.create(&dry, &map("one", "1")).await.unwrap();
    assert!(answer.uid().is_some() && answer.resource_version().is_none());
    assert_eq!(refusal(maps.get("one").await.unwrap_err()).0, 404);
    let apply = PatchParams::apply("tests").force();
    let applied =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "two" }, "data": { "a": "b" } });
    let created = maps.patch("two", &apply, &Patch::Apply(&applied)).await.unwrap();
    assert!(created.resource_version().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_objects() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let builder = MiniCluster::builder().seed(7).clock(Clock::tokio(Timestamp::UNIX_EPOCH));
        // Nobody else draws names meanwhile.
        let cluster = builder
            .without(Part::Controllers)
            .without(Part::Kubelet)
            .without(Part::ServiceAccounts)
            .start()
            .await
            .unwrap();
        let generated = ConfigMap {
            metadata: kube::core::ObjectMeta { generate_name: Some("x-".to_owned()), ..Default::default() },
            ..Default::default()
        };
        runs.push(maps(&cluster.client()).create(&PostParams::default(), &generated).await.unwrap());
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].name_any().len(), 7);
}

/// An error names its place; the manifests before it are there.
#[tokio::test(start_paused = true)]
async fn manifests_are_applied_in_their_order() {
    let cluster = MiniCluster::builder().virtual_time().start().await.unwrap();
    let map = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n---\n");
    let get = async |name: &str| {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        cluster.client().request::<serde_json::Value>(request).await.is_ok()
    };
    let unknown = "{apiVersion: example.com/v1, kind: Nothing, metadata: {name: x}}\n---\n";
    let error = cluster.apply(&format!("{}{unknown}{}", map("a"), map("b"))).await.unwrap_err();
    assert!(error.to_string().starts_with("Nothing x was not applied: "), "{error}");
    assert!(get("a").await && !get("b").await);
    let error = cluster.apply(&format!("---\n{}just words", map("b"))).await.unwrap_err();
    assert!(error.to_string().contains("can't be read"), "{error}");
    assert!(get("b").await);
    // A pod waits for the account that a controller is about to make.
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: new}}").await.unwrap();
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: new}, spec: {containers: [{name: c, image: i}]}}";
    cluster.apply(pod).await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_the_name_that_it_is_given() {
    let version = async |cluster: &MiniCluster| {
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        let version: serde_json::Value = cluster.client().request(request).await.unwrap();
        version["gitVersion"].as_str().unwrap().to_owned()
    };
    let plain = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet);
    let named = plain.clone().name("stage").start().await.unwrap();
    assert!(version(&named).await.contains("+stage."));
    let plain = plain.start().await.unwrap();
    assert!(version(&plain).await.contains("+minicluster."));
}

#[tokio::test(start_paused = true)]
async fn faults_are_between_one_client_and_the_server() {
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let ask = async |fault: Option<Fault>, method: &str, name: &str| {
        let client = cluster.client_with_faults(move |_, path| fault.clone().filter(|_| path.contains("configmaps")));
        let path = "/api/v1/namespaces/default/configmaps";
        let object = serde_json::json!({ "metadata": { "name": name } }).to_string();
        let (path, body) = match method {
            "POST" => (path.to_owned(), object.into_bytes()),
            _ => (format!("{path}/{name}"), Vec::new()),
        };
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        client.request::<serde_json::Value>(request.body(body).unwrap()).await
    };
    assert!(ask(Some(Fault::Disconnect), "POST", "a").await.is_err());
    assert!(ask(None, "GET", "a").await.is_err(), "it did not get there");
    assert!(ask(Some(Fault::LoseAnswer), "POST", "b").await.is_err());
    assert!(ask(None, "GET", "b").await.is_ok(), "it was done");
    let Err(kube::Error::Api(refusal)) = ask(Some(Fault::Refuse(429)), "GET", "b").await else { panic!("not refused") };
    assert_eq!(refusal.code, 429);
    let begun = tokio::time::Instant::now();
    assert!(ask(Some(Fault::Delay(Duration::from_secs(7))), "GET", "b").await.is_ok());
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_restored_cluster_is_as_it_was() {
    let mut cluster = cluster().await;
    let maps = maps(&cluster.client());
    let first = maps.create(&PostParams::default(), &map("one", "1")).await.unwrap();
    let version = first.resource_version().unwrap();
    let backup = cluster.back_up();
    let mut watch = maps.watch(&WatchParams::default().disable_bookmarks(), &version).await.unwrap().boxed();
    let later = maps.create(&PostParams::default(), &map("two", "1")).await.unwrap().resource_version().unwrap();
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    cluster.restore(&backup).await;
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        seen.push(event.unwrap());
    }
    assert!(matches!(&seen[..], [WatchEvent::Added(_), WatchEvent::Deleted(_)]), "{seen:?}");
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.metadata.resource_version.as_ref(), Some(&version));
    let names: Vec<_> = list.iter().map(|one| (one.name_any(), one.uid(), one.resource_version())).collect();
    assert_eq!(names, [("one".to_owned(), first.uid(), Some(version.clone()))]);
    // A watch from a version that is not there any more hears nothing until there are as many again.
    let mut deaf = maps.watch(&WatchParams::default().disable_bookmarks(), &later).await.unwrap().boxed();
    let next = maps.create(&PostParams::default(), &map("three", "1")).await.unwrap().resource_version().unwrap();
    assert_eq!(next, later, "versions are given out again");
    assert!(tokio::time::timeout(Duration::from_secs(60), deaf.next()).await.is_err());
    maps.create(&PostParams::default(), &map("four", "1")).await.unwrap();
    let WatchEvent::Added(four) = deaf.next().await.unwrap().unwrap() else { panic!("an event") };
    assert_eq!(four.name_any(), "four");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_and_nodes_go_on_from_a_restored_state() {
    let mut cluster = MiniCluster::builder().virtual_time().start().await.unwrap();
    cluster.apply(&deployment("web:1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let backup = cluster.back_up();
    cluster.apply(&deployment("web:2")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready_images(&cluster).await, ["web:2", "web:2"]);
    cluster.restore(&backup).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready_images(&cluster).await, ["web:1", "web:1"]);
    // Without controllers nothing follows; with them again it does.
    cluster.stop_part(Part::Controllers).await;
    cluster.apply(&deployment("web:3")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready_images(&cluster).await, ["web:1", "web:1"]);
    cluster.start_part(Part::Controllers);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready_images(&cluster).await, ["web:3", "web:3"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_restored_state_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let start = || MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).persist_in(folder.path());
    let mut cluster = start().start().await.unwrap();
    let maps_of = maps(&cluster.client());
    maps_of.create(&PostParams::default(), &map("one", "1")).await.unwrap();
    let backup = cluster.back_up();
    maps_of.create(&PostParams::default(), &map("two", "1")).await.unwrap();
    cluster.restore(&backup).await;
    maps_of.create(&PostParams::default(), &map("three", "1")).await.unwrap();
    drop(maps_of);
    cluster.stop().await;
    // The client's own task still holds the folder until it has noticed that nobody asks any more.
    let mut again = start().start().await;
    for _ in 0..1000 {
        if again.is_ok() {
            break;
        }
        tokio::task::yield_now().await;
        again = start().start().await;
    }
    let again = again.unwrap();
    let names: Vec<_> =
        maps(&again.client()).list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["one", "three"]);
    again.stop().await;
}

fn deployment(image: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 2, selector: {{matchLabels: \
         {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: app, image: \
         '{image}'}}]}}}}}}}}"
    )
}

/// The images of the pods that are ready.
async fn ready_images(cluster: &MiniCluster) -> Vec<String> {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(cluster.client());
    let pods = pods.list(&ListParams::default()).await.unwrap();
    let ready = pods.items.into_iter().filter(|pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    ready.map(|pod| pod.spec.unwrap().containers[0].image.clone().unwrap()).collect()
}
