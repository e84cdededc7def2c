use super::*;

fn manifest() -> Value {
    json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5, "minReadySeconds": 3,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}, "template": {"a": 1}}})
}

fn lock(paused: bool) -> CanaryLock {
    CanaryLock { kind: CanaryKind::Deployment, mark: CanaryMark::at(1, 2), pods: 2, replicas: 5, paused }
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
    assert_eq!(CanaryMark::on(&open), Some(CanaryMark::at(1, 2)));
    assert_eq!(CanaryMark::on(&manifest()), None);
}

#[test]
fn a_step_asks_for_no_fewer_new_pods_than_there_are() {
    for (pods, replicas, expected) in [(1, 5, 2), (2, 5, 2), (3, 5, 3), (1, 4, 1)] {
        let mut next = CanaryLock { pods, replicas, ..lock(false) };
        next.keep_pods_of(&lock(true));
        assert_eq!(next.pods, expected, "{pods} of {replicas}: those of another size say nothing");
    }
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
    let next = CanaryLock { mark: CanaryMark::at(2, 2), ..lock(true) };
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
    assert_eq!((fields(&open, "minReadySeconds"), fields(&open, "paused")), (json!(MIN_READY_SECONDS), json!(false)));
    for live in [owned_by("belay", all), owned_by("kubectl-rollout", json!({"f:paused": {}})), manifest()] {
        assert_eq!(take_off_locks(bare.clone(), &live), bare, "a pause of a person stays");
    }
}

fn set(more: &Value) -> Value {
    let mut set =
        json!({"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 5, "template": {"a": 1}}});
    set["spec"]["updateStrategy"] = more.clone();
    set
}

fn partition_lock(pods: i64, replicas: i64) -> CanaryLock {
    let (kind, mark) = (CanaryKind::StatefulSet, CanaryMark::at(1, 2));
    CanaryLock { kind, mark, pods, replicas, paused: false }
}

#[test]
fn a_partition_leaves_all_but_the_new_pods() {
    for (strategy, expected) in [
        (Value::Null, json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}})),
        (json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}})),
        (
            json!({"rollingUpdate": {"partition": 0, "maxUnavailable": 2}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxUnavailable": 2}}),
        ),
    ] {
        let locked = partition_lock(2, 5).onto(set(&strategy));
        assert_eq!(locked["spec"]["updateStrategy"], expected, "{strategy}");
        assert_eq!(CanaryLock::on(&locked), Some(partition_lock(2, 5)));
        assert!(partition_lock(2, 5).is_first_held_by(&locked));
        assert!(!partition_lock(3, 5).is_first_held_by(&locked) && !partition_lock(2, 6).is_first_held_by(&locked));
    }
    assert_eq!(partition_lock(1, 5).onto(json!({"spec": 1}))["spec"], 1);
    assert_eq!(partition_lock(1, 5).onto(set(&json!("x")))["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 4);
}

#[test]
fn an_old_pod_stays_beside_the_new_ones_of_a_stateful_set() {
    let steps: CanarySteps = "1 1m, 100% 1m".parse().unwrap();
    let of = |step, replicas| {
        let lock = CanaryLock::of_step(CanaryKind::StatefulSet, &steps, step, replicas);
        (lock.new_pods(), lock.partition())
    };
    assert_eq!((of(1, 4), of(2, 4), of(1, 1), of(1, 0)), ((1, 3), (3, 1), (0, 1), (0, 0)));
    let scaled = |replicas| CanaryLock { replicas, ..partition_lock(3, 5) };
    let sizes = [9, 4, 2, 0].map(|replicas| (scaled(replicas).new_pods(), scaled(replicas).partition()));
    assert_eq!(sizes, [(3, 6), (3, 1), (1, 1), (0, 0)]);
}

#[test]
fn a_mark_without_a_partition_is_no_canary() {
    let locked = partition_lock(2, 5).onto(set(&Value::Null));
    assert_eq!(CanaryMark::on(&locked), Some(CanaryMark::at(1, 2)));
    for strategy in [
        json!({"type": "OnDelete", "rollingUpdate": {"partition": 3}}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        json!({"type": "RollingUpdate"}),
    ] {
        let mut live = locked.clone();
        live["spec"]["updateStrategy"] = strategy.clone();
        assert_eq!(CanaryMark::on(&live), None, "{strategy}");
        assert_eq!(keep_lock(set(&strategy), &live), set(&strategy));
    }
    assert_eq!(CanaryMark::on(&set(&locked["spec"]["updateStrategy"])), None, "a partition by hand");
    assert_eq!(keep_lock(set(&Value::Null), &locked), locked);
}

#[test]
fn a_partition_that_a_person_has_made_anew_is_taken_off() {
    let fields = json!({"f:spec": {"f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}}});
    let of = |manager: &str| {
        let mut live = partition_lock(2, 5).onto(set(&Value::Null));
        live["metadata"]["managedFields"] = json!([{"manager": manager, "fieldsV1": fields}]);
        take_off_locks(json!({"spec": {"replicas": 5}}), &live)
    };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    assert_eq!(of("kubectl-replace")["spec"]["updateStrategy"], rolling);
    assert_eq!(of("belay")["spec"].get("updateStrategy"), None);
}

#[test]
fn the_controller_of_a_daemon_set_replaces_nothing_by_itself() {
    let lock =
        CanaryLock { kind: CanaryKind::DaemonSet, mark: CanaryMark::at(1, 2), pods: 2, replicas: 5, paused: false };
    let daemons = |strategy: &Value| {
        json!({"kind": "DaemonSet", "spec": {"updateStrategy": strategy}, "metadata": {"name": "logs"},
            "status": {"desiredNumberScheduled": 5, "updatedNumberScheduled": 2}})
    };
    let bounds = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
    let locked = lock.onto(daemons(&bounds));
    assert_eq!(
        locked["spec"]["updateStrategy"],
        json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 2}}),
        "belay keeps to the bound"
    );
    assert_eq!(CanaryLock::on(&locked), Some(lock));
    assert!(lock.is_first_held_by(&locked));
    assert_eq!(keep_lock(daemons(&bounds), &locked), locked);
    let mut by_hand = locked.clone();
    by_hand["spec"]["updateStrategy"] = bounds;
    assert_eq!((CanaryMark::on(&by_hand), lock.is_first_held_by(&by_hand)), (None, false));
    let mut others = locked;
    let fields = json!({"f:spec": {"f:updateStrategy": {"f:type": {}}}});
    others["metadata"]["managedFields"] = json!([{"manager": "kubectl-replace", "fieldsV1": fields}]);
    let off = take_off_locks(json!({"spec": {}}), &others);
    assert_eq!(off["spec"]["updateStrategy"]["type"], "RollingUpdate");
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
