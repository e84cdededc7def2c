//! A scenario that fails is made shorter while it still fails in the same way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bugs::{Bug, Wrong};
use super::findings::Finding;
use super::perform::perform;
use super::run::Run;
use super::scenario::Scenario;

/// The number of tries of a shorter scenario.
const TRIES: usize = 60;

/// Returns the result of a scenario: the run, unless the simulation itself broke off, and the findings.
pub fn judge(scenario: &Scenario, wrong: Option<Wrong>) -> (Option<Run>, Vec<Finding>) {
    match catch_unwind(AssertUnwindSafe(|| perform(scenario.clone(), wrong.map(Bug::new)))) {
        Ok(run) => {
            let findings = run.findings();
            (Some(run), findings)
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (None, vec![Finding { checker: "breaks-off", what: text.unwrap_or_default() }])
        }
    }
}

/// Returns the shortest scenario that is found in which the same checker still finds something.
pub fn shrink(scenario: &Scenario, checker: &str, wrong: Option<Wrong>) -> Scenario {
    let mut shortest = scenario.clone();
    let mut tries = 0;
    let mut at = shortest.events.len();
    while at > 0 && tries < TRIES {
        at -= 1;
        let mut shorter = shortest.clone();
        shorter.events.remove(at);
        tries += 1;
        if judge(&shorter, wrong).1.iter().any(|finding| finding.checker == checker) {
            shortest = shorter;
        }
    }
    shortest
}
