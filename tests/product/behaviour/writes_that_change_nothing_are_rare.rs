//! A write that is answered with 200 and changes nothing, by a webhook or an API server in between, is not repeated at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay_core::rollout::{Outcome, ReasonCode, SourceState};
use tokio::time::Instant;

use crate::support::daemon::{World, config_map};
use crate::support::tap::{Fate, Tap};

const MAP: &str = "api/v1/namespaces/default/configmaps/map-0";
const OBJECT: &str = "ConfigMap default/map-0";
/// After so many writes nothing is answered any more: the clock of a test stands still while belay asks without a wait.
const TOO_OFTEN: usize = 1000;

/// The moments of the writes that were only claimed.
#[derive(Clone, Default)]
struct Claimed(Arc<Mutex<Vec<Instant>>>);

impl Claimed {
    /// Has writes by this method to paths with this part claimed from here on.
    fn on(tap: &Tap, method: &'static str, part: &'static str) -> Claimed {
        let claimed = Claimed::default();
        let noted = Arc::clone(&claimed.0);
        tap.rule(move |went, _| {
            if !went.is_write() || went.method != method || !went.path.contains(part) {
                return Fate::Pass;
            }
            let mut noted = noted.lock().unwrap();
            noted.push(Instant::now());
            if noted.len() > TOO_OFTEN { Fate::Swallow } else { Fate::Claim }
        });
        claimed
    }

    /// Checks that there were some, at most so many, and no two at the same moment.
    fn are_at_most(&self, most: usize, of: &str) {
        let noted = self.0.lock().unwrap().clone();
        let waits: Vec<Duration> = noted.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(!noted.is_empty() && noted.len() <= most, "{of}: {} writes, {waits:?}", noted.len());
        assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(100)), "{of}: {waits:?}");
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_of_what_has_left() {
    let (mut world, tap) = World::tapped().await;
    world.config.prune = true;
    world.with_maps(3).await;
    let claimed = Claimed::on(&tap, "DELETE", "/configmaps/map-0");
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let said = world.status().obstacles.trouble.values().cloned().collect::<Vec<_>>().join("\n");
    assert!(said.contains("answers that it is deleted") && !said.contains("conflict"), "{said}");
    world.through(&gone).await;
    claimed.are_at_most(60, "within 10 minutes");
    let record = world.record(&gone, OBJECT);
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::Failed, ReasonCode::DeletionHangs));
    let before = claimed.count();
    tokio::time::sleep(Duration::from_hours(2)).await;
    assert!(claimed.count() - before <= 120, "{} in two hours more", claimed.count() - before);
    tap.rule(|_, _| Fate::Pass);
}

#[tokio::test(start_paused = true)]
async fn applies_of_a_manifest() {
    let (mut world, tap) = World::tapped().await;
    world.with_maps(1).await;
    let claimed = Claimed::on(&tap, "PATCH", "/configmaps/map-0");
    world.push("0.yaml", &config_map("map-0", "2"), "Second version");
    tokio::time::sleep(Duration::from_hours(2)).await;
    claimed.are_at_most(60, "in two hours");
    tap.rule(|_, _| Fate::Pass);
    world.until("it is applied", |source| source.state() == SourceState::Synced).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "2");
}

const CONTROLLER: &str = "apiVersion: v1\nkind: ReplicationController\nmetadata:\n  name: web\n  annotations: \
    {belay.dev/progress-deadline-seconds: \"60\"}\nspec:\n  replicas: 3\n  selector: {app: web}\n  template:\n    metadata:\n      \
    labels: {app: web}\n    spec: {containers: [{name: app, image: \"web:1\"}]}\n";

#[tokio::test(start_paused = true)]
async fn writes_of_a_rolling_update() {
    for (method, part) in
        [("DELETE", "/replicationcontrollers/"), ("PATCH", "/replicationcontrollers/"), ("PATCH", "/pods/")]
    {
        let (mut world, tap) = World::tapped().await;
        let first = world.push("web.yaml", CONTROLLER, "First version");
        world.start();
        world.through(&first).await;
        let claimed = Claimed::on(&tap, method, part);
        let second = world.push("web.yaml", &CONTROLLER.replace("web:1", "web:2"), "Second version");
        tokio::time::sleep(Duration::from_hours(1)).await;
        claimed.are_at_most(400, &format!("{method} {part}"));
        let records = world.records().into_iter().filter(|record| record.commit.as_str() == second).count();
        assert!((1..=30).contains(&records), "{method} {part}: {records} records");
    }
}

const STATEFUL: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: web\n  annotations: \
    {belay.dev/progress-deadline-seconds: \"60\"}\nspec:\n  serviceName: web\n  replicas: 2\n  selector: {matchLabels: {app: \
    web}}\n  template:\n    metadata:\n      labels: {app: web}\n      annotations: {kubelet.belay.dev/fate: \
    \"ready\"}\n    spec: {containers: [{name: app, image: \"web:1\"}]}\n";

#[tokio::test(start_paused = true)]
async fn deletions_of_stuck_pods() {
    let (mut world, tap) = World::tapped().await;
    let first = world.push("web.yaml", STATEFUL, "First version");
    world.start();
    world.through(&first).await;
    let claimed = Claimed::on(&tap, "DELETE", "/pods/");
    let bad = STATEFUL.replace("web:1", "web:2").replace("\"ready\"", "\"never-ready\"");
    world.push("web.yaml", &bad, "Never ready");
    tokio::time::sleep(Duration::from_mins(20)).await;
    claimed.are_at_most(15, "in 20 minutes");
}

/// The pods go back all the same, and the record says why the manifest is not held in the cluster.
#[tokio::test(start_paused = true)]
async fn holds_of_a_replication_controller() {
    const BAD: &str = "  template:\n    metadata:\n      annotations: {kubelet.belay.dev/fate: never-ready}\n";
    let (mut world, tap) = World::tapped().await;
    let first = world.push("web.yaml", CONTROLLER, "First version");
    world.start();
    world.through(&first).await;
    // Only an apply is forced; the pods come and go by other writes.
    let claimed = Claimed::on(&tap, "PATCH", "/replicationcontrollers/web?fieldManager=belay&force=true");
    let bad = CONTROLLER.replace("web:1", "web:2").replace("  template:\n    metadata:\n", BAD);
    let bad = world.push("web.yaml", &bad, "Never ready");
    world.through(&bad).await;
    claimed.are_at_most(20, "on the way back");
    let of_bad = |record: &belay_core::rollout::Record| record.commit.as_str() == bad;
    let record = world.records().into_iter().find(of_bad).unwrap();
    let reason = record.reason.clone().unwrap().message;
    assert_eq!(record.outcome, Outcome::RollbackFailed, "{record:#?}");
    assert!(reason.contains("did not keep the hold") && !reason.contains("another try"), "{reason}");
    let is_of = |image: &'static str| move |pod: &&serde_json::Value| pod["spec"]["containers"][0]["image"] == image;
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let [good, failed] = ["web:1", "web:2"].map(|image| pods.iter().filter(is_of(image)).count());
    assert_eq!((good, failed), (3, 0), "{pods:#?}");
    let (before, records) = (claimed.count(), world.records().len());
    tokio::time::sleep(Duration::from_hours(1)).await;
    let pods = world.list("api/v1/namespaces/default/pods").await;
    assert_eq!(
        pods.iter().filter(is_of("web:2")).count(),
        0,
        "the failed version comes no second time: {:#?}",
        world.records()
    );
    assert!(claimed.count() - before <= 20, "{} in an hour more", claimed.count() - before);
    let later = world.records().len() - records;
    assert!(later <= 20, "{later} records in an hour more, in which the hold is written again");
    tap.rule(|_, _| Fate::Pass);
}
