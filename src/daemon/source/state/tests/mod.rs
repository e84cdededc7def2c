//! Tests of events and their effects, without a cluster, a repository or a history.

mod disputes;
mod drift;
mod fetches;
mod plans;
mod rollouts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::event::{Effect, Event, Start};
use super::known::{Settings, State};
use super::on::on;
use super::rollouts::Rollout;
use crate::config::Drift;
use crate::daemon::repository::desired_state::{DesiredState, ReadFile};
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::live::LiveFacts;
use belay_core::manifest::{Manifest, ObjectKey, Scopes, read_file};
use belay_core::rollout::{
    Apply, Baseline, Commit, CommitId, Hold, Outcome, Person, PlanStep, Planned, Reason, ReasonCode, Record, RecordId,
    Trigger, Wanted,
};

const S: Duration = Duration::from_secs(1);

/// The content of `shop/`: `db` waits for nobody, `web` for `db`.
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {belay.dev/after: Deployment/db}}\n\
                   spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}\n";
const DB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db}\n\
                  spec: {selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: a, image: a}]}}}\n";
const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";

fn id(letter: char) -> CommitId {
    letter.to_string().repeat(40).parse().unwrap()
}

fn commit(letter: char) -> Arc<Commit> {
    let (person, epoch) = (Person { name: "Ada".to_owned(), email: String::new() }, Timestamp::UNIX_EPOCH);
    let (parents, trailers) = (Vec::new(), Vec::new());
    let subject = "Change".to_owned();
    Arc::new(Commit { id: id(letter), subject, author: person, authored: epoch, committed: epoch, parents, trailers })
}

fn manifest(text: &str) -> Manifest {
    let file = read_file("all.yaml", text.as_bytes(), &Scopes::new("shop"));
    assert!(file.complaints.is_empty(), "{:?}", file.complaints);
    file.manifests.into_iter().next().unwrap()
}

fn key(name: &str) -> ObjectKey {
    let (group, kind) = if name == "settings" { ("", "ConfigMap") } else { ("apps", "Deployment") };
    let namespace = Some("shop".to_owned());
    ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace, name: name.to_owned() }
}

fn desired() -> Arc<DesiredState> {
    let texts = [("db.yaml", DB), ("settings.yaml", SETTINGS), ("web.yaml", WEB)];
    let files = texts.map(|(path, text)| {
        let file = read_file(path, text.as_bytes(), &Scopes::new("shop"));
        (Arc::from(path), Some(ReadFile { file: Arc::new(file), content: None }))
    });
    let empty = DesiredState::new("shop");
    let read = |path: &str, _, scopes: &Scopes| Ok(read_file(path, b"", scopes));
    Arc::new(empty.changed_to(id('a'), read, BTreeMap::from(files)).unwrap().0)
}

/// Returns a source that has planned commit a, with everything live and complete.
fn state() -> State {
    let (source, folders) = ("shop".to_owned(), "shop".to_owned());
    let settings =
        Settings { source, prune: true, drift: Drift::Correct, heads_wait: false, interval: 30 * S, folders };
    let mut state = State::new(desired(), settings, Instant::now());
    state.planning.resume(Some(id('a')));
    state.planning.begin();
    state.planning.end();
    state.prune_search.note_complete(Some(true));
    let facts = || LiveFacts { complete: true, seen: Some(1), ..LiveFacts::default() };
    state.live = ["db", "settings", "web"].map(|name| (key(name), facts())).into_iter().collect();
    state
}

/// Changes the facts about a live object.
fn change_live(state: &mut State, name: &str, change: impl FnOnce(&mut LiveFacts)) {
    let mut live: BTreeMap<ObjectKey, LiveFacts> =
        state.live.iter().map(|(key, facts)| (key.clone(), facts.clone())).collect();
    change(live.get_mut(&key(name)).unwrap());
    state.live = live.into_iter().collect();
}

fn rollout(record: i64, trigger: Trigger, judged: bool, scales: bool) -> Rollout {
    Rollout { record: RecordId(record), trigger, judged, scales, keeps_hold: false, superseded_by: None }
}

fn wanted(text: &str, trigger: Trigger) -> Wanted {
    Wanted::of(manifest(text), commit('a'), trigger)
}

fn prepared(text: &str, trigger: Trigger, step: impl FnOnce(&Wanted) -> PlanStep) -> Prepared {
    let wanted = wanted(text, trigger);
    let step = step(&wanted);
    Prepared::of(Planned { wanted, step })
}

fn drift() -> Trigger {
    Trigger::Drift(String::new())
}

fn apply(wanted: &Wanted) -> PlanStep {
    PlanStep::Apply(Apply::of_manifest(wanted, "shop"))
}

/// Returns an apply that leaves the pod template alone.
fn apply_beside(wanted: &Wanted) -> PlanStep {
    PlanStep::Apply(Apply { rolls_out: false, ..Apply::of_manifest(wanted, "shop") })
}

fn record(number: i64, name: &str) -> Record {
    Record { id: RecordId(number), ..Record::planned("shop", &id('a'), key(name), Timestamp::UNIX_EPOCH) }
}

fn reason() -> Reason {
    Reason::new(ReasonCode::Failed, "no".to_owned())
}

/// Returns an effect in a few words.
fn word(effect: &Effect) -> String {
    let names =
        |all: &[Prepared]| all.iter().map(|one| one.planned.wanted.key.name.clone()).collect::<Vec<_>>().join(" ");
    match effect {
        Effect::Look { known } => format!("look, {} is known", known.as_ref().map_or("nothing", CommitId::short)),
        Effect::Fetched(reached) => if *reached { "reached" } else { "not reached" }.to_owned(),
        Effect::Missing(key) => format!("watch for what {} misses", key.name),
        Effect::LookedAt(at) => format!("looked at {}", at.as_second()),
        Effect::Unreadable(why) => format!("unreadable: {}", why.as_deref().unwrap_or("no")),
        Effect::RepositoryTrouble { trouble, is_news } => {
            let message = trouble.as_ref().map_or("none", |trouble| trouble.message.as_str());
            format!("trouble: {message}{}", if *is_news { ", noted" } else { "" })
        }
        Effect::NoteFollowed(_) => "note what is followed".to_owned(),
        Effect::StopWaiting => "wait for no other source".to_owned(),
        Effect::PublishDesired(_) => "publish what is desired".to_owned(),
        Effect::Away(is_away) => if *is_away { "away" } else { "back" }.to_owned(),
        Effect::RefuseHead { head, .. } => format!("refuse {}", head.short()),
        Effect::Await(number, head) => format!("wait {number} for {}", head.short()),
        Effect::PlanHead(news) => format!("plan {}", news.head.id.short()),
        Effect::RecordPlan(plan) => format!("record {}", plan.news.head.id.short()),
        Effect::BeginPlan(plan) => format!("begin {}", plan.news.head.id.short()),
        Effect::DropPlan(plan) => format!("drop {}", plan.news.head.id.short()),
        Effect::Cancel(key) => format!("cancel {}", key.name),
        Effect::Check { plan, rechecks } => {
            let keys: Vec<&str> = rechecks.iter().map(|one| one.key.name.as_str()).collect();
            format!("check {plan} [{}]", keys.join(" "))
        }
        Effect::Search { plan } => format!("search {plan}"),
        Effect::Retry(tries) => {
            let tries: Vec<String> = tries.iter().map(|(one, number)| format!("{} #{number}", one.key.name)).collect();
            format!("retry [{}]", tries.join(" "))
        }
        Effect::InTheWay(key, message) => format!("in the way of {}: {message}", key.name),
        Effect::StillRefused(key, reason) => format!("{} is refused: {}", key.name, reason.message),
        Effect::NoDrift(key) => format!("no drift of {}", key.name),
        Effect::ReportDrift { key, by, .. } => format!("report {} by {by}", key.name),
        Effect::Disagree { key, dispute: None } => format!("agree about {}", key.name),
        Effect::Disagree { key, dispute: Some(dispute) } => {
            format!("disagree about {}, {} times, {:?}", key.name, dispute.times, dispute.wait)
        }
        Effect::StillDisagree { key, dispute } => {
            format!("{} about {}", if dispute.is_some() { "still disagree" } else { "still agree" }, key.name)
        }
        Effect::CantCorrect { key, reason, .. } => format!("can't correct {}: {}", key.name, reason.message),
        Effect::Claim(prepared, _) => format!("claim {}", prepared.planned.wanted.key.name),
        Effect::Adopt { prepared, .. } => format!("adopt {}", prepared.planned.wanted.key.name),
        Effect::NoTrouble(key) => format!("no trouble of {}", key.name),
        Effect::Start(Start { resumed, new, corrections }) => {
            let resumed: Vec<String> = resumed.iter().map(|(record, _)| format!("#{}", record.id.0)).collect();
            let correct = |one: &Prepared| {
                let Wanted { key, trigger, .. } = &one.planned.wanted;
                let undo = if matches!(&one.planned.step, PlanStep::Apply(apply) if apply.respects_undo) {
                    ", if it is no undo"
                } else {
                    ""
                };
                format!("{} for {}{undo}", key.name, trigger.word())
            };
            let corrections: Vec<String> = corrections.iter().map(correct).collect();
            format!("resume [{}], begin [{}], correct [{}]", resumed.join(" "), names(new), corrections.join(" "))
        }
        Effect::Supersede(record, by) => format!("supersede #{} by {}", record.0, by.short()),
        Effect::Count { trigger, outcome, .. } => format!("count {} {outcome:?}", trigger.word()),
        Effect::CountCorrection => "count a correction".to_owned(),
        Effect::Reopen { record } => format!("reopen #{}", record.0),
        Effect::Finish { key, record, outcome, .. } => format!("finish #{} of {} {outcome:?}", record.0, key.name),
    }
}

fn news(letter: char) -> HeadChange {
    HeadChange {
        head: commit(letter),
        since: Some(id('a')),
        desired: desired(),
        commits: Vec::new(),
        paths: BTreeSet::new(),
        changed: Vec::new(),
        complaints: Vec::new(),
        removed: BTreeMap::new(),
        warnings: BTreeMap::new(),
        suspect: None,
        let_through: None,
        fetch: None,
    }
}

fn words(state: &mut State, event: Event, now: Instant) -> Vec<String> {
    on(state, event, now).iter().map(word).collect()
}

/// The times of the comparisons that are to come, in seconds from `start`.
fn rechecks(state: &State, start: Instant) -> Vec<(&str, f64)> {
    state.drift.to_come().map(|(key, at)| (key.name.as_str(), (*at - start).as_secs_f64())).collect()
}
