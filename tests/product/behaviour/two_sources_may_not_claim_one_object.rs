//! An object that two sources claim is a complaint of both, and belongs to the one that had it first.

use std::collections::BTreeMap;
use std::time::Duration;

use belay::cluster::Cluster;
use belay::daemon::plan_once;
use belay_core::rollout::{Outcome, PlanStep, SourceState, marks};
use serde_json::json;

use super::the_number_of_pods_is_judged::wanted;
use crate::support::daemon::{World, config_map, deployment, path_of};
use crate::support::repository::Repository;
use crate::support::tap::Went;

const IMAGE: &str = "/spec/template/spec/containers/0/image";

#[tokio::test(start_paused = true)]
async fn both_hear_of_it_until_one_lets_go() {
    let mut world = World::embedded().await;
    let first = world.push("settings.yaml", &config_map("settings", "1"), "Mine");
    world.start();
    world.through(&first).await;
    world.stop().await;
    let mut theirs = Repository::new();
    theirs.commit_file("theirs.yaml", &config_map("settings", "2"), "Mine too");
    theirs.push();
    let mut other = world.config.clone();
    other.name = "other".to_owned();
    other.repository = theirs.path().display().to_string();
    world.more.push(other);
    world.start();
    world
        .until("the owner hears of it", |source| source.obstacles.trouble.values().any(|one| one.contains("\"other\"")))
        .await;
    let live = world.get("api/v1/namespaces/default/configmaps/settings").await.unwrap();
    assert_eq!((marks::label(&live, marks::SOURCE), live["data"]["A"].as_str()), (Some("shop"), Some("1")));
    let status = world.whole_status();
    assert!(status.sources["other"].obstacles.trouble.values().any(|one| one.contains("\"shop\"")), "{status:#?}");
    let rejected = world.records().into_iter().find(|record| record.source == "other").unwrap();
    assert_eq!(rejected.outcome, Outcome::Rejected);
    assert_eq!(rejected.complaints[0].place.to_string(), "theirs.yaml:1:1");
    theirs.remove("theirs.yaml").commit_file("more.yaml", &config_map("more", "1"), "Not mine after all");
    theirs.push();
    world.until("it is settled", |source| source.obstacles.trouble.is_empty()).await;
}

/// Two sources of one daemon that plan the same new objects at the same moment: each object is one source's in the end, the other
/// one hears of it, and nobody writes any more.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_it_at_once_one_keeps_it() {
    let (mut world, tap) = World::tapped().await;
    for folder in ["one", "two"] {
        for number in 0..6 {
            let name = format!("{folder}/{number}");
            world.repository.write(format!("{name}.yaml"), config_map(&format!("shared-{number}"), folder));
            world.repository.write(format!("{name}-web.yaml"), deployment(&format!("web-{number}"), folder, ""));
        }
    }
    world.repository.commit("All of it, twice");
    world.repository.push();
    let mut other = world.config.clone();
    (other.name, other.path) = ("other".to_owned(), "two".into());
    world.config.path = "one".into();
    world.more.push(other);
    world.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let path = |went: &Went| went.path.split('?').next().unwrap_or_default().to_owned();
    tap.take()
        .iter()
        .filter(|went| went.changes_an_object())
        .for_each(|went| *counts.entry(path(went)).or_default() += 1);
    // Each of the two may write it once, and mark it.
    assert!(counts.values().all(|count| *count <= 4), "{counts:#?}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    let writes: Vec<Went> = tap.take().into_iter().filter(Went::changes_an_object).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    let status = world.whole_status();
    for number in 0..6 {
        let settings = format!("api/v1/namespaces/default/configmaps/shared-{number}");
        for (path, value) in [(settings, "/data/A"), (path_of(&format!("web-{number}")), IMAGE)] {
            let live = world.get(&path).await.unwrap();
            let (owner, loser) = match marks::label(&live, marks::SOURCE) {
                Some("shop") => ("one", "other"),
                Some("other") => ("two", "shop"),
                owner => panic!("{path} is {owner:?}'s"),
            };
            assert_eq!(live.pointer(value).unwrap(), owner, "{path}");
            let name = path.rsplit('/').next().unwrap();
            let told = format!(
                "default/{name} belongs to the source {:?} already",
                marks::label(&live, marks::SOURCE).unwrap()
            );
            let loser = &status.sources[loser];
            assert!(loser.obstacles.trouble.values().any(|said| said.contains(&told)), "{path}: {loser:#?}");
            assert_eq!(loser.state(), SourceState::Degraded, "{path}");
        }
    }
}

/// A plan has no history to ask. The cluster knows the writer of a label.
#[tokio::test(start_paused = true)]
async fn a_plan_believes_the_label_that_belay_wrote() {
    let (mut world, _) = World::with_web().await;
    world.stop().await;
    let cluster = Cluster::new(world.client.clone(), world.clock.clone());
    let wanted = wanted(&deployment("web", "web:1", ""));
    let head = wanted.commit.id.clone();
    let plan = plan_once(&cluster, "other", &head, vec![wanted.clone()]).await.unwrap();
    let claimed =
        matches!(&plan.planned[0].step, PlanStep::Rejected(reason, _) if reason.code.as_str() == "ClaimedTwice");
    assert!(claimed, "{:?}", plan.planned[0].step);
    let label = json!({"metadata": {"labels": {"belay.dev/source": "elsewhere"}}});
    world.patch(&path_of("web"), "kubectl-label", &label).await;
    let plan = plan_once(&cluster, "shop", &head, vec![wanted]).await.unwrap();
    let PlanStep::Apply(apply) = &plan.planned[0].step else { panic!("{:?}", plan.planned[0].step) };
    assert!(!apply.rolls_out, "the label is put right");
}
