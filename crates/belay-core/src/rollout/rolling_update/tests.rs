//! The whole of a rolling update on the model: the lines, every kill, every refusal, and that the bounds hold.

use proptest::prelude::*;
use serde_json::json;

use super::model::{Ended, ModelCluster};
use super::{Ask, Bounds, DESIRED, NEXT, Refused, SOURCE_ID, To};

const ALL: usize = usize::MAX;

fn to_v2() -> Ask {
    Ask::image("foo", "v2")
}

fn named(new: &str) -> Ask {
    Ask { new: Some(new.to_owned()), ..to_v2() }
}

fn back() -> Ask {
    Ask { to: To::Back, ..to_v2() }
}

fn bounded(surge: i64, unavailable: i64) -> Ask {
    Ask { bounds: Bounds { surge, unavailable }, ..named("bar") }
}

/// Everything is as it should be in the end: one controller of that name and image, with that many ready pods of its own.
fn assert_ended(world: &ModelCluster, name: &str, image: &str, size: usize) {
    assert_eq!(world.controllers.keys().collect::<Vec<_>>(), [name]);
    let live = world.live();
    let controller = super::names::Controller(&live.controllers[0]);
    assert_eq!(controller.image(None), image);
    assert_eq!(controller.ready(&live.pods), i64::try_from(size).unwrap());
    assert_eq!(live.pods.len(), size);
    for mark in [DESIRED, SOURCE_ID, super::ORIGINAL, super::RENAMED_FROM] {
        assert_eq!(controller.annotation(mark), None, "{mark}");
    }
    assert!(!controller.selector().contains_key(super::RENAMING));
}

#[test]
fn it_ends_under_the_old_name() {
    let mut world = ModelCluster::with(3);
    let ended = world.run(&to_v2(), ALL).unwrap();
    assert_eq!(ended, Ended::Done("replicationcontroller/foo rolling updated".to_owned()));
    assert_ended(&world, "foo", "v2", 3);
    assert_eq!(world.scalings(), ["up 1", "down 2", "up 2", "down 1", "up 3", "down 0"]);
    assert_eq!((world.most, world.fewest), (4, 3));
    let said = &world.said;
    let next = said[0].strip_prefix("Created ").unwrap();
    assert_eq!(next.len(), "foo-".len() + 32);
    assert_eq!(
        said[1],
        format!(
            "Scaling up {next} from 0 to 3, scaling down foo from 3 to 0 (keep 3 pods available, don't exceed 4 pods)"
        )
    );
    assert_eq!(said[2], format!("Scaling {next} up to 1"));
    assert_eq!(said[3], "Scaling foo down to 2");
    assert_eq!(
        said[8..],
        ["Update succeeded. Deleting old controller: foo".to_owned(), format!("Renaming {next} to foo")]
    );
}

#[test]
fn it_ends_under_a_new_name() {
    let mut world = ModelCluster::with(2);
    let ended = world.run(&named("bar"), ALL).unwrap();
    assert_eq!(ended, Ended::Done("replicationcontroller/bar rolling updated to \"bar\"".to_owned()));
    assert_ended(&world, "bar", "v2", 2);
    assert_eq!(world.said.last().unwrap(), "Update succeeded. Deleting foo");
}

#[test]
fn sizes_are_those_of_kubectl() {
    let vectors: [(i64, i64, &[&str]); 3] = [
        (0, 3, &["down 7", "up 3", "down 4", "up 6", "down 1", "up 9", "down 0", "up 10"]),
        (3, 0, &["up 3", "down 7", "up 6", "down 4", "up 9", "down 1", "up 10", "down 0"]),
        (2, 1, &["up 2", "down 7", "up 5", "down 4", "up 8", "down 1", "up 10", "down 0"]),
    ];
    for (surge, unavailable, expected) in vectors {
        let mut world = ModelCluster::with(10);
        world.run(&bounded(surge, unavailable), ALL).unwrap();
        assert_eq!(world.scalings(), expected, "{surge}/{unavailable}");
    }
    let mut world = ModelCluster::with(10);
    world.run(&bounded(2, 1), ALL).unwrap();
    assert!(
        world.said.iter().any(|line| line.ends_with("(keep 9 pods available, don't exceed 12 pods)")),
        "{:?}",
        world.said
    );
}

#[test]
fn pods_that_are_slow_are_waited_for() {
    let mut world = ModelCluster::with(10);
    world.pace = 1;
    world.run(&bounded(0, 3), ALL).unwrap();
    assert_ended(&world, "bar", "v2", 10);
    assert_eq!((world.most, world.fewest), (10, 7));
}

#[test]
fn one_that_never_serves_takes_nothing_away() {
    let mut world = ModelCluster::with(3);
    world.ready = |image| image == "v1";
    assert_eq!(world.run(&to_v2(), ALL).unwrap(), Ended::Stuck);
    assert_eq!(world.scalings(), ["up 1"]);
    assert_eq!(world.fewest, 3);
    assert_eq!(
        world.run(&back(), ALL).unwrap(),
        Ended::Done("replicationcontroller/foo rolling updated to \"foo\"".to_owned())
    );
    assert_ended(&world, "foo", "v1", 3);
}

#[test]
fn killed_after_any_write_the_same_command_goes_on() {
    for ask in [to_v2(), named("bar")] {
        let name = ask.new.clone().unwrap_or_else(|| "foo".to_owned());
        for writes in 0.. {
            let mut world = ModelCluster::with(3);
            if world.run(&ask, writes).unwrap() != Ended::Killed {
                assert!(writes > 12, "{writes}");
                break;
            }
            let parked =
                |foo: &serde_json::Value| super::names::Controller(foo).annotation(super::RENAMED_FROM).is_some();
            let made = world.controllers.len() > 1 && world.controllers.get("foo").is_some_and(|foo| !parked(foo));
            world.said.clear();
            assert!(matches!(world.run(&ask, ALL).unwrap(), Ended::Done(_)), "{writes}");
            assert_ended(&world, &name, "v2", 3);
            assert_eq!(world.most, 4, "after {writes} writes");
            assert_eq!(world.fewest, 3, "after {writes} writes");
            let told = world.said.first().is_some_and(|line| line.ends_with("), resuming."));
            assert_eq!(told, made, "after {writes} writes: {:?}", world.said);
        }
    }
}

#[test]
fn killed_at_any_write_of_the_way_back_it_goes_on() {
    for half in 6..14 {
        for writes in 0.. {
            let mut world = ModelCluster::with(3);
            assert_eq!(world.run(&to_v2(), half).unwrap(), Ended::Killed);
            if world.run(&back(), writes).unwrap() != Ended::Killed {
                break;
            }
            world.run(&back(), ALL).unwrap();
            assert_ended(&world, "foo", "v1", 3);
            assert!(world.most <= 4 && world.fewest == 3, "{half} {writes}");
        }
    }
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let refused = |world: &mut ModelCluster, ask: Ask| world.run(&ask, ALL).unwrap_err();
    let mut world = ModelCluster::with(3);
    assert_eq!(refused(&mut world, Ask::image("none", "v2")), Refused::NotFound { name: "none".to_owned() });
    assert_eq!(refused(&mut world, Ask { new: Some("bar".to_owned()), ..Ask::image("foo", "v1") }), Refused::SameImage);
    assert_eq!(refused(&mut world, named("foo")), Refused::SameName { name: "foo".to_owned() });
    assert_eq!(refused(&mut world, back()), Refused::NothingUnderWay { old: "foo".to_owned() });
    let lost = Ask { new: Some("bar".to_owned()), ..back() };
    assert_eq!(refused(&mut world, lost), Refused::NothingToRollBack { name: "bar".to_owned(), old: "foo".to_owned() });
    assert!(matches!(refused(&mut world, Ask { label_key: String::new(), ..to_v2() }), Refused::NoLabelKey));
    assert!(matches!(refused(&mut world, bounded(0, 0)), Refused::NoRoom));
    world.run(&to_v2(), 9).unwrap();
    let other = refused(&mut world, Ask::image("foo", "v3"));
    assert_eq!(
        other.to_string(),
        "Found existing in-progress update to image (v2).\nEither continue in-progress update with --image=v2 or rollback with --rollback"
    );
}

fn done(text: &str) -> Ended {
    Ended::Done(text.to_owned())
}

/// Returns two controllers that are there already, by their names.
fn existing(old: &str, new: &str) -> Ask {
    Ask { new: Some(new.to_owned()), to: To::Existing, ..Ask::image(old, "") }
}

fn by_ada(ask: Ask) -> Ask {
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    let hand = super::ByHand { by: "ada".to_owned(), since, source: None, from: None, hold_follows: false };
    Ask { by: Some(hand), ..ask }
}

#[test]
fn the_same_command_after_its_end_says_that_it_is_done() {
    let unnamed = by_ada(to_v2());
    let mut world = ModelCluster::with(3);
    world.run(&unnamed, ALL).unwrap();
    world.said.clear();
    assert_eq!(world.run(&unnamed, 0).unwrap(), done("replicationcontroller/foo rolling updated already"));
    let named = by_ada(named("bar"));
    let mut world = ModelCluster::with(3);
    world.run(&named, ALL).unwrap();
    let again = done("replicationcontroller/bar rolling updated to \"bar\" already");
    assert_eq!(world.run(&named, 0).unwrap(), again);
    assert_eq!(world.run(&existing("foo", "bar"), 0).unwrap(), again);
    assert_ended(&world, "bar", "v2", 3);
    // Neither the present image nor the former one.
    let other = Ask { to: To::Image("v3".to_owned()), ..named };
    let refused = world.run(&other, ALL).unwrap_err().to_string();
    assert_eq!(
        refused,
        "foo is gone: bar has replaced it, with v2; go on from there: belay rolling-update bar --image=IMAGE"
    );
    let typo = Ask { old: "fob".to_owned(), ..by_ada(self::named("bar")) };
    assert_eq!(world.run(&typo, ALL).unwrap_err(), Refused::NotFound { name: "fob".to_owned() });
}

/// A finalizer keeps the other controller for a while after its deletion.
#[test]
fn it_is_at_its_end_when_the_other_controller_is_gone() {
    for (writes, ask, name, image) in [
        (ALL, by_ada(named("bar")), "bar", "v2"),
        (ALL, by_ada(to_v2()), "foo", "v2"),
        (9, back(), "foo", "v1"),
        (9, existing("foo", "bar"), "bar", "v2"),
    ] {
        let mut world = ModelCluster::with(3);
        if writes != ALL {
            let begun = if name == "bar" { named("bar") } else { to_v2() };
            assert_eq!(world.run(&begun, writes).unwrap(), Ended::Killed);
        }
        world.lingers = 20;
        assert!(matches!(world.run(&ask, ALL).unwrap(), Ended::Done(_)), "{ask:?}");
        assert_ended(&world, name, image, 3);
    }
}

/// A template that was changed by another hand replaced no pod.
#[test]
fn what_only_the_template_says_is_not_done() {
    let mut world = ModelCluster::with(2);
    world.controllers.get_mut("foo").unwrap()["spec"]["template"]["spec"]["containers"][0]["image"] = "v2".into();
    assert_eq!(world.run(&to_v2(), ALL).unwrap_err(), Refused::SameImage);
}

#[test]
fn with_the_old_one_gone_the_named_form_is_finished() {
    for ask in [by_ada(named("bar")), existing("foo", "bar")] {
        let mut world = ModelCluster::with(4);
        // Half way somebody deletes the old one.
        assert_eq!(world.run(&by_ada(named("bar")), 11).unwrap(), Ended::Killed);
        let old = world.controllers.remove("foo").unwrap();
        world.pods.retain(|_, pod| pod["metadata"]["ownerReferences"][0]["uid"] != old["metadata"]["uid"]);
        let ended = world.run(&ask, ALL).unwrap();
        assert_eq!(ended, done("replicationcontroller/bar rolling updated to \"bar\""));
        assert_ended(&world, "bar", "v2", 4);
    }
}

#[test]
fn two_that_are_there_are_rolled_without_an_image() {
    let mut world = ModelCluster::with(3);
    assert_eq!(world.run(&named("bar"), 9).unwrap(), Ended::Killed);
    assert!(matches!(world.run(&existing("foo", "bar"), ALL).unwrap(), Ended::Done(_)));
    assert_ended(&world, "bar", "v2", 3);
    // The names the other way round take it back, to the size that there was; with or without the image, and killed.
    let again = || Ask { to: To::Image("v1".to_owned()), ..existing("bar", "foo") };
    for (half, back) in (6..15).flat_map(|half| [(half, existing("bar", "foo")), (half, again())]) {
        for writes in 0.. {
            let mut world = ModelCluster::with(3);
            assert_eq!(world.run(&named("bar"), half).unwrap(), Ended::Killed);
            if !world.controllers.contains_key("bar") {
                break;
            }
            let killed = world.run(&back, writes).unwrap() == Ended::Killed;
            if killed {
                world.run(&back, ALL).unwrap();
            }
            assert_ended(&world, "foo", "v1", 3);
            assert!(world.most <= 4 && world.fewest == 3, "{half} {writes}: {} {}", world.most, world.fewest);
            if !killed {
                break;
            }
        }
    }
}

#[test]
fn two_that_have_nothing_to_do_with_each_other_are_not() {
    let mut world = ModelCluster::with(2);
    assert_eq!(world.run(&existing("foo", "bar"), ALL).unwrap_err(), Refused::NoNext { name: "bar".to_owned() });
    let other = json!({"metadata": {"name": "bar", "uid": "uid-bar"}, "spec": {"replicas": 1, "selector": {"app": "bar"},
        "template": {"metadata": {"labels": {"app": "bar"}}, "spec": {"containers": [{"name": "app", "image": "v9"}]}}}});
    world.controllers.insert("bar".to_owned(), other);
    let refused = world.run(&existing("foo", "bar"), ALL).unwrap_err();
    assert!(matches!(refused, Refused::Strangers { .. }) && refused.to_string().ends_with("--image=v9"), "{refused}");
    // A controller without pods is not taken for the rest of an update, and deleted, either.
    world.controllers.get_mut("bar").unwrap()["spec"]["replicas"] = 0.into();
    let lost = Ask { new: Some("bar".to_owned()), ..back() };
    assert_eq!(world.run(&lost, ALL).unwrap_err(), Refused::NothingUnderWay { old: "foo".to_owned() });
    assert!(world.controllers.contains_key("bar"));
}

#[test]
fn without_pods_it_goes_through_and_may_be_killed() {
    for ask in [by_ada(to_v2()), by_ada(named("bar"))] {
        let name = ask.new.clone().unwrap_or_else(|| "foo".to_owned());
        for writes in 0.. {
            let mut world = ModelCluster::with(0);
            let ended = world.run(&ask, writes).unwrap();
            assert!(matches!(world.run(&ask, ALL).unwrap(), Ended::Done(_)), "{writes}");
            assert_ended(&world, &name, "v2", 0);
            assert_eq!(world.most, 0);
            if ended != Ended::Killed {
                assert!(writes > 3, "{writes}");
                break;
            }
        }
    }
    let mut world = ModelCluster::with(0);
    assert_eq!(world.run(&to_v2(), 4).unwrap(), Ended::Killed);
    assert!(matches!(world.run(&back(), ALL).unwrap(), Ended::Done(_)));
    assert_ended(&world, "foo", "v1", 0);
}

/// The two controllers bear these before the first size changes: a label with the digest of each, under the requested
/// key; the wanted size, and the former one; each other's names.
#[test]
fn the_two_controllers_are_marked_before_anything_grows() {
    for key in [super::DEFAULT_LABEL_KEY, "colour"] {
        let mut world = ModelCluster::with(3);
        let ask = Ask { label_key: key.to_owned(), ..named("bar") };
        // Label in the template, three pods, selector, create, original size: the next write is the first growth.
        assert_eq!(world.run(&ask, 7).unwrap(), Ended::Killed);
        let live = world.live();
        let [foo, bar] = ["foo", "bar"].map(|name| live.controller(name).unwrap());
        assert_eq!((foo.size(), bar.size()), (3, 0));
        let labels = [foo, bar].map(|one| one.selector()[key].to_owned());
        assert!(labels[0].ends_with("-orig") && labels[0].len() == 32 + 5 && labels[1].len() == 32, "{labels:?}");
        assert_eq!([foo.template_label(key), bar.template_label(key)], [Some(&*labels[0]), Some(&*labels[1])]);
        assert!(live.pods.iter().all(|pod| pod["metadata"]["labels"][key] == labels[0].as_str()));
        assert_eq!((bar.annotation(DESIRED), foo.annotation(super::ORIGINAL)), (Some("3"), Some("3")));
        assert_eq!(foo.annotation(NEXT), Some("bar"));
        assert_eq!(bar.annotation(SOURCE_ID), Some(format!("foo:{}", foo.uid()).as_str()));
    }
}

/// Another client may have left it so: both are there, and the wanted size is not written on the next one.
#[test]
fn a_next_one_without_its_marks_gets_its_size_from_the_old_one() {
    let mut world = ModelCluster::with(3);
    assert_eq!(world.run(&named("bar"), 8).unwrap(), Ended::Killed);
    for name in ["foo", "bar"] {
        let annotations = &mut world.controllers.get_mut(name).unwrap()["metadata"]["annotations"];
        for mark in [DESIRED, SOURCE_ID, super::ORIGINAL] {
            annotations.as_object_mut().unwrap().remove(mark);
        }
    }
    assert!(matches!(world.run(&named("bar"), ALL).unwrap(), Ended::Done(_)));
    assert_ended(&world, "bar", "v2", 3);
}

#[test]
fn a_manifest_must_tell_its_pods_apart() {
    let manifest = |selector: serde_json::Value| {
        let manifest = json!({"metadata": {"name": "bar"}, "spec": {"selector": selector,
            "template": {"metadata": {"labels": selector}, "spec": {"containers": [{"name": "app", "image": "v2"}]}}}});
        Ask { to: To::Manifest(Box::new(manifest)), ..Ask::image("foo", "") }
    };
    let mut world = ModelCluster::with(2);
    let refused = world.run(&manifest(json!({"app": "foo"})), ALL).unwrap_err();
    assert_eq!(refused.to_string(), "bar must specify a matching key with non-equal value in Selector for foo");
    assert!(world.run(&manifest(json!({"role": "bar"})), ALL).is_err());
    world.run(&manifest(json!({"app": "bar"})), ALL).unwrap();
    assert_ended(&world, "bar", "v2", 2);
    assert_eq!(super::names::Controller(&world.live().controllers[0]).annotation(NEXT), None);
}

#[test]
fn several_containers_need_a_name() {
    let mut world = ModelCluster::with(1);
    let foo = world.controllers.get_mut("foo").unwrap();
    foo["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "app", "image": "v1"}, {"name": "log", "image": "l1"}]);
    let refused = world.run(&to_v2(), ALL).unwrap_err().to_string();
    assert_eq!(refused, "must specify container to update when updating a multi-container pod: --container app|log");
    let with = |name: &str| Ask { container: Some(name.to_owned()), ..Ask::image("foo", "l2") };
    assert_eq!(
        world.run(&with("web"), ALL).unwrap_err().to_string(),
        "container \"web\" not found in foo; it has app, log"
    );
    world.run(&with("log"), ALL).unwrap();
    assert_eq!(super::names::Controller(&world.live().controllers[0]).image(Some("log")), "l2");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_and_every_run_ends(
        size in 1_i64..9,
        (surge, unavailable) in (0_i64..4, 0_i64..4).prop_filter("room", |(surge, unavailable)| surge + unavailable > 0),
        pace in 1_usize..4,
        renamed: bool,
        kills in proptest::collection::vec(0_usize..12, 0..6),
        turned_back in proptest::option::of(0_usize..20),
    ) {
        let mut world = ModelCluster::with(size);
        world.pace = pace;
        let bounds = Bounds { surge, unavailable };
        let new = (!renamed).then(|| "bar".to_owned());
        let forward = Ask { bounds, new, ..to_v2() };
        let mut ask = forward.clone();
        for (run, writes) in kills.into_iter().enumerate() {
            if turned_back == Some(run) {
                ask = Ask { to: To::Back, ..ask };
            }
            match world.run(&ask, writes) {
                Ok(Ended::Killed) => {}
                Ok(Ended::Done(_)) => break,
                Ok(Ended::Stuck) => prop_assert!(false, "stuck: {:?}", world.said),
                Err(Refused::NothingUnderWay { .. } | Refused::Renaming { .. } | Refused::NothingToRollBack { .. }) => {
                    ask = forward.clone();
                }
                // Killed while renaming, when the old one is gone already: there is no way back any more, only forward.
                Err(Refused::NotFound { .. }) if ask.to == To::Back => ask = forward.clone(),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        let finished = world.controllers.len() == 1
            && world.controllers.values().all(|one| super::names::Controller(one).annotation(super::RENAMED_FROM).is_none())
            && world.said.iter().any(|line| line.starts_with("Update succeeded"))
            && (ask.to == To::Back || !renamed || world.said.iter().any(|line| line.starts_with("Renaming")));
        if !finished {
            match world.run(&ask, ALL) {
                Ok(ended) => prop_assert!(matches!(ended, Ended::Done(_)), "{ended:?} {:?}", world.said),
                Err(Refused::NothingUnderWay { .. } | Refused::Renaming { .. } | Refused::NotFound { .. }) => {
                    if let Ok(ended) = world.run(&forward, ALL) {
                        prop_assert!(matches!(ended, Ended::Done(_)), "{ended:?}");
                    }
                }
                Err(other) => prop_assert!(false, "{other}: {:?}", world.said),
            }
        }
        let size = usize::try_from(size).unwrap();
        prop_assert_eq!(world.controllers.len(), 1, "{:?}", world.said);
        prop_assert_eq!(world.pods.len(), size);
        prop_assert!(world.most <= size + usize::try_from(surge).unwrap(), "{} {:?}", world.most, world.said);
        let floor = size.saturating_sub(usize::try_from(unavailable).unwrap());
        prop_assert!(world.fewest >= floor, "{} < {floor}: {:?}", world.fewest, world.said);
    }
}
