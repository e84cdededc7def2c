//! The requests of belay to the API server are counted: those of a first apply for each object, those of a look at an
//! object in sync, and those after others' changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay_core::rollout::Outcome;
use serde_json::json;

use crate::support::daemon::{World, config_map, deployment};
use crate::support::tap::{Tap, Went};

fn manifests(name: &str, replicas: usize) -> String {
    let web = deployment(name, "web:1", "").replace("replicas: 2", &format!("replicas: {replicas}"));
    format!("{web}---\n{}", config_map(name, "1"))
}

/// Files with a Deployment and a ConfigMap each, pushed, and belay through with them.
async fn started(count: usize, replicas: usize) -> (World, Tap, String) {
    let (mut world, tap) = World::tapped().await;
    for number in 0..count {
        let name = format!("app-{number:03}");
        world.repository.write(format!("{name}/all.yaml"), manifests(&name, replicas));
    }
    let first = world.with_all_of_them().await;
    // Events are told when nothing else is to be done.
    tokio::time::sleep(Duration::from_mins(1)).await;
    (world, tap, first)
}

type Kinds = BTreeMap<&'static str, (u64, u64)>;

/// Returns how many requests of which kind there were, and the bytes of each kind, both ways.
fn kinds(went: &[Went]) -> Kinds {
    let mut kinds = BTreeMap::new();
    for request in went {
        let kind = match (request.method.as_str(), request.path.as_str()) {
            (_, path) if path.contains("/events") => "event",
            (_, path) if path.contains("dryRun=All") => "dry run",
            ("PATCH", path) if path.contains("/deployments/") => "apply of a Deployment",
            ("PATCH", path) if path.contains("/configmaps/") => "apply of a ConfigMap",
            ("GET", _) => "read",
            _ => "other",
        };
        let (count, bytes) = kinds.entry(kind).or_insert((0, 0));
        (*count, *bytes) = (*count + 1, *bytes + request.sent + request.received);
    }
    kinds
}

/// Returns the first apply of so many of each kind.
async fn first_apply(count: usize) -> Kinds {
    let (world, tap, _) = started(count, 0).await;
    assert!(world.outcomes().iter().all(|(_, outcome)| *outcome == Outcome::Complete));
    kinds(&tap.take())
}

/// One apply for each object, and one event for each rollout; nothing else grows with them.
#[tokio::test(start_paused = true)]
async fn a_first_apply() {
    const FEW: u64 = 60;
    let (few, many) = (first_apply(60).await, first_apply(120).await);
    let of = |kinds: &Kinds, kind: &str| kinds.get(kind).copied().unwrap_or_default();
    for (kinds, count) in [(&few, FEW), (&many, 2 * FEW)] {
        for kind in ["apply of a Deployment", "apply of a ConfigMap"] {
            assert_eq!(of(kinds, kind).0, count, "{kinds:#?}");
        }
        assert!(of(kinds, "event").0 <= count, "{kinds:#?}");
    }
    let rest: Vec<&str> = many.keys().copied().filter(|kind| !kind.starts_with("apply") && *kind != "event").collect();
    for kind in &rest {
        assert_eq!(of(&few, kind).0, of(&many, kind).0, "{kind} grows: {few:#?} {many:#?}");
    }
    // Both ways. A Deployment, as the server gives it, is some 2 KB.
    let bytes = ["apply of a Deployment", "apply of a ConfigMap", "event"].map(|kind| of(&many, kind).1 / (2 * FEW));
    assert!(bytes[0] < 3 << 10 && bytes[1] < 1 << 10 && bytes[2] < 2 << 10, "bytes for each: {bytes:?}");
    let besides: u64 = rest.iter().map(|kind| of(&many, kind).1).sum();
    assert!(besides < 64 << 10, "{besides} bytes besides: {many:#?}");
}

/// If there are few, a list would cost more than they do: each is read and tried before it is applied.
#[tokio::test(start_paused = true)]
async fn a_first_apply_of_few() {
    let (one, ten) = (first_apply(1).await, first_apply(10).await);
    let sum = |kinds: &Kinds| kinds.iter().filter(|(kind, _)| **kind != "event").map(|(_, of)| of.0).sum::<u64>();
    assert_eq!(sum(&ten) - sum(&one), 9 * 2 * 3, "{one:#?} {ten:#?}");
    assert!(ten.get("event").is_none_or(|events| events.0 <= 10), "{ten:#?}");
}

/// After a restart with nothing changed, and after a commit that changes no object: nothing for any object by itself.
#[tokio::test(start_paused = true)]
async fn what_is_as_it_should_be() {
    let mut counted = Vec::new();
    // Less than a page of a list.
    for count in [30, 90] {
        let (mut world, tap, first) = started(count, 0).await;
        world.stop().await;
        tap.take();
        world.start();
        world.through(&first).await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        let restarted = tap.take();
        assert!(restarted.iter().all(|went| !went.path.contains("app-")), "{restarted:#?}");
        world.repository.write("README.md", "What runs here");
        for number in 0..count {
            let name = format!("app-{number:03}");
            let path = format!("{name}/all.yaml");
            world.repository.write(path, format!("# {number}\n{}", manifests(&name, 0)));
        }
        let words = world.repository.commit("Comments everywhere");
        world.repository.push();
        world.through(&words).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let said = tap.take();
        assert!(said.iter().all(|went| !went.is_write() || went.path.contains("/leases/")), "{said:#?}");
        assert!(said.iter().all(|went| !went.path.contains("app-")), "{said:#?}");
        counted.push((restarted.len(), said.len()));
    }
    assert_eq!(counted[0], counted[1], "requests after a restart and after a commit, of few and of many");
}

/// Fifty workloads whose pods are busy: neither they nor time itself cost a request, but for the Lease.
#[tokio::test(start_paused = true)]
async fn time_and_what_pods_say() {
    const MINUTES: usize = 10;
    let (world, tap, _) = started(50, 1).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    tap.take();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let idle = tap.take();
    // The Lease is renewed every seven seconds.
    assert!(idle.len() <= 9 * MINUTES, "{} requests: {idle:#?}", idle.len());
    assert!(idle.iter().all(|went| went.path.contains("/leases/")), "{idle:#?}");
    let pods = world.list("api/v1/namespaces/default/pods").await;
    assert_eq!(pods.len(), 50);
    for round in 0..MINUTES {
        for pod in pods.iter().skip(round).step_by(5) {
            let path = format!("api/v1/namespaces/default/pods/{}/status", pod["metadata"]["name"].as_str().unwrap());
            let status = json!({"status": {"message": format!("said in round {round}")}});
            world.patch(&path, "kubelet", &status).await;
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let busy = tap.take();
    assert!(busy.len() <= 9 * MINUTES, "{} requests: {busy:#?}", busy.len());
    assert!(busy.iter().all(|went| went.path.contains("/leases/")), "{busy:#?}");
}

/// So many that they are watched only when they are applied.
async fn crowd(tap: &Tap, world: &mut World) -> String {
    for number in 0..510 {
        world.repository.write(format!("{number}/map.yaml"), config_map(&format!("map-{number}"), "1"));
        let web = deployment(&format!("web-{number}"), "web:1", "").replace("replicas: 2", "replicas: 0");
        world.repository.write(format!("{number}/web.yaml"), web);
    }
    tap.take();
    let commit = world.repository.commit("All of it");
    world.repository.push();
    world.start();
    commit
}

/// Returns true when it is a page of the list that a watch begins with.
fn begins_a_watch(went: &Went, kind: &str) -> bool {
    went.path.contains(&format!("/{kind}?")) && went.path.contains("limit=100")
}

/// If each is changed several times in a moment, one list says as much as all events of a watch.
#[tokio::test(start_paused = true)]
async fn a_crowd_is_listed_once_when_it_is_applied() {
    let (mut world, tap) = World::tapped().await;
    let commit = crowd(&tap, &mut world).await;
    world.through(&commit).await;
    assert!(world.outcomes().iter().all(|(_, outcome)| *outcome == Outcome::Complete));
    let went = tap.take();
    for kind in ["deployments", "configmaps"] {
        let applied = went.iter().rposition(|went| went.method == "PATCH" && went.path.contains(&format!("/{kind}/")));
        let listed = went.iter().position(|went| begins_a_watch(went, kind));
        assert!(applied.is_some() && applied < listed, "{kind}: applied {applied:?}, listed {listed:?}");
        let pages = went.iter().filter(|went| begins_a_watch(went, kind)).count();
        assert_eq!(pages, 6, "of a hundred each");
    }
    // From now on all of them are watched.
    world.delete("api/v1/namespaces/default/configmaps/map-7").await;
    world
        .patch("apis/apps/v1/namespaces/default/deployments/web-7", "kubectl-scale", &json!({"spec": {"replicas": 5}}))
        .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get("api/v1/namespaces/default/configmaps/map-7").await.is_some());
    let scaled = world.get("apis/apps/v1/namespaces/default/deployments/web-7").await.unwrap();
    assert_eq!(scaled["spec"]["replicas"], 0);
}

/// The watch never reports an object that is gone before it begins.
#[tokio::test(start_paused = true)]
async fn what_goes_from_a_crowd_before_it_is_watched_is_made_again() {
    let (mut world, tap) = World::tapped().await;
    let commit = crowd(&tap, &mut world).await;
    let gone = ["api/v1/namespaces/default/configmaps/map-7", "apis/apps/v1/namespaces/default/deployments/web-7"];
    for path in gone {
        while world.get(path).await.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.delete(path).await;
    }
    assert!(!tap.take().iter().any(|went| begins_a_watch(went, "deployments")), "not watched yet");
    world.through(&commit).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    for path in gone {
        assert!(world.get(path).await.is_some(), "{path}");
    }
    world.through(&commit).await;
}

/// The number of reads of a file from the mirror, as belay logs it.
#[derive(Clone, Default)]
struct Reads(Arc<Mutex<Vec<u8>>>);

impl Reads {
    /// Returns those since the last call.
    fn take(&self) -> usize {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8_lossy(&text).lines().filter(|line| line.contains("a file is read")).count()
    }
}

impl std::io::Write for Reads {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// However many objects a file has, it is read once to know them, and once to compare them with what is live; it was read
/// once for each of them.
#[tokio::test(start_paused = true)]
async fn a_file_is_read_once_for_all_its_objects() {
    let mut read = Vec::new();
    for count in [20, 80] {
        let reads = Reads::default();
        let writer = reads.clone();
        let _guard = crate::support::log::listen("belay::git=trace", move || writer.clone());
        let mut world = World::embedded().await;
        // Blocking work is done on this thread, so that its log is heard.
        world.polls = true;
        let all = |changed: usize| {
            let map = |number: usize| config_map(&format!("map-{number:03}"), if number < changed { "2" } else { "1" });
            (0..count).map(map).collect::<Vec<_>>().join("---\n")
        };
        world.repository.write("all.yaml", all(0));
        let first = world.with_all_of_them().await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let at_first = reads.take();
        let second = world.push("all.yaml", &all(1), "One of them");
        world.through(&second).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(world.records().iter().filter(|record| record.commit.as_str() == second).count(), 1);
        assert_eq!(world.records().iter().filter(|record| record.commit.as_str() == first).count(), count);
        read.push((at_first, reads.take()));
        world.stop().await;
    }
    assert!(read[0].0 >= 1 && read[0].1 >= 1, "nothing was heard: {read:?}");
    assert_eq!(read[0], read[1], "reads of a file with few objects and with many, at first and when one changed");
    assert!(read[0].0 <= 3 && read[0].1 <= 3, "{read:?}");
}

/// One value of a file changes: requests are made for its object, however many others the file has.
#[tokio::test(start_paused = true)]
async fn one_value_of_a_file_costs_one_object() {
    let mut counted = Vec::new();
    for count in [60, 240] {
        let (mut world, tap) = World::tapped().await;
        let all = |changed: &str| {
            let map = |number: usize| config_map(&format!("map-{number:03}"), if number == 7 { changed } else { "1" });
            (0..count).map(map).collect::<Vec<_>>().join("---\n")
        };
        world.repository.write("all.yaml", all("1"));
        world.with_all_of_them().await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        tap.take();
        let second = world.push("all.yaml", &all("2"), "One value");
        world.through(&second).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let went = tap.take();
        let of_objects: Vec<&Went> = went.iter().filter(|went| went.path.contains("/configmaps")).collect();
        assert!(of_objects.iter().all(|went| went.path.contains("/configmaps/map-007")), "{of_objects:#?}");
        assert_eq!(of_objects.iter().filter(|went| went.changes_an_object()).count(), 1, "{of_objects:#?}");
        let records = world.records().into_iter().filter(|record| record.commit.as_str() == second).count();
        assert_eq!(records, 1, "records of the commit");
        counted.push(of_objects.len());
    }
    assert_eq!(counted[0], counted[1], "requests of few and of many objects");
}
