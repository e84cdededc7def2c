//! One planned object, with what the plan has seen of it.

use jiff::Timestamp;

use crate::cluster::Served;
use belay_core::rollout::{Action, Baseline, Outcome, Planned};

/// One planned object.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub planned: Planned,
    /// The resource that serves it, where the cluster knows its kind.
    pub served: Option<Served>,
    /// How the live object stands; `None` where there is none.
    pub standing: Option<Standing>,
    /// The live object's digest, where it is as it should be.
    pub digest: Option<u64>,
    /// Who wrote the live object last, beside belay.
    pub last_writer: Option<String>,
    /// The source whose label the live object has.
    pub owner: Option<String>,
    /// What the history knows of it.
    pub recorded: RecordedFacts,
    /// Whether it takes the place of a rollout that was under way: where the pod template stays the same, that goes on, and
    /// is judged, as this one's.
    pub carries_on: bool,
    /// Whether it takes the place of a change of the number of pods that was under way, which is judged as this one's.
    pub scales_on: bool,
}

impl Prepared {
    /// What is planned for an object of which nothing else is known.
    pub(super) fn of(planned: Planned) -> Prepared {
        Prepared {
            planned,
            served: None,
            standing: None,
            digest: None,
            last_writer: None,
            owner: None,
            recorded: RecordedFacts::default(),
            carries_on: false,
            scales_on: false,
        }
    }

    /// Whether a template of this source is live and not complete.
    pub fn is_unfinished(&self, source: &str) -> bool {
        let ours = self.owner.as_deref() == Some(source);
        ours && self.standing.as_ref().is_some_and(|standing| standing.marked && !standing.complete)
    }

    /// Whether a rollout of a template comes of it that is to be judged.
    pub fn rolls_out(&self) -> bool {
        match &self.planned.action {
            Action::Apply(apply) => apply.rolls_out || self.carries_on,
            Action::Unchanged => self.carries_on,
            _ => false,
        }
    }
}

/// How a live workload stands, for taking up what was under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Whether it says that it is complete.
    pub complete: bool,
    /// Whether its pod template is the one of the wanted manifest's commit, by its mark.
    pub ours: bool,
    /// Whether some commit of belay's is said to have made its pod template.
    pub marked: bool,
    /// The hash of its pod template.
    pub template: Option<String>,
    /// Where judging it would begin.
    pub baseline: Baseline,
}

/// What the history knows of a planned object. What decides nothing about it is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedFacts {
    /// What became of it last, and when that began.
    pub newest: Option<(Outcome, Timestamp)>,
    /// Whether its last rollout came to an end that was its own. One that a newer commit took the place of did not, nor did
    /// one of which the history knows nothing.
    pub has_ended: bool,
    /// Where the judging of its open record began, once it was applied.
    pub applied: Option<Baseline>,
    /// The same, once it went back.
    pub went_back: Option<Baseline>,
}

impl RecordedFacts {
    /// Whether the last that is known of a workload is that it went back, or was suspended.
    pub fn was_broken_off(&self) -> bool {
        self.newest.is_some_and(|(outcome, _)| is_broken_off(outcome))
    }
}

/// Whether a rollout that ended like that leaves something else live than what was to be rolled out.
pub fn is_broken_off(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Suspended)
}
