//! The plan of a rollback.

use serde_json::Value;

use super::facts::{ChangedConfiguration, RollbackFacts};
use super::held::{hold, hold_about};
use super::kept_hold::KeptHold;
use super::{NoRollbackTarget, RollbackTarget};
use crate::manifest::{Manifest, ObjectKey};
use crate::rollout::{
    CommitId, FailurePolicy, Hold, IgnoredFields, Reason, ReasonCode, TemplateMarks, Trigger, Workload, failure_policy,
    held_body, marks, rolling_update, same_template, template,
};

/// The result of planning with the facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Planning {
    /// Something more must be known first.
    Asks(Question),
    /// The plan.
    Made(RollbackPlan),
}

/// A fact that must be known before there is a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// [`RollbackFacts::target`]
    Target,
    /// [`RollbackFacts::trial`], of this body.
    Trial(Value),
    /// [`RollbackFacts::configuration`]
    Configuration,
    /// [`RollbackFacts::former`]
    Former,
}

/// The plan for an object whose rollout failed.
#[derive(Clone, Debug, PartialEq)]
pub enum RollbackPlan {
    /// It may not go back, or can't: it stays as it is.
    Stays(Reason),
    /// Somebody asked to leave it alone, and why: it stays as it is.
    Suspended(String),
    /// It went back already, and is held: only the end of its record is missing.
    IsBack(Reason),
    /// It was undone with `belay undo`, which left its hold.
    WasUndone {
        /// The reason, and the person.
        reason: Reason,
        /// The commit whose template it has.
        back_to: Option<CommitId>,
        /// The target, as it is recorded.
        to: String,
    },
    /// The write that goes back was made before a restart: it is watched to its end.
    Watched(Reason),
    /// The server refuses the rollback.
    Refused {
        /// The reason of the failure.
        reason: Reason,
        /// The server's words.
        error: String,
    },
    /// It goes back.
    GoesBack(Box<Rollback>),
}

/// One object that goes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollback {
    /// The kind of rollback.
    pub kind: RollbackKind,
    /// The reason of the failure.
    pub reason: Reason,
    /// The hold for it.
    pub hold: Hold,
    /// The manifest that is sent, but for its pod template.
    pub manifest: Value,
    /// The pod template; `None` for objects without one.
    pub template: Option<Value>,
    /// The marks for the object.
    pub marks: TemplateMarks,
    /// The revision that it goes back to, if the cluster has it still.
    pub revision: Option<i64>,
    /// The commit that it goes back to, if that is known.
    pub commit: Option<CommitId>,
    /// The target, for people.
    pub to: String,
    /// The ConfigMaps and Secrets that go back with it.
    pub with: Vec<Manifest>,
    /// The reasons for which others, which its commit changed too, stay.
    pub stays: Vec<String>,
}

/// The kind of object that goes back, and so the proof that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackKind {
    /// A workload: it is watched until it is complete.
    Workload,
    /// A ConfigMap, or another object without pods: it is back when it is written.
    Configuration,
    /// A workload that a person has undone: only the hold is missing.
    ByHand,
}

impl Rollback {
    /// Returns the hold that it is about to write, to be kept.
    #[must_use]
    pub fn kept_hold(&self) -> KeptHold {
        let (hold, template, marks) = (self.hold.clone(), self.template.clone(), self.marks.clone());
        KeptHold { hold, template, marks, uid: String::new(), generation: 0 }
    }

    /// Returns the body that is sent in the name of a source.
    #[must_use]
    pub fn sent(&self, source: &str) -> Value {
        held_body(&self.manifest, source, &self.marks, &self.hold, self.template.as_ref())
    }

    /// Returns the same onto the pod template that the server has made of it, of which these fields are left alone.
    #[must_use]
    pub fn onto(self, template: &Value, ignored_fields: &IgnoredFields) -> Rollback {
        let hold = self.hold.about(template, ignored_fields);
        Rollback { hold, template: self.template.map(|_| template.clone()), ..self }
    }
}

/// Plans the answer to a failed rollout of an object, or asks for facts first.
#[must_use]
pub fn plan(facts: &RollbackFacts<'_>) -> Planning {
    let reason = || facts.reason.clone();
    let live = facts.live;
    if let Some(why) = marks::suspension(live) {
        return Planning::Made(RollbackPlan::Suspended(why.to_owned()));
    }
    let (hash, config) = (&facts.wanted.hash, facts.wanted.config.as_deref());
    // A manifest may have left the repository since, and its ConfigMaps with it: then no configuration of it is known.
    let is_held = Hold::on(live).is_some_and(|hold| hold.keeps(hash, config.or(hold.config.as_deref())));
    match Workload::of(&facts.wanted.key) {
        None if is_held => Planning::Made(RollbackPlan::IsBack(reason())),
        None => plan_without_template(facts, live),
        // The hold comes first where belay takes the pods back itself: they may be on their way still.
        Some(_) if is_held && !rolling_update::has_begun(live) => Planning::Made(RollbackPlan::Watched(reason())),
        Some(workload) => match may_go_back(facts, workload, live) {
            Err(why) => Planning::Made(RollbackPlan::Stays(reason().and(why))),
            Ok(()) => plan_of_workload(facts, workload, live),
        },
    }
}

/// Decides if a failure is answered by a rollback: the object's own policy, else the source's, and the kind.
fn may_go_back(facts: &RollbackFacts<'_>, workload: Workload, live: &Value) -> Result<(), &'static str> {
    if !workload.can_go_back() {
        return Err("a workload of this kind is not taken back");
    }
    if !facts.changes_template {
        return Err("only the number of pods was changed: there is no template to go back to");
    }
    if facts.reason.code == ReasonCode::UndoneByHand {
        return Ok(());
    }
    match failure_policy(&facts.wanted.manifest.value(), live).unwrap_or(facts.policy) {
        FailurePolicy::Report => Err("it is only reported, as configured"),
        FailurePolicy::RollBack => Ok(()),
    }
}

fn plan_of_workload(facts: &RollbackFacts<'_>, workload: Workload, live: &Value) -> Planning {
    let reason = || facts.reason.clone();
    let decided = facts.kept.as_ref().and_then(KeptHold::target).map(Ok);
    let target = match decided.as_ref().or(facts.target.as_ref()) {
        None => return Planning::Asks(Question::Target),
        Some(Err(none)) => return Planning::Made(RollbackPlan::Stays(reason().and(none))),
        Some(Ok(target)) => target,
    };
    let mut rollback = to_target(facts, target);
    // Only the server knows its version of a template that it does not keep, and of one that is not sent as a whole.
    let is_sure = target.revision.is_some() && !facts.wanted.ignored_fields.is_in_template();
    if !is_sure && workload.replaces_pods() {
        match &facts.trial {
            None => return Planning::Asks(Question::Trial(rollback.sent(facts.source))),
            Some(Err(error)) => {
                return Planning::Made(RollbackPlan::Refused { reason: reason(), error: error.clone() });
            }
            Some(Ok(would_be)) if facts.kept.is_none() && is_on(live, would_be) => {
                return Planning::Made(RollbackPlan::Stays(reason().and(NoRollbackTarget::First)));
            }
            Some(Ok(would_be)) => rollback.hold = rollback.hold.about(would_be, &facts.wanted.ignored_fields),
        }
    }
    let Some(changed) = &facts.configuration else { return Planning::Asks(Question::Configuration) };
    (rollback.with, rollback.stays) = also_goes_back(changed);
    Planning::Made(RollbackPlan::GoesBack(Box::new(rollback)))
}

/// Returns true where an object has the pod template that the server would make.
fn is_on(live: &Value, would_be: &Value) -> bool {
    template(live).is_some_and(|failing| same_template(failing, would_be))
}

fn to_target(facts: &RollbackFacts<'_>, target: &RollbackTarget) -> Rollback {
    let anew = || {
        let hold = hold_about(facts.wanted, &facts.reason, facts.now, &target.template);
        hold.together_with(facts.culprit.clone())
    };
    let hold = facts.kept.as_ref().map_or_else(anew, |kept| kept.hold.clone());
    Rollback {
        kind: RollbackKind::Workload,
        reason: facts.reason.clone(),
        hold,
        manifest: facts.wanted.manifest.value(),
        template: Some(target.template.clone()),
        marks: target.marks.clone(),
        revision: target.revision,
        commit: target.commit.clone(),
        to: target.to_string(),
        with: Vec::new(),
        stays: Vec::new(),
    }
}

/// Returns the parts of a failed commit's configuration that go back with a workload, and why the rest stays: another
/// workload that has not failed needs it.
#[must_use]
pub fn also_goes_back(changed: &[ChangedConfiguration]) -> (Vec<Manifest>, Vec<String>) {
    let (goes, stays): (Vec<_>, Vec<_>) = changed.iter().partition(|changed| changed.needed_by.is_empty());
    let why = |changed: &ChangedConfiguration| {
        let readers: Vec<String> = changed.needed_by.iter().map(ObjectKey::to_string).collect();
        let (name, readers) = (&changed.manifest.key, readers.join(", "));
        format!("{name}, which the commit changed too, stays: {readers} names it and has not failed")
    };
    (goes.into_iter().map(|changed| changed.manifest.clone()).collect(), stays.into_iter().map(why).collect())
}

/// Plans for an object without a pod template, which goes back to its former manifest: with another that failed, or if
/// it asks for that itself. A source's choice is about workloads.
fn plan_without_template(facts: &RollbackFacts<'_>, live: &Value) -> Planning {
    let goes_along = matches!(facts.wanted.trigger, Trigger::Together(_));
    let asked = failure_policy(&facts.wanted.manifest.value(), live) == Some(FailurePolicy::RollBack);
    if !goes_along && !asked {
        return Planning::Made(RollbackPlan::Stays(facts.reason.clone()));
    }
    let former = match &facts.former {
        None => return Planning::Asks(Question::Former),
        Some(Some(former)) => former,
        Some(None) => {
            let why = format!("{} is new with this commit: there is nothing to go back to", facts.wanted.key);
            return Planning::Made(RollbackPlan::Stays(facts.reason.clone().and(why)));
        }
    };
    let culprit = facts.culprit.clone().filter(|culprit| !facts.readers.contains(culprit));
    let held = Hold { config: None, ..hold(facts.wanted, &facts.reason, facts.now) };
    Planning::Made(RollbackPlan::GoesBack(Box::new(Rollback {
        kind: RollbackKind::Configuration,
        reason: facts.reason.clone(),
        hold: held.together_with(culprit.into_iter().chain(facts.readers.iter().cloned())),
        manifest: former.manifest.value(),
        template: None,
        marks: TemplateMarks::default(),
        revision: None,
        commit: Some(former.commit.id.clone()),
        to: former.commit.change_cause(),
        with: Vec::new(),
        stays: Vec::new(),
    })))
}
