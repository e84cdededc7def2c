//! Folders with a kustomization or a chart are rendered by the real tools, and rolled out like plain manifests.

use std::collections::BTreeMap;
use std::time::Duration;

use belay::config::{HelmConfig, Render, SetValue};
use belay::history::query::source_histories::SourceHistories;
use belay::render::Tools;
use belay_core::rollout::{Outcome, SourceState, marks};

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of, real_tools};
use crate::support::programs::write_program;

const BASE: &str = "resources: [web.yaml]\n";
const OVERLAY: &str = "resources: [../base]\nnamePrefix: p-\nimages: [{name: web, newTag: \"1\"}]\n";

fn map(name: &str) -> String {
    format!("api/v1/namespaces/default/configmaps/{name}")
}

/// Returns a base, an overlay that is followed, and a plain file beside it. `None` without the real tools.
async fn kustomized() -> Option<(World, String)> {
    let tools = real_tools()?;
    let mut world = World::embedded().await;
    world.tools = tools;
    world.config.path = "live".into();
    world.repository.write("base/kustomization.yaml", BASE).write("base/web.yaml", deployment("web", "web:0", ""));
    world.repository.write("live/over/kustomization.yaml", OVERLAY.replace("../base", "../../base"));
    world.repository.write("live/over/patch.txt", "no manifest").write("live/plain.yaml", config_map("plain", "1"));
    let first = world.with_all_of_them().await;
    Some((world, first))
}

async fn commit_of(world: &World, name: &str) -> String {
    let live = world.get(&path_of(name)).await.expect("it is there");
    marks::annotation(&live, marks::COMMIT).expect("a commit").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_kustomization_is_rolled_out_with_the_place_of_its_origin() {
    let Some((mut world, first)) = kustomized().await else { return };
    let live = world.get(&path_of("p-web")).await.expect("what was rendered");
    assert_eq!(image(&live), "web:1");
    assert!(!live.to_string().contains("config.kubernetes.io"), "{live}");
    assert!(world.get(&path_of("web")).await.is_none(), "the base is not read by itself");
    assert!(world.get(&map("plain")).await.is_some());
    let record = world.record(&first, "Deployment default/p-web");
    assert_eq!(record.outcome, Outcome::Complete);
    assert_eq!(record.written_at().unwrap(), "base/web.yaml:1:1 (rendered by live/over/kustomization.yaml)");
    assert_eq!(world.record(&first, "ConfigMap default/plain").rendered_by, None);
    assert_eq!(world.status().state(), SourceState::Synced);

    // A file of the base, outside of the folder that is followed.
    let second = world.push("base/web.yaml", &deployment("web", "web:0", "  minReadySeconds: 1\n"), "Slower");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/p-web").outcome, Outcome::Complete);
    assert_eq!(world.get(&path_of("p-web")).await.unwrap()["spec"]["minReadySeconds"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_rolled_out_as_it_is_configured() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.config.helm = vec![HelmConfig {
        chart: "web".to_owned(),
        release: Some("shop".to_owned()),
        namespace: None,
        values: vec!["production.yaml".to_owned()],
        set: [("size".to_owned(), SetValue::Text("large".to_owned()))].into(),
    }];
    let template = config_map("{{ .Release.Name }}", "{{ .Values.size }} {{ .Values.color }}");
    world.repository.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    world
        .repository
        .write("web/values.yaml", "size: small\ncolor: red\n")
        .write("web/production.yaml", "color: blue\n");
    world.repository.write("web/templates/map.yaml", template);
    let first = world.with_all_of_them().await;
    assert_eq!(world.get(&map("shop")).await.unwrap()["data"]["A"], "large blue");
    let record = world.record(&first, "ConfigMap default/shop");
    assert_eq!(record.place.unwrap().to_string(), "web/templates/map.yaml:1:1");
    let second = world.push("web/production.yaml", "color: green\n", "Green");
    world.through(&second).await;
    assert_eq!(world.get(&map("shop")).await.unwrap()["data"]["A"], "large green");
    assert_eq!(world.status().state(), SourceState::Synced);
}

#[tokio::test(start_paused = true)]
async fn what_is_rendered_is_taken_back_too() {
    let Some((mut world, _)) = kustomized().await else { return };
    let bad = world.push("base/web.yaml", &broken("web", "never-ready"), "A bad one");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/p-web").outcome, Outcome::RolledBack);
    assert!(marks::annotation(&world.get(&path_of("p-web")).await.unwrap(), marks::HOLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_fails_is_one_complaint_and_its_objects_stay() {
    let Some((mut world, _)) = kustomized().await else { return };
    world.stop().await;
    world.config.prune = true;
    world.start();
    world.repository.write("live/over/kustomization.yaml", "resources: [../../base, missing.yaml]\n");
    world.repository.write("live/plain.yaml", config_map("plain", "2"));
    let bad = world.repository.commit("Names what is not there");
    world.repository.push();
    world.through(&bad).await;
    let rejected: Vec<_> = world.records().into_iter().filter(|record| record.outcome == Outcome::Rejected).collect();
    let [record] = &rejected[..] else { panic!("{rejected:#?}") };
    let complaint = record.complaints[0].to_string();
    assert!(complaint.starts_with("live/over/kustomization.yaml:1:1: kubectl in live/over: "), "{complaint}");
    assert!(complaint.contains("missing.yaml"), "{complaint}");
    assert!(world.get(&path_of("p-web")).await.is_some(), "nothing of it is pruned");
    assert_eq!(world.get(&map("plain")).await.unwrap()["data"]["A"], "2", "the rest goes on");
    assert_eq!(world.status().state(), SourceState::Degraded);

    let fix = world.push("live/over/missing.yaml", &config_map("there", "1"), "Here it is");
    world.through(&fix).await;
    assert!(world.get(&map("there")).await.is_some());
    // The prefix went with the commit that could not be rendered: now it is known what has left.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some());
    assert_ne!(world.status().state(), SourceState::Degraded);
}

#[tokio::test(start_paused = true)]
async fn what_would_be_fetched_is_refused_with_its_line() {
    let mut world = World::embedded().await;
    world.repository.write("kustomization.yaml", "resources:\n- https://example.com/all.yaml\n");
    let commit = world.with_all_of_them().await;
    let record = world.record(&commit, "File kustomization.yaml");
    let complaint = record.complaints[0].to_string();
    assert!(
        complaint.starts_with("kustomization.yaml:2:3: https://example.com/all.yaml would be fetched"),
        "{complaint}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_commit_is_charged_with_what_its_rendering_changed() {
    let Some((mut world, _)) = kustomized().await else { return };
    let other = format!("{}---\n{}", deployment("web", "web:0", ""), deployment("other", "other:1", ""));
    world.repository.write("base/web.yaml", &other);
    let adds = world.repository.commit("Another one");
    world
        .repository
        .write("live/over/kustomization.yaml", OVERLAY.replace("../base", "../../base").replace("\"1\"", "\"2\""));
    let image_of_web = world.repository.commit("Another image");
    world.repository.write("base/kustomization.yaml", format!("# {BASE}{BASE}"));
    let comment = world.repository.commit("Only a comment");
    world.repository.push();
    world.through(&comment).await;
    assert_eq!(commit_of(&world, "p-web").await, image_of_web);
    assert_eq!(commit_of(&world, "p-other").await, adds);
    assert_eq!(world.record(&image_of_web, "Deployment default/p-web").outcome, Outcome::Complete);
    assert!(world.records().iter().all(|record| record.commit.as_str() != comment), "it changed nothing");
}

/// The commit that changed a file with values is charged, also if other files with values came after it.
#[tokio::test(start_paused = true)]
async fn the_commit_that_changed_a_values_file_is_charged() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.config.path = "apps".into();
    world.config.helm = vec![HelmConfig {
        chart: "apps/web".to_owned(),
        release: None,
        namespace: None,
        values: vec!["production.yaml".to_owned(), "/values/web.yaml".to_owned()],
        set: [].into(),
    }];
    let template = |name: &str| deployment(name, "IMAGE", "").replace("IMAGE", &format!("'{{{{ .Values.{name} }}}}'"));
    world.repository.write("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    world.repository.write("apps/web/templates/all.yaml", format!("{}---\n{}", template("web"), template("api")));
    world.repository.write("apps/web/values.yaml", "web: web:1\napi: api:1\n");
    world.repository.write("apps/web/production.yaml", "web: web:2\n").write("apps/web/staging.yaml", "web: web:0\n");
    world.repository.write("values/web.yaml", "other: 1\n");
    let first = world.with_all_of_them().await;
    assert_eq!((commit_of(&world, "web").await, commit_of(&world, "api").await), (first.clone(), first));

    // In one push: of each Deployment another file, in another folder, then files that change nothing of both.
    world.repository.write("apps/web/production.yaml", "web: web:3\n");
    let web = world.repository.commit("Another web");
    world.repository.write("values/web.yaml", "api: api:2\n");
    let api = world.repository.commit("Another api, from outside of the folder");
    world.repository.write("apps/web/staging.yaml", "web: web:9\n");
    world.repository.commit("Values that are not named");
    world.repository.write("apps/web/values.yaml", "web: web:8\napi: api:8\n");
    let head = world.repository.commit("Values that others override");
    world.repository.push();
    world.through(&head).await;
    let (live_web, live_api) = (world.get(&path_of("web")).await.unwrap(), world.get(&path_of("api")).await.unwrap());
    assert_eq!((image(&live_web), image(&live_api)), ("web:3", "api:2"));
    assert_eq!((commit_of(&world, "web").await, commit_of(&world, "api").await), (web.clone(), api.clone()));
    assert_eq!(world.record(&web, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.record(&api, "Deployment default/api").outcome, Outcome::Complete);
    assert!(world.records().iter().all(|record| record.commit.as_str() != head), "it changed nothing");

    // A bad value is its commit's, and is taken back.
    world.repository.write("apps/web/production.yaml", "web: web:404\n");
    let bad = world.repository.commit("A bad value");
    world.repository.write("values/web.yaml", "api: api:3\n");
    let good = world.repository.commit("A good value");
    world.repository.push();
    world.through(&good).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(world.record(&good, "Deployment default/api").outcome, Outcome::Complete);
    assert_eq!((commit_of(&world, "web").await, commit_of(&world, "api").await), (web, good));
}

/// Only so many commits are looked through for the one that changed what is rendered; else it is the head.
#[tokio::test(start_paused = true)]
async fn of_very_many_commits_the_head_is_charged() {
    let Some((mut world, _)) = kustomized().await else { return };
    let slower = |seconds: u32| deployment("web", "web:0", &format!("  minReadySeconds: {seconds}\n"));
    // The newest fifty change only the text of the base, and nothing that is rendered of it.
    for (seconds, comments) in [(1, 49), (2, 50)] {
        world.repository.write("base/web.yaml", slower(seconds));
        let changes = world.repository.commit("Slower");
        let mut head = String::new();
        for number in 0..comments {
            world.repository.write("base/web.yaml", format!("# {number}\n{}", slower(seconds)));
            head = world.repository.commit("Only a comment");
        }
        world.repository.push();
        world.through(&head).await;
        let charged = if comments < 50 { changes } else { head };
        let record = world.records().into_iter().rfind(|record| record.object.name == "p-web").unwrap();
        assert_eq!(record.commit.as_str(), charged, "after {comments} that change nothing");
        assert_eq!(world.get(&path_of("p-web")).await.unwrap()["spec"]["minReadySeconds"], seconds);
    }
}

/// A template that asks the cluster finds nothing, and that is told.
#[tokio::test(start_paused = true)]
async fn a_chart_that_asks_the_cluster_is_a_warning() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.repository.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let found = "{{ if lookup \"v1\" \"Namespace\" \"\" \"default\" }}found{{ else }}nothing{{ end }}";
    world.repository.write("web/templates/map.yaml", config_map("map", found));
    world.with_all_of_them().await;
    assert_eq!(world.get(&map("map")).await.unwrap()["data"]["A"], "nothing");
    let warning = &world.status().obstacles.warnings["web/templates/map.yaml"];
    assert!(warning.starts_with("lookup finds nothing"), "{warning}");
    assert_eq!(world.status().state(), SourceState::Synced, "it is in nobody's way");
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing_and_a_missing_tool_is_no_reason_to_prune() {
    let Some((mut world, _)) = kustomized().await else { return };
    let before = world.get(&path_of("p-web")).await.unwrap();
    world.stop().await;
    world.config.prune = true;
    world.tools = crate::support::daemon::no_tools();
    world.start();
    world.until("it has looked", |source| source.state() == SourceState::Synced).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.get(&path_of("p-web")).await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn a_missing_tool_is_named_and_looked_for_again() {
    let mut world = World::embedded().await;
    let program = world.repository.beside("kustomize");
    world.tools = Tools { kustomize: Some(program.clone()), helm: None };
    world.repository.write("kustomization.yaml", "").write("values.yaml", "size: 1\n");
    let commit = world.with_all_of_them().await;
    let complaint = world.record(&commit, "File kustomization.yaml").complaints[0].to_string();
    assert!(complaint.contains("kustomize is not installed"), "{complaint}");
    assert_eq!(world.status().state(), SourceState::Degraded);
    let script = format!("#!/bin/sh\nprintf '{}'\n", config_map("made", "1").replace('\n', "\\n"));
    write_program(&program, &script);
    world.until("it is rendered", |source| source.state() == SourceState::Synced).await;
    assert!(world.get(&map("made")).await.is_some());
}

/// Returns a tool that takes its time, and then renders one ConfigMap.
fn slow_tool(world: &World, seconds: u32, value: &str) -> Tools {
    let program = world.repository.beside("kustomize");
    let map = config_map("slow", value).replace('\n', "\\n");
    write_program(&program, &format!("#!/bin/sh\nsleep {seconds}\nprintf '{map}'\n"));
    Tools { kustomize: Some(program), helm: None }
}

#[tokio::test(start_paused = true)]
async fn a_slow_unit_keeps_nothing_else_waiting_and_follows() {
    let mut world = World::embedded().await;
    world.tools = slow_tool(&world, 2, "1");
    world.patience = Duration::from_millis(50);
    world.config.prune = true;
    world.repository.write("slow/kustomization.yaml", "");
    world.repository.write("plain.yaml", config_map("plain", "1"));
    let first = world.repository.commit("A slow one");
    world.repository.push();
    world.start();
    world.until("it is planned", |source| source.planned.is_some() && source.under_way.is_empty()).await;
    world.until("the rest is there", |source| source.open == 0).await;
    assert!(world.get(&map("plain")).await.is_some() && world.get(&map("slow")).await.is_none());
    assert_eq!(world.status().state(), SourceState::Progressing, "nothing is through while it is rendered");
    world.through(&first).await;
    assert_eq!(world.get(&map("slow")).await.unwrap()["data"]["A"], "1");
    assert_eq!(world.record(&first, "ConfigMap default/slow").outcome, Outcome::Complete);
    assert_eq!(world.status().state(), SourceState::Synced);
    let records = world.records().len();
    // A newer commit gives it up, and what it had rendered before stays meanwhile.
    world.tools = slow_tool(&world, 2, "2");
    world.repository.write("slow/kustomization.yaml", "# Another\n");
    world.repository.commit("Another slow one");
    world.repository.push();
    world.until("it has looked", |source| !source.settled && source.open == 0).await;
    let third = world.push("plain.yaml", &config_map("plain", "3"), "Beside it");
    world.through(&third).await;
    assert_eq!(world.get(&map("slow")).await.unwrap()["data"]["A"], "2");
    assert_eq!(world.get(&map("plain")).await.unwrap()["data"]["A"], "3");
    assert_eq!(world.records().len(), records + 2, "{:#?}", world.outcomes());
}

#[tokio::test(start_paused = true)]
async fn a_folder_becomes_a_unit_and_is_none_again() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.repository.write("app/a.yaml", config_map("a", "1")).write("app/b.yaml", config_map("b", "1"));
    world.with_all_of_them().await;
    let unit = world.push("app/kustomization.yaml", "resources: [a.yaml]\n", "Only a");
    world.through(&unit).await;
    assert!(world.get(&map("a")).await.is_some() && world.get(&map("b")).await.is_none());
    world.repository.remove("app/kustomization.yaml");
    let plain = world.repository.commit("Both again");
    world.repository.push();
    world.through(&plain).await;
    assert!(world.get(&map("a")).await.is_some() && world.get(&map("b")).await.is_some());
    assert_eq!(world.status().state(), SourceState::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_source_may_say_that_nothing_is_rendered() {
    let mut world = World::embedded().await;
    world.config.render = Render::Off;
    world.repository.write("kustomization.yaml", "resources: [a.yaml]\n").write("a.yaml", config_map("a", "1"));
    world.with_all_of_them().await;
    assert!(world.get(&map("a")).await.is_some());
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.records());
}

#[tokio::test(start_paused = true)]
async fn a_base_that_is_rolled_out_by_itself_too_is_a_warning() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.repository.write("base/kustomization.yaml", BASE).write("base/web.yaml", deployment("web", "web:0", ""));
    world.repository.write("live/over/kustomization.yaml", OVERLAY.replace("../base", "../../base"));
    world.with_all_of_them().await;
    assert!(world.get(&path_of("web")).await.is_some() && world.get(&path_of("p-web")).await.is_some());
    let warning = "this is rolled out by itself, and live/over is built on it (leave out what is only a base: exclude = \
                   [\"/base/\"])";
    let told = BTreeMap::from([("base/kustomization.yaml".to_owned(), warning.to_owned())]);
    assert_eq!(world.status().obstacles.warnings, told);
    assert_eq!(world.status().state(), SourceState::Synced, "it is in nobody's way");
    let answers = SourceHistories::read(world.history(), world.clock.now()).unwrap().source_answers();
    assert_eq!(answers[0].warnings, told, "what `belay status` prints");

    let alone = world.push("live/over/kustomization.yaml", "resources: [web.yaml]\n", "Not built on it any more");
    world.through(&alone).await;
    assert_eq!(world.status().obstacles.warnings, BTreeMap::new());
}

/// A dot in a path means what it says, as Flux writes paths.
#[tokio::test(start_paused = true)]
async fn a_path_with_a_dot_is_rendered_as_the_folder_is() {
    for path in ["./app", "app/", "/app/.", ".", "./"] {
        let Some(tools) = real_tools() else { return };
        let mut world = World::embedded().await;
        world.tools = tools;
        world.config.path = path.into();
        world.repository.write("app/settings.yaml", config_map("settings", "1"));
        world.repository.write("app/kustomization.yaml", "namePrefix: prod-\nresources: [settings.yaml]\n");
        world.with_all_of_them().await;
        assert!(world.get(&map("prod-settings")).await.is_some(), "{path}: {:#?}", world.records());
        assert!(world.get(&map("settings")).await.is_none(), "{path}: the base is not applied as it is");
        assert_eq!(world.status().state(), SourceState::Synced, "{path}: {:#?}", world.records());
    }
}

/// A chart is rendered for the cluster that is followed: it waits until that has said what it is, and is rendered again when
/// that changes.
#[tokio::test(start_paused = true)]
async fn a_chart_is_told_what_its_cluster_can_do() {
    let Some(tools) = real_tools() else { return };
    let (mut world, tap) = World::tapped().await;
    world.tools = tools;
    let says = "{{ .Capabilities.KubeVersion.Major }} {{ .Capabilities.APIVersions.Has \"example.com/v1\" }} {{ \
                .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }}";
    world.repository.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '>=1.36.0-0'\n");
    world.repository.write("web/templates/map.yaml", config_map("web", says));
    world.repository.write("plain.yaml", config_map("plain", "1"));
    let first = world.with_all_of_them().await;
    let told = |map: serde_json::Value| map["data"]["A"].as_str().unwrap().to_owned();
    assert_eq!(told(world.get(&map("web")).await.unwrap()), "1 false true");
    let asked = || tap.take().iter().filter(|went| went.path == "/version").count();
    assert_eq!(asked(), 1);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(asked(), 0, "not at each look");

    let definition = belay_core::manifest::yaml::documents(DEFINITION).0.remove(0).read().0.unwrap().value().clone();
    world.create("apis/apiextensions.k8s.io/v1/customresourcedefinitions", "somebody", &definition).await;
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(told(world.get(&map("web")).await.unwrap()), "1 true true", "without a commit");
    assert_eq!(world.record(&first, "ConfigMap default/web").outcome, Outcome::Complete);
    world.until("all is synced", |source| source.state() == SourceState::Synced).await;
}

/// A generated ConfigMap has another name with each change. The old one stays for as long as a revision names it that may be
/// gone back to, also if what left is deleted.
#[tokio::test(start_paused = true)]
async fn a_generated_config_map_stays_for_what_may_go_back_to_it() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    let generated = |value: &str| {
        format!("resources: [web.yaml]\nconfigMapGenerator: [{{name: settings, literals: [A={value}]}}]\n")
    };
    let reads = |fate: &str| {
        let container = "        envFrom: [{configMapRef: {name: settings}}]\n";
        format!("{}{container}", broken("web", fate))
    };
    world.repository.write("web.yaml", reads("ready")).write("kustomization.yaml", generated("1"));
    let first = world.with_all_of_them().await;
    let named = |live: &serde_json::Value| {
        let path = "/spec/template/spec/containers/0/envFrom/0/configMapRef/name";
        live.pointer(path).and_then(serde_json::Value::as_str).unwrap().to_owned()
    };
    let before = named(&world.get(&path_of("web")).await.unwrap());
    assert!(before.starts_with("settings-") && world.get(&map(&before)).await.is_some());
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);

    world.repository.write("web.yaml", reads("never-ready"));
    let bad = world.push("kustomization.yaml", &generated("2"), "Bad settings");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(named(&world.get(&path_of("web")).await.unwrap()), before);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.get(&map(&before)).await.unwrap()["data"]["A"], "1", "it is needed");
}

/// Definitions are there before what is of them, though one chart holds both.
#[tokio::test(start_paused = true)]
async fn the_definitions_of_a_chart_come_first() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.repository.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    world.repository.write("web/crds/things.yaml", DEFINITION);
    world
        .repository
        .write("web/templates/thing.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one}\n");
    let first = world.with_all_of_them().await;
    assert_eq!(world.record(&first, "Thing default/one").outcome, Outcome::Complete);
    assert!(world.get("apis/example.com/v1/namespaces/default/things/one").await.is_some());
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.status());
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";
