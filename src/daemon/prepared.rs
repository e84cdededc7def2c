//! One planned object, with what the plan has seen of it.

use crate::cluster::Served;
use belay_core::rollout::{ForeignField, LiveProgress, PlanStep, Planned, Record, RecordedFacts, ResumeFacts, resume};

/// One planned object.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub planned: Planned,
    /// The resource that serves it, where the cluster knows its kind.
    pub served: Option<Served>,
    /// How the live object stands; `None` where there is none.
    pub live: Option<LiveProgress>,
    /// The live object's digest, where it is as it should be.
    pub digest: Option<u64>,
    /// Who wrote the live object last, beside belay.
    pub last_writer: Option<String>,
    /// The fields that others have changed or added, and that are put right.
    pub foreign: Vec<ForeignField>,
    /// The source whose label the live object has.
    pub owner: Option<String>,
    /// What the history knows of it.
    pub recorded: RecordedFacts,
    /// Whether it takes the place of a rollout that was under way: where the pod template stays the same, that goes on, and
    /// is judged, as this one's.
    pub continues_rollout: bool,
    /// Whether it takes the place of a change of the number of pods that was under way, which is judged as this one's.
    pub continues_scaling: bool,
}

impl Prepared {
    /// What is planned for an object of which nothing else is known.
    pub(super) fn of(planned: Planned) -> Prepared {
        Prepared {
            planned,
            served: None,
            live: None,
            digest: None,
            last_writer: None,
            foreign: Vec::new(),
            owner: None,
            recorded: RecordedFacts::default(),
            continues_rollout: false,
            continues_scaling: false,
        }
    }

    /// Whether a template of this source is live and not complete.
    pub fn is_unfinished(&self, source: &str) -> bool {
        let ours = self.owner.as_deref() == Some(source);
        ours && self.live.as_ref().is_some_and(|live| live.marked && !live.complete)
    }

    /// Goes on with a rollout that is under way already; `open` is its record from before a restart, where there is one.
    pub fn resume(&mut self, open: Option<&Record>) {
        let facts = ResumeFacts {
            open,
            live: self.live.as_ref(),
            recorded: &self.recorded,
            continues_rollout: self.continues_rollout,
            continues_scaling: self.continues_scaling,
        };
        let step = std::mem::replace(&mut self.planned.step, PlanStep::Unchanged);
        self.planned.step = resume(step, &facts);
    }

    /// Whether what comes of it is judged.
    pub fn is_judged(&self) -> bool {
        let goes_on = match &self.planned.step {
            PlanStep::Resume(baseline) => !baseline.only_size,
            PlanStep::RollBack { .. } => true,
            _ => false,
        };
        goes_on || self.rolls_out()
    }

    /// Whether a rollout of a template comes of it that is to be judged.
    pub fn rolls_out(&self) -> bool {
        match &self.planned.step {
            PlanStep::Apply(apply) => apply.rolls_out || self.continues_rollout,
            PlanStep::Unchanged | PlanStep::Resume(_) => self.continues_rollout,
            _ => false,
        }
    }
}
