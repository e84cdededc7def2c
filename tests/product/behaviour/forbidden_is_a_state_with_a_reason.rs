//! A missing right is reported once, with the reason, asked again with a back-off, and the work is done as soon as
//! belay may; with rights in single namespaces, belay lists there.

use std::time::Duration;

use belay::daemon::Obstacle;
use belay_core::rollout::{Outcome, StepKind};

use crate::support::daemon::{World, config_map, deployment, path_of};
use crate::support::tap::{Fate, Went};

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: pass}\nstringData: {a: b}\n";

/// Returns true when a request reads a kind in all namespaces, which a Role does not allow.
fn is_everywhere(went: &Went) -> bool {
    let path = went.path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    went.method == "GET" && parts.len() == if parts[1] == "api" { 4 } else { 5 }
}

#[tokio::test(start_paused = true)]
async fn a_role_for_one_namespace_is_enough() {
    let (mut world, tap) = World::tapped().await;
    world.config.prune = true;
    tap.rule(|went, _| if is_everywhere(went) { Fate::Fail(403) } else { Fate::Pass });
    for number in 0..60 {
        world.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
    }
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let first = world.with_all_of_them().await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.record(&first, "ConfigMap default/map-7").outcome, Outcome::Complete);
    // Only who watches notices that.
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some(), "it is watched where it may be");
    tap.take();
    tokio::time::sleep(Duration::from_mins(30)).await;
    let everywhere = tap.take().into_iter().filter(is_everywhere).count();
    assert!(everywhere <= 30 * 4, "{everywhere} requests in half an hour that are not allowed");
    world.repository.remove("7.yaml");
    let second = world.repository.commit("Without");
    world.repository.push();
    world.through(&second).await;
    assert_eq!(world.record(&second, "ConfigMap default/map-7").outcome, Outcome::Pruned);
}

#[tokio::test(start_paused = true)]
async fn rights_everywhere_are_used_when_they_come() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if is_everywhere(went) { Fate::Fail(403) } else { Fate::Pass });
    world.with_first_version().await;
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some());
    tap.take();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = tap.take().into_iter().filter(|went| !went.path.contains("/leases/")).count();
    assert!(asked == 0, "{asked} requests, and nothing is to be asked for any more");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_read_waits_with_the_reason_and_nobody_else() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.path.contains("/secrets") { Fate::Fail(403) } else { Fate::Pass });
    world.repository.write("secret.yaml", SECRET);
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let first = world.repository.commit("Both");
    world.repository.push();
    world.start();
    let web = |source: &belay::daemon::SourceStatus| {
        source.under_way.iter().any(|(key, it)| key.kind == "Secret" && it.message.contains("does not allow it"))
    };
    world.until("the reason is told", web).await;
    assert!(
        world.status().obstacles.trouble.contains_key(&Obstacle::Listing("secrets".to_owned())),
        "{:?}",
        world.status().obstacles.trouble
    );
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    tap.take();
    tokio::time::sleep(Duration::from_mins(30)).await;
    let asked = tap.take().into_iter().filter(|went| went.path.contains("/secrets")).count();
    assert!((15..=120).contains(&asked), "{asked} requests in half an hour");
    let record = world.record(&first, "Secret default/pass");
    let steps = world.history().steps(record.id).unwrap();
    let told = steps.iter().filter(|step| step.kind == StepKind::Waiting).count();
    assert_eq!((record.outcome, told), (Outcome::Waiting, 1), "{steps:#?}");
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(world.record(&first, "Secret default/pass").outcome, Outcome::Complete);
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_read_and_not_written_is_told_within_half_a_minute() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.method == "PATCH" { Fate::Fail(403) } else { Fate::Pass });
    let first = world.push("map.yaml", &config_map("map", "1"), "A map");
    world.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let record = world.record(&first, "ConfigMap default/map");
    let said = |text: &str| text.contains("does not allow it");
    let steps = world.history().steps(record.id).unwrap();
    assert!(steps.iter().any(|step| step.kind == StepKind::Waiting && said(&step.detail)), "{steps:#?}");
    assert!(world.status().under_way.values().any(|one| said(&one.message)), "{:#?}", world.status());
    tokio::time::sleep(Duration::from_mins(20)).await;
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(world.record(&first, "ConfigMap default/map").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn one_namespace_that_is_forbidden_does_not_block_the_kind_in_others() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.path.contains("/namespaces/secret/configmaps") { Fate::Fail(403) } else { Fate::Pass });
    let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: secret}\n";
    world.repository.write("other.yaml", elsewhere);
    world.repository.write("map.yaml", config_map("map", "1"));
    let first = world.repository.commit("Two namespaces");
    world.repository.push();
    world.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.record(&first, "ConfigMap default/map").outcome, Outcome::Complete);
    assert_eq!(world.record(&first, "ConfigMap secret/other").outcome, Outcome::Waiting);
}

/// The answer of one namespace says nothing of another.
#[tokio::test(start_paused = true)]
async fn the_trouble_of_one_namespace_is_told_until_that_one_answers_or_is_not_wanted() {
    let (mut world, tap) = World::tapped().await;
    let rule = |secret: Fate, default: Fate| {
        tap.rule(move |went, _| match went.path.as_str() {
            _ if is_everywhere(went) => Fate::Fail(403),
            path if path.contains("/namespaces/secret/configmaps?") => secret,
            path if path.contains("/namespaces/default/configmaps?") => default,
            _ => Fate::Pass,
        });
    };
    rule(Fate::Fail(403), Fate::Pass);
    let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: secret}\n";
    world.repository.write("other.yaml", elsewhere);
    world.push("map.yaml", &config_map("map", "1"), "Two namespaces");
    world.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    rule(Fate::Fail(403), Fate::Fail(500));
    tap.refuse_watches(true);
    let of_default = Obstacle::Listing("configmaps in default".to_owned());
    let is_told = |source: &belay::daemon::SourceStatus| source.obstacles.trouble.contains_key(&of_default);
    world.until("the trouble of default is told", is_told).await;
    rule(Fate::Pass, Fate::Fail(500));
    for second in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_told(&world.status()), "after {second} s: {:?}", world.status().obstacles.trouble);
    }
    world.repository.remove("map.yaml");
    world.repository.commit("Without default");
    world.repository.push();
    world.until("nothing is told of a namespace that nobody needs", |source| !is_told(source)).await;
}
