use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};

use super::resource_store::{WAITING, WINDOW};
use super::*;

fn group_resource() -> GroupResource {
    GroupResource::new("", "pods")
}

fn object(path: &str, labels: &Value) -> Value {
    let (namespace, name) = path.split_once('/').unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "uid": "u", "labels": labels },
    })
}

fn put(store: &Store, path: &str, note: &str) -> Arc<Stored> {
    let expected = store.get(&group_resource(), path).map(|object| object.revision);
    let object = object(path, &json!({ "note": note }));
    let write = StoreOp::put(group_resource(), path.to_owned(), expected, object);
    store.write(vec![write]).unwrap().remove(0)
}

fn remove(store: &Store, path: &str) {
    let revision = store.get(&group_resource(), path).unwrap().revision;
    store.write(vec![StoreOp::remove(group_resource(), path.to_owned(), revision)]).unwrap();
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.objects.iter().map(|object| object.path.to_string()).collect()
}

fn waiting(watcher: &mut Watcher) -> Vec<(Change, String, u64)> {
    let mut seen = Vec::new();
    while let Poll::Ready(Next::Event(event)) = watcher.poll_next(&mut Context::from_waker(Waker::noop())) {
        seen.push((event.change, event.object.path.to_string(), event.object.revision));
    }
    seen
}

#[test]
fn an_object_is_written_once_and_read_in_parts() {
    let store = Store::default();
    let stored = put(&store, "a/x", "1");
    assert_eq!(stored.value()["metadata"]["resourceVersion"], "1");
    assert!(stored.json().starts_with(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"#));
    let metadata: Value = serde_json::from_slice(&stored.metadata_json()).unwrap();
    assert_eq!(metadata, stored.value()["metadata"]);
    assert!(stored.json_without_kind().concat().starts_with(br#""metadata":{"#));
    assert!(stored.json().ends_with(&stored.json_without_kind().concat()));
    assert!(stored.frame_as(Change::Added).starts_with(br#"{"type":"ADDED","object":{"kind":"Pod""#));
    assert!(stored.frame_as(Change::Deleted).starts_with(br#"{"type":"DELETED","object":{"kind":"Pod""#));
    let line: Value = serde_json::from_slice(&stored.frame_as(Change::Modified)).unwrap();
    assert_eq!(line["object"], stored.value());
    assert_eq!(stored.label("note"), Some("1"));
    assert_eq!((stored.namespace(), stored.name()), (Some("a"), "x"));
}

#[test]
fn what_is_deleted_is_the_same_at_a_later_revision() {
    let store = Store::default();
    let said = r#""resourceVersion":"1""#;
    let mut object = object("a/x", &json!({ "resourceVersion": "1" }));
    object["metadata"]["annotations"] = json!({ "resourceVersion": "1", "text": said, "zz": format!("{{{said}}}") });
    object["spec"] = json!({ "resourceVersion": "1" });
    let write = StoreOp::put(group_resource(), "a/x".to_owned(), None, object);
    let stored = store.write(vec![write]).unwrap().remove(0);
    for revision in [2, 10, 12_345] {
        let later = stored.at_revision(revision);
        let mut expected = stored.value();
        expected["metadata"]["resourceVersion"] = json!(revision.to_string());
        assert_eq!(later.value(), expected);
        assert_eq!(serde_json::from_slice::<Value>(&later.metadata_json()).unwrap(), expected["metadata"]);
        assert!(later.json_without_kind().concat().starts_with(br#""metadata":{"#));
        let line: Value = serde_json::from_slice(&later.frame_as(Change::Deleted)).unwrap();
        assert_eq!(line, json!({ "type": "DELETED", "object": expected }));
        assert_eq!((later.revision, later.label("resourceVersion")), (revision, Some("1")));
        // And once more from there.
        assert_eq!(later.at_revision(7).value()["metadata"]["resourceVersion"], "7");
    }
}

#[test]
fn versions_share_what_did_not_change() {
    let store = Store::default();
    let full = |replicas: u64, ready: u64, time: &str| {
        let mut object = object("a/x", &json!({ "app": "x" }));
        object["metadata"]["managedFields"] = json!([{ "manager": "m", "time": time }]);
        object["spec"] = json!({ "replicas": replicas });
        object["status"] = json!({ "ready": ready });
        object
    };
    let write = |object: Value, extent: WriteExtent| {
        let expected = store.get(&group_resource(), "a/x").map(|object| object.revision);
        let put = StoreOp::put(group_resource(), "a/x".to_owned(), expected, object);
        store.write(vec![StoreOp { fields: vec!["Running".to_owned()], extent, ..put }]).unwrap().remove(0)
    };
    let put = |object: Value| write(object, WriteExtent::Whole);
    let first = put(full(1, 0, "t1"));
    let status = put(full(1, 1, "t2"));
    assert_eq!(status.parts_shared_with(&first), 2, "who it is, and what it is to be");
    assert!(Arc::ptr_eq(&status.labels, &first.labels) && Arc::ptr_eq(&status.fields, &first.fields));
    let spec = put(full(2, 1, "t2"));
    assert_eq!(spec.parts_shared_with(&status), 3, "all but what it is to be");
    let mut expected = full(2, 1, "t2");
    expected["metadata"]["resourceVersion"] = json!("3");
    assert_eq!(spec.value(), expected);
    assert_eq!(spec.at_revision(4).parts_shared_with(&spec), 4);
    let mut without_spec = spec.metadata_and_status();
    expected.as_object_mut().unwrap().remove("spec");
    assert_eq!(without_spec, expected);
    without_spec["status"]["ready"] = json!(2);
    let status = write(without_spec, WriteExtent::MetadataAndStatus);
    assert_eq!(status.parts_shared_with(&spec), 3, "all but the status");
    assert_eq!((&status.value()["spec"]["replicas"], &status.value()["status"]["ready"]), (&json!(2), &json!(2)));
}

#[test]
fn objects_share_managed_fields_that_say_the_same() {
    let store = Store::default();
    let made = |path: &str, time: &str| {
        let mut object = object(path, &json!({}));
        object["metadata"]["managedFields"] = json!([{ "manager": "m", "time": time }]);
        object["status"] = json!({ "of": path });
        store.write(vec![StoreOp::put(group_resource(), path.to_owned(), None, object)]).unwrap().remove(0)
    };
    let first = made("a/1", "t1");
    assert_eq!(made("a/2", "t1").parts_shared_with(&first), 1);
    assert_eq!(made("a/3", "t2").parts_shared_with(&first), 0);
    for number in 4..40 {
        made(&format!("a/{number}"), &format!("t{number}"));
    }
    assert_eq!(made("a/40", "t1").parts_shared_with(&first), 0, "only those written lately are looked at");
}

#[test]
fn a_write_that_comes_too_late_changes_nothing() {
    let store = Store::default();
    put(&store, "a/x", "1");
    let late = |expected| StoreOp::put(group_resource(), "a/x".to_owned(), expected, object("a/x", &json!({})));
    let fine = StoreOp { path: "a/y".to_owned(), ..late(None) };
    assert_eq!(store.write(vec![fine, late(None)]).unwrap_err(), Stale(1));
    assert_eq!(store.write(vec![late(Some(7))]).unwrap_err(), Stale(0));
    assert_eq!(store.revision(), 1);
    assert!(store.get(&group_resource(), "a/y").is_none());
}

#[test]
fn objects_are_ordered_by_path_and_scoped() {
    let store = Store::default();
    for path in ["a/x", "a-b/x", "b/x", "a/b", "a.b/z"] {
        put(&store, path, "");
    }
    let list = |scope: &Scope, after: Option<&str>| {
        let page = Page { at: None, after: after.map(str::to_owned) };
        paths(&store.snapshot(&group_resource(), scope, &page).unwrap())
    };
    assert_eq!(list(&Scope::All, None), ["a-b/x", "a.b/z", "a/b", "a/x", "b/x"]);
    assert_eq!(list(&Scope::Namespace("a".to_owned()), None), ["a/b", "a/x"]);
    assert_eq!(list(&Scope::Namespace("a".to_owned()), Some("a/b")), ["a/x"]);
    assert_eq!(list(&Scope::Object("a/x".to_owned()), None), ["a/x"]);
    assert_eq!(list(&Scope::All, Some("a/b")), ["a/x", "b/x"]);
}

#[test]
fn a_snapshot_shows_an_earlier_revision() {
    let store = Store::default();
    put(&store, "a/x", "1");
    put(&store, "a/y", "1");
    let then = store.revision();
    put(&store, "a/x", "2");
    put(&store, "a/x", "3");
    remove(&store, "a/y");
    put(&store, "a/z", "1");
    let snapshot = store.snapshot(&group_resource(), &Scope::All, &Page { at: Some(then), after: None }).unwrap();
    assert_eq!(paths(&snapshot), ["a/x", "a/y"]);
    assert_eq!(snapshot.objects[0].label("note"), Some("1"));
    store.compact();
    let gone = store.snapshot(&group_resource(), &Scope::All, &Page { at: Some(then), after: None }).unwrap_err();
    assert_eq!(gone, Gone { oldest: 6 });
}

#[test]
fn a_watch_tells_what_was_missed_and_what_comes_of_its_scope_alone() {
    let store = Store::default();
    put(&store, "a/x", "1");
    put(&store, "b/x", "1");
    let mut all = store.watch(&group_resource(), &Scope::All, 1).unwrap();
    let mut one = store.watch(&group_resource(), &Scope::Namespace("a".to_owned()), 0).unwrap();
    let mut single = store.watch(&group_resource(), &Scope::Object("b/x".to_owned()), 2).unwrap();
    put(&store, "a/x", "2");
    remove(&store, "b/x");
    let (a, b) = ("a/x".to_owned(), "b/x".to_owned());
    assert_eq!(
        waiting(&mut all),
        [(Change::Added, b.clone(), 2), (Change::Modified, a.clone(), 3), (Change::Deleted, b.clone(), 4)]
    );
    assert_eq!(waiting(&mut one), [(Change::Added, a.clone(), 1), (Change::Modified, a, 3)]);
    assert_eq!(waiting(&mut single), [(Change::Deleted, b, 4)]);
}

#[test]
fn a_watch_from_beyond_the_window_is_refused() {
    let store = Store::default();
    for count in 0..=WINDOW {
        put(&store, "a/x", &count.to_string());
    }
    assert_eq!(store.watch(&group_resource(), &Scope::All, 0).unwrap_err(), Gone { oldest: 1 });
    assert!(store.watch(&group_resource(), &Scope::All, 1).is_ok());
}

#[test]
fn a_watch_that_does_not_read_is_cut_off() {
    let store = Store::default();
    let mut idle = store.watch(&group_resource(), &Scope::All, 0).unwrap();
    for count in 0..=WAITING {
        put(&store, "a/x", &count.to_string());
    }
    assert_eq!(waiting(&mut idle).len(), WAITING);
    let end = idle.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(end, Poll::Ready(Next::End)));
}

#[test]
fn dropped_watches_are_forgotten_and_closing_ends_the_others() {
    let store = Store::default();
    let scope = Scope::Namespace("a".to_owned());
    let mut kept = store.watch(&group_resource(), &scope, 0).unwrap();
    drop(store.watch(&group_resource(), &scope, 0).unwrap());
    store.close();
    assert!(matches!(kept.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(Next::End)));
    let mut late = store.watch(&group_resource(), &scope, 0).unwrap();
    assert!(matches!(late.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(Next::End)));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_watch_of_one_namespace_costs_nothing_for_writes_in_others() {
    let store = Store::default();
    let scope = Scope::Namespace("a".to_owned());
    let mut watches: Vec<_> = (0..100).map(|_| store.watch(&group_resource(), &scope, 0).unwrap()).collect();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut poll = |watcher: &mut Watcher| watcher.poll_next(&mut Context::from_waker(&waker)).is_ready();
    assert!(!watches.iter_mut().any(&mut poll));
    for number in 0..1000 {
        put(&store, "b/x", &number.to_string());
    }
    let woken = || count.0.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(woken(), 0, "nobody is woken");
    assert!(watches.iter().all(Watcher::is_idle), "nothing waits for anybody");
    put(&store, "a/x", "1");
    assert_eq!(woken(), 100);
    assert!(watches.iter_mut().all(poll));
}
