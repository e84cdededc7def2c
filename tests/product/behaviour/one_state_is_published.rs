//! One published state of a source: API, page, metrics and the answer to commands say the same, also while it can't be written
//! down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belay::history::History;
use belay::history::query::source_histories::SourceHistories;
use belay::web::Web;
use belay_core::rollout::{Hold, Outcome, SourceState};
use serde_json::{Value, json};

use crate::a_strategy_may_change::with_strategy;
use crate::every_kind_of_workload::{daemon, stateful};
use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, deployment, path_of};
use crate::support::full_disk;
use crate::support::tap::Tap;

/// The state of a source as each reader says it, and all that each says.
struct Said {
    states: BTreeMap<&'static str, String>,
    api: Value,
    page: String,
    ready: String,
}

impl Said {
    /// Asks all readers about the source "shop".
    async fn of(world: &World) -> Said {
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        let body = |answer: String| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        let api: Value = serde_json::from_str(&body(get(&web, "/api/v1/status").await)).unwrap();
        let source = api["sources"].as_array().unwrap().iter().find(|one| one["source"] == "shop").unwrap().clone();
        let metrics = body(get(&web, "/metrics").await);
        let metric = SourceState::ALL
            .into_iter()
            .find(|state| metrics.contains(&format!("belay_source_state{{source=\"shop\",state=\"{state}\"}} 1\n")));
        let published = SourceHistories::published(world.whole_status().published(), None, world.clock.now());
        let command = published.source_answers().into_iter().find(|answer| answer.source == "shop").unwrap();
        let states = BTreeMap::from([
            ("api", source["state"].as_str().unwrap().to_owned()),
            ("metrics", metric.map(|state| state.to_string()).unwrap_or_default()),
            ("commands", command.state.to_string()),
        ]);
        let (page, ready) = (get(&web, "/").await, get(&web, "/readyz").await);
        Said { states, api: source, page, ready }
    }

    fn all_say(&self, state: SourceState) {
        assert!(self.states.values().all(|said| *said == state.word()), "{state}: {:?}", self.states);
        assert!(self.page.contains(&format!("</i> {state}</span>")), "{state}: {}", self.page);
    }
}

fn history_file(world: &World) -> PathBuf {
    world.repository.beside("state").join("history.db")
}

/// As on a full disk: nothing can be written, whatever it is.
const FULL: [&str; 4] = ["commits", "plans", "records", "source_states"];

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_told_everywhere_and_all_goes_on_when_there_is_room() {
    let (mut world, _) = World::with_web().await;
    Said::of(&world).await.all_say(SourceState::Synced);
    let disk = rusqlite::Connection::open(history_file(&world)).unwrap();
    for table in FULL {
        let full = "SELECT RAISE(ABORT, 'database or disk is full')";
        let trigger = format!("CREATE TRIGGER full_{table} BEFORE INSERT ON {table} BEGIN {full}; END");
        disk.execute_batch(&trigger).unwrap();
    }
    // Also if nothing is to be rolled out.
    world.until("it is told", |source| source.state() == SourceState::Blocked).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    tokio::time::sleep(Duration::from_mins(2)).await;
    let said = Said::of(&world).await;
    said.all_say(SourceState::Blocked);
    assert!(said.api["blocked"].as_str().unwrap().contains("disk is full"), "{:#}", said.api);
    assert!(said.page.contains("disk is full"), "{}", said.page);
    assert!(said.ready.starts_with("HTTP/1.1 503") && said.ready.contains("disk is full"), "{}", said.ready);
    // The history still says what was so before: nobody believes it while a daemon answers.
    assert_eq!(
        History::read_only(&world.repository.beside("state")).unwrap().standing("shop").unwrap().unwrap().state,
        SourceState::Synced
    );
    for table in FULL {
        disk.execute_batch(&format!("DROP TRIGGER full_{table}")).unwrap();
    }
    world.through(&second).await;
    world.until("nothing is in the way", |source| source.state() == SourceState::Synced).await;
    Said::of(&world).await.all_say(SourceState::Synced);
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

/// A newer commit takes the place of a rollout while nothing can be written: each has one record, and each record ends.
#[tokio::test(start_paused = true)]
async fn ends_of_records_that_a_full_disk_refused_are_written_when_there_is_room() {
    let (mut world, first) = World::with_web().await;
    let folder = world.repository.beside("state");
    let second = world.push("web.yaml", &broken("web", "never-ready"), "Slow");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    full_disk::fill(&folder, false);
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.until("it is told", |source| source.state() == SourceState::Blocked).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    full_disk::empty(&folder);
    world.through(&third).await;
    world.until("nothing is in the way", |source| source.state() == SourceState::Synced).await;
    let outcomes = [&first, &second, &third].map(|commit| world.record(commit, "Deployment default/web").outcome);
    assert_eq!(outcomes, [Outcome::Complete, Outcome::Superseded, Outcome::Complete]);
}

#[tokio::test(start_paused = true)]
async fn a_state_folder_that_is_deleted_is_made_again_with_all_records() {
    let (mut world, first) = World::with_web().await;
    let folder = world.repository.beside("state");
    std::fs::remove_dir_all(&folder).unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let found = History::read_only(&folder).unwrap();
    assert_eq!(found.standing("shop").unwrap().unwrap().head.unwrap().as_str(), first);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    for commit in [&first, &second] {
        assert_eq!(world.record(commit, "Deployment default/web").outcome, Outcome::Complete);
    }
    let kept = History::read_only(&folder).unwrap().records(&belay::history::Query::default()).unwrap();
    assert_eq!(kept.len(), world.records().len(), "others read the same file");
}

/// Whatever takes the place of the state folder is not written, and that is told, until the former is put back.
async fn is_not_written(take: impl FnOnce(&Path, &Path), what: &str) {
    let (mut world, _) = World::with_web().await;
    let (folder, aside, other) =
        (world.repository.beside("state"), world.repository.beside("aside"), world.repository.beside("other"));
    std::fs::create_dir(&other).unwrap();
    std::fs::rename(&folder, &aside).unwrap();
    take(&folder, &other);
    let there = entries(&folder);
    world.until("it is told", |source| source.state() == SourceState::Blocked).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    tokio::time::sleep(Duration::from_mins(2)).await;
    let said = Said::of(&world).await;
    said.all_say(SourceState::Blocked);
    let blocked = said.api["blocked"].as_str().unwrap();
    assert!(blocked.contains(what) && blocked.contains("put the former folder back"), "{what}: {blocked}");
    assert!(said.ready.starts_with("HTTP/1.1 503"), "{}", said.ready);
    assert_eq!(entries(&folder), there, "{what}: nothing is made in it");
    // Put back, all goes on.
    if folder.is_symlink() { std::fs::remove_file(&folder) } else { std::fs::remove_dir_all(&folder) }.unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    world.through(&second).await;
    world.until("nothing is in the way", |source| source.state() == SourceState::Synced).await;
}

/// All that lies in a folder, but for the files that SQLite makes beside a history that is only read.
fn entries(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if ["history.db-shm", "history.db-wal"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            found.extend(entries(&path));
        }
        found.insert(path);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn another_history_in_its_place_is_not_written_and_that_is_told() {
    let make = |folder: &Path, _: &Path| drop(History::open(folder, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap());
    is_not_written(make, "another folder is in the place of").await;
}

#[tokio::test(start_paused = true)]
async fn a_link_in_its_place_is_not_followed_and_that_is_told() {
    let make = |folder: &Path, other: &Path| std::os::unix::fs::symlink(other, folder).unwrap();
    is_not_written(make, "a symbolic link to").await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_says_everywhere_that_it_is_one() {
    let (mut first, _) = World::tapped().await;
    let (_, client) = Tap::on(first.client.clone());
    let mut second = World::on(client, first.clock.clone(), None);
    (second.config, second.identity) = (first.config.clone(), "two".to_owned());
    let good = first.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    second.start();
    second.through(&good).await;
    // The state from before it stopped leading is the other one's now.
    first.push("web.yaml", &broken("web", "never-ready"), "Broken");
    second.until("it is under way", |source| !source.under_way.is_empty()).await;
    second.kill().await;
    first.start();
    first.until("it leads", |source| source.planned.is_some()).await;
    second.start();
    second.until("it waits", |source| source.obstacles.standby).await;
    let said = Said::of(&second).await;
    said.all_say(SourceState::Blocked);
    assert!(said.api["waitsFor"].as_str().unwrap().contains("the daemon one follows this source"), "{:#}", said.api);
    assert_eq!(said.api["objects"], serde_json::json!({}));
    assert!(!said.page.contains("progressing"), "{}", said.page);
    // A reader of the history finds the same while no daemon answers.
    let history = History::read_only(&second.repository.beside("state")).unwrap();
    let noted = SourceHistories::read(&history, second.clock.now()).unwrap();
    assert_eq!(noted.source_answers()[0].state, SourceState::Blocked);
    assert!(noted.rows_besides(&[], |_| true).is_empty(), "nothing is progressing here");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_no_daemon_looks_at_is_not_synced() {
    let (mut world, _) = World::with_web().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.stop().await;
    let history = History::read_only(&world.repository.beside("state")).unwrap();
    let answer = |after: i64| {
        let now = world.clock.now() + jiff::SignedDuration::from_secs(after);
        SourceHistories::read(&history, now).unwrap().source_answers().remove(0)
    };
    assert_eq!((answer(10).state, answer(10).blocked), (SourceState::Synced, None));
    let late = answer(180);
    assert_eq!(late.state, SourceState::Blocked);
    assert!(late.blocked.unwrap().starts_with("no daemon has looked for 3m"));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_tells_what_is_wrong_already() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "An image that nobody has");
    world.until("it is told", |source| source.under_way.values().any(|way| way.wrong.is_some())).await;
    let said = Said::of(&world).await;
    assert!(
        said.page.contains("new pod: ErrImagePull web:2") || said.page.contains("new pod: ImagePullBackOff web:2"),
        "{}",
        said.page
    );
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay);
    let told = belay::history::query::step_details::progress(world.history(), &record).unwrap().unwrap();
    assert!(told.contains("new pod") && told.contains("web:2"), "{told}");
}

/// Returns the only row of a workload, and the counts of its source, as the API answers them.
async fn row_and_counts(web: &Web) -> (Value, Value) {
    let answer = get(web, "/api/v1/status").await;
    let api: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(api["workloads"].as_array().unwrap().len(), 1, "{api:#}");
    (api["workloads"][0].clone(), api["sources"][0]["objects"].clone())
}

/// Somebody replaces pods of an OnDelete workload, and the new ones can't start: no rollout is under way. Rows, counts, page
/// and metrics say at each moment the same, and name the fault.
#[tokio::test(start_paused = true)]
async fn pods_that_cannot_start_without_a_rollout_are_named_by_all_readers() {
    let on_delete = |manifest: String| with_strategy(&manifest, "updateStrategy: {type: OnDelete}");
    for (name, manifest) in [("db", stateful as fn(&str, &str) -> String), ("agent", daemon)] {
        let mut world = World::embedded().await;
        let first = world.push("a.yaml", &on_delete(manifest("app:1", "ready")), "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("a.yaml", &on_delete(manifest("app:404", "image-pull-error")), "An image that nobody has");
        world.through(&bad).await;
        assert_eq!(world.status().summary(), "synced (1 complete)", "{name}: no pod is replaced yet");
        let pods = world.list("api/v1/namespaces/default/pods").await;
        let pod = pods[0]["metadata"]["name"].as_str().unwrap();
        world.delete(&format!("api/v1/namespaces/default/pods/{pod}")).await;
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        for second in 0..180 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (row, counts) = row_and_counts(&web).await;
            let state = row["state"].as_str().unwrap();
            assert_eq!(counts, json!({ state: 1 }), "{name}, after {second} s: {row:#}");
            let metrics = get(&web, "/metrics").await;
            let counted = format!("belay_objects{{source=\"shop\",state=\"{state}\"}} 1\n");
            assert!(metrics.contains(&counted), "{name}, after {second} s: {counted} is not in {metrics}");
            let named = format!("name=\"{name}\",state=\"{state}\"");
            assert!(metrics.contains(&named), "{name}, after {second} s: {named} is not in {metrics}");
        }
        let (row, _) = row_and_counts(&web).await;
        let message = row["message"].as_str().unwrap();
        assert!(row["state"] == "progressing" && is_named(message), "{name}: {row:#}");
        assert!(message.contains("pods are available; 1 new pod"), "{name}: nobody updates the others: {message}");
        let (page, own) = (get(&web, "/").await, get(&web, &page_of(&row)).await);
        assert!(is_named(&page), "{name}: {page}");
        assert!(is_named(&own), "{name}: {own}");
        // It is not said any longer than it is so.
        let good = world.push("a.yaml", &on_delete(manifest("app:3", "ready")), "An image that is there");
        world
            .until("it is planned", move |source| source.planned.as_ref().is_some_and(|head| head.as_str() == good))
            .await;
        let pods = world.list("api/v1/namespaces/default/pods").await;
        for pod in pods {
            let pod = pod["metadata"]["name"].as_str().unwrap().to_owned();
            world.delete(&format!("api/v1/namespaces/default/pods/{pod}")).await;
        }
        world.until("all is well", |source| source.state() == SourceState::Synced).await;
        let (row, counts) = row_and_counts(&web).await;
        assert_eq!((&row["state"], counts), (&json!("complete"), json!({"complete": 1})), "{name}: {row:#}");
        assert!(!row["message"].as_str().unwrap().contains("Image"), "{name}: {row:#}");
    }
}

/// The kubelet tries again and again: its words take turns.
fn is_named(text: &str) -> bool {
    ["ErrImagePull", "ImagePullBackOff"].iter().any(|word| text.contains(&format!("1 new pod: {word} app:404")))
}

fn page_of(row: &Value) -> String {
    format!(
        "/workloads/shop/{}/default/{}",
        row["object"]["kind"].as_str().unwrap(),
        row["object"]["name"].as_str().unwrap()
    )
}

/// A change of a held object is put right: the hold is the same as before, and is said as before.
#[tokio::test(start_paused = true)]
async fn a_hold_is_said_as_before_after_a_correction_of_its_object() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    world.until("it is held", |source| !source.held.is_empty()).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let (before, _) = row_and_counts(&web).await;
    let said = |row: &Value| ["state", "message", "since"].map(|field| row[field].clone());
    let held = world.status().held;
    let hold = Hold::on(&world.get(&path_of("web")).await.unwrap()).unwrap();
    assert!(before["message"].as_str().unwrap().starts_with("commit ") && before["since"].is_string(), "{before:#}");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let image = |name: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": name}]}}}});
    for patch in [json!({"spec": {"replicas": 5}}), image("web:by-hand")] {
        let patched = world.patch(&path_of("web"), "kubectl-edit", &patch).await;
        world.until("it is put right", |source| source.settled).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_ne!(live["spec"], patched["spec"], "{patch}: it is put right");
        let (after, _) = row_and_counts(&web).await;
        assert_eq!(said(&after), said(&before), "{patch}: {:#?}", world.records());
        assert_eq!((world.status().held, Hold::on(&live).unwrap()), (held.clone(), hold.clone()), "{patch}");
    }
    // Nor does a restart change it.
    world.stop().await;
    world.start();
    world.through(&bad).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let after = row_and_counts(&web).await.0;
    assert_eq!((said(&after), world.status().held), (said(&before), held));
}

/// Rollouts are of workloads: what has no pods, and what waits, is none.
#[tokio::test(start_paused = true)]
async fn what_waits_is_no_rollout_under_way() {
    let (mut world, _) = World::with_web().await;
    let later = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: later}\n";
    world.push("settings.yaml", later, "Into a namespace that is not there");
    world.until("it waits", |source| source.under_way.values().any(|way| way.message.contains("later"))).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains("belay_objects{source=\"shop\",state=\"waiting\"} 1\n"), "{metrics}");
    assert!(metrics.contains("belay_rollouts_under_way{source=\"shop\"} 0\n"), "{metrics}");
    assert!(!metrics.contains("name=\"settings\""), "{metrics}");
    world.push("web.yaml", &broken("web", "never-ready"), "Slow");
    world.until("it is under way", |source| source.under_way.len() == 2).await;
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains("belay_rollouts_under_way{source=\"shop\"} 1\n"), "{metrics}");
    let pods = metrics.lines().filter(|line| line.starts_with("belay_rollout_pods_wanted{")).collect::<Vec<_>>();
    assert!(pods.len() == 1 && pods[0].contains("name=\"web\""), "{pods:?}");
}

/// A workload that was complete long ago and lost a pod is not past any deadline: none runs.
#[tokio::test(start_paused = true)]
async fn no_deadline_is_said_of_a_workload_without_a_rollout() {
    let (mut world, _) = World::with_web().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let fate = json!({"metadata": {"annotations": {"kubelet.belay.dev/fate": "never-ready"}}});
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let pod = format!("api/v1/namespaces/default/pods/{}", pods[0]["metadata"]["name"].as_str().unwrap());
    world.patch(&pod, "somebody", &fate).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    for second in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (row, _) = row_and_counts(&web).await;
        assert!(row["deadline"].is_null(), "after {second} s: {row:#}");
    }
    assert_eq!(row_and_counts(&web).await.0["state"], "progressing");
    world.delete(&pod).await;
    world.until("all is well", |source| source.state() == SourceState::Synced).await;
}

/// The deadline that is said of a rollout, and of the way back, is the one that ends it.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_said_is_the_one_that_counts() {
    let (mut world, _) = World::with_web().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    let mut states = BTreeSet::new();
    while !world.status().settled {
        let (row, now) = (row_and_counts(&web).await.0, world.clock.now());
        let state = row["state"].as_str().unwrap().to_owned();
        if let Some(deadline) = row["deadline"].as_str() {
            let deadline: jiff::Timestamp = deadline.parse().unwrap();
            // The controller looks for it a second later, and belay rules with it.
            assert!(now.duration_since(deadline).as_secs() < 2, "past its deadline at {now}: {row:#}");
            states.insert(state);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(states.contains("progressing"), "{states:?}");
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
}
