//! The writes that belay may make, their form, and their number.

use std::collections::{BTreeMap, BTreeSet};

use super::super::api_proxy::Exchange;
use super::super::events::{Actor, Hand};
use super::super::fault_rates::Fortune;
use super::super::findings::{
    Finding, Findings, annotation, hold, is_beside, is_lease, is_workload, key_of_path, template,
};
use super::super::repository::Key;
use super::super::run::{Life, Run};
use super::at_rest;

/// It changes and deletes only what the repository names or named, and what it must mark; never what is somebody else's.
pub fn only_its_own(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("only-its-own");
    for exchange in run.wire.iter().filter(|exchange| exchange.is_write()) {
        let say = || format!("{} {} at {}", exchange.method, exchange.path, exchange.begun);
        let Some(key) = key_of_path(&exchange.path) else {
            let event = exchange.method == "POST" && exchange.path.ends_with("/events");
            let lease = run.scenario.style.leads && is_lease(&exchange.path);
            // A rolling update makes a second controller.
            let makes = exchange.method == "POST" && exchange.body["kind"] == "ReplicationController";
            let rolls =
                makes && exchange.body["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("side-rc"));
            findings.demand(event || lease || rolls, say);
            continue;
        };
        if is_beside(&key) {
            findings.demand(run.scenario.style.second.is_some(), say);
            continue;
        }
        let named = run.pushed.iter().any(|pushed| pushed.at <= exchange.begun && pushed.objects.contains_key(&key));
        let fine = match (exchange.method.as_str(), key.0.as_str()) {
            ("PATCH", "ReplicaSet" | "ControllerRevision") => true,
            ("PATCH", _) => named,
            ("DELETE", "Pod") => true,
            ("DELETE", _) => {
                // The head that it acts on may be one that was replaced a moment ago.
                let recent = |at: u64| at + 20_000 + run.scenario.style.longest_wait() >= exchange.begun;
                let gone = !run.head_at(exchange.begun).objects.contains_key(&key);
                let replaced = run.pushed.iter().any(|pushed| pushed.at <= exchange.begun && recent(pushed.at));
                named && run.scenario.style.prune && (gone || replaced)
            }
            _ => false,
        };
        findings.demand(fine, say);
    }
    for (key, before, after) in &run.strangers {
        findings.demand(after.as_ref() == Some(before), || format!("{key:?} was touched: {after:?}"));
    }
    findings.all
}

/// A pod template changes in one way only, forth and back: by a server-side apply that names all of it. Everything else
/// changes marks.
pub fn one_way(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("one-way");
    for (key, exchange) in run.writes().filter(|(key, _)| !is_beside(key)) {
        if exchange.is_apply() {
            for needed in ["fieldManager=belay", "force=true", "fieldValidation=Strict"] {
                findings.demand(exchange.path.contains(needed), || format!("{} lacks {needed}", exchange.path));
            }
            let Some(sent) = template(&exchange.body).filter(|_| is_workload(&key)) else { continue };
            let by_hand = sent.0.contains(":hand-");
            let told = run
                .commits
                .values()
                .any(|commit| commit.objects.get(&key).and_then(|want| want.template.as_ref()) == Some(&sent));
            findings.demand(told || by_hand, || format!("{key:?} gets {sent:?}, which no commit says"));
        } else if exchange.method == "PATCH" {
            let body = &exchange.body;
            let marks = body.as_object().is_some_and(|body| body.keys().all(|field| field == "metadata"));
            let owners = body.as_array().is_some_and(|operations| {
                operations.iter().all(|one| one["path"].as_str().is_some_and(|path| path.starts_with("/metadata/")))
            });
            findings.demand(marks || owners, || format!("{} {body}", exchange.path));
        }
    }
    findings.all
}

/// Checks that a held manifest is not applied again until something releases it: its manifest changes, or a person says
/// so.
pub fn held_is_not_applied(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("held-is-not-applied");
    let mut held: BTreeMap<Key, (u64, String, (String, String))> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let Some(sent) = template(&exchange.body) else { continue };
        if let Some((since, text, failed)) = held.get(&key) {
            let same = |at: u64| run.head_at(at).objects.get(&key).is_some_and(|want| want.text == *text);
            // With the whole commit it goes on when the one that failed is put right.
            let together = run.scenario.style.whole_commit;
            let changed = run.pushed.iter().any(|pushed| pushed.at > *since && (together || !same(pushed.at)))
                || config_changed(run, &key, *since);
            let person = run
                .hands_on(&key)
                .any(|handled| lets_go(handled.hand) && handled.at + 60_000 > *since && handled.at <= exchange.begun);
            // A person who lost the books with the object has nobody to tell.
            let lost = || run.hands_on(&key).any(|handled| deletes(handled.hand)) || !run.restores.is_empty();
            let person = person || run.has_moved() && lost();
            if !changed && !person && !run.had_rival() {
                findings.demand(sent != *failed, || {
                    format!("{key:?} gets {sent:?} at {}, held since {since}", exchange.begun)
                });
            }
        }
        let Some(hold) = hold(&exchange.body) else { continue };
        let want = hold["commit"].as_str().and_then(|commit| run.commits.get(commit)?.objects.get(&key));
        if let Some((want, failed)) = want.and_then(|want| Some((want, want.template.clone()?))) {
            held.entry(key).or_insert((exchange.begun, want.text.clone(), failed.clone()));
        }
    }
    findings.all
}

/// Checks that a hold which a person has taken off is not written again.
pub fn retries_count(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("retries-count");
    for retry in run.hands.iter().filter(|handled| matches!(handled.hand, Hand::Retry)) {
        let Some(held) = &retry.held else { continue };
        // Others bring it back themselves: with a revision, an object or a store as it was.
        let others = run.hands_on(&retry.key).any(|handled| matches!(handled.hand, Hand::Undo | Hand::Replace));
        if others || !run.restores.is_empty() || run.had_rival() {
            continue;
        }
        for (_, exchange) in run.applies().filter(|(key, _)| *key == retry.key) {
            let is_done = exchange.done.as_ref().is_some_and(|(code, _)| *code < 300);
            let again = annotation(&exchange.body, "belay.dev/hold") == Some(held);
            findings.demand(exchange.begun <= retry.at || !is_done || !again, || {
                format!("{:?} gets a hold again at {} that was taken off at {}", retry.key, exchange.begun, retry.at)
            });
        }
    }
    findings.all
}

/// Returns true when a person may let a held manifest in again by that.
fn lets_go(hand: Hand) -> bool {
    matches!(hand, Hand::Undo | Hand::Retry | Hand::Image | Hand::Suspend(_))
}

/// Returns true when the object is gone by that.
fn deletes(hand: Hand) -> bool {
    matches!(hand, Hand::Delete | Hand::Replace | Hand::Finalizer(_))
}

/// Checks that a suspended object is left alone: from when belay can have heard of it until it is taken up again, it
/// writes nothing to it.
pub fn suspended_is_left_alone(run: &Run) -> Vec<Finding> {
    /// The time until belay must have heard of it, and until rollouts under way by then are through.
    const HEARD: u64 = 35_000;
    let mut findings = Findings::of("suspended-is-left-alone");
    for handled in &run.hands {
        let Hand::Suspend(seconds) = handled.hand else { continue };
        let (from, to) = (handled.at + HEARD, handled.at + seconds * 1000);
        let disturbed =
            |at: u64| run.storms.iter().any(|(begun, over)| *begun <= at && at <= over.saturating_add(HEARD));
        // An undo brings other annotations, and so does who makes it anew.
        let others = run.hands_on(&handled.key).any(|other| {
            (from.saturating_sub(HEARD)..=to).contains(&other.at) && !matches!(other.hand, Hand::Suspend(_))
        });
        // So does a store that knows nothing of it.
        let others = others || run.restores.iter().any(|at| (from.saturating_sub(HEARD)..=to).contains(at));
        for (key, exchange) in run.writes().filter(|(key, _)| *key == handled.key) {
            let within = (from..to).contains(&exchange.begun);
            findings.demand(!within || others || disturbed(exchange.begun), || {
                format!("{key:?} is written at {}, suspended since {}", exchange.begun, handled.at)
            });
        }
    }
    findings.all
}

/// Returns a controller that writes an object again and again is not fought: each correction comes later than the one
/// before. A second belay by mistake knows nothing of the corrections of the first, and counts its own.
pub fn fights_nobody(run: &Run) -> Vec<Finding> {
    /// The writes of an object within 6 minutes: a few at once, then after 5, 10, 20, 40 s and so on.
    const MOST: usize = 12;
    let mut findings = Findings::of("fights-nobody");
    for acting in run.acting(Actor::Controller) {
        let during = |at: u64| acting.from <= at && at <= acting.to;
        // Those that take each other's place count together.
        let belay_of = |life: &Life| (run.had_rival() && life.twin).then_some(life.state);
        let belays: BTreeSet<Option<usize>> = run.lives.iter().map(belay_of).collect();
        for belay in belays {
            let is_its = |life: &&Life| belay_of(life) == belay;
            let applied = |(key, exchange): &(Key, &Exchange)| {
                *key == acting.key && during(exchange.begun) && is_its(&&run.lives[exchange.process])
            };
            let count = run.applies().filter(applied).count();
            // Each commit, each start and each person is a reason of its own.
            let reasons = run.pushed.iter().filter(|pushed| during(pushed.at)).count()
                + run.lives.iter().filter(is_its).filter(|life| during(life.from)).count() * 3
                + run.hands_on(&acting.key).filter(|handled| during(handled.at)).count();
            findings.demand(count <= MOST + 2 * reasons, || {
                format!("{:?} is written {count} times from {} to {}", acting.key, acting.from, acting.to)
            });
        }
    }
    findings.all
}

/// Returns true when a ConfigMap that the workload's pods take has another manifest since.
fn config_changed(run: &Run, key: &Key, since: u64) -> bool {
    let config = ("ConfigMap".to_owned(), format!("{}-config", key.1));
    let text = |at: u64| run.head_at(at).objects.get(&config).map(|want| want.text.clone());
    run.pushed.iter().any(|pushed| pushed.at + 60_000 > since && text(pushed.at) != text(since.saturating_sub(60_000)))
}

/// A rollback is never itself rolled back: under one record there is at most one other template, and after it no return.
pub fn goes_back_once(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("goes-back-once");
    let mut under: BTreeMap<(usize, i64), Vec<(String, String)>> = BTreeMap::new();
    for (key, exchange) in run.applies().filter(|(key, _)| is_workload(key)) {
        let Some(open) = exchange.open.first() else { continue };
        let Some(sent) = template(&exchange.body) else { continue };
        let state = run.lives[exchange.process].state;
        let templates = under.entry((state, open.number)).or_default();
        if templates.last() != Some(&sent) {
            templates.push(sent);
        }
        findings.demand(templates.len() <= 2, || format!("{key:?} under record {}: {templates:?}", open.number));
    }
    findings.all
}

/// Nothing is written that has not been written down before; and one object has one rollout at a time.
pub fn written_down_before(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("written-down-before");
    for exchange in run.wire.iter().filter(|exchange| exchange.is_write()) {
        let Some(key) = key_of_path(&exchange.path) else { continue };
        // A rolling update makes, scales and deletes a second controller under the record of the first.
        let rolls = key.0 == "ReplicationController" && key.1 != "side-rc";
        if rolls || ["ReplicaSet", "ControllerRevision", "Pod", "Event"].contains(&key.0.as_str()) {
            continue;
        }
        let say = || format!("{} {} at {}: {:?}", exchange.method, exchange.path, exchange.begun, exchange.open);
        findings.demand(!exchange.open.is_empty(), say);
        findings.demand(exchange.open.iter().any(|open| open.step != "planned" && !open.step.is_empty()), say);
    }
    findings.all
}

/// Returns one rollout of an object at a time: one open record, and one write under way.
pub fn one_at_a_time(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("one-at-a-time");
    let mut last: BTreeMap<(usize, Key), &Exchange> = BTreeMap::new();
    for exchange in run.wire.iter().filter(|exchange| exchange.is_write() && exchange.is_apply()) {
        let Some(key) = key_of_path(&exchange.path) else { continue };
        findings.demand(exchange.open.len() < 2, || {
            format!("{key:?} at {} has several open records: {:?}", exchange.begun, exchange.open)
        });
        if let Some(before) = last.insert((exchange.process, key.clone()), exchange) {
            let over = before.heard.or(before.given_up).is_some_and(|over| over <= exchange.begun);
            findings.demand(over, || format!("{key:?} is applied at {} and at {}", before.begun, exchange.begun));
        }
    }
    findings.all
}

/// It costs what changed: what was written and heard is not written again, and when all is well nothing is asked.
pub fn no_more_than_needed(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("no-more-than-needed");
    let mut heard: BTreeMap<(usize, i64, Key), &Exchange> = BTreeMap::new();
    for (key, exchange) in run.applies() {
        let Some(open) = exchange.open.first() else { continue };
        let by_hand = run.hands_on(&key).any(|handled| !matches!(handled.hand, Hand::Label))
            || run.acting(Actor::Controller).any(|acting| acting.key == key);
        // An answer that ends in the middle was not heard.
        let fine = exchange.code.is_some_and(|code| code < 300) && exchange.fortune != Fortune::Cut;
        let before = heard.get(&(exchange.process, open.number, key.clone()));
        if let Some(before) = before.filter(|before| before.body == exchange.body && !by_hand && !run.had_rival()) {
            // The write is gone with the store that had it.
            let restored = run.restores.iter().any(|at| (before.begun..=exchange.begun).contains(at));
            findings
                .demand(restored, || format!("{key:?} is applied again at {}, as at {}", exchange.begun, before.begun));
        }
        if fine {
            heard.insert((exchange.process, open.number, key), exchange);
        }
    }
    if run.settled {
        at_rest::asks_nothing(run, &mut findings);
    }
    findings.all
}
