//! An object whose namespace or kind is not there waits for it, with a limit: then its record fails, with what is missing
//! and what to do, and it is tried again by itself, ever later; at once when what was missing is there.

use std::time::Duration;

use belay_core::rollout::{Outcome, ReasonCode, Record, RetryRequest, SourceState, Trigger, marks};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::daemon::{WIDGETS, World, config_map};
use crate::support::tap::{Tap, Went};

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n";

/// Something that is missing, and an object that needs it.
struct Case {
    object: &'static str,
    file: &'static str,
    manifest: String,
    /// The words that name what is missing, and what to do.
    words: [&'static str; 2],
    /// A part of the addresses of the requests by which it is tried.
    tried_at: &'static str,
    /// The list that what is missing is made in.
    list: &'static str,
    missing: Value,
}

fn cases() -> [Case; 2] {
    [
        Case {
            object: "ConfigMap shop/a",
            file: "a.yaml",
            manifest: config_map("a", "1").replace("metadata:", "metadata:\n  namespace: shop"),
            words: [
                "waits for the namespace shop, which does not exist",
                "write the Namespace into the repository, or create it (kubectl create namespace shop)",
            ],
            tried_at: "/namespaces/shop/configmaps/a",
            list: "api/v1/namespaces",
            missing: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        },
        Case {
            object: "Widget default/one",
            file: "one.yaml",
            manifest: WIDGET.to_owned(),
            words: [
                "waits for the kind Widget of example.com, which the cluster does not know",
                "add its CustomResourceDefinition to the repository, or install it",
            ],
            tried_at: "/apis/example.com/v1",
            list: "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            missing: serde_yaml::from_str(WIDGETS).unwrap(),
        },
    ]
}

/// Begins with a commit that has an object which needs something missing, and another one.
async fn started(case: &Case) -> (World, Tap, String) {
    let (mut world, tap) = World::tapped().await;
    world.repository.write("other.yaml", config_map("other", "1"));
    let first = world.push(case.file, &case.manifest, "Something is missing");
    world.start();
    world.until("it waits", |source| source.under_way.values().any(|way| way.outcome == Outcome::Waiting)).await;
    (world, tap, first)
}

fn records(world: &World, case: &Case) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.object.to_string() == case.object).collect()
}

fn is_a_try(case: &Case, went: &Went) -> bool {
    went.path.contains(case.tried_at)
}

async fn is_given_up(world: &mut World, case: &Case, commit: &str) {
    world.through(commit).await;
    let record = world.record(commit, case.object);
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, &reason.code), (Outcome::Failed, &ReasonCode::Missing), "{record:#?}");
    for words in case.words.iter().chain(&["waited for all of outage_timeout, 600 s"]) {
        assert!(reason.message.contains(words), "{words}: {reason}");
    }
    let waited = record.ended.unwrap().duration_since(record.started).as_secs();
    assert!((600..700).contains(&waited), "{waited} s");
    assert_eq!(world.status().state(), SourceState::Degraded);
}

/// Waits until an object is complete, and returns how long that took.
async fn complete(world: &World, case: &Case, within: Duration) -> Duration {
    let began = Instant::now();
    while records(world, case).last().map(|record| record.outcome) != Some(Outcome::Complete) {
        assert!(began.elapsed() < within, "not within {within:?}: {:#?}", records(world, case));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn it_is_given_up_with_what_to_do_and_tried_again_by_itself() {
    for case in cases() {
        let (mut world, tap, first) = started(&case).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(world.record(&first, "ConfigMap default/other").outcome, Outcome::Complete);
        is_given_up(&mut world, &case, &first).await;
        tap.take();
        tokio::time::sleep(Duration::from_hours(1)).await;
        let tries = tap.take().iter().filter(|went| is_a_try(&case, went)).count();
        assert!((12..=40).contains(&tries), "{}: {tries} requests in an hour", case.object);
        assert_eq!(records(&world, &case).len(), 1, "{}: what is still missing is no news", case.object);
        assert!(world.status().settled, "{:#?}", world.status());
        let ended: Vec<String> = world.status().ended.keys().map(ToString::to_string).collect();
        assert_eq!(ended, [case.object], "it is told");
        // Somebody makes it.
        world.create(case.list, "somebody", &case.missing).await;
        complete(&world, &case, Duration::from_secs(10)).await;
        let all = records(&world, &case);
        let [_, taken] = &all[..] else { panic!("{all:#?}") };
        assert_eq!((&taken.trigger, taken.commit.as_str()), (&Trigger::Retry, first.as_str()));
        world.until("all is well", |source| source.state() == SourceState::Synced).await;
        assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
    }
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_at_once_when_what_it_waits_for_is_there() {
    for case in cases() {
        let (world, _, first) = started(&case).await;
        // By now it is tried each minute.
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(world.record(&first, case.object).outcome, Outcome::Waiting);
        world.create(case.list, "somebody", &case.missing).await;
        complete(&world, &case, Duration::from_secs(10)).await;
        assert_eq!(records(&world, &case).len(), 1);
    }
}

/// belay watches what is missing only for as long as something is.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_any_more_when_it_is_there() {
    for case in cases() {
        let (mut world, tap, first) = started(&case).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        world.create(case.list, "somebody", &case.missing).await;
        world.through(&first).await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        tap.take();
        tokio::time::sleep(Duration::from_hours(1)).await;
        let asked: Vec<Went> = tap.take().into_iter().filter(|went| !went.renews_a_lease()).collect();
        assert!(asked.is_empty(), "{}: {asked:#?}", case.object);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_soon_when_somebody_asks_for_it() {
    for case in cases() {
        let (mut world, tap, first) = started(&case).await;
        is_given_up(&mut world, &case, &first).await;
        tokio::time::sleep(Duration::from_hours(1)).await;
        tap.take();
        let request = RetryRequest { objects: [case.object.to_owned()].into(), at: world.clock.now() };
        let request = serde_json::to_string(&request).unwrap();
        let annotated = json!({ "metadata": { "annotations": { marks::RETRY: request } } });
        world.patch("apis/coordination.k8s.io/v1/namespaces/default/leases/belay-shop", "belay-cli", &annotated).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(tap.take().iter().any(|went| is_a_try(&case, went)), "{}", case.object);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_again_after_a_restart() {
    for case in cases() {
        let (mut world, _, first) = started(&case).await;
        is_given_up(&mut world, &case, &first).await;
        world.kill().await;
        world.start();
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert_eq!(records(&world, &case).len(), 1, "{:#?}", records(&world, &case));
        world.create(case.list, "somebody", &case.missing).await;
        complete(&world, &case, Duration::from_secs(10)).await;
    }
}

/// New objects beyond the first fifty are not tried before they are made.
#[tokio::test(start_paused = true)]
async fn many_in_one_namespace_are_given_up_together() {
    const MANY: usize = 120;
    let (mut world, tap) = World::tapped().await;
    for number in 0..MANY {
        let map = config_map(&format!("map-{number}"), "1").replace("metadata:", "metadata:\n  namespace: shop");
        world.repository.write(format!("{number}.yaml"), map);
    }
    world.with_all_of_them().await;
    let failed = |world: &World| world.records().iter().filter(|record| record.outcome == Outcome::Failed).count();
    assert_eq!((failed(&world), world.records().len()), (MANY, MANY));
    tap.take();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let tries = tap.take().iter().filter(|went| went.path.contains("/namespaces/shop/")).count();
    assert!(tries <= MANY * 24, "{tries} requests in an hour");
    assert_eq!(world.records().len(), MANY);
    world.create("api/v1/namespaces", "somebody", &json!({"kind": "Namespace", "metadata": {"name": "shop"}})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let made = world.list("api/v1/namespaces/shop/configmaps").await;
    assert!(made.len() >= MANY, "{} of {MANY}", made.len());
    world.until("all is well", |source| source.state() == SourceState::Synced).await;
}

/// Somebody deletes the namespace of an object that is live.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_somebody_deletes_is_missed_with_the_same_limit() {
    let [case, _] = cases();
    let (mut world, _, first) = started(&case).await;
    world.create(case.list, "somebody", &case.missing).await;
    world.through(&first).await;
    world.delete("api/v1/namespaces/shop").await;
    world.until("it is missed", |source| !source.settled || !source.under_way.is_empty()).await;
    world.until("it is given up", |source| source.settled && !source.ended.is_empty()).await;
    let count = records(&world, &case).len();
    let last = records(&world, &case).pop().unwrap();
    let reason = last.reason.clone().unwrap();
    assert_eq!((last.outcome, &reason.code), (Outcome::Failed, &ReasonCode::Missing), "{last:#?}");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(records(&world, &case).len(), count, "{:#?}", records(&world, &case));
    world.create(case.list, "somebody", &case.missing).await;
    complete(&world, &case, Duration::from_secs(10)).await;
    world.until("all is well", |source| source.state() == SourceState::Synced).await;
}
