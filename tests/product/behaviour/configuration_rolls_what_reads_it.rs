//! If it is asked for, a commit that changes a ConfigMap or Secret rolls out the workloads that read it; if not, the
//! history names those that do not notice.

use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Hold, Outcome, StepKind, Trigger, Unnoticed};
use serde_json::{Value, json};

use crate::support::daemon::{World, config_map, deployment, path_of};
use crate::support::tap::Fate;

const MAP: &str = "api/v1/namespaces/default/configmaps/settings";
const HASH: &str = "/spec/template/metadata/annotations/belay.dev~1config-hash";
const READS: &str =
    "        env:\n        - name: A\n          valueFrom: {configMapKeyRef: {name: settings, key: A}}\n";

fn reads(name: &str, image: &str) -> String {
    format!("{}{READS}", deployment(name, image, ""))
}

/// Settings without the key that the pods need: they can't begin.
fn broken_settings() -> String {
    config_map("settings", "2").replace("A:", "B:")
}

/// Workloads of these names that read the settings, complete; `asked` says whether the source rolls them out for that.
async fn world(names: &[&str], asked: bool) -> (World, String) {
    let mut world = World::embedded().await;
    world.config.roll_on_config = asked;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    for name in names {
        world.repository.write(format!("{name}.yaml"), reads(name, "web:1"));
    }
    let good = world.repository.commit("First version");
    world.repository.push();
    world.start();
    world.through(&good).await;
    (world, good)
}

async fn hash(world: &World, path: &str) -> Option<String> {
    world.get(path).await.unwrap().pointer(HASH).map(|hash| hash.as_str().unwrap().to_owned())
}

async fn value(world: &World) -> Value {
    world.get(MAP).await.unwrap()["data"].clone()
}

async fn restart(world: &mut World, asked: bool) {
    world.stop().await;
    world.config.roll_on_config = asked;
    world.start();
}

/// The generation stays as it is: nothing is written to its specification.
async fn rests(world: &mut World, commit: &str) {
    let generation = async |world: &World| world.get(&path_of("web")).await.unwrap()["metadata"]["generation"].clone();
    let (before, records) = (generation(world).await, world.records().len());
    world.through(commit).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    world.through(commit).await;
    assert_eq!(generation(world).await, before);
    assert_eq!(world.records().len(), records, "{:#?}", world.outcomes());
}

#[tokio::test(start_paused = true)]
async fn with_the_commit_that_changed_it() {
    let (mut world, _) = world(&["web"], true).await;
    let first = hash(&world, &path_of("web")).await.expect("a hash from the beginning");
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_ne!(hash(&world, &path_of("web")).await.unwrap(), first);
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["belay.dev/commit"], change.as_str());
    assert!(annotations["kubernetes.io/change-cause"].as_str().unwrap().contains("Other settings"), "{annotations}");
    let record = world.record(&change, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out, record.revision), (Outcome::Complete, true, Some(2)));
    let map = world.record(&change, "ConfigMap default/settings");
    let at = |record: &belay_core::rollout::Record, kind| {
        let steps = world.history().steps(record.id).unwrap();
        steps.iter().find(|step| step.kind == kind).expect("the step").at
    };
    assert!(at(&map, StepKind::Applied) <= at(&record, StepKind::Applying), "what it reads comes first");
    rests(&mut world, &change).await;
    restart(&mut world, true).await;
    rests(&mut world, &change).await;
}

/// No pod reads a label or a comment of it, nor the configuration of another workload.
#[tokio::test(start_paused = true)]
async fn only_for_what_is_read() {
    let (mut world, _) = world(&["web"], true).await;
    let labelled = config_map("settings", "1").replace("  name: settings\n", "  name: settings\n  labels: {team: a}\n");
    world.repository.write("other.yaml", config_map("other", "1"));
    let more = world.push("settings.yaml", &labelled, "A label, and another one");
    world.through(&more).await;
    assert_eq!(world.record(&more, "Deployment default/web").outcome, Outcome::Unchanged);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn it_goes_back_together_with_its_configuration() {
    let (mut world, _) = world(&["web"], true).await;
    let before = world.get(&path_of("web")).await.unwrap()["spec"]["template"].clone();
    let bad = world.push("settings.yaml", &broken_settings(), "Broken settings");
    world.through(&bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"], before);
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    assert_eq!(value(&world).await, json!({"A": "1"}));
    let outcome = |object: &str| {
        let records = world.records();
        let last = records.iter().rfind(|record| record.object.to_string() == object).unwrap();
        (last.commit.as_str().to_owned(), last.outcome)
    };
    assert_eq!(outcome("Deployment default/web"), (bad.clone(), Outcome::RolledBack));
    assert_eq!(outcome("ConfigMap default/settings"), (bad.clone(), Outcome::RolledBack));
    rests(&mut world, &bad).await;
    restart(&mut world, true).await;
    rests(&mut world, &bad).await;
    let fix = world.push("settings.yaml", &config_map("settings", "3"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(value(&world).await, json!({"A": "3"}));
    assert!(world.status().held.is_empty());
}

/// A commit that takes the change back finds everything as it was.
#[tokio::test(start_paused = true)]
async fn taken_back_in_git_it_rests() {
    let (mut world, _) = world(&["web"], true).await;
    let bad = world.push("settings.yaml", &broken_settings(), "Broken settings");
    world.through(&bad).await;
    let revert = world.push("settings.yaml", &config_map("settings", "1"), "Revert");
    world.through(&revert).await;
    assert!(world.status().held.is_empty());
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["annotations"]["belay.dev/hold"], Value::Null);
    rests(&mut world, &revert).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_retries_gets_both_again() {
    let (mut world, _) = world(&["web"], true).await;
    let bad = world.push("settings.yaml", &broken_settings(), "Broken settings");
    world.through(&bad).await;
    world.patch(&path_of("web"), "belay", &json!({"metadata": {"annotations": {"belay.dev/hold": null}}})).await;
    world.until("it is tried again", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(value(&world).await, json!({"B": "2"}));
    world.through(&bad).await;
    assert_eq!(value(&world).await, json!({"A": "1"}));
    let last = world.records().into_iter().rfind(|record| record.object.kind == "Deployment").unwrap();
    assert_eq!((last.trigger, last.outcome), (Trigger::Retry, Outcome::RolledBack));
}

/// A template gets its hash with its next change, or with that of its configuration, and not for the option's sake.
#[tokio::test(start_paused = true)]
async fn turning_it_on_rolls_nothing_out() {
    let (mut world, first) = world(&["web", "other"], false).await;
    restart(&mut world, true).await;
    rests(&mut world, &first).await;
    assert_eq!(hash(&world, &path_of("web")).await, None);
    // Drift is put right as it was rolled out.
    let scaled = reads("web", "web:1").replace("replicas: 2", "replicas: 3");
    let scaled = world.push("web.yaml", &scaled, "One more");
    world.through(&scaled).await;
    world.patch(&path_of("web"), "kubectl-edit", &json!({"spec": {"template": {"spec": {"hostname": "x"}}}})).await;
    world.until("it is put right", |source| !source.settled).await;
    world.through(&scaled).await;
    assert_eq!(hash(&world, &path_of("web")).await, None);
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    for name in ["web", "other"] {
        assert!(hash(&world, &path_of(name)).await.is_some(), "{name}");
        assert_eq!(world.record(&change, &format!("Deployment default/{name}")).outcome, Outcome::Complete);
    }
    rests(&mut world, &change).await;
}

/// Also if belay is killed before it has written the template that is to have a hash for the first time.
#[tokio::test(start_paused = true)]
async fn a_kill_on_the_way_changes_nothing() {
    for at in 0.. {
        let (mut world, tap) = World::tapped().await;
        world.repository.write("settings.yaml", config_map("settings", "1"));
        let first = world.push("web.yaml", &reads("web", "web:1"), "First version");
        world.start();
        world.through(&first).await;
        restart(&mut world, true).await;
        world.through(&first).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        tap.take();
        tap.rule(move |_, number| if number == at { Fate::DieAfter } else { Fate::Pass });
        let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
        let killed = world.through_a_kill(&tap, &change).await;
        let web = world.get(&path_of("web")).await.unwrap();
        assert!(hash(&world, &path_of("web")).await.is_some(), "killed at request {at}");
        assert_eq!(web["metadata"]["generation"], 2, "killed at request {at}");
        assert_eq!(world.record(&change, "Deployment default/web").outcome, Outcome::Complete);
        if !killed {
            assert!(at >= 3, "{at}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn turning_it_off_rolls_nothing_out() {
    let (mut world, first) = world(&["web"], true).await;
    restart(&mut world, false).await;
    rests(&mut world, &first).await;
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    assert!(hash(&world, &path_of("web")).await.is_some(), "until its template changes");
    // On again: what was changed meanwhile is no drift.
    restart(&mut world, true).await;
    rests(&mut world, &change).await;
    restart(&mut world, false).await;
    let next = world.push("web.yaml", &reads("web", "web:2"), "Next");
    world.through(&next).await;
    assert_eq!(hash(&world, &path_of("web")).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_manifest_has_the_last_word() {
    let (mut world, _) = world(&["web", "other"], true).await;
    let says = |text: &str| {
        reads("other", "web:1").replace(
            "  name: other\n",
            &format!("  name: other\n  annotations: {{belay.dev/roll-on-config: \"{text}\"}}\n"),
        )
    };
    let wrong = world.push("other.yaml", &says("yes"), "Asks for nothing");
    world.through(&wrong).await;
    let record = world.record(&wrong, "Deployment default/other");
    assert_eq!(record.outcome, Outcome::Rejected);
    assert!(record.complaints[0].to_string().contains("belay.dev/roll-on-config is \"yes\""), "{record:?}");
    world.repository.write("other.yaml", says("false"));
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    assert!(world.record(&change, "Deployment default/web").rolls_out);
    assert!(!world.record(&change, "Deployment default/other").rolls_out);
}

/// An undo of a rollout that only the configuration set off is one like any other.
#[tokio::test(start_paused = true)]
async fn an_undo_by_hand_is_respected() {
    for asked_before in [true, false] {
        let (mut world, _) = world(&["web"], asked_before).await;
        restart(&mut world, true).await;
        let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
        world.through(&change).await;
        let sets = world.list("apis/apps/v1/namespaces/default/replicasets").await;
        let is_first = |set: &&Value| set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1";
        let kept = sets.iter().find(is_first).unwrap();
        world.undo_to_kept(kept).await;
        world.until("it is held", |source| !source.held.is_empty()).await;
        rests(&mut world, &change).await;
        let last = world.records().pop().unwrap();
        assert_eq!((last.outcome, last.trigger.word()), (Outcome::RolledBack, "undo-by-hand"));
        assert_eq!(hash(&world, &path_of("web")).await.is_some(), asked_before);
    }
}

/// A person who takes the hash away, or writes another, has changed the template.
#[tokio::test(start_paused = true)]
async fn a_hash_of_somebody_elses_is_drift() {
    let (mut world, first) = world(&["web"], true).await;
    let right = hash(&world, &path_of("web")).await;
    for wrong in [json!(null), json!("mine")] {
        let template = json!({"metadata": {"annotations": {"belay.dev/config-hash": wrong}}});
        world.patch(&path_of("web"), "kubectl-edit", &json!({"spec": {"template": template}})).await;
        world.until("it is put right", |source| !source.settled).await;
        world.through(&first).await;
        assert_eq!(hash(&world, &path_of("web")).await, right);
    }
    rests(&mut world, &first).await;
}

#[tokio::test(start_paused = true)]
async fn every_kind_that_can_be_rolled_is() {
    const KINDS: [(&str, &str); 3] = [
        ("StatefulSet", "apis/apps/v1/namespaces/default/statefulsets/set"),
        ("DaemonSet", "apis/apps/v1/namespaces/default/daemonsets/set"),
        ("ReplicationController", "api/v1/namespaces/default/replicationcontrollers/set"),
    ];
    let mut world = World::embedded().await;
    world.config.roll_on_config = true;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    for (kind, _) in KINDS {
        let mut text = reads("set", "web:1").replace("kind: Deployment", &format!("kind: {kind}"));
        text = text.replace("  progressDeadlineSeconds: 30\n", "");
        text = text.replace("app: set", &format!("app: {}", kind.to_lowercase()));
        match kind {
            "StatefulSet" => text = text.replace("  replicas: 2\n", "  replicas: 2\n  serviceName: set\n"),
            "DaemonSet" => text = text.replace("  replicas: 2\n", ""),
            _ => {
                text = text
                    .replace("apps/v1", "v1")
                    .replace("    matchLabels: {app: replicationcontroller}\n", "    app: replicationcontroller\n");
            }
        }
        world.repository.write(format!("{kind}.yaml"), text);
    }
    let first = world.repository.commit("One of each");
    world.repository.push();
    world.start();
    world.through(&first).await;
    let mut before = Vec::new();
    for (_, path) in KINDS {
        before.push(hash(&world, path).await.expect("a hash"));
    }
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    for ((kind, path), before) in KINDS.iter().zip(before) {
        assert_ne!(hash(&world, path).await.unwrap(), before, "{kind}");
        let record = world.record(&change, &format!("{kind} default/set"));
        assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, true), "{kind}");
    }
    world.stop().await;
    world.start();
    let records = world.records().len();
    world.through(&change).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.records().len(), records, "{:#?}", world.outcomes());
}

/// A ConfigMap that the server refuses changes nothing, so that there is nothing to roll out.
#[tokio::test(start_paused = true)]
async fn what_is_not_applied_rolls_nothing_out() {
    let (mut world, _) = world(&["web"], true).await;
    let fixed = |value: &str| format!("{}immutable: true\n", config_map("settings", value));
    let immutable = world.push("settings.yaml", &fixed("1"), "Never to change");
    world.through(&immutable).await;
    let refused = world.push("settings.yaml", &fixed("2"), "It changes");
    world.through(&refused).await;
    assert_eq!(world.record(&refused, "ConfigMap default/settings").outcome, Outcome::Rejected);
    assert_eq!(world.record(&refused, "Deployment default/web").outcome, Outcome::Unchanged);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], 1);
}

/// A file that can't be read for now says nothing of what it held.
#[tokio::test(start_paused = true)]
async fn what_can_not_be_read_is_no_change() {
    let (mut world, _) = world(&["web"], true).await;
    let unreadable = world.push("settings.yaml", "a: [", "Oops");
    world.through(&unreadable).await;
    rests(&mut world, &unreadable).await;
    restart(&mut world, true).await;
    rests(&mut world, &unreadable).await;
    let before = hash(&world, &path_of("web")).await;
    let next = world.push("web.yaml", &reads("web", "web:2"), "Next");
    world.through(&next).await;
    assert_eq!(hash(&world, &path_of("web")).await, before);
    let again = world.push("settings.yaml", &config_map("settings", "1"), "As it was");
    world.through(&again).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], 2, "once, for its image");
}

#[tokio::test(start_paused = true)]
async fn several_commits_at_once_are_charged_to_the_newest() {
    let (mut world, _) = world(&["web"], true).await;
    world.repository.commit_file("web.yaml", &reads("web", "web:2"), "Another image");
    let settings = world.repository.commit_file("settings.yaml", &config_map("settings", "2"), "Other settings");
    let last = world.push("more.yaml", &config_map("more", "1"), "Something else");
    world.through(&last).await;
    assert_eq!(world.record(&settings, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], 2, "once for both");
}

#[tokio::test(start_paused = true)]
async fn where_it_is_not_asked_for_the_history_tells_who_does_not_notice() {
    let (mut world, _) = world(&["web"], false).await;
    let mounts = format!(
        "{}        volumeMounts: [{{name: files, mountPath: /etc/files}}]\n      volumes: [{{name: files, configMap: {{name: settings}}}}]\n",
        deployment("files", "web:1", "")
    );
    let more = world.push("files.yaml", &mounts, "Reads it as files");
    world.through(&more).await;
    let change = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&change).await;
    let map = world.record(&change, "ConfigMap default/settings");
    assert_eq!(map.outcome, Outcome::Complete);
    let steps = world.history().steps(map.id).unwrap();
    let noted = steps.iter().find(|step| step.kind == StepKind::Unnoticed).expect("a note");
    let told: Vec<Unnoticed> = serde_json::from_str(&noted.detail).unwrap();
    let told: Vec<(&ObjectKey, bool)> = told.iter().map(|one| (&one.workload, one.reading.is_once())).collect();
    assert_eq!(
        told.iter().map(|(key, once)| (key.name.as_str(), *once)).collect::<Vec<_>>(),
        [("files", false), ("web", true)]
    );
    // One that is rolled out anyway notices.
    world.repository.write("web.yaml", reads("web", "web:2")).write("files.yaml", mounts.replace("web:1", "web:2"));
    let both = world.push("settings.yaml", &config_map("settings", "3"), "Both");
    world.through(&both).await;
    let map = world.record(&both, "ConfigMap default/settings");
    assert!(world.history().steps(map.id).unwrap().iter().all(|step| step.kind != StepKind::Unnoticed));
}

/// The hash shows nothing of what a Secret holds, nor does anything else.
#[tokio::test(start_paused = true)]
async fn a_secret_counts_and_shows_no_value() {
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\nstringData:\n  token: \"{value}\"\n")
    };
    let uses = format!("{}        envFrom:\n        - secretRef: {{name: key}}\n", deployment("web", "web:1", ""));
    let mut world = World::embedded().await;
    world.config.roll_on_config = true;
    world.repository.write("key.yaml", secret("hunter-one"));
    let first = world.push("web.yaml", &uses, "First version");
    world.start();
    world.through(&first).await;
    let before = hash(&world, &path_of("web")).await.unwrap();
    let change = world.push("key.yaml", &secret("hunter-two"), "Another key");
    world.through(&change).await;
    let after = hash(&world, &path_of("web")).await.unwrap();
    assert_ne!(after, before);
    assert_eq!((after.len(), world.record(&change, "Deployment default/web").outcome), (64, Outcome::Complete));
    let told = format!("{:?} {}", world.records(), serde_json::to_string(&world.whole_status()).unwrap());
    for value in ["hunter-one", "hunter-two", "aHVudGVyLW9uZQ", "aHVudGVyLXR3bw"] {
        assert!(!told.contains(value), "{value} is shown");
    }
}
