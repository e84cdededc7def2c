//! Tests of a rolling update, one case after another.

use std::time::Duration;

use belay::cluster::{Pace, RollError};
use belay_core::rollout::TemplateMarks;
use belay_core::rollout::rolling_update::{Ask, Bounds, ByHand, Refused, To};
use serde_json::{Value, json};

use crate::stage::{Stage, controller};
use crate::support::tap::Fate;

pub fn to(old: &str, image: &str) -> Ask {
    Ask::image(old, image)
}

pub fn named(old: &str, new: &str, image: &str) -> Ask {
    Ask { new: Some(new.to_owned()), ..to(old, image) }
}

pub fn back(old: &str) -> Ask {
    Ask { to: To::Back, ..to(old, "") }
}

fn from_manifest(old: &str, manifest: Value) -> Ask {
    Ask { to: To::Manifest(Box::new(manifest)), ..to(old, "") }
}

fn refused(ended: Result<String, RollError>) -> Refused {
    match ended {
        Err(RollError::Refused(refused)) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

pub async fn ends_under_the_old_name(stage: &Stage) {
    stage.make(&controller("one", "one:1", 3)).await;
    let marks =
        TemplateMarks { change_cause: Some("1a2b3c4 Faster (Ada)".to_owned()), commit: Some("1a2b".to_owned()) };
    let rolled = stage.roll(&Ask { marks, ..to("one", "one:2") }).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/one rolling updated");
    stage.assert_ended("one", "one", "one:2", 3).await;
    assert!(rolled.seen.most <= 4 && rolled.seen.fewest_ready >= Some(3), "{:?}", rolled.seen);
    let next = rolled.said[0].strip_prefix("Created ").unwrap().to_owned();
    let sizes = "from 0 to 3, scaling down one from 3 to 0 (keep 3 pods available, don't exceed 4 pods)";
    let expected = [
        format!("Created {next}"),
        format!("Scaling up {next} {sizes}"),
        format!("Scaling {next} up to 1"),
        "Scaling one down to 2".to_owned(),
        format!("Scaling {next} up to 2"),
        "Scaling one down to 1".to_owned(),
        format!("Scaling {next} up to 3"),
        "Scaling one down to 0".to_owned(),
        "Update succeeded. Deleting old controller: one".to_owned(),
        format!("Renaming {next} to one"),
    ];
    assert_eq!(rolled.said, expected);
    let live = stage.controller("one").await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["kubernetes.io/change-cause"], "1a2b3c4 Faster (Ada)");
    assert_eq!(live["metadata"]["annotations"]["belay.dev/commit"], "1a2b");
    // And once more, now that there is a label to tell pods by.
    let rolled = stage.roll(&to("one", "one:3")).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/one rolling updated");
    stage.assert_ended("one", "one", "one:3", 3).await;
    assert!(rolled.seen.most <= 4 && rolled.seen.fewest_ready >= Some(3), "{:?}", rolled.seen);
}

pub async fn ends_under_a_new_name(stage: &Stage) {
    stage.make(&controller("two", "two:1", 2)).await;
    let bounds = Bounds { surge: 0, unavailable: 1 };
    let rolled = stage.roll(&Ask { bounds, ..named("two", "two-b", "two:2") }).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/two-b rolling updated to \"two-b\"");
    stage.assert_ended("two", "two-b", "two:2", 2).await;
    assert!(rolled.seen.most <= 2 && rolled.seen.fewest_ready >= Some(1), "{:?}", rolled.seen);
    assert_eq!(rolled.said.last().unwrap(), "Update succeeded. Deleting two");
}

pub async fn goes_back_half_way(stage: &Stage) {
    stage.make(&controller("three", "three:1", 3)).await;
    // Label, three pods, selector, create, original size, up, down: dies at the second growth, or a little before it where
    // a write had to be made again because the controller was faster.
    assert!(stage.roll_and_die(&to("three", "three:2"), 9, Fate::DieBefore).await.is_none());
    let left = stage.controller("three").await.unwrap()["spec"]["replicas"].clone();
    assert!(left == 2 || left == 3, "{left}");
    let rolled = stage.roll(&back("three")).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/three rolling updated to \"three\"");
    assert_eq!(rolled.said[0], "Setting \"three\" replicas to 3");
    assert_eq!(rolled.said[1], "Continuing update with existing controller three.");
    stage.assert_ended("three", "three", "three:1", 3).await;
    assert!(rolled.seen.most <= 4 && rolled.seen.fewest_ready >= Some(3), "{:?}", rolled.seen);
    let nothing = refused(stage.roll(&back("three")).await.ended);
    assert_eq!(nothing, Refused::NothingUnderWay { old: "three".to_owned() });
}

pub async fn refuses_what_is_not_there(stage: &Stage) {
    for ask in [to("none", "none:2"), named("none", "other", "none:2"), back("none")] {
        assert_eq!(refused(stage.roll(&ask).await.ended), Refused::NotFound { name: "none".to_owned() });
    }
}

pub async fn refuses_another_image_half_way(stage: &Stage) {
    stage.make(&controller("four", "four:1", 2)).await;
    assert!(stage.roll_and_die(&to("four", "four:2"), 8, Fate::DieBefore).await.is_none());
    let other = refused(stage.roll(&to("four", "four:3")).await.ended);
    assert_eq!(other, Refused::OtherImage { present: "four:2".to_owned() });
    stage.roll(&to("four", "four:2")).await.ended.unwrap();
    stage.assert_ended("four", "four", "four:2", 2).await;
    let again = stage.roll(&to("four", "four:2")).await;
    assert_eq!(again.ended.unwrap(), "replicationcontroller/four rolling updated already");
    let again = Ask { pull_policy: Some("Always".to_owned()), ..to("four", "four:2") };
    stage.roll(&again).await.ended.unwrap();
    let live = stage.controller("four").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
}

pub async fn refuses_a_file_with_the_same_selector(stage: &Stage) {
    stage.make(&controller("five", "five:1", 1)).await;
    let mut manifest = controller("five-b", "five:2", 1);
    manifest["spec"]["selector"] = json!({"app": "five"});
    manifest["spec"]["template"]["metadata"]["labels"] = json!({"app": "five"});
    let same = refused(stage.roll(&from_manifest("five", manifest)).await.ended);
    assert_eq!(same, Refused::SameSelector { next: "five-b".to_owned(), old: "five".to_owned() });
    let same_name = refused(stage.roll(&from_manifest("five", controller("five", "five:2", 1))).await.ended);
    assert_eq!(same_name, Refused::SameName { name: "five".to_owned() });
    stage.assert_ended("five", "five", "five:1", 1).await;
}

pub async fn takes_a_file(stage: &Stage) {
    let version = |name: &str, version: &str, image: &str| {
        let mut manifest = controller(name, image, 2);
        let labels = json!({"app": "six", "version": version});
        manifest["spec"]["selector"] = labels.clone();
        manifest["spec"]["template"]["metadata"]["labels"] = labels;
        manifest
    };
    stage.make(&version("six", "1", "six:1")).await;
    let mut next = version("six-b", "2", "six:2");
    // A file that names no size keeps the old one's.
    next["spec"].as_object_mut().unwrap().remove("replicas");
    let rolled = stage.roll(&from_manifest("six", next)).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/six-b rolling updated to \"six-b\"");
    stage.assert_ended("six", "six-b", "six:2", 2).await;
    assert!(rolled.seen.most <= 3 && rolled.seen.fewest_ready >= Some(2), "{:?}", rolled.seen);
}

pub async fn needs_the_name_of_one_of_several_containers(stage: &Stage) {
    let mut manifest = controller("seven", "seven:1", 1);
    let containers = json!([{"name": "app", "image": "seven:1"}, {"name": "log", "image": "log:1"}]);
    manifest["spec"]["template"]["spec"]["containers"] = containers;
    stage.make(&manifest).await;
    let which = refused(stage.roll(&to("seven", "log:2")).await.ended).to_string();
    assert!(which.starts_with("must specify container to update when updating a multi-container pod"), "{which}");
    let log = Ask { container: Some("log".to_owned()), ..to("seven", "log:2") };
    stage.roll(&log).await.ended.unwrap();
    let live = stage.controller("seven").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][1]["image"], "log:2");
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "seven:1");
}

pub async fn times_out_where_pods_never_serve(stage: &Stage) {
    stage.make(&controller("eight", "eight:1", 2)).await;
    let pace = Pace { timeout: Duration::from_secs(3), update_period: Duration::from_millis(200), ..stage.pace };
    let rolled = stage.roll_at(&to("eight", "eight:404"), pace, stage.client.clone()).await;
    let Err(RollError::TimedOut { waiting_for }) = rolled.ended else { panic!("{:?}", rolled.ended) };
    assert_eq!(waiting_for, "0 of 1 new pods are ready");
    assert!(rolled.seen.fewest_ready >= Some(2), "{:?}", rolled.seen);
    stage.roll(&back("eight")).await.ended.unwrap();
    stage.assert_ended("eight", "eight", "eight:1", 2).await;
}

/// The old controller is gone, the next one has not got its name: as another client may have left it.
pub async fn finishes_a_renaming(stage: &Stage) {
    let mut manifest = controller("nine-0123", "nine:2", 2);
    manifest["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/update-source-id": "nine:gone", "kubectl.kubernetes.io/desired-replicas": "2"});
    manifest["spec"]["selector"] = json!({"app": "nine", "deployment": "0123"});
    manifest["spec"]["template"]["metadata"]["labels"] = json!({"app": "nine", "deployment": "0123"});
    stage.make(&manifest).await;
    let before = stage.pods("nine").await;
    let rolled = stage.roll(&to("nine", "nine:2")).await;
    assert_eq!(rolled.ended.unwrap(), "replicationcontroller/nine rolling updated");
    assert_eq!(rolled.said, ["Renaming nine-0123 to nine"]);
    stage.assert_ended("nine", "nine", "nine:2", 2).await;
    let uids = |pods: &[Value]| {
        let mut uids: Vec<String> = pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        uids.sort();
        uids
    };
    assert_eq!(uids(&stage.pods("nine").await), uids(&before), "the pods stay");
}

/// Without pods, with the old one deleted half way, with the two names alone, and again after each end.
pub async fn ends_whatever_is_left(stage: &Stage) {
    stage.make(&controller("ten", "ten:1", 0)).await;
    for said in ["replicationcontroller/ten rolling updated", "replicationcontroller/ten rolling updated already"] {
        assert_eq!(stage.roll(&to("ten", "ten:2")).await.ended.unwrap(), said);
    }
    stage.assert_ended("ten", "ten", "ten:2", 0).await;
    stage.make(&controller("eleven", "eleven:1", 3)).await;
    let by =
        Some(ByHand { by: "ada".to_owned(), since: stage.clock.now(), source: None, from: None, hold_follows: false });
    let forward = Ask { by, ..named("eleven", "eleven-b", "eleven:2") };
    assert!(stage.roll_and_die(&forward, 9, Fate::DieBefore).await.is_none());
    let back = Ask { to: To::Existing, ..named("eleven-b", "eleven", "") };
    stage.roll(&back).await.ended.unwrap();
    stage.assert_ended("eleven", "eleven", "eleven:1", 3).await;
    // The label and the marks are there now, or not: it dies somewhere in the middle.
    assert!(stage.roll_and_die(&forward, 4, Fate::DieBefore).await.is_none());
    stage.clear_controller("eleven").await;
    let on = Ask { to: To::Existing, ..forward.clone() };
    let said = "replicationcontroller/eleven-b rolling updated to \"eleven-b\"";
    assert_eq!(stage.roll(&on).await.ended.unwrap(), said);
    stage.assert_ended("eleven", "eleven-b", "eleven:2", 3).await;
    for again in [forward, on] {
        assert_eq!(stage.roll(&again).await.ended.unwrap(), format!("{said} already"));
    }
}
