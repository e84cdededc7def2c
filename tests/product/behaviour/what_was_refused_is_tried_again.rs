//! An object that the API server refused is tried again by itself, ever later, up to five minutes; at once when its
//! manifest changes.

use std::time::Duration;

use belay_core::rollout::{Outcome, Record, RetryRequest, Trigger, marks};
use serde_json::json;
use tokio::time::Instant;

use crate::support::daemon::{World, config_map, deployment};
use crate::support::tap::{Fate, Tap, Went};

fn is_a_try(went: &Went) -> bool {
    went.method == "PATCH" && went.path.contains("/configmaps/settings?")
}

fn refuse(tap: &Tap) {
    tap.rule(|went, _| if is_a_try(went) { Fate::Fail(422) } else { Fate::Pass });
}

fn records(world: &World) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.object.to_string() == "ConfigMap default/settings").collect()
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_with_a_back_off_until_it_is_taken() {
    let (mut world, tap) = World::tapped().await;
    refuse(&tap);
    world.repository.write("settings.yaml", config_map("settings", "1"));
    let first = world.with_first_version().await;
    assert_eq!(world.record(&first, "ConfigMap default/settings").outcome, Outcome::Rejected);
    tap.take();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let tries = tap.take().iter().filter(|went| is_a_try(went)).count();
    assert!((12..=24).contains(&tries), "{tries} tries in an hour");
    assert_eq!(records(&world).len(), 1, "what is refused again is no news");
    assert!(world.status().settled && !world.status().ended.is_empty(), "{:#?}", world.status());
    tap.rule(|_, _| Fate::Pass);
    let began = Instant::now();
    world.until("it is taken", |source| source.ended.is_empty()).await;
    assert!(began.elapsed() <= Duration::from_mins(6), "{:?}", began.elapsed());
    world.through(&first).await;
    let all = records(&world);
    let [_, taken] = &all[..] else { panic!("{all:#?}") };
    assert_eq!(
        (taken.outcome, &taken.trigger, taken.commit.as_str()),
        (Outcome::Complete, &Trigger::Retry, first.as_str())
    );
}

/// A webhook may name the time or the request in its refusal.
#[tokio::test(start_paused = true)]
async fn the_same_refusal_in_other_numbers_is_told_once() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if is_a_try(went) { Fate::Refuse } else { Fate::Pass });
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.with_first_version().await;
    let told = world.status().ended;
    assert!(format!("{told:?}").contains("refused by the test, request id-"), "{told:?}");
    tap.take();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(tap.take().iter().filter(|went| is_a_try(went)).count() >= 12);
    assert_eq!(world.status().ended, told);
    // Another one is told.
    refuse(&tap);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(format!("{:?}", world.status().ended).contains("disturbed by the test"), "{:#?}", world.status().ended);
}

/// `belay retry` writes the request on the Lease of the source; the daemon reads it when it renews that.
#[tokio::test(start_paused = true)]
async fn it_is_tried_soon_when_somebody_asks_for_it() {
    let (mut world, tap) = World::tapped().await;
    refuse(&tap);
    world.repository.write("settings.yaml", config_map("settings", "1"));
    let first = world.with_first_version().await;
    // By now it is tried every five minutes.
    tokio::time::sleep(Duration::from_hours(1)).await;
    tap.take();
    let ask = async |world: &World| {
        let objects = ["ConfigMap default/settings".to_owned()].into();
        let request = serde_json::to_string(&RetryRequest { objects, at: world.clock.now() }).unwrap();
        let annotated = json!({ "metadata": { "annotations": { marks::RETRY: request } } });
        world.patch("apis/coordination.k8s.io/v1/namespaces/default/leases/belay-shop", "belay-cli", &annotated).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        tap.take().iter().filter(|went| is_a_try(went)).count()
    };
    // One of these may come of itself.
    let tries = [ask(&world).await, ask(&world).await, ask(&world).await];
    assert!(tries.iter().all(|count| (1..=2).contains(count)), "{tries:?}");
    tap.rule(|_, _| Fate::Pass);
    ask(&world).await;
    world.through(&first).await;
    assert_eq!(records(&world).last().map(|record| record.outcome), Some(Outcome::Complete), "{:#?}", records(&world));
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_at_once_when_its_manifest_changes_and_soon_when_another_does() {
    let (mut world, tap) = World::tapped().await;
    refuse(&tap);
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.with_first_version().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    tap.rule(|_, _| Fate::Pass);
    let second = world.push("other.yaml", &config_map("other", "1"), "What was in the way may be gone");
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.through(&second).await;
    assert_eq!(records(&world).last().unwrap().outcome, Outcome::Complete);
    refuse(&tap);
    world.push("settings.yaml", &config_map("settings", "2"), "Refused");
    world.until("it is refused", |source| !source.ended.is_empty()).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    tap.rule(|_, _| Fate::Pass);
    let fourth = world.push("settings.yaml", &config_map("settings", "3"), "Another");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.record(&fourth, "ConfigMap default/settings").outcome, Outcome::Complete);
}

/// Nothing of the object is live, so that no watch tells of it; and belay was started anew.
#[tokio::test(start_paused = true)]
async fn it_is_tried_again_after_a_restart() {
    let (mut world, tap) = World::tapped().await;
    refuse(&tap);
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.with_first_version().await;
    world.kill().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    tap.rule(|_, _| Fate::Pass);
    world.until("it is taken", |source| source.ended.is_empty() && source.settled).await;
    let taken = records(&world).pop().unwrap();
    assert_eq!((taken.outcome, taken.trigger), (Outcome::Complete, Trigger::Retry));
}

/// A refused workload is rolled out, and judged, when it is taken.
#[tokio::test(start_paused = true)]
async fn a_workload_that_is_taken_late_is_judged() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    let about_web = |went: &Went| went.method == "PATCH" && went.path.contains("/deployments/web?");
    tap.rule(move |went, _| if about_web(went) { Fate::Fail(422) } else { Fate::Pass });
    let bad = world.push("web.yaml", &crate::support::daemon::broken("web", "never-ready"), "Refused, and bad");
    world.through(&bad).await;
    tap.rule(|_, _| Fate::Pass);
    world.until("it is held", |source| !source.held.is_empty()).await;
    world.until("it is through", |source| source.settled).await;
    let last = world.records().pop().unwrap();
    assert_eq!((last.outcome, last.commit.as_str()), (Outcome::RolledBack, bad.as_str()));
    let good = world.push("web.yaml", &deployment("web", "web:3", ""), "Good");
    world.through(&good).await;
    assert_eq!(world.record(&good, "Deployment default/web").outcome, Outcome::Complete);
}

/// A hostile webhook has other words each time.
#[tokio::test(start_paused = true)]
async fn other_words_of_each_refusal_are_told_ever_later() {
    for code in [403, 422] {
        let (mut world, tap) = World::tapped().await;
        tap.rule(move |went, _| if is_a_try(went) { Fate::RefuseInOtherWords(code) } else { Fate::Pass });
        world.push("settings.yaml", &config_map("settings", "1"), "Settings");
        world.start();
        let (mut told, mut tries) = (Vec::new(), 0);
        for _ in 0..90 * 3 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            tries += tap.take().iter().filter(|went| is_a_try(went)).count();
            let status = world.status();
            let ended = status.ended.values().filter_map(|one| Some(one.reason.as_ref()?.message.clone()));
            let waiting = status.under_way.values().map(|one| one.message.clone());
            let newest: Vec<String> = ended.chain(waiting).collect();
            if told.last() != Some(&newest) {
                told.push(newest);
            }
        }
        let steps: usize = records(&world).iter().map(|one| world.history().steps(one.id).unwrap().len()).sum();
        assert!(tries >= 18, "{code}: {tries} tries");
        assert!((4..=12).contains(&told.len()), "{code}: told {} times: {told:#?}", told.len());
        assert!(steps <= 14, "{code}: {steps} steps");
        // A person who mends it hears of it at once.
        tap.rule(|_, _| Fate::Pass);
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert!(
            world.status().ended.is_empty() && world.status().under_way.is_empty(),
            "{code}: {:#?}",
            world.status()
        );
    }
}
