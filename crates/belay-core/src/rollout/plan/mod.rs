//! Manifests, live objects and holds become a plan: ordered, finished, printable. Applying it takes no decisions.
//!
//! Planning one object has two halves with the API server between them. [`intent`] says from the manifest and the live
//! object whether anything is to be tried, and with which body; the server answers that body in a dry run; [`settle`]
//! turns the answer into the [`Action`]. The server thus decides if an object changes, not a comparison of texts.

pub(in crate::rollout) mod after;
pub(in crate::rollout) mod body;
pub(in crate::rollout) mod config_hash;
pub(in crate::rollout) mod diff;
pub(in crate::rollout) mod hook_until;
pub(in crate::rollout) mod job_run;
pub(in crate::rollout) mod order;
pub(in crate::rollout) mod prune;
pub(in crate::rollout) mod references;
pub(in crate::rollout) mod resume;
pub(in crate::rollout) mod step;
pub(in crate::rollout) mod strategy_default;
pub(in crate::rollout) mod wrong_order;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use self::body::{TemplateMarks, body};
use self::config_hash::{ConfigHash, say_config_hash};
use self::diff::{changes, differs};
use self::step::{Apply, PlanStep};
use self::strategy_default::own_strategy_default;
use super::{
    Commit, Hold, Reason, ReasonCode, Trigger, Workload, annotations, being_deleted, health, is_hook_pod, marks,
    runs_once, same_template, workload,
};
use crate::manifest::{Compact, Complaint, Manifest, ONCE, ObjectKey};
use crate::rollout::canary::keep_lock;
use crate::rollout::judge::health::Standing;
use crate::rollout::ownership::ignored_fields::IgnoredFields;
use crate::rollout::ownership::managers::Takeover;
use crate::rollout::ownership::owned::is_disowned;
use crate::rollout::ownership::surplus::Surplus;
use crate::rollout::ownership::takeover::old_hold;
use crate::rollout::rollback::KeptHold;

/// A manifest that a commit is charged with.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The object.
    pub key: ObjectKey,
    /// The manifest.
    pub manifest: Arc<Manifest>,
    /// Its hash.
    pub hash: String,
    /// The hash of the ConfigMaps and Secrets of the repository that its pod template names.
    pub config: Option<String>,
    /// The configuration hash of its pod template, if changes of the configuration roll it out.
    pub config_hash: ConfigHash,
    /// The newest commit that changed it.
    pub commit: Arc<Commit>,
    /// The trigger.
    pub trigger: Trigger,
    /// The fields that are left alone on a live object.
    pub ignored_fields: IgnoredFields,
}

impl Wanted {
    /// Returns a manifest of which nothing else is known: it names no configuration, and nothing of it is left alone.
    #[must_use]
    pub fn of(manifest: Manifest, commit: Arc<Commit>, trigger: Trigger) -> Wanted {
        Wanted {
            key: manifest.key.clone(),
            hash: manifest.hash.to_string(),
            manifest: Arc::new(manifest),
            config: None,
            config_hash: ConfigHash::default(),
            commit,
            trigger,
            ignored_fields: IgnoredFields::default(),
        }
    }

    /// Returns the object to apply: the manifest, with the configuration hash of its pod template.
    #[must_use]
    pub fn value(&self) -> Value {
        let mut value = self.manifest.value();
        say_config_hash(&mut value, self.config_hash.sent.as_deref());
        value
    }

    /// Returns the same, if the pod template changes: that is when it is given the hash of its configuration.
    #[must_use]
    pub fn anew(&self) -> Wanted {
        Wanted { config_hash: self.config_hash.clone().anew(), ..self.clone() }
    }

    /// Returns a complaint about a field of the manifest, at its place; about the whole where `field` is empty.
    #[must_use]
    pub fn complaint(&self, field: &str, message: &str) -> Complaint {
        let place = if field.is_empty() { self.manifest.place.clone() } else { self.manifest.place_of(field) };
        Complaint {
            place,
            object: Some(self.key.clone()),
            message: message.to_owned(),
            hint: None,
            excerpt: None,
            also: Vec::new(),
        }
    }
}

/// The decision of [`intent`].
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Nothing is to be tried.
    Leave(PlanStep),
    /// The server is to be asked for the effect of this body.
    Try(Value),
    /// The object does not exist: sending this makes it, and it needs no dry run to know that something changes.
    Make(Value),
    /// Its manifest is held: everything but the held template is corrected.
    Keep(Hold),
}

/// The meaning of another source's label on a live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherLabel {
    /// The other source has the object, as far as anybody knows.
    Claim,
    /// Nothing: this source made the object and still has its manifest. Somebody changed the label, and it is corrected
    /// like any other field.
    Drift,
}

/// Returns the other source whose label a live object has.
#[must_use]
pub fn other_label<'a>(live: &'a Value, source: &str) -> Option<&'a str> {
    marks::label(live, marks::SOURCE).filter(|owner| *owner != source)
}

/// Returns the reason why an object is left to another source.
#[must_use]
pub fn claimed_twice(key: &ObjectKey, owner: &str) -> Reason {
    let message = format!(
        "{key} belongs to the source {owner:?} already, as its label {} says; remove it from one of the two, or, where no \
         such source has it, take that label off",
        marks::SOURCE
    );
    Reason::new(ReasonCode::ClaimedTwice, message)
}

/// Returns the body to try for a manifest, by the live object and by the hold that was known last. `hash` knows the
/// manifests of the repository.
#[must_use]
pub fn intent(
    wanted: &Wanted,
    source: &str,
    (live, kept): (Option<&Value>, Option<&KeptHold>),
    label: OtherLabel,
    hash: impl Fn(&ObjectKey) -> Option<String>,
) -> Intent {
    let wrong = annotations::complaints(&wanted.manifest, |field, message| wanted.complaint(field, message));
    if let Some(first) = wrong.first() {
        let reason = Reason::new(ReasonCode::InvalidManifest, first.message.clone());
        return Intent::Leave(PlanStep::Rejected(reason, wrong));
    }
    let manifest = wanted.value();
    // Somebody has released it, or an object that it went back with.
    let let_go = wanted.trigger == Trigger::Retry;
    let keeps =
        |hold: &Hold| !let_go && hold.keeps(&wanted.hash, wanted.config.as_deref()) && hold.keeps_companions(&hash);
    let kept = kept.filter(|kept| live.is_none_or(|live| kept.is_lost_on(live)) && keeps(&kept.hold));
    let Some(live) = live else {
        if let Some(why) = marks::suspension(&manifest) {
            return Intent::Leave(PlanStep::Suspended(why.to_owned()));
        }
        if let Some(kept) = kept {
            return Intent::Keep(kept.hold.clone());
        }
        return Intent::Make(body(&manifest, source, &new_marks(wanted), None));
    };
    let suspended = marks::suspension(live).or_else(|| marks::suspension(&manifest));
    if let Some(why) = suspended {
        return Intent::Leave(PlanStep::Suspended(why.to_owned()));
    }
    if let Some(owner) = other_label(live, source).filter(|_| label == OtherLabel::Claim) {
        let reason = claimed_twice(&wanted.key, owner);
        let complaint = wanted.complaint("", &reason.message);
        return Intent::Leave(PlanStep::Rejected(reason, vec![complaint]));
    }
    if let Some(reason) = being_deleted(live) {
        // A Job that has ended and goes has run: nobody wants it to run again.
        let standing = health(&wanted.key, live).filter(|_| runs_once(&wanted.key, live)).map(|health| health.standing);
        let has_ended = matches!(standing, Some(Standing::Complete | Standing::Failed));
        let is_left = has_ended && matches!(wanted.trigger, Trigger::Drift(_));
        return Intent::Leave(if is_left { PlanStep::Unchanged } else { PlanStep::Wait(reason) });
    }
    match Hold::on(live).filter(keeps) {
        Some(hold) if matches!(wanted.trigger, Trigger::Drift(_)) => Intent::Keep(hold),
        Some(hold) => Intent::Leave(PlanStep::Held(hold)),
        None if let Some(kept) = kept => Intent::Keep(kept.hold.clone()),
        None => Intent::Try(keep_lock(body(&manifest, source, &TemplateMarks::on(live), None), live)),
    }
}

/// Returns the step for a manifest whose body the server has answered in a dry run; `live` is the object of [`intent`].
#[must_use]
pub fn settle(wanted: &Wanted, source: &str, live: Option<&Value>, sent: Value, would_be: &Value) -> PlanStep {
    let Some(live) = live else {
        return make(wanted, &sent);
    };
    let rolls_out = Workload::of(&wanted.key).is_some() && template_changes(live, would_be);
    let mut would_be = Cow::Borrowed(would_be);
    let mut sent = sent;
    if rolls_out {
        let anew = wanted.anew();
        say_config_hash(would_be.to_mut(), anew.config_hash.sent.as_deref());
        sent = new_body(&anew, source);
    }
    let would_be = &*would_be;
    let takes_over = must_own_first(live, &sent);
    if !rolls_out && !takes_over && !differs(live, would_be) {
        return PlanStep::Unchanged;
    }
    let changes = changes(live, would_be);
    let scales = Workload::of(&wanted.key).is_some() && scales(live, would_be);
    PlanStep::Apply(Apply { rolls_out, scales, takes_over, changes, ..Apply::of(Compact::of(&sent)) })
}

/// Returns the same step, for an object that was first created by `kubectl apply`: also with the fields that go because
/// the manifest does not have them, which the dry run can't show.
#[must_use]
pub fn take_over(wanted: &Wanted, source: &str, over: &Takeover, step: PlanStep) -> PlanStep {
    let rolls_out = over.in_template && Workload::of(&wanted.key).is_some();
    match step {
        PlanStep::Apply(apply) => {
            let anew = rolls_out && !apply.rolls_out;
            let body = if anew { Compact::of(&new_body(&wanted.anew(), source)) } else { apply.body };
            let rolls_out = rolls_out || apply.rolls_out;
            PlanStep::Apply(Apply { body, rolls_out, takes_over: true, ..apply })
        }
        PlanStep::Unchanged if over.leaves_fields => {
            let over = if rolls_out { wanted.anew() } else { wanted.clone() };
            let body = Compact::of(&new_body(&over, source));
            PlanStep::Apply(Apply { rolls_out, takes_over: true, ..Apply::of(body) })
        }
        other => other,
    }
}

/// Returns the step for an object with a surplus, which is taken over before the apply that removes it.
#[must_use]
pub fn take_surplus(step: PlanStep) -> PlanStep {
    match step {
        PlanStep::Apply(apply) => PlanStep::Apply(Apply { takes_over: true, ..apply }),
        other => other,
    }
}

/// Returns an object as it would be without its surplus and with `body`, as far as that is known without the server. The
/// server refuses to try `body` where the surplus is in its way: the old and the new item of a list have the same name.
#[must_use]
pub fn guess(live: &Value, body: &Value, surplus: &Surplus) -> Value {
    let mut would_be = live.clone();
    surplus.take_out(&mut would_be);
    lay_over(&mut would_be, body);
    would_be
}

/// Lays a sent body over a value: maps field by field, items of lists by their name, or else by their place in the
/// list.
fn lay_over(value: &mut Value, sent: &Value) {
    match (value, sent) {
        (Value::Object(fields), Value::Object(sent)) => {
            for (name, sent) in sent {
                lay_over(fields.entry(name).or_insert(Value::Null), sent);
            }
        }
        (Value::Array(items), Value::Array(sent)) => {
            let known = std::mem::take(items);
            for (at, sent) in sent.iter().enumerate() {
                let name = sent.get("name");
                let same = known.iter().find(|item| name.is_some() && item.get("name") == name);
                let same = same.or_else(|| known.get(at).filter(|item| item.get("name").is_none()));
                let mut item = same.cloned().unwrap_or_default();
                lay_over(&mut item, sent);
                items.push(item);
            }
        }
        (value, sent) => *value = sent.clone(),
    }
}

/// Returns the step for an object whose manifest is held, when the server has answered the correction of its other
/// fields.
#[must_use]
pub fn settle_held(hold: Hold, live: Option<&Value>, sent: Value, would_be: &Value) -> PlanStep {
    let Some(live) = live else { return make_held(&sent) };
    let takes_over = must_own_first(live, &sent);
    if !takes_over && !differs(live, would_be) {
        return PlanStep::Held(hold);
    }
    // Not a rollout of the manifest, whatever it does to the template: that stays held.
    let changes = changes(live, would_be);
    let restores_held = template_changes(live, would_be);
    PlanStep::Apply(Apply { keeps_hold: true, restores_held, takes_over, changes, ..Apply::of(Compact::of(&sent)) })
}

/// Returns the step for an object that is created again while its manifest is held.
#[must_use]
pub fn make_held(sent: &Value) -> PlanStep {
    PlanStep::Apply(Apply { creates: true, keeps_hold: true, restores_held: true, ..Apply::of(Compact::of(sent)) })
}

fn new_body(wanted: &Wanted, source: &str) -> Value {
    body(&wanted.value(), source, &new_marks(wanted), None)
}

/// Returns the step for a new object, which needs no dry run.
#[must_use]
pub fn make(wanted: &Wanted, sent: &Value) -> PlanStep {
    let rolls_out = Workload::of(&wanted.key).is_some();
    PlanStep::Apply(Apply { creates: true, rolls_out, ..Apply::of(Compact::of(sent)) })
}

/// The way in which a hook of a chart that exists already is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRun {
    /// It has run, and does not run again.
    Done,
    /// Again: a Job or a Pod can't change, so it is deleted and created again.
    Again,
    /// It runs, and is watched until its end.
    Watched,
}

/// Returns how a live hook is run. `None` for an object that is no hook, or is corrected like any object.
#[must_use]
pub fn hook_run(wanted: &Wanted, live: &Value) -> Option<HookRun> {
    let manifest = wanted.value();
    let run = marks::annotation(&manifest, marks::HOOK_RUN)?;
    let once = run.starts_with(ONCE);
    if !runs_once(&wanted.key, &manifest) {
        return once.then_some(HookRun::Done);
    }
    let same = marks::annotation(live, marks::HOOK_RUN) == Some(run);
    let standing = health(&wanted.key, live).map(|health| health.standing);
    let failed = standing == Some(Standing::Failed);
    let is_drift = matches!(wanted.trigger, Trigger::Drift(_));
    let again = match wanted.trigger {
        // A change by others is no reason to run it.
        Trigger::Drift(_) => false,
        Trigger::Retry if failed => true,
        _ => !same && (!once || failed),
    };
    // A Job's rollout is resumed by its record.
    let is_watched = is_hook_pod(&wanted.key, live) && same && (!is_drift || standing == Some(Standing::Moving));
    Some(match again {
        true => HookRun::Again,
        false if is_watched => HookRun::Watched,
        false => HookRun::Done,
    })
}

/// Returns the step for a hook that is run again.
#[must_use]
pub fn run_hook_again(wanted: &Wanted, source: &str) -> PlanStep {
    make(wanted, &new_body(&wanted.anew(), source))
}

fn new_marks(wanted: &Wanted) -> TemplateMarks {
    // Only a workload's revisions have a cause.
    if Workload::of(&wanted.key).is_some() { TemplateMarks::of(&wanted.commit) } else { TemplateMarks::default() }
}

/// Returns true when fields must become belay's before an apply, whatever it changes.
fn must_own_first(live: &Value, sent: &Value) -> bool {
    is_disowned(live) || own_strategy_default(live, sent).is_some() || old_hold(live, sent).is_some()
}

/// Returns true when another number of pods is to have the template: their number changes, or how many of them a
/// StatefulSet updates.
fn scales(live: &Value, would_be: &Value) -> bool {
    ["/spec/replicas", "/spec/updateStrategy/rollingUpdate/partition"]
        .iter()
        .any(|path| live.pointer(path).and_then(Value::as_i64) != would_be.pointer(path).and_then(Value::as_i64))
}

fn template_changes(live: &Value, would_be: &Value) -> bool {
    match (workload::template(live), workload::template(would_be)) {
        (Some(live), Some(would_be)) => !same_template(live, would_be),
        (None, None) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};
    use crate::rollout::Person;
    use jiff::Timestamp;
    use serde_json::json;

    fn wanted(trigger: Trigger) -> Wanted {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "web:2"}]}}}});
        let file = read_file("web.yaml", manifest.to_string().as_bytes(), &Scopes::new("default"));
        let commit = Commit {
            id: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb".parse().unwrap(),
            subject: "Change it".to_owned(),
            author: Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned() },
            authored: Timestamp::UNIX_EPOCH,
            committed: Timestamp::UNIX_EPOCH,
            parents: Vec::new(),
            trailers: Vec::new(),
        };
        Wanted::of(file.manifests.into_iter().next().unwrap(), Arc::new(commit), trigger)
    }

    fn live(uid: &str, generation: i64, annotations: Value) -> Value {
        json!({"metadata": {"name": "web", "uid": uid, "generation": generation, "annotations": annotations,
            "labels": {marks::SOURCE: "shop"}}, "spec": {"template": {}}})
    }

    #[test]
    fn what_is_held_stays_held_where_the_cluster_has_lost_the_hold() {
        let of = |manifest: &str| {
            Hold::new(manifest, None, &wanted(Trigger::Commit).commit.id, "too late", Timestamp::UNIX_EPOCH)
        };
        let held = of(&wanted(Trigger::Commit).hash);
        let kept = |hold: &Hold| KeptHold::on(&live("1", 7, json!({marks::HOLD: hold.to_annotation()}))).unwrap();
        let drift = || Trigger::Drift(String::new());
        let asks = json!({marks::SUSPEND: "by Ann"});
        for (case, trigger, live, kept, expected) in [
            ("nothing is known of a hold", drift(), None, None, "make"),
            ("it was deleted", drift(), None, Some(kept(&held)), "keep"),
            ("it was deleted, and a commit came", Trigger::Commit, None, Some(kept(&held)), "keep"),
            ("it was deleted, and its manifest is another", Trigger::Commit, None, Some(kept(&of("other"))), "make"),
            ("it was deleted, and somebody lets it in", Trigger::Retry, None, Some(kept(&held)), "make"),
            ("somebody made it anew", drift(), Some(live("2", 1, json!({}))), Some(kept(&held)), "keep"),
            ("the store was set back", drift(), Some(live("1", 5, json!({}))), Some(kept(&held)), "keep"),
            ("somebody took the hold off", drift(), Some(live("1", 7, json!({}))), Some(kept(&held)), "try"),
            ("it is suspended", drift(), Some(live("2", 1, asks)), Some(kept(&held)), "leave"),
        ] {
            let decided = intent(&wanted(trigger), "shop", (live.as_ref(), kept.as_ref()), OtherLabel::Claim, |_| None);
            let word = match decided {
                Intent::Leave(_) => "leave",
                Intent::Try(_) => "try",
                Intent::Make(_) => "make",
                Intent::Keep(_) => "keep",
            };
            assert_eq!(word, expected, "{case}");
        }
    }
}
