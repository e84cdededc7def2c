//! The memory of rollouts, in counted bytes: how many a Deployment takes while it waits, while its pods are looked at, and
//! when it is complete; and how many a large file of many objects takes at most.

use std::sync::atomic::Ordering;
use std::time::Duration;

use minicluster::{MiniCluster, Part};
use serde_json::Value;

use super::support::daemon::{World, broken, config_map, deployment, path_of};
use super::support::tap::{Fate, Tap};
use super::{ALLOCATED, MEASURING, PEAK};

fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Returns a Deployment without pods whose container has so many variables.
fn of_none(number: usize, variables: usize) -> String {
    let variable = |number| format!("        - {{name: VARIABLE_{number}, value: \"value {number}\"}}\n");
    let env: String = (0..variables).map(variable).collect();
    let env = if env.is_empty() { env } else { format!("        env:\n{env}") };
    deployment(&format!("app-{number}"), "web:1", "").replace("replicas: 2", "replicas: 0") + &env
}

/// Returns a world whose cluster has nothing but its API server, with a tap on belay's line, and the commit of so many files.
async fn without_controllers(count: usize, file: impl Fn(usize) -> String) -> (World, Tap, String) {
    let mut world = World::embedded().await;
    let builder = MiniCluster::builder().clock(world.clock.clone()).without(Part::Roles);
    let cluster = builder.without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    world.client = cluster.client_as("belay");
    world.cluster = Some(cluster);
    let (tap, client) = Tap::on(world.client.clone());
    world.give_belay(client);
    for number in 0..count {
        world.repository.write(format!("{number}.yaml"), file(number));
    }
    let commit = world.repository.commit("All of them");
    world.repository.push();
    (world, tap, commit)
}

/// Returns the bytes that one more takes, from what few and many take.
async fn each(taken: impl AsyncFn(usize) -> usize) -> usize {
    const FEW: usize = 100;
    const MANY: usize = 400;
    let (few, many) = (taken(FEW).await, taken(MANY).await);
    many.saturating_sub(few) / (MANY - FEW)
}

/// Thousands are planned at once, and few of them applied.
#[tokio::test(start_paused = true)]
async fn a_rollout_that_waits_for_its_turn_takes_few_bytes() {
    const MOST: usize = 10 << 10;
    let _alone = MEASURING.lock().await;
    let taken = async |count: usize| {
        let (mut world, tap, _) = without_controllers(count, |number| of_none(number, 0)).await;
        tap.rule(|went, _| if went.method == "PATCH" { Fate::Swallow } else { Fate::Pass });
        let before = allocated();
        world.start();
        world.until("all are begun", |source| source.open == count).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let taken = allocated().saturating_sub(before);
        world.kill().await;
        taken
    };
    let each = each(taken).await;
    assert!(each < MOST, "{each} bytes for each Deployment");
}

/// All are applied, and thousands wait for their pods, which are looked at in turn.
#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_takes_few_bytes() {
    /// 20 KiB were seen without optimization, and 25 where each that waits for room has all that it needs with it.
    const MOST: usize = 22 << 10;
    let _alone = MEASURING.lock().await;
    let taken = async |count: usize| {
        let (mut world, tap) = World::tapped().await;
        for number in 0..count {
            let slow = broken(&format!("app-{number}"), "ready-after=1h").replace("Seconds: 30", "Seconds: 3000");
            world.repository.write(format!("{number}.yaml"), slow);
        }
        world.repository.commit("All of them");
        world.repository.push();
        tap.rule(|went, _| if went.path.contains("/replicasets") { Fate::Swallow } else { Fate::Pass });
        world.start();
        world.until("all are applied", |source| source.under_way.len() == count).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let with_it = allocated();
        world.stop().await;
        with_it.saturating_sub(allocated())
    };
    let each = each(taken).await;
    assert!(each < MOST, "{each} bytes for each Deployment");
}

/// Nobody rolls anything out, and the daemon follows it all.
#[tokio::test(start_paused = true)]
async fn a_complete_deployment_takes_few_bytes() {
    const MOST: usize = 3 << 10;
    let _alone = MEASURING.lock().await;
    let taken = async |count: usize| {
        let mut world = World::embedded().await;
        for number in 0..count {
            world.repository.write(format!("{number}.yaml"), of_none(number, 0));
        }
        world.with_all_of_them().await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        let with_it = allocated();
        world.stop().await;
        with_it.saturating_sub(allocated())
    };
    let each = each(taken).await;
    assert!(each < MOST, "{each} bytes for each Deployment");
}

/// Answers about pods may take long, for thousands of rollouts at once. Few of them have the value of their object then.
#[tokio::test(start_paused = true)]
async fn few_rollouts_hold_their_object_while_their_pods_are_looked_at() {
    const ROLLOUTS: usize = 300;
    /// Those that have room for a request, and those whose request takes long.
    const AT_ONCE: usize = 32 + 64;
    let _alone = MEASURING.lock().await;
    let (mut world, tap, _) = without_controllers(ROLLOUTS, |number| of_none(number, 100)).await;
    tap.rule(|went, _| match went.path.contains("/replicasets") {
        true => Fate::Swallow,
        false => Fate::Pass,
    });
    world.start();
    world.until("all are applied", |source| source.under_way.len() == ROLLOUTS).await;
    tap.take();
    let before = allocated();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let taken = allocated().saturating_sub(before);
    let looks = tap.take().iter().filter(|went| went.path.contains("/replicasets")).count();
    assert!(looks > AT_ONCE / 2, "their pods are looked at: {looks}");
    let live = world.get(&path_of("app-0")).await.unwrap().to_string();
    let before = allocated();
    let value: Value = serde_json::from_str(&live).unwrap();
    let of_value = allocated() - before;
    drop(value);
    let most = AT_ONCE * of_value * 2;
    assert!(most < ROLLOUTS * of_value, "the test can fail: a value takes {of_value} bytes");
    assert!(taken < most, "{taken} bytes for {looks} looks at objects of {of_value}, {most} at most");
    world.kill().await;
}

/// The memory of a file while its objects are rolled out grows with the file, not with its objects times the file.
#[tokio::test(start_paused = true)]
async fn a_file_of_many_objects_takes_a_few_times_its_size() {
    /// The bytes for each object beside what grows with the text.
    const OBJECT: usize = 8 << 10;
    const TIMES: usize = 2;
    let _alone = MEASURING.lock().await;
    for count in [200, 800] {
        let data = format!("  more: \"{}\"\n", "x".repeat(4_000));
        let one = |number| config_map(&format!("map-{number}"), "1") + &data;
        let text = (0..count).map(one).collect::<Vec<_>>().join("---\n");
        let (mut world, tap, _) = without_controllers(1, |_| text.clone()).await;
        tap.rule(|went, _| if went.method == "PATCH" { Fate::Swallow } else { Fate::Pass });
        let before = allocated();
        PEAK.store(before, Ordering::Relaxed);
        world.start();
        world.until("all are begun", |source| source.open == count).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let peak = PEAK.load(Ordering::Relaxed) - before;
        world.kill().await;
        let most = (8 << 20) + TIMES * text.len() + count * OBJECT;
        assert!(peak < most, "{peak} bytes for {count} objects, {} bytes of text; {most} at most", text.len());
    }
}

/// A value that changes in a large file costs one request for its object, and nothing for the others.
#[tokio::test(start_paused = true)]
async fn one_changed_value_in_a_large_file_costs_one_object() {
    const COUNT: usize = 500;
    let text = |changed: &str| {
        let one = |number| config_map(&format!("map-{number}"), if number == 7 { changed } else { "1" });
        (0..COUNT).map(one).collect::<Vec<_>>().join("---\n")
    };
    let (mut world, tap) = World::tapped().await;
    let first = world.push("all.yaml", &text("1"), "All of them");
    world.start();
    world.through(&first).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    tap.take();
    let second = world.push("all.yaml", &text("2"), "One of them");
    world.look_request().pushed();
    world.through(&second).await;
    let went = tap.take();
    let about: Vec<_> = went.iter().filter(|went| !went.path.contains("/leases/")).collect();
    assert!(about.iter().any(|went| went.changes_an_object()), "it is applied: {about:?}");
    assert!(about.iter().all(|went| went.path.contains("/map-7?") || went.path.ends_with("/map-7")), "{about:?}");
    assert!(about.len() <= 3, "{about:?}");
    world.stop().await;
}
