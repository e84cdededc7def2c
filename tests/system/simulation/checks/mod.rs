//! The checkers. They know what was sent, what is stored, what is in the books, in Git and in the log, as raw data; they
//! share no code with the daemon, so that a misreading of its own can't hide itself.

mod analyses;
mod at_rest;
mod canaries;
mod ending;
mod history_rows;
mod limits;
mod order;
mod pods;
mod second_source;
mod states;
mod verdicts;
mod windows;
mod writing;

use super::findings::Finding;
use super::run::Run;

type Check = fn(&Run) -> Vec<Finding>;

/// Every checker.
const CHECKS: [Check; 37] = [
    analyses::analyses_count,
    analyses::no_data_promotes_nothing,
    canaries::canaries_are_locked,
    pods::follows_the_pods,
    pods::keeps_the_evidence,
    writing::only_its_own,
    writing::one_way,
    writing::held_is_not_applied,
    writing::retries_count,
    writing::suspended_is_left_alone,
    writing::goes_back_once,
    writing::written_down_before,
    writing::one_at_a_time,
    history_rows::one_record,
    history_rows::plan_before_write,
    history_rows::errors_point,
    history_rows::failures_stay,
    verdicts::verdicts_stay,
    verdicts::deletions_are_charged,
    verdicts::goes_back_to_what_ran,
    ending::history_by_commit,
    ending::ends_as_it_must,
    limits::bounded,
    limits::secrets_stay_secret,
    limits::others_go_on,
    limits::no_fault_of_its_own,
    limits::speaks_kubernetes,
    writing::no_more_than_needed,
    writing::fights_nobody,
    order::one_writes,
    order::waits_its_turn,
    order::leaves_replicas_alone,
    second_source::sources_apart,
    pods::settles,
    pods::never_back_to_the_unwell,
    states::states_are_true,
    windows::windows_hold,
];

/// Returns everything that any checker finds.
pub fn all(run: &Run) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| check(run)).collect()
}
