//! Bugs that are planted to see that the checkers find them. Each makes belay behave as if it had the bug: what it says or
//! hears is twisted on the line, or what it wrote into its books is taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method};
use minicluster::Part;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::{Actor, Edit, Event, Hand};
use super::fault_rates::FaultRates;
use super::findings::{hold, is_beside, is_lease, is_workload, key_of_path, template};
use super::repository::Key;
use super::scenario::{App, Fate, Kind, Order, Scenario};
use canaries::{DaemonPods, errs_in_steps, has_steps, twist_locks};

mod canaries;

/// The planted bug of belay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does not see its own holds.
    SkipsTheHold,
    /// It goes back without leaving a hold.
    HoldsNothing,
    /// It believes a status that is about an older generation.
    ForgetsTheGeneration,
    /// It takes an outage of the API server for a failure of the commit.
    GoesBackOnOutage,
    /// It never finds that anything failed.
    NeverGivesUp,
    /// It takes a rollback back.
    GoesBackTwice,
    /// It does not say which commit made a template.
    ForgetsTheCause,
    /// It writes what is written already.
    AppliesTwice,
    /// It writes what it only means to try.
    WritesWhilePlanning,
    /// It changes a pod template beside the apply.
    PatchesTheTemplate,
    /// It deletes what is not its own.
    DeletesStrangers,
    /// It tells a Secret's value in an event.
    TellsASecret,
    /// It does not listen to a server that says when to come back.
    Hammers,
    /// One workload waits for nothing.
    StarvesOne,
    /// A record is lost when it is killed.
    LosesARecord,
    /// The evidence is not kept.
    LosesTheEvidence,
    /// Complaints are not kept.
    SwallowsComplaints,
    /// The plan is written down after its first write.
    PlansAfterwards,
    /// It applies an object while it is still applying it.
    AppliesAtOnce,
    /// Its own fault befalls it.
    Stumbles,
    /// It asks for what no API server knows.
    SpeaksOddly,
    /// It takes the Lease of whoever holds it.
    IgnoresTheLease,
    /// It says how many pods there are to be, whoever else does.
    ScalesAgainst,
    /// It leaves out a part of what a manifest says.
    LosesTheEnvironment,
    /// It does not see what a manifest says it comes after.
    JumpsTheQueue,
    /// A hold of one source stops the other one.
    StopsTheNeighbour,
    /// It does not see that what it replaces crashes.
    TrustsTheUnwell,
    /// It does not see that pods restart within their bake time.
    ForgetsARestart,
    /// It does not see the errors that an analysis measures.
    IgnoresTheAnalysis,
    /// It takes an analysis without data for a good verdict.
    PassesWithoutData,
    /// It lets its canary have more pods than the step says.
    GoesTooFar,
    /// It leaves the locks of a canary behind when it goes back.
    LeavesTheLocks,
    /// It lets one pod too many of a StatefulSet follow its canary.
    LowersThePartition,
    /// It leaves a partition behind when it goes back.
    LeavesThePartition,
    /// It replaces the pod of one node too many in a canary of a DaemonSet.
    ReplacesOneTooMany,
    /// It leaves `OnDelete` behind when it goes back.
    LeavesOnDelete,
    /// It lets a canary go on of which nothing was measured.
    PromotesWithoutData,
    /// It rolls out a commit that is to wait for a window.
    IgnoresTheWindow,
    /// It waits for a window before it goes back.
    WaitsToGoBack,
    /// It says that all is well, whatever is rejected or held.
    SaysAllIsWell,
    /// It does not see who asks it to leave something alone.
    IgnoresTheSuspension,
    /// It makes a held workload that somebody has deleted anew as the head says.
    LosesTheHolds,
    /// It calls superseded what had failed before a newer commit came.
    ForgetsTheFailure,
    /// It waits with everything for the one object whose webhook fails.
    WaitsForTheWebhook,
    /// It corrects at once what a controller writes, each time.
    FightsBack,
    /// It takes what is older than what it has seen for old news, though etcd was restored.
    SeesNothingOlder,
    /// It never tries again what a quota has refused.
    GivesUpRefused,
    /// It goes on while its history can't be written.
    GoesOnWithoutBooks,
    /// It takes controllers that are away for a failure of the commit.
    BlamesTheCommit,
    /// It writes a hold again that a person has taken off.
    HoldsAgain,
    /// It says of a way back that has ended that it has failed.
    ChangesItsVerdict,
    /// It charges deletions to the commit that brought the object.
    ChargesAnother,
    /// It goes back to a version that was never there.
    GoesBackAnywhere,
}

/// The annotation that [`Wrong::JumpsTheQueue`] reads in the place of the manifests' `belay.dev/after`.
const UNSEEN: &str = "example.com/after";

impl Wrong {
    /// Every bug, and the checker that must find it.
    pub const ALL: [(Wrong, &'static str); 53] = [
        (Wrong::SkipsTheHold, "ends-as-it-must"),
        (Wrong::HoldsNothing, "ends-as-it-must"),
        (Wrong::ForgetsTheGeneration, "follows-the-pods"),
        (Wrong::GoesBackOnOutage, "follows-the-pods"),
        (Wrong::NeverGivesUp, "settles"),
        (Wrong::GoesBackTwice, "goes-back-once"),
        (Wrong::ForgetsTheCause, "history-by-commit"),
        (Wrong::AppliesTwice, "no-more-than-needed"),
        (Wrong::WritesWhilePlanning, "written-down-before"),
        (Wrong::PatchesTheTemplate, "one-way"),
        (Wrong::DeletesStrangers, "only-its-own"),
        (Wrong::TellsASecret, "secrets-stay-secret"),
        (Wrong::Hammers, "bounded"),
        (Wrong::StarvesOne, "others-go-on"),
        (Wrong::LosesARecord, "one-record"),
        (Wrong::LosesTheEvidence, "keeps-the-evidence"),
        (Wrong::SwallowsComplaints, "errors-point"),
        (Wrong::PlansAfterwards, "plan-before-write"),
        (Wrong::AppliesAtOnce, "one-at-a-time"),
        (Wrong::Stumbles, "no-fault-of-its-own"),
        (Wrong::SpeaksOddly, "speaks-kubernetes"),
        (Wrong::IgnoresTheLease, "one-writes"),
        (Wrong::ScalesAgainst, "leaves-replicas-alone"),
        (Wrong::LosesTheEnvironment, "ends-as-it-must"),
        (Wrong::JumpsTheQueue, "waits-its-turn"),
        (Wrong::StopsTheNeighbour, "sources-apart"),
        (Wrong::TrustsTheUnwell, "never-back-to-the-unwell"),
        (Wrong::ForgetsARestart, "follows-the-pods"),
        (Wrong::IgnoresTheAnalysis, "analyses-count"),
        (Wrong::PassesWithoutData, "analyses-count"),
        (Wrong::GoesTooFar, "canaries-are-locked"),
        (Wrong::LeavesTheLocks, "canaries-are-locked"),
        (Wrong::LowersThePartition, "canaries-are-locked"),
        (Wrong::LeavesThePartition, "canaries-are-locked"),
        (Wrong::ReplacesOneTooMany, "canaries-are-locked"),
        (Wrong::LeavesOnDelete, "canaries-are-locked"),
        (Wrong::PromotesWithoutData, "no-data-promotes-nothing"),
        (Wrong::IgnoresTheWindow, "windows-hold"),
        (Wrong::WaitsToGoBack, "windows-hold"),
        (Wrong::SaysAllIsWell, "states-are-true"),
        (Wrong::IgnoresTheSuspension, "suspended-is-left-alone"),
        (Wrong::LosesTheHolds, "held-is-not-applied"),
        (Wrong::ForgetsTheFailure, "failures-stay"),
        (Wrong::WaitsForTheWebhook, "others-go-on"),
        (Wrong::FightsBack, "fights-nobody"),
        (Wrong::SeesNothingOlder, "ends-as-it-must"),
        (Wrong::GivesUpRefused, "ends-as-it-must"),
        (Wrong::GoesOnWithoutBooks, "one-record"),
        (Wrong::BlamesTheCommit, "follows-the-pods"),
        (Wrong::HoldsAgain, "retries-count"),
        (Wrong::ChangesItsVerdict, "verdicts-stay"),
        (Wrong::ChargesAnother, "deletions-are-charged"),
        (Wrong::GoesBackAnywhere, "goes-back-to-what-ran"),
    ];

    /// Returns true when a scenario has the subject of the bug: all others are not worth their time.
    pub fn fits(self, scenario: &Scenario) -> bool {
        let any = |has: fn(&App) -> bool| scenario.apps.iter().any(has);
        match self {
            Wrong::Hammers => {
                scenario.events.iter().any(|timed| matches!(timed.what, Event::Storm(FaultRates { busy: 1.., .. }, _)))
            }
            Wrong::IgnoresTheLease => scenario.style.leads,
            Wrong::ScalesAgainst => any(|app| app.scaled),
            Wrong::JumpsTheQueue => any(|app| app.after.is_some()),
            Wrong::ForgetsARestart => {
                scenario.style.bakes && scenario.events.iter().any(|timed| is_unwell(&timed.what))
            }
            Wrong::IgnoresTheAnalysis | Wrong::PassesWithoutData => scenario.style.analyses,
            Wrong::GoesTooFar | Wrong::LeavesTheLocks => has_steps(scenario, Kind::Deployment),
            Wrong::LowersThePartition | Wrong::LeavesThePartition => has_steps(scenario, Kind::StatefulSet),
            Wrong::ReplacesOneTooMany | Wrong::LeavesOnDelete => has_steps(scenario, Kind::DaemonSet),
            Wrong::PromotesWithoutData => scenario.style.analyses && errs_in_steps(scenario),
            Wrong::IgnoresTheWindow | Wrong::WaitsToGoBack => {
                scenario.style.closed.is_some() && !has_event(scenario, |event| matches!(event, Event::Jump(_)))
            }
            Wrong::TrustsTheUnwell => scenario.events.iter().any(|timed| is_unwell(&timed.what)),
            Wrong::IgnoresTheSuspension => {
                scenario.events.iter().any(|timed| matches!(timed.what, Event::Hand(_, Hand::Suspend(60..))))
            }
            Wrong::LosesTheHolds => scenario.events.iter().any(|timed| is_deletion(&timed.what)),
            Wrong::WaitsForTheWebhook => scenario.apps.len() > 1 && has_actor(scenario, Actor::Webhook),
            Wrong::FightsBack => has_actor(scenario, Actor::Controller),
            Wrong::SeesNothingOlder => has_event(scenario, |event| matches!(event, Event::Restore(_))),
            Wrong::GivesUpRefused => has_actor(scenario, Actor::Quota),
            Wrong::GoesOnWithoutBooks => has_event(scenario, |event| matches!(event, Event::FullDisk(_))),
            Wrong::BlamesTheCommit => {
                has_event(scenario, |event| matches!(event, Event::PartStops(Part::Controllers, _)))
            }
            Wrong::HoldsAgain => has_event(scenario, |event| matches!(event, Event::Hand(_, Hand::Retry))),
            Wrong::ChargesAnother => scenario.style.prune && has_event(scenario, takes_away),
            Wrong::StopsTheNeighbour => scenario.style.second == Some(Order::Apart),
            _ => true,
        }
    }
}

/// A planted bug, and what it remembers.
#[derive(Clone)]
pub struct Bug {
    wrong: Wrong,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    outage: bool,
    secret: String,
    /// The last apply without a hold, by path.
    forth: BTreeMap<String, Bytes>,
    /// The last apply, by path, if it had a hold.
    back: BTreeMap<String, Bytes>,
    /// True when the first source has held anything.
    held: bool,
    /// The objects that were deleted and are not made anew yet.
    gone: BTreeSet<Key>,
    /// True while a webhook fails for any object.
    refused: bool,
    /// The newest version of each workload that was seen.
    newest: BTreeMap<String, Value>,
    /// The paths of what a quota has refused.
    refused_by_quota: BTreeSet<String>,
    /// When commits wait no longer for a window.
    opens: Option<Instant>,
    /// The pods of DaemonSets.
    daemon_pods: DaemonPods,
}

impl Bug {
    /// Returns a bug that has not yet done anything.
    pub fn new(wrong: Wrong) -> Bug {
        Bug { wrong, memory: Arc::default() }
    }

    /// Changes a manifest before belay reads it.
    pub fn twist_manifest(&self, text: &str) -> String {
        match self.wrong {
            Wrong::JumpsTheQueue => text.replace("belay.dev/after", UNSEEN),
            _ => text.to_owned(),
        }
    }

    /// Changes a request before it goes out.
    pub fn twist_request(&self, parts: &mut Parts, body: &mut Bytes) {
        let path = parts.uri.to_string();
        if parts.method == Method::PATCH && path.contains("/secrets/") {
            let sent: Value = serde_json::from_slice(body).unwrap_or_default();
            let value = STANDARD.decode(sent["data"]["password"].as_str().unwrap_or_default()).unwrap_or_default();
            self.memory.lock().unwrap().secret = String::from_utf8_lossy(&value).into_owned();
        }
        if parts.method == Method::PATCH && !path.contains("dryRun") {
            twist_locks(self.wrong, &path, body);
        }
        match self.wrong {
            Wrong::HoldsNothing => rewrite(body, |sent| unmark(sent, "belay.dev/hold")),
            Wrong::ForgetsTheCause => rewrite(body, |sent| unmark(sent, "kubernetes.io/change-cause")),
            Wrong::WritesWhilePlanning => {
                parts.uri = path.replace("&dryRun=All", "").parse().expect("a path");
            }
            Wrong::SpeaksOddly if parts.method == Method::PATCH && path.contains('?') => {
                parts.uri = format!("{path}&overwrite=true").parse().expect("a path");
            }
            Wrong::ScalesAgainst if key_of_path(&path).is_some_and(|key| is_workload(&key)) => {
                // Another number each time that something else changes, so that it repeats none.
                let number = body.len() % 5 + 2;
                rewrite(body, |sent| {
                    if sent["spec"].is_object() && !path.contains("/daemonsets/") {
                        sent["spec"]["replicas"] = json!(number);
                    }
                });
            }
            Wrong::LosesTheEnvironment if parts.method == Method::PATCH => rewrite(body, |sent| {
                if let Some(app) = sent.pointer_mut("/spec/template/spec/containers/0").and_then(Value::as_object_mut) {
                    app.remove("env");
                }
            }),
            Wrong::GoesBackAnywhere if parts.method == Method::PATCH => rewrite(body, |sent| {
                if hold(sent).is_some()
                    && let Some(app) = sent.pointer_mut("/spec/template/spec/containers/0")
                {
                    app["image"] = json!("registry.example.com/web:v999-fine");
                }
            }),
            Wrong::LosesTheHolds if parts.method == Method::PATCH && !path.contains("dryRun") => {
                let sent: Value = serde_json::from_slice(body).unwrap_or_default();
                let mut memory = self.memory.lock().unwrap();
                let is_anew = key_of_path(&path).is_some_and(|key| memory.gone.remove(&key));
                if let Some(forth) = memory.forth.get(&path).filter(|_| is_anew && hold(&sent).is_some()) {
                    *body = forth.clone();
                }
            }
            Wrong::HoldsAgain if parts.method == Method::PATCH && !path.contains("dryRun") => {
                let sent: Value = serde_json::from_slice(body).unwrap_or_default();
                let mut memory = self.memory.lock().unwrap();
                if hold(&sent).is_some() {
                    memory.back.insert(path.clone(), body.clone());
                } else if let Some(back) = memory.back.remove(&path) {
                    *body = back;
                }
            }
            // A reader of the line sees the manifest's text.
            Wrong::JumpsTheQueue => *body = body_with(body, UNSEEN, "belay.dev/after"),
            Wrong::StopsTheNeighbour if parts.method == Method::PATCH && !path.contains("dryRun") => {
                let sent: Value = serde_json::from_slice(body).unwrap_or_default();
                let own = key_of_path(&path).is_some_and(|key| !is_beside(&key));
                self.memory.lock().unwrap().held |= own && hold(&sent).is_some();
            }
            Wrong::TellsASecret if parts.method == Method::POST => {
                let secret = self.memory.lock().unwrap().secret.clone();
                rewrite(body, |event| event["message"] = json!(format!("the password is {secret}")));
            }
            _ => {}
        }
    }

    /// Returns the requests that are sent besides, after a request.
    pub fn extra(&self, parts: &Parts, body: &Bytes) -> Vec<(Parts, Bytes)> {
        let path = parts.uri.to_string();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let rolls = parts.method == Method::PATCH
            && !path.contains("dryRun")
            && key_of_path(&path).is_some_and(|key| is_workload(&key))
            && template(&sent).is_some();
        let goes_back = rolls && hold(&sent).is_some();
        let before = self.memory.lock().unwrap().forth.get(&path).cloned();
        if rolls && !goes_back {
            self.memory.lock().unwrap().forth.insert(path.clone(), body.clone());
        }
        match self.wrong {
            Wrong::AppliesTwice | Wrong::AppliesAtOnce if rolls => vec![(parts.clone(), body.clone())],
            Wrong::Stumbles if rolls => {
                tracing::error!("belay's own fault: planted");
                Vec::new()
            }
            Wrong::ReplacesOneTooMany if parts.method == Method::DELETE => {
                let other =
                    key_of_path(&path).and_then(|(_, pod)| self.memory.lock().unwrap().daemon_pods.another(&pod));
                let mut parts = parts.clone();
                let delete = |other: String| {
                    parts.uri = format!("/api/v1/namespaces/default/pods/{other}").parse().expect("a path");
                    (parts, Bytes::from_static(b"{}"))
                };
                other.map(delete).into_iter().collect()
            }
            Wrong::GoesBackTwice if goes_back => before.map(|before| (parts.clone(), before)).into_iter().collect(),
            Wrong::PatchesTheTemplate if rolls => {
                let mut parts = parts.clone();
                let media = HeaderValue::from_static("application/merge-patch+json");
                parts.headers.insert(http::header::CONTENT_TYPE, media);
                parts.uri = path.split('?').next().unwrap_or_default().parse().expect("a path");
                let patch = json!({"spec": {"template": {"metadata": {"annotations": {"patched": "yes"}}}}});
                vec![(parts, Bytes::from(patch.to_string()))]
            }
            Wrong::DeletesStrangers if rolls => {
                let mut parts = parts.clone();
                parts.method = Method::DELETE;
                parts.uri = "/api/v1/namespaces/default/configmaps/neighbour".parse().expect("a path");
                vec![(parts, Bytes::from_static(b"{}"))]
            }
            _ => Vec::new(),
        }
    }

    /// Returns how long a request is kept back.
    pub fn delay(&self, path: &str, body: &Bytes) -> Duration {
        let stops = key_of_path(path).is_some_and(|key| is_beside(&key)) && self.memory.lock().unwrap().held;
        match self.wrong {
            Wrong::WaitsToGoBack if hold(&serde_json::from_slice(body).unwrap_or_default()).is_some() => {
                let opens = self.memory.lock().unwrap().opens;
                opens.map(|opens| opens.saturating_duration_since(Instant::now())).unwrap_or_default()
            }
            Wrong::StarvesOne if path.contains("/deployments/web") && !path.contains("dryRun") => {
                Duration::from_secs(29)
            }
            Wrong::StopsTheNeighbour if stops => Duration::from_hours(1),
            Wrong::WaitsForTheWebhook if self.memory.lock().unwrap().refused => Duration::from_secs(29),
            _ => Duration::ZERO,
        }
    }

    /// Commits wait for a window until then.
    pub fn hears_of_window(&self, opens: Instant) {
        self.memory.lock().unwrap().opens = Some(opens);
    }

    /// Returns true when it does not see windows.
    pub fn ignores_windows(&self) -> bool {
        self.wrong == Wrong::IgnoresTheWindow
    }

    /// A webhook fails for an object, or for none any more.
    pub fn sees_webhooks(&self, any: bool) {
        self.memory.lock().unwrap().refused = any;
    }

    /// A quota refuses an object.
    pub fn is_refused_by_quota(&self, path: &str) {
        self.memory.lock().unwrap().refused_by_quota.insert(path.to_owned());
    }

    /// Returns true where a quota has refused an object, which is never tried again.
    pub fn is_refused_for_good(&self, path: &str) -> bool {
        self.wrong == Wrong::GivesUpRefused && self.memory.lock().unwrap().refused_by_quota.contains(path)
    }

    /// Returns true where what can't be written is lost.
    pub fn loses_what_it_writes(&self) -> bool {
        self.wrong == Wrong::GoesOnWithoutBooks
    }

    /// Returns the apply that is sent again at once where somebody else has changed an object.
    pub fn fights(&self, path: &str) -> Option<(String, Bytes)> {
        let memory = self.memory.lock().unwrap();
        let of_object = |uri: &&String| uri.split('?').next() == Some(path);
        let uri = memory.forth.keys().find(of_object).filter(|_| self.wrong == Wrong::FightsBack)?;
        Some((uri.clone(), memory.forth[uri].clone()))
    }

    /// Returns true when it does not see what an analysis measures.
    pub fn ignores_analyses(&self) -> bool {
        self.wrong == Wrong::IgnoresTheAnalysis
    }

    /// Returns true when no data is as good as a good verdict.
    pub fn passes_without_data(&self) -> bool {
        matches!(self.wrong, Wrong::PassesWithoutData | Wrong::PromotesWithoutData)
    }

    /// Returns the time that belay hears for its next try.
    pub fn heeds(&self, seconds: u64) -> Option<u64> {
        (self.wrong != Wrong::Hammers).then_some(seconds)
    }

    /// Changes an answer before belay hears it.
    pub fn twist_answer(&self, path: &str, answer: &mut Bytes, weather: &FaultRates) {
        self.mind(weather);
        if self.wrong == Wrong::IgnoresTheLease && is_lease(path) {
            rewrite(answer, |lease| drop(lease["spec"].as_object_mut().map(|spec| spec.remove("holderIdentity"))));
        }
        if self.wrong == Wrong::ReplacesOneTooMany && is_list_of(path, "pods") {
            self.memory.lock().unwrap().daemon_pods.hear(answer);
        }
        if self.wrong == Wrong::NeverGivesUp && is_list_of(path, "pods") {
            rewrite(answer, |list| list["items"] = json!([]));
        }
        if self.wrong == Wrong::GoesBackOnOutage && is_list_of(path, "pods") && self.memory.lock().unwrap().outage {
            rewrite(answer, |list| {
                for pod in list["items"].as_array_mut().into_iter().flatten() {
                    pod["status"]["phase"] = json!("Pending");
                    pod["status"]["containerStatuses"] = json!([{"name": "app", "ready": false, "restartCount": 0,
                        "image": "a", "imageID": "", "started": false,
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]);
                    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
                }
            });
        }
        if matches!(self.wrong, Wrong::TrustsTheUnwell | Wrong::ForgetsARestart) && is_list_of(path, "pods") {
            rewrite(answer, |list| list["items"].as_array_mut().into_iter().flatten().for_each(heal));
        }
        let whole = ["/deployments", "/statefulsets", "/daemonsets"].iter().any(|plural| path.contains(plural));
        if whole && self.sees_wrongly() {
            rewrite(answer, |answer| match answer["items"].as_array_mut() {
                Some(items) => items.iter_mut().for_each(|item| self.twist_object(item)),
                None => self.twist_object(answer),
            });
        }
    }

    /// Changes an event of a watch before belay hears it.
    pub fn twist_event(&self, path: &str, line: Bytes, weather: &FaultRates) -> Bytes {
        self.mind(weather);
        let mut line = line;
        if self.wrong == Wrong::LosesTheHolds {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if event["type"] == "DELETED" {
                let object = &event["object"];
                self.memory.lock().unwrap().gone.insert((text(&object["kind"]), text(&object["metadata"]["name"])));
            }
        }
        if self.sees_wrongly() && !path.contains("/pods") {
            rewrite(&mut line, |event| self.twist_object(&mut event["object"]));
        }
        line
    }

    /// Spoils the books of a belay that has ended.
    pub fn spoil(&self, state: &Path) {
        let sql = match self.wrong {
            Wrong::LosesARecord => {
                "DELETE FROM steps WHERE record = (SELECT max(number) FROM records); DELETE FROM complaints WHERE record = \
                 (SELECT max(number) FROM records); DELETE FROM evidence WHERE record = (SELECT max(number) FROM records); \
                 DELETE FROM records WHERE number = (SELECT max(number) FROM records)"
            }
            Wrong::LosesTheEvidence => "DELETE FROM evidence",
            Wrong::ForgetsTheFailure => {
                "UPDATE records SET outcome = 'superseded' WHERE outcome = 'failed' AND message LIKE '%on the way back'"
            }
            Wrong::ChangesItsVerdict => "UPDATE records SET outcome = 'rollback-failed' WHERE outcome = 'rolled-back'",
            Wrong::ChargesAnother => {
                "UPDATE records SET \"commit\" = (SELECT head FROM plans WHERE head <> '' ORDER BY number LIMIT 1) WHERE outcome = \
                 'pruned'"
            }
            Wrong::SwallowsComplaints => "DELETE FROM complaints",
            Wrong::PlansAfterwards => {
                "UPDATE records SET started = '2030-01-01T00:00:00.000Z' WHERE number = (SELECT min(record) FROM steps WHERE \
                 step = 'applying')"
            }
            _ => return,
        };
        let books = Connection::open(state.join("history.db")).expect("the books");
        books.execute_batch(sql).expect("spoiled books");
    }

    /// Changes what belay says of the state of its source.
    pub fn twist_state(&self, state: String) -> String {
        if self.wrong == Wrong::SaysAllIsWell { "synced".to_owned() } else { state }
    }

    fn mind(&self, weather: &FaultRates) {
        if *weather != FaultRates::fair() {
            self.memory.lock().unwrap().outage = true;
        }
    }

    fn sees_wrongly(&self) -> bool {
        let outage = self.memory.lock().unwrap().outage;
        let wrong = self.wrong;
        let always = [Wrong::SkipsTheHold, Wrong::ForgetsTheGeneration, Wrong::IgnoresTheSuspension];
        let more = [Wrong::SeesNothingOlder, Wrong::BlamesTheCommit];
        always.contains(&wrong) || more.contains(&wrong) || wrong == Wrong::GoesBackOnOutage && outage
    }

    fn twist_object(&self, object: &mut Value) {
        match self.wrong {
            Wrong::SkipsTheHold => unmark(object, "belay.dev/hold"),
            Wrong::IgnoresTheSuspension => unmark(object, "belay.dev/suspend"),
            Wrong::ForgetsTheGeneration if object["status"].get("observedGeneration").is_some() => {
                object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
            }
            Wrong::GoesBackOnOutage if object["status"].get("conditions").is_some() => {
                object["status"]["conditions"] = out_of_time();
                object["status"]["availableReplicas"] = json!(0);
                object["status"]["updatedReplicas"] = json!(0);
            }
            Wrong::BlamesTheCommit
                if object["status"]["observedGeneration"].as_i64() < object["metadata"]["generation"].as_i64() =>
            {
                object["status"]["conditions"] = out_of_time();
                object["status"]["updatedReplicas"] = json!(0);
                object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
            }
            Wrong::SeesNothingOlder => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let number = |object: &Value| object["metadata"]["generation"].as_i64();
                let mut memory = self.memory.lock().unwrap();
                match memory.newest.get(&uid) {
                    Some(newest) if number(newest) > number(object) => *object = newest.clone(),
                    _ => drop(memory.newest.insert(uid, object.clone())),
                }
            }
            _ => {}
        }
    }
}

/// Returns true when somebody deletes a workload.
fn is_deletion(event: &Event) -> bool {
    matches!(event, Event::Hand(_, Hand::Delete | Hand::Finalizer(_)))
}

/// Returns true if a scenario has such an event.
fn has_event(scenario: &Scenario, is_it: fn(&Event) -> bool) -> bool {
    scenario.events.iter().any(|timed| is_it(&timed.what))
}

/// Returns true if a scenario has such an actor.
fn has_actor(scenario: &Scenario, wanted: Actor) -> bool {
    scenario.events.iter().any(|timed| matches!(timed.what, Event::Actor(_, actor, _) if actor == wanted))
}

/// Returns true when a commit takes a workload away.
fn takes_away(event: &Event) -> bool {
    matches!(event, Event::Push(edits) if edits.iter().any(|edit| matches!(edit, Edit::Remove(_) | Edit::Rename(_))))
}

/// Returns true when a commit has an image whose pods stop being healthy.
fn is_unwell(event: &Event) -> bool {
    matches!(event, Event::Push(edits) if edits.iter().any(|edit| matches!(edit, Edit::Image(_, Fate::Loops))))
}

/// The conditions of a Deployment whose deadline is over.
fn out_of_time() -> Value {
    json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "it has timed out progressing", "lastUpdateTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

/// Makes a pod look as if nothing had ever happened to it.
fn heal(pod: &mut Value) {
    let now = json!({"running": {"startedAt": pod["status"]["startTime"].clone()}});
    for app in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        (app["restartCount"], app["ready"], app["state"], app["lastState"]) =
            (json!(0), json!(true), now.clone(), json!({}));
    }
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["status"] = json!("True");
    }
}

fn body_with(body: &Bytes, old: &str, new: &str) -> Bytes {
    match std::str::from_utf8(body) {
        Ok(text) if text.contains(old) => Bytes::from(text.replace(old, new)),
        _ => body.clone(),
    }
}

fn is_list_of(path: &str, plural: &str) -> bool {
    path.split('?').next().is_some_and(|path| path.ends_with(&format!("/{plural}")))
}

fn unmark(object: &mut Value, annotation: &str) {
    if let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(annotation);
    }
}

/// Changes a JSON text; leaves alone what is none.
fn rewrite(bytes: &mut Bytes, change: impl FnOnce(&mut Value)) {
    if let Ok(mut value) = serde_json::from_slice::<Value>(bytes)
        && value.is_object()
    {
        change(&mut value);
        *bytes = Bytes::from(value.to_string());
    }
}
