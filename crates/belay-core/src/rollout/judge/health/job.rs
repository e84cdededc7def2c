//! Jobs: they complete or fail, and say so in a condition.

use serde_json::Value;

use super::{Counters, Health, Standing, condition, failure, pod_count, pods, text};

pub(super) fn health(object: &Value) -> Health {
    let desired = pod_count(&object["spec"]["completions"]).unwrap_or(1);
    let counters = Counters {
        desired,
        total: pods(object, "/status/active") + pods(object, "/status/succeeded"),
        updated: pods(object, "/status/succeeded"),
        ready: pods(object, "/status/ready"),
        available: pods(object, "/status/succeeded"),
    };
    let is = |kind: &str| condition(object, kind).filter(|condition| condition["status"] == "True");
    let failed = is("Failed")
        .map(|failed| failure(failed, text(failed, "reason"), format!("the job failed: {}", text(failed, "message"))));
    let (standing, message) = if let Some(failed) = &failed {
        (Standing::Failed, failed.reason.message.clone())
    } else if is("Complete").is_some() {
        (Standing::Complete, format!("{} of {desired} completions", counters.updated))
    } else if object["spec"]["suspend"] == true {
        (Standing::Paused, "the job is suspended".to_owned())
    } else {
        (Standing::Moving, format!("{} of {desired} completions", counters.updated))
    };
    // Jobs carry no observedGeneration: their conditions are final.
    Health { observed_generation: i64::MAX, standing, failure: failed, counters, message }
}
