//! The scripts, by the letters of the specification.

mod api;
mod budgets;
mod creation;
mod cron_jobs;
mod daemon;
mod deleting;
mod endpoints;
mod history;
mod job_rules;
mod jobs;
mod kubectl_text;
mod pausing;
mod progress;
mod recreating;
mod replicas;
mod roles;
mod rolling;
mod scaling;
mod stateful;
mod validation;

use super::Case;

/// Returns all scripts.
pub fn all() -> Vec<Case> {
    [
        creation::cases(),
        rolling::cases(),
        recreating::cases(),
        scaling::cases(),
        pausing::cases(),
        progress::cases(),
        history::cases(),
        replicas::cases(),
        deleting::cases(),
        stateful::cases(),
        daemon::cases(),
        jobs::cases(),
        job_rules::cases(),
        cron_jobs::cases(),
        budgets::cases(),
        endpoints::cases(),
        roles::cases(),
        validation::cases(),
        kubectl_text::cases(),
        api::cases(),
    ]
    .concat()
}
