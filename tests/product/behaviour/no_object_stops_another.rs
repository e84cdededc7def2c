//! An obstacle of one object or kind (a webhook, a conversion, a server of its own that does not answer) keeps no other
//! object and no newer commit waiting, is reported as that object's state, and is over by itself.

use std::time::Duration;

use belay::daemon::{Obstacle, SourceStatus};
use belay_core::rollout::{Outcome, StepKind};
use tokio::time::Instant;

use crate::support::daemon::{WIDGETS, World, config_map, deployment, path_of};
use crate::support::tap::{Fate, Tap, Went};

/// Returns true when a request is about the Deployment `web`, whose webhook is away.
fn is_about_web(went: &Went) -> bool {
    went.method == "PATCH" && went.path.contains("/deployments/web?")
}

/// The webhook fails in this way from here on.
fn webhook_fails(tap: &Tap, fate: Fate) {
    tap.rule(move |went, _| if is_about_web(went) { fate } else { Fate::Pass });
}

fn waits(world: &World, object: &str) -> bool {
    world.status().under_way.iter().any(|(key, way)| key.to_string() == object && way.outcome == Outcome::Waiting)
}

async fn complete(world: &mut World, commit: &str, object: &str, within: Duration) {
    let began = Instant::now();
    loop {
        let known = world.records().into_iter().find(|record| {
            record.commit.as_str() == commit
                && record.object.to_string() == object
                && record.outcome == Outcome::Complete
        });
        if known.is_some() {
            return;
        }
        assert!(began.elapsed() < within, "{object} is not complete within {within:?}: {:#?}", world.records());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_of_one_object_that_fails_or_hangs_keeps_no_other_waiting() {
    for fate in [Fate::Fail(500), Fate::Fail(503), Fate::Fail(429), Fate::Swallow] {
        let (mut world, tap) = World::tapped().await;
        world.repository.write("api.yaml", deployment("api", "api:1", ""));
        world.with_first_version().await;
        webhook_fails(&tap, fate);
        world.repository.write("api.yaml", deployment("api", "api:2", ""));
        world.repository.write("settings.yaml", config_map("settings", "1"));
        let second = world.push("web.yaml", &deployment("web", "web:2", ""), "All of them");
        complete(&mut world, &second, "Deployment default/api", Duration::from_secs(20)).await;
        assert!(waits(&world, "Deployment default/web"), "{fate:?}: {:#?}", world.status());
        assert_eq!(world.record(&second, "ConfigMap default/settings").outcome, Outcome::Complete);
        // A newer commit goes on at once, and what waits is not planned with it.
        let third = world.push("api.yaml", &deployment("api", "api:3", ""), "Another");
        complete(&mut world, &third, "Deployment default/api", Duration::from_secs(20)).await;
        assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Waiting, "{fate:?}");
        assert!(world.status().blocked_by().is_none(), "{fate:?}: {:?}", world.status().blocked_by());
        // The webhook is back.
        tap.rule(|_, _| Fate::Pass);
        complete(&mut world, &second, "Deployment default/web", Duration::from_mins(2)).await;
        world.through(&third).await;
        let record = world.record(&second, "Deployment default/web");
        let steps = world.history().steps(record.id).unwrap();
        assert!(steps.iter().any(|step| step.kind == StepKind::Waiting), "{fate:?}: {steps:#?}");
        assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
    }
}

/// The commit that mends the webhook is another one, and belay is started anew in between.
#[tokio::test(start_paused = true)]
async fn what_mends_it_is_applied_also_after_a_restart() {
    for fate in [Fate::Fail(500), Fate::Swallow] {
        let (mut world, tap) = World::tapped().await;
        webhook_fails(&tap, fate);
        let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        world.start();
        world.until("it waits", |source| !source.under_way.is_empty()).await;
        world.kill().await;
        world.start();
        world.until("it waits again", |source| source.planned.is_some() && !source.under_way.is_empty()).await;
        let mend = world.push("hook.yaml", &config_map("hook", "1"), "Mend the webhook");
        complete(&mut world, &mend, "ConfigMap default/hook", Duration::from_secs(20)).await;
        tap.rule(|_, _| Fate::Pass);
        complete(&mut world, &first, "Deployment default/web", Duration::from_mins(2)).await;
        world.through(&mend).await;
    }
}

/// Its own wait has an end as any other; it is tried again all the same.
#[tokio::test(start_paused = true)]
async fn it_is_given_up_after_outage_timeout_and_tried_again() {
    for fate in [Fate::Fail(500), Fate::Swallow] {
        let (mut world, tap) = World::tapped().await;
        world.with_first_version().await;
        webhook_fails(&tap, fate);
        let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
        let began = Instant::now();
        world.through(&second).await;
        let took = began.elapsed().as_secs();
        assert!((600..=600 + 120).contains(&took), "{took} s");
        let record = world.record(&second, "Deployment default/web");
        assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
        let reason = record.reason.unwrap();
        assert_eq!(reason.code.as_str(), "NotServed");
        assert!(reason.message.contains("all of outage_timeout"), "{reason}");
        tokio::time::sleep(Duration::from_hours(1)).await;
        tap.rule(|_, _| Fate::Pass);
        complete(&mut world, &second, "Deployment default/web", Duration::from_mins(6)).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(crate::support::daemon::image(&live), "web:2");
    }
}

/// The dry run goes through, and the write does not.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_keeps_no_later_rank_waiting() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(
        |went, _| if went.is_write() && went.path.contains("/configmaps/") { Fate::Fail(500) } else { Fate::Pass },
    );
    world.repository.write("settings.yaml", config_map("settings", "1"));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    complete(&mut world, &first, "Deployment default/web", Duration::from_secs(30)).await;
    assert!(waits(&world, "ConfigMap default/settings"), "{:#?}", world.status());
    tap.rule(|_, _| Fate::Pass);
    complete(&mut world, &first, "ConfigMap default/settings", Duration::from_mins(1)).await;
}

/// Nothing of a kind can be read or listed, as where its conversion webhook is away.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_no_outage() {
    for fate in [Fate::Fail(500), Fate::Fail(503), Fate::Swallow] {
        let (mut world, tap) = World::tapped().await;
        world.config.prune = true;
        world.repository.write("widgets.yaml", WIDGETS);
        world.with_first_version().await;
        tap.rule(move |went, _| {
            if went.path.contains("/widgets") && went.path.contains("example.com/v1") { fate } else { Fate::Pass }
        });
        let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n";
        world.repository.write("widget.yaml", widget);
        let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Both");
        complete(&mut world, &second, "Deployment default/web", Duration::from_secs(20)).await;
        assert!(waits(&world, "Widget default/one"), "{fate:?}: {:#?}", world.status());
        assert!(world.status().blocked_by().is_none(), "{fate:?}: {:?}", world.status().blocked_by());
        tap.rule(|_, _| Fate::Pass);
        complete(&mut world, &second, "Widget default/one", Duration::from_mins(2)).await;
    }
}

/// Another team's kind can't be listed: what has left is looked for beside the commits.
#[tokio::test(start_paused = true)]
async fn the_look_for_what_has_left_delays_no_commit() {
    for fate in [Fate::Fail(500), Fate::Swallow] {
        let (mut world, tap) = World::tapped().await;
        world.config.prune = true;
        world.create("apis/apiextensions.k8s.io/v1/customresourcedefinitions", "another-team", &widgets()).await;
        tap.rule(move |went, _| if went.path.contains("/widgets") { fate } else { Fate::Pass });
        world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        world.start();
        for number in 0..5 {
            let commit = world.push("settings.yaml", &config_map("settings", &number.to_string()), "Next");
            complete(&mut world, &commit, "ConfigMap default/settings", Duration::from_secs(3)).await;
        }
    }
}

/// Few large objects are dealt with at once: those without an answer give their room to the others.
#[tokio::test(start_paused = true)]
async fn large_objects_without_an_answer_keep_no_large_one_waiting_for_long() {
    const HUNG: usize = 24;
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.path.contains("/configmaps/hung") { Fate::Swallow } else { Fate::Pass });
    let large = "x".repeat(400 << 10);
    for number in 0..HUNG {
        world.repository.write(format!("hung{number}.yaml"), config_map(&format!("hung{number}"), &large));
    }
    let first = world.push("last.yaml", &config_map("last", &large), "First version");
    world.start();
    world.until("it is planned", |source| source.planned.is_some()).await;
    let began = Instant::now();
    complete(&mut world, &first, "ConfigMap default/last", Duration::from_secs(90)).await;
    assert!(waits(&world, "ConfigMap default/hung0"), "{:#?}", world.status());
    assert!(world.status().blocked_by().is_none(), "{:?}", world.status().blocked_by());
    tap.rule(|_, _| Fate::Pass);
    for number in 0..HUNG {
        complete(&mut world, &first, &format!("ConfigMap default/hung{number}"), Duration::from_mins(3)).await;
    }
    assert!(began.elapsed() < Duration::from_mins(5), "{:?}", began.elapsed());
}

fn widgets() -> serde_json::Value {
    serde_yaml::from_str(WIDGETS).unwrap()
}

/// A text of less than a megabyte may be a value of more than 48 MiB: somebody makes a live object that large.
#[tokio::test(start_paused = true)]
async fn a_live_object_that_is_too_large_to_be_read_keeps_no_other_waiting() {
    let size = |obstacle: &Obstacle| obstacle.to_string() == "Widget default/one, size";
    let told_of = |source: &SourceStatus| {
        source.obstacles.trouble.iter().find(|(obstacle, _)| size(obstacle)).map(|(_, told)| told.clone())
    };
    let mut world = World::embedded().await;
    let open =
        WIDGETS.replace("spec: {type: object,", "spec: {type: object, x-kubernetes-preserve-unknown-fields: true,");
    world.repository.write("definition.yaml", open);
    let widget = |name: &str| {
        format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: 1}}\n")
    };
    world.repository.write("one.yaml", widget("one"));
    world.repository.write("other.yaml", widget("other"));
    world.with_all_of_them().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let path = |name: &str| format!("apis/example.com/v1/namespaces/default/widgets/{name}");
    let more = serde_json::json!({ "spec": { "more": vec![serde_json::json!({ "a": 1 }); 90_000] } });
    world.patch(&path("one"), "somebody", &more).await;
    world.until("it is told", |source| told_of(source).is_some()).await;
    let told = told_of(&world.status()).unwrap();
    assert!(told.contains("48 MiB of memory") && told.contains("make it smaller"), "{told}");
    // The other one of its kind is watched all the same.
    world.delete(&path("other")).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(world.get(&path("other")).await.is_some(), "it is made again");
    assert_eq!(world.status().blocked_by(), None);
    world.patch(&path("one"), "somebody", &serde_json::json!({ "spec": { "more": null } })).await;
    world.until("it is read again", |source| told_of(source).is_none()).await;
}
