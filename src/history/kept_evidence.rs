//! The kept part of a record's evidence: the part of this rollout, in order, and not too much of it.

use jiff::Timestamp;

use belay_core::rollout::Evidence;

/// The largest evidence, in bytes of JSON. From a larger one the log lines are left out, which says so.
const LARGEST: usize = 256 << 10;

/// Returns the kept part of the evidence of a rollout of a workload of this kind, which began at this time.
pub(in crate::history) fn kept_evidence(evidence: &Evidence, kind: &str, started: Timestamp) -> Evidence {
    bounded(of_rollout(evidence, kind, started))
}

/// Returns the evidence without the events of the workload from before the rollout, the newest first. Its pods are of
/// the present template: evidence about them belongs to it regardless of its time.
fn of_rollout(evidence: &Evidence, kind: &str, started: Timestamp) -> Evidence {
    let mut evidence = evidence.clone();
    let about_workload = |object: &str| object.split('/').next() == Some(kind);
    // Times of events have whole seconds.
    evidence.events.retain(|event| !about_workload(&event.object) || event.at.as_second() >= started.as_second());
    evidence.events.sort_by_key(|event| std::cmp::Reverse(event.at));
    evidence
}

fn bounded(mut evidence: Evidence) -> Evidence {
    if length(&evidence) > LARGEST {
        for pod in &mut evidence.pods {
            pod.log.clear();
        }
        evidence.missing.push("the pods' log lines: too long to be kept".to_owned());
    }
    if length(&evidence) > LARGEST {
        let missing = vec!["all but this line: too long to be kept".to_owned()];
        evidence = Evidence { missing, ..Evidence::default() };
    }
    evidence
}

fn length(evidence: &Evidence) -> usize {
    serde_json::to_string(evidence).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::EventSeen;

    #[test]
    fn events_of_the_workload_are_of_this_rollout_and_in_order() {
        let event = |second: i64, object: &str, kind: &str| EventSeen {
            at: Timestamp::from_second(second).unwrap(),
            kind: kind.to_owned(),
            object: object.to_owned(),
            reason: String::new(),
            message: String::new(),
        };
        let events = vec![
            event(30, "Pod/web-1", "Warning"),
            event(40, "Pod/web-1", "Normal"),
            event(50, "Deployment/web", "Warning"),
            event(99, "Deployment/web", "Normal"),
            event(100, "Deployment/web", "Normal"),
        ];
        let evidence = Evidence { events, ..Evidence::default() };
        let started: Timestamp = "1970-01-01T00:01:40.7Z".parse().unwrap();
        let kept: Vec<i64> =
            of_rollout(&evidence, "Deployment", started).events.iter().map(|event| event.at.as_second()).collect();
        assert_eq!(kept, [100, 40, 30]);
    }
}
