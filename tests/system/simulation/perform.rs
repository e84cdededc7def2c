//! One run, from the scenario to what it leaves behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::api_proxy::Exchange;
use super::bugs::Bug;
use super::findings::path_of;
use super::history_rows::HistoryRows;
use super::log::Log;
use super::play::Stage;
use super::repository::Key;
use super::run::Run;
use super::scenario::Scenario;

/// The time for which belay is watched after it has settled, to see that it stays so.
const AFTERWARDS: Duration = Duration::from_mins(2);

/// The marks of lines that name a folder.
const FOLDERS: [&str; 2] = ["following", "failed to look at the repository"];

/// Plays a scenario on a thread and a clock of its own.
pub fn perform(scenario: Scenario, bug: Option<Bug>) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(play(scenario, bug))
}

async fn play(scenario: Scenario, bug: Option<Bug>) -> Run {
    let sprung = Arc::new(Notify::new());
    let (log, _guard) = Log::listen(Arc::clone(&sprung));
    let mut stage = Stage::set(scenario, bug, log, sprung).await;
    let strangers = strangers(&stage).await;
    stage.play().await;
    let settled = stage.settle().await;
    let still = stage.line.now();
    tokio::time::sleep(AFTERWARDS).await;
    let (status, state) = stage.status();
    let live = live(&stage).await;
    let mut known = Vec::new();
    for (key, before) in strangers {
        let after = stage.person.get(&path_of(&key)).await;
        known.push((key, before, after));
    }
    stage.end().await;
    let (wire, heard, log) = (stage.line.take(), stage.line.take_heard(), stage.log.take());
    let print = print(&wire, &log);
    Run {
        commits: stage.shop.commits.clone(),
        pushed: stage.shop.pushed.clone(),
        hands: std::mem::take(&mut stage.hands),
        acting: std::mem::take(&mut stage.acting),
        lives: std::mem::take(&mut stage.lives),
        books: stage.states().iter().map(|state| HistoryRows::read(state)).collect(),
        storms: std::mem::take(&mut stage.storms),
        jumps: std::mem::take(&mut stage.jumps),
        restores: std::mem::take(&mut stage.restores),
        full: std::mem::take(&mut stage.full),
        scenario: stage.scenario.clone(),
        strangers: known,
        wire,
        heard,
        log,
        status,
        state,
        settled,
        still,
        live,
        print,
    }
}

/// Objects that are none of belay's business: one without a label, and one of another source.
async fn strangers(stage: &Stage) -> Vec<(Key, Value)> {
    let mut strangers = Vec::new();
    for (name, labels) in [("stranger", json!({})), ("neighbour", json!({"belay.dev/source": "another"}))] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": {"A": "1"}});
        let made = stage.person.create("/api/v1/namespaces/default/configmaps", &object).await;
        strangers.push((("ConfigMap".to_owned(), name.to_owned()), made));
    }
    strangers
}

/// Returns every object that matters.
async fn live(stage: &Stage) -> BTreeMap<Key, Value> {
    let mut live = BTreeMap::new();
    for (kind, path) in [
        ("Deployment", "/apis/apps/v1/namespaces/default/deployments"),
        ("StatefulSet", "/apis/apps/v1/namespaces/default/statefulsets"),
        ("DaemonSet", "/apis/apps/v1/namespaces/default/daemonsets"),
        ("ReplicaSet", "/apis/apps/v1/namespaces/default/replicasets"),
        ("ControllerRevision", "/apis/apps/v1/namespaces/default/controllerrevisions"),
        ("ConfigMap", "/api/v1/namespaces/default/configmaps"),
        ("ReplicationController", "/api/v1/namespaces/default/replicationcontrollers"),
        ("Job", "/apis/batch/v1/namespaces/default/jobs"),
        ("HorizontalPodAutoscaler", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"),
        ("Secret", "/api/v1/namespaces/default/secrets"),
        ("Event", "/api/v1/namespaces/default/events"),
    ] {
        for object in stage.person.list(path).await {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            live.insert((kind.to_owned(), name), object);
        }
    }
    live
}

/// Returns the requests and the log lines, for comparing runs.
fn print(wire: &[Exchange], log: &[(u64, String)]) -> String {
    let mut print = String::new();
    for exchange in wire {
        let Exchange { process, begun, heard, method, path, body, fortune, code, done, .. } = exchange;
        // Writing to a String can't fail.
        let _ = writeln!(print, "{process} {begun} {method} {path} {body} {fortune:?} {heard:?} {code:?} {done:?}");
    }
    // The names of folders are drawn by the system.
    for (at, line) in log.iter().filter(|(_, line)| !FOLDERS.iter().any(|words| line.contains(words))) {
        let _ = writeln!(print, "{at} {line}");
    }
    print
}
