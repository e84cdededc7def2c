//! An object that left the repository is deleted if the source says so, within its limit, and only if belay put it
//! there.

use std::time::Duration;

use belay::daemon::{Obstacle, Pruning};
use belay_core::rollout::Outcome;
use serde_json::json;

use crate::support::daemon::{WIDGETS, World, broken, config_map, deployment, path_of};

fn map(name: &str) -> String {
    format!("api/v1/namespaces/default/configmaps/{name}")
}

/// `count` ConfigMaps in files of their own.
async fn started(count: usize, prune: bool) -> World {
    let mut world = World::embedded().await;
    world.config.prune = prune;
    world.with_maps(count).await;
    world
}

async fn removed(world: &mut World, files: &[&str], message: &str) -> String {
    for file in files {
        world.repository.remove(file);
    }
    let commit = world.repository.commit(message);
    world.repository.push();
    world.through(&commit).await;
    commit
}

#[tokio::test(start_paused = true)]
async fn not_unless_the_source_says_so() {
    let mut world = started(3, false).await;
    removed(&mut world, &["0.yaml"], "Away with it").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&map("map-0")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn by_the_commit_that_took_it_away() {
    let mut world = started(3, true).await;
    let gone = removed(&mut world, &["0.yaml"], "Away with it").await;
    assert_eq!(world.get(&map("map-0")).await, None);
    assert!(world.get(&map("map-1")).await.is_some());
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Pruned);
}

/// None of its fields are belay's then, until belay takes them again.
#[tokio::test(start_paused = true)]
async fn also_what_somebody_made_anew() {
    let mut world = started(2, true).await;
    let anew = world.make_anew(&map("map-0")).await;
    assert!(!anew["metadata"]["managedFields"].to_string().contains("\"belay\""), "{anew}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let live = world.get(&map("map-0")).await.unwrap();
    assert!(live["metadata"]["managedFields"].to_string().contains("\"belay\""), "{live}");
    removed(&mut world, &["0.yaml"], "Away with it").await;
    assert_eq!(world.get(&map("map-0")).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_only_moves_is_not_deleted() {
    let mut world = started(3, true).await;
    let before = world.get(&map("map-0")).await.unwrap();
    world.repository.remove("0.yaml").write("deep/below/other.yaml", config_map("map-0", "1"));
    let moved = world.repository.commit("Move it");
    world.repository.push();
    world.through(&moved).await;
    assert_eq!(world.get(&map("map-0")).await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_moved_into_a_file_that_nobody_can_read_is_not_deleted() {
    let mut world = started(3, true).await;
    world.repository.remove("0.yaml").write("other.yaml", "kind: [ConfigMap\n  metadata: {\n");
    let moved = world.repository.commit("Move it, and break it");
    world.repository.push();
    world.through(&moved).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&map("map-0")).await.is_some());
    assert!(world.status().obstacles.trouble.values().any(|trouble| trouble.contains("other.yaml can't be read")));
    // Once it can be read, what is not in it has left.
    world.repository.write("other.yaml", config_map("map-3", "1"));
    let mended = world.repository.commit("Mend it");
    world.repository.push();
    world.through(&mended).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&map("map-0")).await, None);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_nothing_goes_until_somebody_says_so() {
    let mut world = started(10, true).await;
    let gone = removed(&mut world, &["0.yaml", "1.yaml", "2.yaml"], "Three of ten").await;
    for number in 0..3 {
        assert!(world.get(&map(&format!("map-{number}"))).await.is_some());
        let record = world.record(&gone, &format!("ConfigMap default/map-{number}"));
        assert_eq!(record.outcome, Outcome::Orphaned);
        assert!(record.reason.unwrap().message.contains("ConfigMap default/map-2"), "the list is told");
    }
    assert!(world.status().obstacles.trouble.values().any(|trouble| trouble.contains("prune_limit")));
    // Another commit does not let it through, not even one that removes a single object.
    removed(&mut world, &["3.yaml"], "One more").await;
    assert!(world.get(&map("map-3")).await.is_some());
    let few = world.push("note.yaml", "# nothing\n", "Nothing\n\nBelay-Allow-Prune: 3\n");
    world.through(&few).await;
    assert!(world.get(&map("map-0")).await.is_some(), "four are more than three");
    let allowed = world.push("note.yaml", "# allowed\n", "Nothing\n\nBelay-Allow-Prune: 4\n");
    world.through(&allowed).await;
    for number in 0..4 {
        assert_eq!(world.get(&map(&format!("map-{number}"))).await, None);
    }
    assert!(!world.status().obstacles.trouble.values().any(|trouble| trouble.contains("prune_limit")));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_told_to_goes_beyond_the_limit() {
    let mut world = started(10, true).await;
    let gone = removed(&mut world, &["0.yaml", "1.yaml", "2.yaml"], "Three of ten").await;
    world.stop().await;
    world.pruning = Pruning::Unlimited;
    world.start();
    world.through(&gone).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    for number in 0..3 {
        assert_eq!(world.get(&map(&format!("map-{number}"))).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_belay_put_there() {
    let mut world = started(3, true).await;
    let stranger = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "stranger", "labels": {"belay.dev/source": "shop"}}});
    world.create("api/v1/namespaces/default/configmaps", "kubectl-create", &stranger).await;
    let other = json!({"metadata": {"labels": {"belay.dev/source": "other"}}});
    world.stop().await;
    world.patch(&map("map-0"), "somebody", &other).await;
    world.repository.remove("0.yaml").remove("1.yaml").write("more.yaml", config_map("more", "1"));
    world.config.prune_limit = "100%".to_owned();
    let gone = world.repository.commit("Two less");
    world.repository.push();
    world.start();
    world.through(&gone).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&map("stranger")).await.is_some(), "a label alone makes nothing belay's");
    assert!(world.get(&map("map-0")).await.is_some(), "it is another source's now");
    assert_eq!(world.get(&map("map-1")).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_holds_data_or_says_no_stays() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  accessModes: [ReadWriteOnce]\n  \
                 resources: {requests: {storage: 1Gi}}\n";
    let allowed = claim.replace("name: data", "name: scratch\n  annotations: {belay.dev/prune: \"true\"}");
    let kept = config_map("kept", "1").replace("name: kept", "name: kept\n  annotations: {belay.dev/prune: \"false\"}");
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";
    world
        .repository
        .write("a.yaml", claim)
        .write("b.yaml", allowed)
        .write("c.yaml", kept)
        .write("d.yaml", space)
        .write("e.yaml", config_map("stays", "1"));
    world.with_all_of_them().await;
    removed(&mut world, &["a.yaml", "b.yaml", "c.yaml", "d.yaml"], "Away with them").await;
    assert!(world.get("api/v1/namespaces/default/persistentvolumeclaims/data").await.is_some());
    assert_eq!(world.get("api/v1/namespaces/default/persistentvolumeclaims/scratch").await, None);
    assert!(world.get(&map("kept")).await.is_some());
    assert!(world.get("api/v1/namespaces/other").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn finalizers_that_hang_are_told() {
    let mut world = started(3, true).await;
    world.patch(&map("map-0"), "somebody", &json!({"metadata": {"finalizers": ["example.com/wait"]}})).await;
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world
        .until("it is told", |source| source.obstacles.trouble.values().any(|one| one.contains("example.com/wait")))
        .await;
    world.patch(&map("map-0"), "somebody", &json!({"metadata": {"finalizers": null}})).await;
    world.through(&gone).await;
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Pruned);
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn a_workload_goes_with_its_pods_and_may_come_back() {
    let mut world = started(3, true).await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "A workload");
    world.through(&first).await;
    removed(&mut world, &["web.yaml"], "Away with it").await;
    assert_eq!(world.get(&path_of("web")).await, None);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(world.list("api/v1/namespaces/default/pods").await.is_empty());
    let again = world.push("web.yaml", &deployment("web", "web:1", ""), "Back again");
    world.through(&again).await;
    assert_eq!(world.record(&again, "Deployment default/web").outcome, Outcome::Complete);
}

/// While a file can't be read, what it holds is not known: it may be the very objects that seem to have left.
#[tokio::test(start_paused = true)]
async fn nothing_goes_while_a_file_can_not_be_read() {
    let twice = config_map("map-1", "1").replace("name: map-1", "name: map-1\n  name: other");
    for (broken, moved) in [("a: [".to_owned(), false), (twice, false), ("a: [".to_owned(), true)] {
        let mut world = started(10, true).await;
        world.repository.write("1.yaml", &broken);
        if moved {
            world.repository.remove("2.yaml");
        }
        let bad = world.repository.commit("Broken");
        world.repository.push();
        world.through(&bad).await;
        let told = |source: &belay::daemon::SourceStatus| source.obstacles.trouble.get(&Obstacle::Prune).cloned();
        assert_eq!(told(&world.status()).is_some_and(|told| told.contains("1.yaml")), moved, "{broken}");
        // Neither soon, nor after a restart, nor with another commit.
        tokio::time::sleep(Duration::from_mins(3)).await;
        world.stop().await;
        world.start();
        let other = world.push("0.yaml", &config_map("map-0", "2"), "Something else");
        world.through(&other).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        for number in 0..10 {
            assert!(world.get(&map(&format!("map-{number}"))).await.is_some(), "{broken}: map-{number}");
        }
        let mended = world.push("1.yaml", &config_map("map-1", "1"), "Mended");
        world.through(&mended).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        for number in 0..10 {
            let stays = !(moved && number == 2);
            assert_eq!(world.get(&map(&format!("map-{number}"))).await.is_some(), stays, "{broken}: map-{number}");
        }
        assert_eq!(told(&world.status()), None);
    }
}

/// A deletion that comes later than the commit names the file that the manifest was in last.
#[tokio::test(start_paused = true)]
async fn a_late_deletion_names_the_file_of_the_manifest() {
    let mut world = started(3, false).await;
    let gone = removed(&mut world, &["0.yaml"], "Away with it").await;
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Orphaned);
    world.stop().await;
    world.config.prune = true;
    world.start();
    world.through(&gone).await;
    world.until("it is deleted", |source| source.ended.is_empty()).await;
    assert_eq!(world.get(&map("map-0")).await, None);
    let records = world.records();
    let last = records.iter().rfind(|record| record.object.name == "map-0").unwrap();
    assert_eq!((last.outcome, last.commit.as_str()), (Outcome::Pruned, gone.as_str()));
    assert_eq!(last.written_at().as_deref(), Some("0.yaml:1:1"), "{last:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_renamed_folder_deletes_nothing() {
    let mut world = started(10, true).await;
    let before = world.get(&map("map-3")).await.unwrap();
    for number in 0..10 {
        world.repository.remove(format!("{number}.yaml"));
        world.repository.write(format!("shop/{number}.yaml"), config_map(&format!("map-{number}"), "1"));
    }
    let moved = world.repository.commit("Into a folder");
    world.repository.push();
    world.through(&moved).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.get(&map("map-3")).await.unwrap(), before);
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

/// Not even if the object says that it may: belay would take itself away.
#[tokio::test(start_paused = true)]
async fn its_own_namespace_stays_and_a_definition_unless_it_says_so() {
    let allowed = "annotations: {belay.dev/prune: \"true\"}";
    let space = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, {allowed}}}\n");
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    let other = WIDGETS.replace("widgets", "gadgets").replace("Widget", "Gadget").replace("widget", "gadget");
    let other = other.replace("name: gadgets.example.com", &format!("name: gadgets.example.com, {allowed}"));
    world.repository.write("own.yaml", space("default")).write("other.yaml", space("other"));
    world.repository.write("widgets.yaml", WIDGETS).write("gadgets.yaml", other).write("0.yaml", config_map("a", "1"));
    world.with_all_of_them().await;
    removed(&mut world, &["own.yaml", "other.yaml", "widgets.yaml", "gadgets.yaml"], "Away with them").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert!(world.get("api/v1/namespaces/default").await.is_some());
    assert_eq!(world.get("api/v1/namespaces/other").await, None);
    assert!(world.get(&format!("{definitions}/widgets.example.com")).await.is_some());
    assert_eq!(world.get(&format!("{definitions}/gadgets.example.com")).await, None);
}

/// While belay was away, somebody took away the kind of what it was deleting. Later deletions do not wait for it.
#[tokio::test(start_paused = true)]
async fn what_no_kind_is_left_for_is_gone_and_the_rest_goes_too() {
    let definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widget = "apis/example.com/v1/namespaces/default/widgets/one";
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    let kind = serde_yaml::from_str(WIDGETS).unwrap();
    world.create(definitions, "somebody", &kind).await;
    let manifest = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n";
    world.repository.write("one.yaml", manifest).write("map.yaml", config_map("map", "1"));
    world.repository.write("stays.yaml", config_map("stays", "1"));
    world.with_all_of_them().await;
    for path in [widget, &map("map")] {
        world.patch(path, "somebody", &json!({"metadata": {"finalizers": ["example.com/wait"]}})).await;
    }
    world.repository.remove("one.yaml").remove("map.yaml");
    let gone = world.repository.commit("Away with both");
    world.repository.push();
    while world.get(&map("map")).await.unwrap()["metadata"]["deletionTimestamp"].is_null() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.stop().await;
    world.patch(widget, "somebody", &json!({"metadata": {"finalizers": null}})).await;
    world.delete(&format!("{definitions}/widgets.example.com")).await;
    world.start();
    world.patch(&map("map"), "somebody", &json!({"metadata": {"finalizers": null}})).await;
    world.through(&gone).await;
    assert!(world.get(&map("stays")).await.is_some());
    assert_eq!(world.record(&gone, "Widget default/one").outcome, Outcome::Pruned);
    assert_eq!(world.record(&gone, "ConfigMap default/map").outcome, Outcome::Pruned);
}

/// It works for any kind: one that needs more than a name to be a manifest, too.
#[tokio::test(start_paused = true)]
async fn what_left_before_goes_when_the_source_deletes_from_now_on() {
    let (mut world, _) = World::with_web().await;
    world.repository.write("db.yaml", deployment("db", "db:1", ""));
    let gone = removed(&mut world, &["web.yaml"], "Away with it").await;
    assert!(world.get(&path_of("web")).await.is_some(), "prune is off");
    world.stop().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.start();
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.through(&gone).await;
    assert_eq!(world.get(&path_of("web")).await, None);
    // It was orphaned for as long as pruning was off.
    let records = world.records().into_iter().filter(|record| record.commit.as_str() == gone);
    let web = records.filter(|record| record.object.name == "web").map(|record| record.outcome);
    assert_eq!(web.collect::<Vec<_>>(), [Outcome::Orphaned, Outcome::Pruned]);
}

/// Pods that read settings whose name tells their content, as kustomize makes them.
fn reading(manifest: &str, settings: &str) -> String {
    format!("{manifest}        envFrom:\n        - configMapRef: {{name: {settings}}}\n")
}

/// Returns a commit after which a workload reads other settings, and the former ones are not in the repository any
/// more.
async fn other_settings(world: &mut World, version: u32, manifest: &str) -> String {
    let name = format!("settings-{version}");
    world
        .repository
        .write("settings.yaml", config_map(&name, &version.to_string()))
        .write("web.yaml", reading(manifest, &name));
    let commit = world.repository.commit(&format!("Settings {version}"));
    world.repository.push();
    commit
}

async fn with_settings() -> World {
    let mut world = World::embedded().await;
    world.config.prune = true;
    let first = other_settings(&mut world, 1, &deployment("web", "web:1", "  revisionHistoryLimit: 1\n")).await;
    world.start();
    world.through(&first).await;
    world
}

#[tokio::test(start_paused = true)]
async fn what_a_rollback_needs_stays() {
    let mut world = with_settings().await;
    let bad = other_settings(&mut world, 2, &broken("web", "never-ready")).await;
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert!(world.get(&map("settings-1")).await.is_some(), "what runs now reads it");
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&map("settings-1")).await.is_some(), "also after a restart");
    assert!(!world.status().obstacles.trouble.contains_key(&Obstacle::Prune));
}

#[tokio::test(start_paused = true)]
async fn what_no_revision_names_any_more_goes() {
    let mut world = with_settings().await;
    for version in 2..=3 {
        let manifest = deployment("web", &format!("web:{version}"), "  revisionHistoryLimit: 1\n");
        let commit = other_settings(&mut world, version, &manifest).await;
        world.through(&commit).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(world.get(&map(&format!("settings-{}", version - 1))).await.is_some(), "for kubectl rollout undo");
    }
    assert_eq!(world.get(&map("settings-1")).await, None, "the cluster keeps one revision besides the present one");
    let pruned = world.records().into_iter().rfind(|record| record.outcome == Outcome::Pruned).unwrap();
    assert_eq!(pruned.object.to_string(), "ConfigMap default/settings-1");
}

/// Without its workload nothing can go back.
#[tokio::test(start_paused = true)]
async fn settings_go_with_their_workload() {
    let mut world = with_settings().await;
    world.config.prune_limit = "100%".to_owned();
    world.stop().await;
    world.start();
    world.repository.write("other.yaml", config_map("other", "1"));
    removed(&mut world, &["settings.yaml", "web.yaml"], "Away with both").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&path_of("web")).await, None);
    assert_eq!(world.get(&map("settings-1")).await, None);
}

#[tokio::test(start_paused = true)]
async fn pruning_that_is_turned_on_later_is_charged_to_who_took_the_manifest_away() {
    let mut world = World::embedded().await;
    world.config.prune_limit = "100%".to_owned();
    world.with_maps(2).await;
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&gone).await;
    let later = world.push("1.yaml", &config_map("map-1", "2"), "Something else");
    world.through(&later).await;
    world.stop().await;
    world.config.prune = true;
    world.start();
    world.through(&later).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let of_map = |record: &belay_core::rollout::Record| record.object.name == "map-0";
    let pruned = world.records().into_iter().filter(of_map).find(|record| record.outcome == Outcome::Pruned);
    assert_eq!(pruned.expect("it is deleted").commit.as_str(), gone);
}
