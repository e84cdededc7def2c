//! The facts of a live workload's status, in the few words that a status needs.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommitId, Hold, health, marks, progress_deadline_seconds, template};
use crate::manifest::ObjectKey;
use crate::rollout::canary::LiveCanary;
use crate::rollout::judge::health::{Counters, Standing};

/// A live workload, as far as its status goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiveWorkload {
    /// The commit that made its pod template; `None` if none is named.
    pub commit: Option<CommitId>,
    /// The hold that is on it, if it is about the template that is live.
    pub hold: Option<Box<Hold>>,
    /// The reason for which somebody asked belay to leave it alone; `None` if nobody has.
    pub suspended: Option<String>,
    /// Its standing; `None` for kinds without one.
    pub standing: Option<Standing>,
    /// Its pods.
    pub counters: Counters,
    /// One sentence for people.
    pub message: String,
    /// The failure in its status.
    pub failure: Option<String>,
    /// When its rollout has made no progress for too long, as its controller counts; of Deployments. `None` while its
    /// controller counts no time.
    pub deadline: Option<Timestamp>,
    /// The step of its canary, if one is under way.
    pub canary: Option<LiveCanary>,
}

impl LiveWorkload {
    /// Returns the facts of a live object.
    #[must_use]
    pub fn of(key: &ObjectKey, live: &Value) -> LiveWorkload {
        // A hold that an undo brought back, or somebody's hand, is not about the template that is live: it holds nothing.
        let holds = |hold: &Hold| template(live).is_none_or(|template| hold.is_about(template));
        let health = health::health(key, live);
        let observed = health.as_ref().is_none_or(|health| health.observed_generation >= marks::generation(live));
        let standing = health.as_ref().map(|health| if observed { health.standing } else { Standing::Moving });
        let canary = LiveCanary::on(live);
        LiveWorkload {
            commit: marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok()),
            hold: Hold::on(live).filter(holds).map(Box::new),
            suspended: marks::suspension(live).map(str::to_owned),
            standing,
            counters: health.as_ref().map(|health| health.counters).unwrap_or_default(),
            message: health.as_ref().map(|health| health.message.clone()).unwrap_or_default(),
            failure: health.and_then(|health| health.failure).map(|failure| failure.reason.message),
            deadline: deadline(key, live).filter(|_| observed && canary.is_none()),
            canary,
        }
    }
}

/// Returns when a Deployment's rollout will have made no progress for too long, as its controller counts. Once a rollout
/// is complete no time runs, whatever becomes of its pods.
/// <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds>
fn deadline(key: &ObjectKey, live: &Value) -> Option<Timestamp> {
    let seconds = progress_deadline_seconds(key, live)?;
    let conditions = live["status"]["conditions"].as_array()?;
    let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
    if progressing["reason"] == "NewReplicaSetAvailable" {
        return None;
    }
    let moved: Timestamp = progressing["lastUpdateTime"].as_str()?.parse().ok()?;
    moved.checked_add(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deployment_says_where_it_is() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let commit = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
        let mut object = json!({
            "metadata": {"generation": 2, "annotations": {marks::COMMIT: commit}},
            "spec": {"replicas": 3, "progressDeadlineSeconds": 60},
            "status": {"observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3,
                "availableReplicas": 3, "conditions": [
                    {"type": "Progressing", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}]}});
        let live = LiveWorkload::of(&key, &object);
        assert_eq!(live.commit.unwrap().as_str(), commit);
        assert_eq!((live.counters.desired, live.counters.total, live.counters.updated), (3, 4, 1));
        assert_eq!(live.standing, Some(Standing::Moving));
        assert_eq!(live.deadline, Some("2026-01-01T00:01:00Z".parse().unwrap()));
        // After its rollout its controller counts no time, and before it has seen a template it counts none of that.
        object["status"]["conditions"][0]["reason"] = json!("NewReplicaSetAvailable");
        assert_eq!(LiveWorkload::of(&key, &object).deadline, None);
        object["status"]["conditions"][0]["reason"] = json!("ReplicaSetUpdated");
        assert!(LiveWorkload::of(&key, &object).deadline.is_some());
        object["metadata"]["generation"] = json!(3);
        assert_eq!(LiveWorkload::of(&key, &object).deadline, None);
        object["metadata"]["annotations"] = json!({marks::COMMIT: "<script>", marks::SUSPEND: "a fair"});
        let live = LiveWorkload::of(&key, &object);
        assert_eq!((live.commit, live.suspended.as_deref()), (None, Some("a fair")));
    }
}
