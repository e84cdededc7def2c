//! Tables of facts and the plans that are made of them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::manifest::{Manifest, ObjectKey, Scopes, read_file};
use crate::rollout::{
    Commit, Companion, FailurePolicy, Hold, IgnoredFields, Person, Reason, ReasonCode, TemplateMarks, Trigger, Wanted,
    marks,
};

const BAD: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const GOOD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}]}})
}

fn object(kind: &str, image: &str) -> Value {
    let api_version = match kind {
        "ReplicationController" | "ConfigMap" => "v1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "annotations": {}}});
    match kind {
        "ConfigMap" => object["data"] = json!({"image": image}),
        _ => object["spec"] = json!({"template": template(image)}),
    }
    match kind {
        "Deployment" | "DaemonSet" | "StatefulSet" => {
            object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}})
        }
        _ => {}
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!("web");
    }
    if kind == "Job" {
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    }
    object
}

fn wanted(kind: &str) -> Wanted {
    Wanted::of(manifest(object(kind, "web:2")), commit(BAD), Trigger::Commit)
}

fn commit(id: &str) -> Arc<Commit> {
    Arc::new(Commit {
        id: id.parse().unwrap(),
        subject: "Change it".to_owned(),
        author: Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned() },
        authored: NOW,
        committed: NOW,
        parents: Vec::new(),
        trailers: Vec::new(),
    })
}

fn manifest(object: Value) -> Manifest {
    let file = read_file("web.yaml", object.to_string().as_bytes(), &Scopes::new("default"));
    assert!(file.complaints.is_empty(), "{:?}", file.complaints);
    file.manifests.into_iter().next().unwrap()
}

fn target(revision: Option<i64>) -> RollbackTarget {
    let marks = TemplateMarks { change_cause: Some("a good one".to_owned()), commit: Some(GOOD.to_owned()) };
    RollbackTarget { template: template("web:1"), marks, revision, commit: Some(GOOD.parse().unwrap()) }
}

fn facts<'a>(wanted: &'a Wanted, live: &'a Value) -> RollbackFacts<'a> {
    RollbackFacts {
        wanted,
        source: "shop",
        reason: Reason::new(ReasonCode::ProgressDeadlineExceeded, "too late"),
        live,
        changes_template: true,
        policy: FailurePolicy::RollBack,
        culprit: None,
        readers: Vec::new(),
        now: NOW,
        kept: None,
        target: None,
        trial: None,
        configuration: None,
        former: None,
    }
}

/// Returns one line for each plan.
fn told(planning: &Planning) -> String {
    match planning {
        Planning::Asks(Question::Target) => "asks for the target".to_owned(),
        Planning::Asks(Question::Trial(_)) => "asks the server".to_owned(),
        Planning::Asks(Question::Configuration) => "asks for the configuration".to_owned(),
        Planning::Asks(Question::Former) => "asks for the former manifest".to_owned(),
        Planning::Made(RollbackPlan::Stays(reason)) => format!("stays: {reason}"),
        Planning::Made(RollbackPlan::Suspended(why)) => format!("suspended: {why}"),
        Planning::Made(RollbackPlan::IsBack(_)) => "is back".to_owned(),
        Planning::Made(RollbackPlan::WasUndone { reason, to, .. }) => format!("undone {to}: {reason}"),
        Planning::Made(RollbackPlan::Watched(_)) => "is watched".to_owned(),
        Planning::Made(RollbackPlan::Refused { error, .. }) => format!("refused: {error}"),
        Planning::Made(RollbackPlan::GoesBack(back)) => format!("back to {}", back.to),
    }
}

fn goes_back(planning: Planning) -> Rollback {
    match planning {
        Planning::Made(RollbackPlan::GoesBack(back)) => *back,
        other => panic!("{}", told(&other)),
    }
}

#[test]
fn who_may_go_back() {
    let asks = |kind: &str, word: &str| {
        let mut live = object(kind, "web:2");
        live["metadata"]["annotations"][marks::ON_FAILURE] = json!(word);
        live
    };
    let plain = |kind: &str| object(kind, "web:2");
    let (report, back) = (FailurePolicy::Report, FailurePolicy::RollBack);
    let reported = "stays: too late; it is only reported, as configured";
    let table = [
        ("Deployment", plain("Deployment"), back, true, "asks for the target"),
        ("StatefulSet", plain("StatefulSet"), back, true, "asks for the target"),
        ("DaemonSet", plain("DaemonSet"), back, true, "asks for the target"),
        ("ReplicationController", plain("ReplicationController"), back, true, "asks for the target"),
        ("Job", plain("Job"), back, true, "stays: too late; a workload of this kind is not taken back"),
        ("Deployment", plain("Deployment"), report, true, reported),
        ("ReplicationController", plain("ReplicationController"), report, true, reported),
        ("Deployment", asks("Deployment", "report"), back, true, reported),
        ("Deployment", asks("Deployment", "roll-back"), report, true, "asks for the target"),
        (
            "Deployment",
            plain("Deployment"),
            back,
            false,
            "stays: too late; only the number of pods was changed: there is no template to go back to",
        ),
        // The source's policy does not cover objects without a template.
        ("ConfigMap", plain("ConfigMap"), back, true, "stays: too late"),
        ("ConfigMap", asks("ConfigMap", "roll-back"), report, true, "asks for the former manifest"),
    ];
    for (kind, live, policy, changes_template, expected) in table {
        let wanted = wanted(kind);
        let facts = RollbackFacts { policy, changes_template, ..facts(&wanted, &live) };
        assert_eq!(told(&plan(&facts)), expected, "{kind} {live}");
    }
    let mut wanted = wanted("Deployment");
    let mut asked = object("Deployment", "web:2");
    asked["metadata"]["annotations"][marks::ON_FAILURE] = json!("report");
    wanted.manifest = Arc::new(manifest(asked));
    let live = asks("Deployment", "roll-back");
    assert_eq!(told(&plan(&facts(&wanted, &live))), reported, "the manifest's own word is the first");
}

#[test]
fn where_it_stands_already() {
    let wanted = |kind: &str| Wanted { config: Some("c".to_owned()), ..wanted(kind) };
    let held = |kind: &str, config: Option<&str>| {
        let hold = Hold::new(&wanted(kind).hash, config, &BAD.parse().unwrap(), "too late", NOW);
        let mut live = object(kind, "web:1");
        live["metadata"]["annotations"][marks::HOLD] = json!(hold.to_annotation());
        live
    };
    let suspended = |kind: &str| {
        let mut live = held(kind, Some("c"));
        live["metadata"]["annotations"][marks::SUSPEND] = json!("by Ann");
        live
    };
    let table = [
        ("Deployment", Some(held("Deployment", Some("c"))), "is watched"),
        ("ReplicationController", Some(held("ReplicationController", Some("c"))), "is watched"),
        ("ConfigMap", Some(held("ConfigMap", Some("c"))), "is back"),
        ("Deployment", Some(held("Deployment", Some("of before"))), "asks for the target"),
        ("Deployment", None, "asks for the target"),
        ("ConfigMap", None, "asks for the former manifest"),
        ("Deployment", Some(suspended("Deployment")), "suspended: by Ann"),
        ("ReplicationController", Some(suspended("ReplicationController")), "suspended: by Ann"),
        ("ConfigMap", Some(suspended("ConfigMap")), "suspended: by Ann"),
    ];
    for (kind, live, expected) in table {
        let wanted = Wanted { trigger: Trigger::Together(wanted(kind).key), ..wanted(kind) };
        let live = live.unwrap_or_default();
        assert_eq!(told(&plan(&facts(&wanted, &live))), expected, "{kind}");
    }
    let without_configuration = Wanted { config: None, ..wanted("Deployment") };
    let live = held("Deployment", Some("c"));
    let planned = plan(&facts(&without_configuration, &live));
    assert_eq!(told(&planned), "is watched", "its ConfigMap has left the repository, and it with it");
}

#[test]
fn where_it_goes_back_to() {
    let known = || Some(Ok(target(Some(3))));
    let kept = || Some(Ok(target(None)));
    let would_be = |image: &str| Some(Ok(template(image)));
    let none = |why| Some(Err(why));
    let left = IgnoredFields::of([&"/spec/template/spec/containers".parse().unwrap()]);
    let whole = IgnoredFields::default();
    let first = "stays: too late; it is the first revision: there is nothing to go back to";
    let table = [
        ("Deployment", none(NoRollbackTarget::First), None, &whole, first),
        (
            "Deployment",
            none(NoRollbackTarget::AllFailed),
            None,
            &whole,
            "stays: too late; every earlier revision has failed too",
        ),
        ("Deployment", known(), None, &whole, "asks for the configuration"),
        ("Deployment", known(), None, &left, "asks the server"),
        ("Deployment", kept(), None, &whole, "asks the server"),
        ("Deployment", kept(), would_be("web:1"), &whole, "asks for the configuration"),
        ("Deployment", kept(), would_be("web:2"), &whole, first),
        ("Deployment", kept(), Some(Err("no such image".to_owned())), &whole, "refused: no such image"),
        // The server's version of its template is seen when its pods are back.
        ("ReplicationController", kept(), None, &whole, "asks for the configuration"),
    ];
    for (kind, target, trial, ignored_fields, expected) in table {
        let wanted = Wanted { ignored_fields: ignored_fields.clone(), ..wanted(kind) };
        let live = object(kind, "web:2");
        let facts = RollbackFacts { target, trial, ..facts(&wanted, &live) };
        assert_eq!(told(&plan(&facts)), expected, "{kind} {facts:?}");
    }
}

#[test]
fn the_template_alone_goes_back_and_the_manifest_is_held() {
    let wanted = wanted("Deployment");
    let live = object("Deployment", "web:2");
    let culprit =
        Companion { object: ObjectKey { name: "api".to_owned(), ..wanted.key.clone() }, manifest: "m".to_owned() };
    let known = RollbackFacts {
        target: Some(Ok(target(Some(3)))),
        configuration: Some(Vec::new()),
        culprit: Some(culprit.clone()),
        ..facts(&wanted, &live)
    };
    let back = goes_back(plan(&known));
    assert_eq!((&*back.to, back.revision, back.kind), ("revision 3 (a good one)", Some(3), RollbackKind::Workload));
    assert_eq!((&*back.hold.manifest, &*back.hold.reason, back.hold.since), (&*wanted.hash, "too late", NOW));
    assert_eq!((back.hold.commit.as_str(), &back.hold.with), (BAD, &vec![culprit]));
    assert!(back.hold.is_about(&template("web:1")) && !back.hold.is_about(&template("web:2")));
    let sent = back.sent("shop");
    assert_eq!(sent["spec"]["template"], template("web:1"));
    assert_eq!(Hold::on(&sent), Some(back.hold.clone()));
    assert_eq!(TemplateMarks::on(&sent), target(None).marks);
    let server = template("web:1-as-the-server-says");
    let onto = back.onto(&server, &IgnoredFields::default());
    assert!(onto.hold.is_about(&server) && onto.sent("shop")["spec"]["template"] == server);

    let tried = RollbackFacts { target: Some(Ok(target(None))), trial: Some(Ok(server.clone())), ..known };
    assert!(goes_back(plan(&tried)).hold.is_about(&server), "the hold is about what the server makes of it");
}

/// The store was set back to before the failed version came: what was decided then is done again.
#[test]
fn a_rollback_that_the_cluster_has_lost_goes_where_it_went() {
    let wanted = wanted("Deployment");
    let first = object("Deployment", "web:2");
    let configuration = Some(Vec::new());
    let known = RollbackFacts { target: Some(Ok(target(Some(3)))), configuration, ..facts(&wanted, &first) };
    let kept = goes_back(plan(&known)).kept_hold();
    for image in ["web:1", "web:2"] {
        let live = object("Deployment", image);
        let later = "2026-01-02T00:00:00Z".parse().unwrap();
        let lost = RollbackFacts { kept: Some(kept.clone()), now: later, live: &live, ..known.clone() };
        let tried = RollbackFacts { trial: Some(Ok(template("web:1"))), target: None, ..lost };
        let again = goes_back(plan(&tried));
        assert_eq!((&again.hold, again.template), (&kept.hold, kept.template.clone()), "{image}");
    }
}

#[test]
fn what_goes_back_with_it() {
    let wanted = wanted("Deployment");
    let live = object("Deployment", "web:2");
    let api = ObjectKey { name: "api".to_owned(), ..wanted.key.clone() };
    let changed = |needed_by: &[&ObjectKey]| ChangedConfiguration {
        manifest: manifest(object("ConfigMap", "1")),
        needed_by: needed_by.iter().map(|key| (*key).clone()).collect(),
    };
    let facts = |configuration| RollbackFacts {
        target: Some(Ok(target(Some(3)))),
        configuration: Some(configuration),
        ..facts(&wanted, &live)
    };
    let alone = goes_back(plan(&facts(vec![changed(&[])])));
    assert_eq!((alone.with, alone.stays), (vec![changed(&[]).manifest], Vec::<String>::new()));
    let needed = goes_back(plan(&facts(vec![changed(&[&api])])));
    let why =
        "ConfigMap shop/web, which the commit changed too, stays: Deployment shop/api names it and has not failed";
    assert_eq!((needed.with, needed.stays), (Vec::<Manifest>::new(), vec![why.to_owned()]));
}

#[test]
fn configuration_goes_back_to_its_former_manifest() {
    let trigger = Trigger::Together(wanted("Deployment").key);
    let wanted = Wanted { trigger, ..wanted("ConfigMap") };
    let live = object("ConfigMap", "web:2");
    let reader = |name: &str| Companion {
        object: ObjectKey { name: name.to_owned(), ..wanted.key.clone() },
        manifest: name.to_owned(),
    };
    let new = RollbackFacts { former: Some(None), ..facts(&wanted, &live) };
    let why = "stays: too late; ConfigMap shop/web is new with this commit: there is nothing to go back to";
    assert_eq!(told(&plan(&new)), why);
    let former = FormerManifest { manifest: manifest(object("ConfigMap", "web:1")), commit: commit(GOOD) };
    let changed = RollbackFacts {
        former: Some(Some(former.clone())),
        readers: vec![reader("a"), reader("b")],
        culprit: Some(reader("b")),
        ..facts(&wanted, &live)
    };
    let back = goes_back(plan(&changed));
    assert_eq!((back.kind, back.to.clone()), (RollbackKind::Configuration, former.commit.change_cause()));
    assert_eq!(back.hold.with, [reader("a"), reader("b")], "each once");
    assert_eq!((back.sent("shop")["data"]["image"].as_str(), &*back.hold.template), (Some("web:1"), ""));
    let other = RollbackFacts { culprit: Some(reader("c")), ..changed };
    assert_eq!(goes_back(plan(&other)).hold.with, [reader("c"), reader("a"), reader("b")]);
}

#[test]
fn an_undo_by_a_person_is_held() {
    let wanted = wanted("Deployment");
    let keeper = json!({"metadata": {"name": "web-1", "annotations": {marks::REVISION: "1", marks::COMMIT: GOOD}},
        "spec": {"template": template("web:1")}});
    let revision = revisions(&[keeper]).remove(0);
    let back = goes_back(Planning::Made(restored_by_hand(&wanted, &revision, "kubectl", NOW)));
    assert_eq!(
        (back.kind, &*back.reason.message),
        (RollbackKind::ByHand, "taken back by hand (kubectl) to revision 1")
    );
    assert_eq!((back.reason.code.clone(), back.commit.as_ref().unwrap().as_str()), (ReasonCode::UndoneByHand, GOOD));
    assert!(back.hold.is_about(&template("web:1")) && back.hold.keeps(&wanted.hash, None));

    let left = |by: Option<&str>, image: &str, manifest: &str| {
        let hold = Hold::new(manifest, None, &BAD.parse().unwrap(), "undone", NOW);
        let hold = hold.about(&template("web:1"), &IgnoredFields::default());
        let hold = by.map_or(hold.clone(), |by| hold.left_by(by));
        let mut live = object("Deployment", image);
        live["metadata"]["annotations"][marks::HOLD] = json!(hold.to_annotation());
        held_by_undo(&wanted, &live).map(|plan| told(&Planning::Made(plan)))
    };
    let undone = "undone as ada did by hand: undone by ada";
    assert_eq!(left(Some("ada"), "web:1", &wanted.hash).as_deref(), Some(undone));
    assert_eq!(left(None, "web:1", &wanted.hash), None, "belay's own hold");
    assert_eq!(left(Some("ada"), "web:2", &wanted.hash), None, "another template is live");
    assert_eq!(left(Some("ada"), "web:1", "another"), None, "another manifest is held");
}
