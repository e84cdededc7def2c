//! Deployment frequency, lead time, failure rate, time to restore.

use belay::history::{By, History, Retention, Spread, StatsQuery};
use belay_core::rollout::{FailureCause, Outcome, Reason, ReasonCode, Record, Trigger};
use jiff::SignedDuration;

use super::{at, commit, commit_id, deployment, record};

const DAY: i64 = 86_400;

#[test]
fn the_four_numbers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    // Commit, workload, outcome, taken up at, ended after; written ten minutes before.
    let rollouts = [
        (1, "web", Outcome::Complete, 0, 60),
        (2, "web", Outcome::RolledBack, 1000, 700),
        (3, "web", Outcome::Complete, 2000, 120),
        (4, "api", Outcome::Failed, 3000, 600),
        (5, "api", Outcome::RollbackFailed, 4000, 600),
        (6, "api", Outcome::Complete, 5000, 30),
        (7, "api", Outcome::Superseded, 6000, 5),
        (8, "api", Outcome::Complete, 40 * DAY, 90),
    ];
    for (number, name, outcome, seconds, after) in rollouts {
        history.saw("shop", &commit_id(number), &[commit(number, "Ada", at(seconds - 600))], at(seconds)).unwrap();
        let taken_up = record(number, deployment(name), at(seconds));
        let id = history.begin("shop", &commit_id(number), &[taken_up], at(seconds)).unwrap()[0];
        let code = match outcome {
            Outcome::RolledBack => Some(ReasonCode::BakeFailed),
            Outcome::Failed => Some(ReasonCode::ProgressDeadlineExceeded),
            _ => None,
        };
        let reason = code.map(|code| Reason::new(code, "it failed"));
        history.finish(id, outcome, reason.as_ref(), at(seconds + after)).unwrap();
    }
    // Records that count for nothing: no rollout, not ended, not a commit's lead time.
    let applied = Record { rolls_out: false, outcome: Outcome::Complete, ..record(8, deployment("db"), at(9)) };
    let open = record(8, deployment("db"), at(9));
    let retried = Record { trigger: Trigger::Retry, ..record(1, deployment("web"), at(41 * DAY)) };
    let ids = history.begin("shop", &commit_id(8), &[applied, open, retried], at(41 * DAY)).unwrap();
    history.finish(ids[2], Outcome::Complete, None, at(41 * DAY + 10)).unwrap();

    let query = |by: By| StatsQuery { source: Some("shop".to_owned()), since: at(0), until: at(400 * DAY), by };
    let spread = |count: u64, median: i64, ninth_tenth: i64, longest: i64| {
        let [median, ninth_tenth, longest] = [median, ninth_tenth, longest].map(SignedDuration::from_secs);
        Some(Spread { count, median, ninth_tenth, longest })
    };
    let by_source = history.stats(&query(By::Source)).unwrap();
    assert_eq!(by_source.len(), 1);
    assert_eq!((by_source[0].of.as_str(), by_source[0].deployments, by_source[0].failures), ("shop", 8, 3));
    let causes = [(FailureCause::Deadline, 1), (FailureCause::Bake, 1), (FailureCause::Other, 1)];
    assert_eq!(by_source[0].causes, causes.into());
    assert_eq!(by_source[0].lead_time, spread(4, 660, 720, 720));
    assert_eq!(by_source[0].time_to_restore, spread(2, 700, 2030, 2030));

    let by_workload = history.stats(&query(By::Workload)).unwrap();
    let told: Vec<(&str, u64, u64)> =
        by_workload.iter().map(|line| (line.of.as_str(), line.deployments, line.failures)).collect();
    assert_eq!(told, [("shop: Deployment shop/api", 4, 2), ("shop: Deployment shop/web", 4, 1)]);
    assert_eq!(by_workload[0].time_to_restore, spread(1, 2030, 2030, 2030));

    let by_month = history.stats(&StatsQuery { source: None, ..query(By::Month) }).unwrap();
    let told: Vec<(&str, u64)> = by_month.iter().map(|line| (line.of.as_str(), line.deployments)).collect();
    assert_eq!(told, [("2025-10", 6), ("2025-11", 2)]);
    let none = StatsQuery { source: Some("other".to_owned()), ..query(By::Source) };
    assert_eq!(history.stats(&none).unwrap(), []);
}

#[test]
fn what_was_forgotten_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    for number in 1..=3_i64 {
        super::recorded(&history, number.unsigned_abs(), "web", Outcome::Complete, number * DAY);
    }
    let keep = |days: i64| Retention { age: Some(SignedDuration::from_hours(days * 24)), records: None };
    history.forget(&keep(9), at(4 * DAY)).unwrap();
    assert_eq!(history.kept_since(at(0)).unwrap(), None, "nothing was old enough");
    history.forget(&keep(2), at(4 * DAY)).unwrap();
    assert_eq!(history.kept_since(at(0)).unwrap(), Some(at(2 * DAY)));
    assert_eq!(history.kept_since(at(2 * DAY)).unwrap(), None, "all of that is kept");
    // A forgotten record does not come back if more is kept from now on.
    history.forget(&keep(9), at(5 * DAY)).unwrap();
    assert_eq!(history.kept_since(at(0)).unwrap(), Some(at(2 * DAY)));
}
