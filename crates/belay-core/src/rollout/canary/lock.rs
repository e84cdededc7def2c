//! The locks of a canary: the fields of the Deployment by which Kubernetes' controller goes no further than the step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::rollout::marks;

/// No new pod counts as available before so many seconds: ten years.
const MIN_READY_SECONDS: i64 = 315_360_000;
/// The deadline that the API server wants above that. belay judges a step by the manifest's own deadline.
const DEADLINE_SECONDS: i64 = MIN_READY_SECONDS + 86_400;

/// The step of a canary that is under way, as an annotation of the Deployment says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryMark {
    /// The step, counted from 1.
    pub step: usize,
    /// The number of steps.
    pub of: usize,
}

impl CanaryMark {
    /// Returns the step of the canary of a live Deployment; `None` if none is under way. The annotation alone says nothing: an
    /// undo with kubectl brings back the annotations of a revision, and anybody may write one.
    #[must_use]
    pub fn on(live: &Value) -> Option<CanaryMark> {
        let spec = &live["spec"];
        let is_locked =
            spec["minReadySeconds"] == MIN_READY_SECONDS || spec["progressDeadlineSeconds"] == DEADLINE_SECONDS;
        marks::read(live, marks::CANARY_STEP).filter(|_| is_locked)
    }
}

/// The locks of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryLock {
    /// The step.
    pub mark: CanaryMark,
    /// The number of new pods.
    pub pods: i64,
    /// True when the pods are there, and the controller is to do nothing more.
    pub paused: bool,
}

impl CanaryLock {
    /// Returns the locks of the canary that is under way on a live Deployment; `None` if none is.
    #[must_use]
    pub fn on(live: &Value) -> Option<CanaryLock> {
        let mark = CanaryMark::on(live)?;
        let pods = live.pointer("/spec/strategy/rollingUpdate/maxSurge").and_then(Value::as_i64).unwrap_or(1);
        Some(CanaryLock { mark, pods: pods.max(1), paused: live["spec"]["paused"] == true })
    }

    /// Returns a body with the locks in place of the manifest's own fields.
    #[must_use]
    pub fn onto(&self, mut body: Value) -> Value {
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.extend(self.fields());
        }
        marks::say(&mut body["metadata"], "annotations", marks::CANARY_STEP, Some(&marks::written(&self.mark)));
        body
    }

    /// Returns true when a live Deployment has the locks of this step. `paused` is the second one, and not compared.
    #[must_use]
    pub fn is_first_held_by(&self, live: &Value) -> bool {
        let spec = &live["spec"];
        self.fields().iter().filter(|(name, _)| *name != "paused").all(|(name, value)| spec[name] == *value)
            && CanaryMark::on(live) == Some(self.mark)
    }

    fn fields(&self) -> Map<String, Value> {
        let surge = json!({"maxSurge": self.pods, "maxUnavailable": 0});
        let mut fields = Map::new();
        fields.insert("strategy".to_owned(), json!({"type": "RollingUpdate", "rollingUpdate": surge}));
        fields.insert("minReadySeconds".to_owned(), MIN_READY_SECONDS.into());
        fields.insert("progressDeadlineSeconds".to_owned(), DEADLINE_SECONDS.into());
        if self.paused {
            fields.insert("paused".to_owned(), true.into());
        }
        fields
    }
}

/// Returns a body of the manifest with the locks of the canary that is under way on a live Deployment, if one is: they are no
/// drift.
#[must_use]
pub fn keep_lock(body: Value, live: &Value) -> Value {
    match CanaryLock::on(live) {
        Some(lock) => lock.onto(body),
        None => body,
    }
}

/// Returns a body that takes the locks of a live Deployment off where another manager has them, too: a person may have made it
/// anew from what was live (`kubectl replace --force`), and an apply leaves the fields of others.
#[must_use]
pub fn take_off_locks(mut body: Value, live: &Value) -> Value {
    let is_whole = |fields: &Value| {
        ["/f:spec/f:minReadySeconds", "/f:spec/f:progressDeadlineSeconds"]
            .iter()
            .all(|path| fields.pointer(path).is_some())
    };
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut others = managers.filter(|entry| entry["manager"] != marks::FIELD_MANAGER);
    let is_locked = live["spec"]["minReadySeconds"] == MIN_READY_SECONDS;
    if !is_locked || !others.any(|entry| is_whole(&entry["fieldsV1"])) {
        return body;
    }
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return body };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    for (name, default) in [
        ("minReadySeconds", 0.into()),
        ("progressDeadlineSeconds", 600.into()),
        ("strategy", rolling),
        ("paused", false.into()),
    ] {
        spec.entry(name).or_insert(default);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5, "minReadySeconds": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}, "template": {"a": 1}}})
    }

    fn lock(paused: bool) -> CanaryLock {
        CanaryLock { mark: CanaryMark { step: 1, of: 2 }, pods: 2, paused }
    }

    #[test]
    fn a_locked_deployment_gets_no_more_new_pods_and_keeps_its_old_ones() {
        let open = lock(false).onto(manifest());
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
        assert_eq!(open["spec"]["strategy"], rolling);
        let seconds = |field: &str| open["spec"][field].as_i64().unwrap();
        assert!(seconds("minReadySeconds") > 7 * 365 * 86_400);
        assert!(seconds("progressDeadlineSeconds") > seconds("minReadySeconds"), "the API server wants that");
        assert!(seconds("progressDeadlineSeconds") < i64::from(i32::MAX));
        assert_eq!((open["spec"].get("paused"), &open["spec"]["replicas"]), (None, &json!(5)));
        assert_eq!(lock(true).onto(manifest())["spec"]["paused"], true);
        assert_eq!(CanaryMark::on(&open), Some(CanaryMark { step: 1, of: 2 }));
        assert_eq!(CanaryMark::on(&manifest()), None);
    }

    #[test]
    fn locks_that_somebody_has_changed_are_seen() {
        let live = lock(true).onto(manifest());
        assert!(lock(true).is_first_held_by(&live) && lock(false).is_first_held_by(&live));
        for (path, value) in [
            ("/spec/minReadySeconds", json!(0)),
            ("/spec/strategy/rollingUpdate/maxSurge", json!(3)),
            ("/spec/strategy/rollingUpdate/maxUnavailable", json!(1)),
            ("/spec/progressDeadlineSeconds", json!(600)),
        ] {
            let mut changed = live.clone();
            *changed.pointer_mut(path).unwrap() = value;
            assert!(!lock(true).is_first_held_by(&changed), "{path}");
        }
        let next = CanaryLock { mark: CanaryMark { step: 2, of: 2 }, ..lock(true) };
        assert!(!next.is_first_held_by(&live), "another step");
    }

    #[test]
    fn locks_that_a_person_has_made_anew_are_taken_off() {
        let owned_by = |manager: &str, fields: Value| {
            let mut live = lock(true).onto(manifest());
            live["metadata"]["managedFields"] = json!([{"manager": manager, "fieldsV1": {"f:spec": fields}}]);
            live
        };
        let all = json!({"f:minReadySeconds": {}, "f:progressDeadlineSeconds": {}, "f:paused": {}});
        let bare = json!({"spec": {"replicas": 5}});
        let off = take_off_locks(bare.clone(), &owned_by("kubectl-replace", all.clone()));
        let fields = |body: &Value, name: &str| body["spec"][name].clone();
        assert_eq!((fields(&off, "minReadySeconds"), fields(&off, "paused")), (json!(0), json!(false)));
        assert_eq!(fields(&off, "strategy")["rollingUpdate"]["maxSurge"], "25%");
        let open = take_off_locks(lock(false).onto(manifest()), &owned_by("kubectl-replace", all.clone()));
        assert_eq!(
            (fields(&open, "minReadySeconds"), fields(&open, "paused")),
            (json!(MIN_READY_SECONDS), json!(false))
        );
        for live in [owned_by("belay", all), owned_by("kubectl-rollout", json!({"f:paused": {}})), manifest()] {
            assert_eq!(take_off_locks(bare.clone(), &live), bare, "a pause of a person stays");
        }
    }

    #[test]
    fn the_locks_of_a_canary_under_way_are_no_drift() {
        let live = lock(true).onto(manifest());
        assert_eq!(keep_lock(manifest(), &live), live);
        assert_eq!(keep_lock(manifest(), &manifest()), manifest(), "no canary is under way");
        let open = lock(false).onto(manifest());
        assert_eq!(keep_lock(manifest(), &open), open);
        // An undo with kubectl brings the annotation back, and anybody may write it.
        let mut marked = manifest();
        marked["metadata"]["annotations"] = live["metadata"]["annotations"].clone();
        assert_eq!((CanaryMark::on(&marked), keep_lock(manifest(), &marked)), (None, manifest()));
        let mut edited = live;
        edited["spec"]["strategy"] = json!({"type": "Recreate"});
        edited["spec"]["minReadySeconds"] = json!(0);
        assert_eq!(keep_lock(manifest(), &edited)["spec"]["strategy"]["type"], "RollingUpdate");
    }
}
