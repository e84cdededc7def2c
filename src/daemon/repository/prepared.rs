//! One planned object, with the observations of the plan.

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Served;
use belay_core::rollout::canary::CanaryMark;
use belay_core::rollout::{
    Baseline, ForeignField, LiveProgress, PlanStep, Planned, Record, RecordedFacts, ResumeFacts, Wanted, Workload,
    held_template_hash, is_complete, marks, resume, rolling_update, template, template_hash,
};

/// One planned object.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub planned: Planned,
    /// The resource that serves it, if the cluster knows its kind.
    pub served: Option<Served>,
    /// The progress of the live object; `None` if there is none.
    pub live: Option<LiveProgress>,
    /// The live object's digest, if it is as it should be.
    pub digest: Option<u64>,
    /// The last writer of the live object other than belay.
    pub last_writer: Option<String>,
    /// When belay applied the live object last, as its field manager says.
    pub applied: Option<Timestamp>,
    /// The fields that others have changed or added, and that are corrected.
    pub foreign: Vec<ForeignField>,
    /// The source whose label the live object has.
    pub owner: Option<String>,
    /// The history's facts about it.
    pub recorded: RecordedFacts,
    /// True when it takes the place of a rollout that was under way: if the pod template stays the same, that goes on,
    /// and is judged, as this one's.
    pub continues_rollout: bool,
    /// True when it takes the place of a change of the number of pods that was under way, which is judged as this
    /// one's.
    pub continues_scaling: bool,
}

impl Prepared {
    /// Returns the plan for an object without any other facts.
    pub fn of(planned: Planned) -> Prepared {
        Prepared {
            planned,
            served: None,
            live: None,
            digest: None,
            last_writer: None,
            applied: None,
            foreign: Vec::new(),
            owner: None,
            recorded: RecordedFacts::default(),
            continues_rollout: false,
            continues_scaling: false,
        }
    }

    /// Returns true when a template of this source is live and not complete.
    pub fn is_unfinished(&self, source: &str) -> bool {
        let ours = self.owner.as_deref() == Some(source);
        ours && self.live.as_ref().is_some_and(|live| live.marked && !live.complete)
    }

    /// Returns true when it was suspended during its rollback, whose end is not in the books yet.
    pub fn was_suspended_on_its_way_back(&self) -> bool {
        self.live.is_some() && self.recorded.was_suspended()
    }

    /// Goes on with a rollout that is under way already; `open` is its record from before a restart, if there is one.
    pub fn resume(&mut self, open: Option<&Record>) {
        let hash = open.and_then(|record| record.manifest_hash.as_deref());
        let facts = ResumeFacts {
            open,
            live: self.live.as_ref(),
            recorded: &self.recorded,
            continues_rollout: self.continues_rollout,
            continues_scaling: self.continues_scaling,
            is_same_manifest: hash == Some(&*self.planned.wanted.hash),
        };
        let step = std::mem::replace(&mut self.planned.step, PlanStep::Unchanged);
        self.planned.step = resume(step, &facts);
    }

    /// Returns true when a rollout takes the place of one that is not complete, or goes on with the template of one that bakes.
    pub fn is_interrupted(&self) -> bool {
        let replaces = matches!(&self.planned.step, PlanStep::Apply(apply) if apply.rolls_out);
        self.continues_rollout && !replaces || self.live.as_ref().is_some_and(|live| !live.complete)
    }

    /// Returns true when its result is judged.
    pub fn is_judged(&self) -> bool {
        let goes_on = match &self.planned.step {
            PlanStep::Resume(baseline) => !baseline.only_size,
            PlanStep::RollBack { .. } => true,
            _ => false,
        };
        goes_on || self.rolls_out()
    }

    /// Returns true when it puts an object right whose manifest is held.
    pub fn keeps_hold(&self) -> bool {
        matches!(&self.planned.step, PlanStep::Apply(apply) if apply.keeps_hold)
    }

    /// Returns true when a rollout of a template follows that is judged.
    pub fn rolls_out(&self) -> bool {
        match &self.planned.step {
            PlanStep::Apply(apply) => apply.rolls_out || self.continues_rollout,
            PlanStep::Unchanged | PlanStep::Resume(_) => self.continues_rollout,
            _ => false,
        }
    }
}

/// Returns the progress of a live workload; `None` for other objects.
pub fn progress(wanted: &Wanted, live: &Value, settled: bool) -> Option<LiveProgress> {
    Workload::of(&wanted.key)?;
    // A failure in its status is this rollout's, as far as anybody knows.
    let baseline = Baseline { old_failure: None, ..Baseline::of(&wanted.key, live) };
    let commit = marks::annotation(live, marks::COMMIT);
    let (marked, ours) = (commit.is_some(), commit == Some(wanted.commit.id.as_str()));
    let (template, held_template) = match template(live) {
        Some(template) => (Some(template_hash(template)), Some(held_template_hash(template, &wanted.ignored_fields))),
        None => (None, None),
    };
    // If belay replaces the pods, those of the other controller are still to come or to go.
    let is_rolling_update = rolling_update::has_begun(live);
    let complete = is_complete(&wanted.key, live) && !is_rolling_update;
    let canary = CanaryMark::on(live);
    Some(LiveProgress { complete, is_rolling_update, ours, marked, canary, template, held_template, settled, baseline })
}
