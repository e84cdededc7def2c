//! The bounds of a canary on the model: whatever the steps are, and whichever pods become ready when.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::ModelWorkload;
use super::{CanaryKind, CanaryMark, CanarySteps};

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum ModelEvent {
    /// Deleted pods go, and the controller takes a step.
    Control,
    /// belay looks; whether the time of the step is over.
    Look(bool),
    /// A pod becomes ready, or is not ready any more.
    Turn(usize, bool),
}

fn event() -> impl Strategy<Value = ModelEvent> {
    prop_oneof![
        4 => Just(ModelEvent::Control),
        3 => any::<bool>().prop_map(ModelEvent::Look),
        4 => (0..20_usize, prop::bool::weighted(0.8)).prop_map(|(pod, is_ready)| ModelEvent::Turn(pod, is_ready)),
    ]
}

/// A number of pods, or a percentage.
fn size() -> impl Strategy<Value = (i64, bool)> {
    prop_oneof![(1..10_i64).prop_map(|pods| (pods, false)), (1..=100_i64).prop_map(|percent| (percent, true))]
}

fn steps(sizes: &[(i64, bool)]) -> CanarySteps {
    let step = |(size, is_percent): &(i64, bool)| format!("{size}{} 1m", if *is_percent { "%" } else { "" });
    sizes.iter().map(step).collect::<Vec<String>>().join(", ").parse().unwrap()
}

/// Returns the most new pods of a step: never fewer than in the one before it. Where pods are replaced, an old one stays.
fn most_new(sizes: &[(i64, bool)], step: usize, kind: CanaryKind, replicas: i64) -> i64 {
    let pods = |(size, is_percent): &(i64, bool)| if *is_percent { (replicas * size + 99) / 100 } else { *size };
    let asked = sizes.iter().take(step).map(pods).max().unwrap();
    asked.min(replicas - i64::from(kind != CanaryKind::Deployment))
}

fn manifest(kind: CanaryKind, [surge, unavailable]: [i64; 2]) -> Value {
    let (name, field, rolling) = match kind {
        CanaryKind::Deployment => ("Deployment", "strategy", json!({"maxSurge": surge, "maxUnavailable": unavailable})),
        CanaryKind::StatefulSet => ("StatefulSet", "updateStrategy", json!({})),
        CanaryKind::DaemonSet => ("DaemonSet", "updateStrategy", json!({"maxUnavailable": unavailable})),
    };
    json!({"kind": name, "metadata": {"name": "web", "annotations": {}}, "spec": {
        field: {"type": "RollingUpdate", "rollingUpdate": rolling}}})
}

/// Asserts the bounds of the present step. In a step of a Deployment, no old pod goes.
fn assert_bounds(world: &ModelWorkload, sizes: &[(i64, bool)], least: i64) -> Result<(), TestCaseError> {
    let told = || format!("{:?} {:?} {}", world.lock, world.pods, world.live);
    prop_assert!(world.fewest >= least, "{} available: {}", world.fewest, told());
    let Some(lock) = world.lock else { return Ok(()) };
    let most = most_new(sizes, lock.mark.step, world.kind, world.replicas);
    prop_assert!(world.count(true) <= most, "more than {most} new: {}", told());
    prop_assert_eq!(CanaryMark::on(&world.live), Some(lock.mark), "a restart goes on with it: {}", told());
    if world.kind == CanaryKind::Deployment {
        prop_assert_eq!(world.count(false), world.replicas, "{}", told());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_canary_keeps_its_bounds_and_ends(
        kind in prop::sample::select(vec![CanaryKind::Deployment, CanaryKind::StatefulSet, CanaryKind::DaemonSet]),
        replicas in 2..9_i64,
        sizes in proptest::collection::vec(size(), 1..5),
        (surge, unavailable) in (0..4_i64, 0..4_i64).prop_filter("room", |(surge, unavailable)| surge + unavailable > 0),
        events in proptest::collection::vec(event(), 0..200),
    ) {
        // A set replaces its pods one after the other, and a DaemonSet at least one at a time.
        let unavailable = match kind {
            CanaryKind::Deployment => unavailable,
            CanaryKind::StatefulSet => 1,
            CanaryKind::DaemonSet => unavailable.max(1),
        };
        let least = replicas - unavailable;
        let mut world = ModelWorkload::with(manifest(kind, [surge, unavailable]), steps(&sizes), replicas);
        assert_bounds(&world, &sizes, least)?;
        for event in events {
            match event {
                ModelEvent::Control => world.control(),
                ModelEvent::Look(goes_on) => world.look(goes_on),
                ModelEvent::Turn(pod, is_ready) => world.turns(pod, is_ready),
            }
            assert_bounds(&world, &sizes, least)?;
        }
        for _ in 0..400 {
            world.heal();
            world.control();
            world.look(true);
            assert_bounds(&world, &sizes, least)?;
        }
        prop_assert_eq!((world.count(true), world.pods.len()), (replicas, usize::try_from(replicas).unwrap()), "{:?}", world.pods);
        prop_assert_eq!(&world.live, &world.manifest, "nothing of the locks is left");
    }
}
