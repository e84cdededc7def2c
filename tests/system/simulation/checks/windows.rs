//! Windows: commits wait for them, and rollbacks do not.

use super::super::events::Actor;
use super::super::findings::{Finding, Findings, hold, is_workload, template};
use super::super::repository::{Key, Pushed};
use super::super::run::{ActorPeriod, Run};
use super::history_rows::since_start;
use super::limits::disturbed;
use super::pods::short;

/// The time that a rollback has from its announcement to its write, in milliseconds.
const SOON: u64 = 45_000;

/// Checks that no template is applied in the minutes in which commits wait, unless it was pushed before; and that what fails then goes
/// back at once.
pub fn windows_hold(run: &Run) -> Vec<Finding> {
    let mut findings = Findings::of("windows-hold");
    let Some((from, to)) = run.scenario.style.closed.filter(|_| run.jumps.is_empty()) else { return findings.all };
    let (from, to) = (from * 60_000, to * 60_000);
    let applies = run.applies().filter(|(key, exchange)| is_workload(key) && hold(&exchange.body).is_none());
    // The clocks of the checker and of belay differ by the time that the cluster took to start.
    for (key, exchange) in applies.filter(|(_, exchange)| (from + 1000..to - 1000).contains(&exchange.begun)) {
        let Some(sent) = template(&exchange.body) else { continue };
        let pushed = first_push(run, &key, &sent);
        findings.demand(pushed.is_none_or(|pushed| pushed < from), || {
            format!("{key:?} gets {sent:?} at {}, which was pushed at {pushed:?} and was to wait", exchange.begun)
        });
    }
    for record in run.records().filter(|record| is_workload(&record.key)) {
        let at = |wanted: &str| record.steps.iter().find(|(_, step, _)| step == wanted).map(|(at, ..)| since_start(at));
        let (announced, written) = (at("going-back"), at("went-back"));
        let end = written.or_else(|| record.ended.as_deref().map(since_start));
        let Some((announced, end)) = announced.filter(|at| (from..to).contains(at)).zip(end) else { continue };
        let is_refused =
            |acting: &ActorPeriod| acting.key == record.key && acting.from < end && acting.to + 60_000 > announced;
        let excused = disturbed(run, announced, end) || run.acting(Actor::Webhook).any(is_refused);
        findings.demand(end <= announced + SOON || excused, || {
            format!("it was to go back at {announced}, and did at {end}: {}", short(record))
        });
    }
    findings.all
}

/// Returns when a template of an object was pushed first.
fn first_push(run: &Run, key: &Key, sent: &(String, String)) -> Option<u64> {
    let has = |pushed: &&Pushed| pushed.objects.get(key).is_some_and(|want| want.template.as_ref() == Some(sent));
    run.pushed.iter().find(has).map(|pushed| pushed.at)
}
