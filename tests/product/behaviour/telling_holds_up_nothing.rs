//! Events about what went well are for people who look: they are few, one at a time, and come after what is to be done.

use std::time::Duration;

use belay_core::rollout::Outcome;

use crate::support::daemon::{World, broken, deployment};
use crate::support::tap::{Fate, Tap, Went};

const EVENTS: &str = "api/v1/namespaces/default/events";

/// Thirty Deployments that become complete with one commit.
async fn crowd() -> (World, Tap) {
    let (mut world, tap) = World::tapped().await;
    for number in 0..30 {
        world.repository.write(format!("{number}.yaml"), deployment(&format!("app-{number}"), "web:1", ""));
    }
    (world, tap)
}

fn is_event(went: &Went) -> bool {
    went.method == "POST" && went.path.contains("/events")
}

async fn completions(world: &World) -> Vec<String> {
    let events = world.list(EVENTS).await.into_iter().filter(|event| event["reason"] == "RolloutComplete");
    events.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_told_of_by_one_event_and_a_few_one_by_one() {
    let (mut world, _) = crowd().await;
    world.with_all_of_them().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let told = completions(&world).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("is complete, here and at 29 other workloads of that commit"), "{told:?}");
    for number in 0..3 {
        world.repository.write(format!("{number}.yaml"), deployment(&format!("app-{number}"), "web:2", ""));
    }
    let second = world.repository.commit("Three of them");
    world.repository.push();
    world.through(&second).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(completions(&world).await.len(), 1 + 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_waits_for_what_is_to_be_done() {
    let (mut world, tap) = crowd().await;
    // An API server that answers no Event: one at a time is asked for, and nothing else waits for it.
    tap.rule(|went, _| if is_event(went) { Fate::Swallow } else { Fate::Pass });
    world.with_all_of_them().await;
    tap.take();
    let before = world.clock.now();
    let second = world.push("7.yaml", &deployment("app-7", "web:2", ""), "One of them");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/app-7").outcome, Outcome::Complete);
    let took = world.clock.now().duration_since(before).as_secs();
    assert!(took < 10, "{took} s");
    assert!(tap.take().iter().filter(|went| is_event(went)).count() <= 1);
    // While a write is under way no Event is sent.
    tap.rule(|went, _| match went.is_write() && went.path.contains("/deployments/app-8") {
        true => Fate::Swallow,
        false => Fate::Pass,
    });
    tokio::time::sleep(Duration::from_mins(5)).await;
    tap.take();
    let told = completions(&world).await.len();
    world.repository.write("7.yaml", deployment("app-7", "web:3", ""));
    world.repository.write("8.yaml", deployment("app-8", "web:2", ""));
    world.repository.commit("One of them hangs");
    world.repository.push();
    tokio::time::sleep(Duration::from_secs(25)).await;
    let went = tap.take();
    assert!(went.iter().any(|went| went.path.contains("/deployments/app-8") && went.is_write()), "{went:#?}");
    assert!(!went.iter().any(is_event), "{went:#?}");
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(completions(&world).await.len(), told + 2);
}

#[tokio::test(start_paused = true)]
async fn a_workload_goes_back_at_once_where_no_event_is_answered() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    // It is reported, too.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (clock, told) = (world.clock.clone(), std::sync::Arc::new(std::sync::Mutex::new(None)));
    let first = std::sync::Arc::clone(&told);
    tap.rule(move |went, _| {
        if is_event(went) {
            first.lock().unwrap().get_or_insert(clock.now());
            return Fate::Swallow;
        }
        Fate::Pass
    });
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "Broken");
    world.until("it goes back", |source| source.held.len() == 1).await;
    let told = told.lock().unwrap().expect("an event was tried");
    let took = world.clock.now().duration_since(told).as_secs();
    assert!(took < 15, "{took} s");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
}
