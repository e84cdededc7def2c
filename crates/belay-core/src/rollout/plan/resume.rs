//! Decides if a rollout is under way already. A daemon that is started again, and a newer commit that leaves the pod
//! template alone, go on with it: they watch it from where it began, or take it back.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::step::{Apply, PlanStep};
use crate::manifest::ObjectKey;
use crate::rollout::canary::CanaryMark;
use crate::rollout::judge::health::was_complete;
use crate::rollout::{
    Baseline, GRACE, Outcome, Reason, ReasonCode, Record, Trigger, is_job, progress_deadline_seconds,
};

/// The progress of a live workload.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveProgress {
    /// True when its status says that it is complete.
    pub complete: bool,
    /// A rolling update of this ReplicationController is under way. Its hold is written before its pods go back.
    pub is_rolling_update: bool,
    /// True when its pod template is the one of the wanted manifest's commit, by its mark.
    pub ours: bool,
    /// True when a mark names a commit of belay's for its pod template.
    pub marked: bool,
    /// The hash of its pod template.
    pub template: Option<String>,
    /// The hash by which a hold would name its pod template; see [`crate::rollout::held_template_hash`].
    pub held_template: Option<String>,
    /// The step of its canary, under way or left, by its mark.
    pub canary: Option<CanaryMark>,
    /// True when its rollout was over long ago, by all that the cluster says; see [`has_settled`].
    pub settled: bool,
    /// The baseline from which it would be judged.
    pub baseline: Baseline,
}

/// Returns true when the rollout of a workload's present template was over long ago, though the workload is unhealthy
/// and nobody here has seen the end: the cluster says so, or the time that any rollout has for its verdict has passed
/// since belay's last write.
#[must_use]
pub fn has_settled(
    key: &ObjectKey,
    live: &Value,
    last_apply: Option<Timestamp>,
    now: Timestamp,
    outage_timeout: SignedDuration,
) -> bool {
    let deadline = progress_deadline_seconds(key, live).map(SignedDuration::from_secs);
    let over = deadline.zip(last_apply).is_some_and(|(deadline, at)| {
        now.duration_since(at) > deadline.saturating_add(GRACE).saturating_add(outage_timeout)
    });
    over || was_complete(key, live)
}

/// The history's facts about a planned object. Facts that decide nothing about it are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedFacts {
    /// Its last outcome, and its beginning.
    pub newest: Option<(Outcome, Timestamp)>,
    /// True when a person has taken it back, and nothing has been written down about it since.
    pub was_undone: bool,
    /// True when its last rollout came to an end of its own. One that a newer commit took the place of did not, nor did
    /// one of which the history knows nothing.
    pub has_ended: bool,
    /// True when its last rollout was of the manifest that is planned, has failed and was left as it is, and nobody has
    /// asked for another try.
    pub is_left_failed: bool,
    /// The baseline of its open record, once it was applied.
    pub applied: Option<Baseline>,
    /// The same, once it went back.
    pub went_back: Option<Baseline>,
    /// The reason for which it is given up at once: another object of its commit has failed, and all of that goes back.
    pub commit_failed: Option<Reason>,
}

impl RecordedFacts {
    /// Returns true when the last known outcome of a workload is that somebody asked to leave it alone.
    #[must_use]
    pub fn was_suspended(&self) -> bool {
        self.newest.is_some_and(|(outcome, _)| outcome == Outcome::Suspended)
    }

    /// Returns true when the last known outcome of a workload is that it went back, or was suspended.
    #[must_use]
    pub fn was_broken_off(&self) -> bool {
        self.newest.is_some_and(|(outcome, _)| is_broken_off(outcome))
    }
}

/// Returns true when a rollout with this outcome leaves another template live than the one that was to be rolled out.
#[must_use]
pub fn is_broken_off(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Suspended)
}

/// The facts that decide if a rollout is under way.
#[derive(Clone, Copy, Debug)]
pub struct ResumeFacts<'a> {
    /// The open record of the object from before a restart, if there is one.
    pub open: Option<&'a Record>,
    /// The progress of the live workload; `None` if it is no workload, or not live.
    pub live: Option<&'a LiveProgress>,
    /// The history's facts.
    pub recorded: &'a RecordedFacts,
    /// True when a rollout of the same pod template was under way, which goes on as this one.
    pub continues_rollout: bool,
    /// True when a change of the number of pods was under way, which goes on as this one.
    pub continues_scaling: bool,
    /// True when the open record is of the very manifest that is planned.
    pub is_same_manifest: bool,
}

/// Returns the step of a plan for an object that may have an open rollout: it is watched on, or goes back. Any other
/// step stays.
#[must_use]
pub fn resume(step: PlanStep, facts: &ResumeFacts<'_>) -> PlanStep {
    match step {
        // Somebody took it back while belay was not there: that is its end.
        PlanStep::Held(hold) if hold.by.is_some() => PlanStep::Held(hold),
        PlanStep::Held(hold) => match facts.unfinished_rollback(&hold.reason) {
            Some(back) => back,
            None => PlanStep::Held(hold),
        },
        PlanStep::Unchanged | PlanStep::Apply(_) if facts.was_going_back() => {
            PlanStep::RollBack { reason: facts.failure("it had failed before belay was restarted"), written: None }
        }
        PlanStep::Unchanged => facts.unfinished_rollout().map_or(PlanStep::Unchanged, PlanStep::Resume),
        // A Job that went meanwhile has run, perhaps: how it ended is found out before it is made again.
        PlanStep::Apply(_) if let Some(applied) = facts.job_that_went() => PlanStep::Resume(applied),
        // Its rolling update has failed and stays half-way: the template of its controller is the former one.
        PlanStep::Apply(apply) if apply.rolls_out && facts.is_left_half_way() => PlanStep::Unchanged,
        // An object that was applied before a restart and is not live any more may have been undone by hand meanwhile.
        PlanStep::Apply(apply) if facts.open.is_some() && facts.recorded.applied.is_some() => {
            let respects_undo = apply.respects_undo || apply.replaces_template();
            PlanStep::Apply(Apply { respects_undo, ..apply })
        }
        other => other,
    }
}

impl ResumeFacts<'_> {
    /// Returns the baseline of a Job that was made for this manifest before a restart, and is gone now.
    fn job_that_went(&self) -> Option<Baseline> {
        let is_its = self.live.is_none() && self.is_same_manifest;
        let open = self.open.filter(|record| is_its && is_job(&record.object));
        open.and(self.recorded.applied.clone())
    }

    /// Returns true when the rolling update of a ReplicationController to the planned manifest has failed, and is left as
    /// it is.
    fn is_left_half_way(&self) -> bool {
        let is_rolling_update = self.live.is_some_and(|live| live.is_rolling_update);
        self.open.is_none() && is_rolling_update && self.recorded.is_left_failed
    }

    /// Returns true when it was going back. A rollout that goes back with another has done so from its beginning.
    fn was_going_back(&self) -> bool {
        let goes_along = |record: &Record| matches!(record.trigger, Trigger::Together(_));
        self.open.is_some_and(|record| record.outcome == Outcome::RollingBack || goes_along(record))
    }

    /// Returns why a rollout that was going back had failed, by its record.
    fn failure(&self, otherwise: &str) -> Reason {
        let recorded = self.open.filter(|_| self.was_going_back()).and_then(|record| record.reason.clone());
        recorded.unwrap_or_else(|| Reason::new(ReasonCode::Failed, otherwise.to_owned()))
    }

    /// Returns the rollback of a held manifest that was not through.
    fn unfinished_rollback(&self, held_for: &str) -> Option<PlanStep> {
        // One that was suspended on its way back has no end in the books yet.
        let is_moving = self.live.is_some_and(|live| !live.complete || self.recorded.was_suspended());
        let written = self.open.and(self.recorded.went_back.clone());
        let in_one_write = self.live.filter(|live| !live.is_rolling_update);
        let written = written.or_else(|| in_one_write.map(|live| live.baseline.clone()));
        (self.was_going_back() || is_moving).then(|| PlanStep::RollBack { reason: self.failure(held_for), written })
    }

    /// Returns the baseline of an unfinished rollout whose manifest is live already.
    fn unfinished_rollout(&self) -> Option<Baseline> {
        let known = self.open.and(self.recorded.applied.clone());
        let scales =
            known.as_ref().is_some_and(|known| known.only_size) || self.continues_scaling && !self.continues_rollout;
        let live = self.live.filter(|live| live.ours || live.canary.is_some() || self.continues_rollout || scales)?;
        // A canary that failed and was left is no rollout any more.
        let is_over = if live.canary.is_some() { self.recorded.is_left_failed } else { live.complete || live.settled };
        if self.open.is_none() && is_over && !self.continues_rollout {
            return None;
        }
        let anew = || Baseline { only_size: scales, ..live.baseline.clone() };
        Some(known.unwrap_or_else(anew))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Compact;
    use crate::rollout::{CommitId, Hold};

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn record(outcome: Outcome) -> Record {
        let commit = COMMIT.parse::<CommitId>().unwrap();
        let (group, kind, name) = ("apps".to_owned(), "Deployment".to_owned(), "web".to_owned());
        let object = ObjectKey { group, kind, namespace: Some("shop".to_owned()), name };
        let reason =
            (outcome == Outcome::RollingBack).then(|| Reason::new(ReasonCode::Failed, "it had failed".to_owned()));
        Record { outcome, reason, ..Record::planned("shop", &commit, object, Timestamp::UNIX_EPOCH) }
    }

    fn baseline(generation: i64) -> Baseline {
        Baseline { generation, ..Baseline::default() }
    }

    fn live(complete: bool, ours: bool) -> Option<LiveProgress> {
        let (marked, settled, is_rolling_update) = (true, false, false);
        Some(LiveProgress {
            complete,
            is_rolling_update,
            ours,
            marked,
            canary: None,
            template: None,
            held_template: None,
            settled,
            baseline: baseline(7),
        })
    }

    fn hold(by: Option<&str>) -> PlanStep {
        PlanStep::Held(Hold {
            manifest: String::new(),
            config: None,
            template: String::new(),
            ignored_fields: Vec::new(),
            commit: COMMIT.parse().unwrap(),
            reason: "held for this".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            with: Vec::new(),
            by: by.map(str::to_owned),
        })
    }

    fn apply(creates: bool) -> PlanStep {
        let body = Compact::of(&serde_json::json!({}));
        PlanStep::Apply(Apply { rolls_out: true, creates, ..Apply::of(body) })
    }

    /// Returns the name of the resulting step, with its baseline.
    fn word(step: &PlanStep) -> String {
        match step {
            PlanStep::Resume(from) if from.only_size => format!("resume {} for size", from.generation),
            PlanStep::Resume(from) => format!("resume {}", from.generation),
            PlanStep::RollBack { reason, written: None } => format!("roll back: {}", reason.message),
            PlanStep::RollBack { reason, written: Some(from) } => {
                format!("watch the way back from {}: {}", from.generation, reason.message)
            }
            PlanStep::Apply(apply) if apply.respects_undo => "apply, if it is no undo".to_owned(),
            PlanStep::Apply(_) => "apply".to_owned(),
            PlanStep::Held(_) => "held".to_owned(),
            PlanStep::Unchanged => "unchanged".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// The name, the planned step, the open record's outcome, the workload's standing, the generations that are
    /// recorded as applied and as gone back, two flags for a continued rollout and scaling, and the expected step.
    type Case = (
        &'static str,
        PlanStep,
        Option<Outcome>,
        Option<LiveProgress>,
        (Option<Baseline>, Option<Baseline>),
        (bool, bool),
        &'static str,
    );

    fn each_becomes(table: Vec<Case>) {
        for (case, step, open, live, (applied, went_back), (continues_rollout, continues_scaling), expected) in table {
            let open = open.map(record);
            let recorded = RecordedFacts { applied, went_back, ..RecordedFacts::default() };
            let (open, live, recorded) = (open.as_ref(), live.as_ref(), &recorded);
            let is_same_manifest = true;
            let facts = ResumeFacts { open, live, recorded, continues_rollout, continues_scaling, is_same_manifest };
            assert_eq!(word(&resume(step, &facts)), expected, "{case}");
        }
    }

    #[test]
    fn what_is_live_already_is_watched_on_or_left() {
        use Outcome::{Planned, UnderWay};
        let (none, no) = (|| (None, None), (false, false));
        let applied = |generation| (Some(baseline(generation)), None);
        let sized = || (Some(Baseline { only_size: true, ..baseline(3) }), None);
        let same = || PlanStep::Unchanged;
        let settled = || live(false, true).map(|live| LiveProgress { settled: true, ..live });
        let canary = || {
            live(false, false).map(|live| LiveProgress { settled: true, canary: Some(CanaryMark::at(1, 2)), ..live })
        };
        each_becomes(vec![
            ("nothing is under way", same(), None, live(true, true), none(), no, "unchanged"),
            ("it is no workload", same(), Some(UnderWay), None, applied(3), no, "unchanged"),
            ("somebody else moves it", same(), None, live(false, false), none(), no, "unchanged"),
            ("it moves, and the history knows nothing", same(), None, live(false, true), none(), no, "resume 7"),
            ("its canary is under way, and the history was lost", same(), None, canary(), none(), no, "resume 7"),
            ("it was complete long ago", same(), None, settled(), none(), no, "unchanged"),
            ("it was, and has a record", same(), Some(UnderWay), settled(), applied(3), no, "resume 3"),
            ("it was applied before a restart", same(), Some(UnderWay), live(false, true), applied(3), no, "resume 3"),
            ("it is complete by now", same(), Some(UnderWay), live(true, true), applied(3), no, "resume 3"),
            ("the answer was lost", same(), Some(Planned), live(true, true), none(), no, "resume 7"),
            ("a newer commit left its template", same(), None, live(true, false), none(), (true, false), "resume 7"),
            ("its size was changing", same(), None, live(false, false), none(), (false, true), "resume 7 for size"),
            (
                "its size was, before a restart",
                same(),
                Some(UnderWay),
                live(false, false),
                sized(),
                no,
                "resume 3 for size",
            ),
            ("both were", same(), None, live(false, true), none(), (true, true), "resume 7"),
        ]);
    }

    #[test]
    fn what_had_failed_goes_back_and_what_a_person_did_stays() {
        use Outcome::{RollingBack, UnderWay};
        let (none, no) = (|| (None, None), (false, false));
        let back = |generation| (Some(baseline(3)), Some(baseline(generation)));
        let applied = || (Some(baseline(3)), None);
        let same = || PlanStep::Unchanged;
        let begin = "roll back: it had failed";
        let rolling = || live(false, false).map(|live| LiveProgress { is_rolling_update: true, ..live });
        each_becomes(vec![
            ("it is live still", same(), Some(RollingBack), live(false, true), applied(), no, begin),
            ("it is to be sent", apply(false), Some(RollingBack), live(false, true), applied(), no, begin),
            ("held and through", hold(None), None, live(true, false), none(), no, "held"),
            ("held by a person", hold(Some("ann")), Some(RollingBack), live(false, false), back(5), no, "held"),
            (
                "the write of the way back is known",
                hold(None),
                Some(RollingBack),
                live(false, false),
                back(5),
                no,
                "watch the way back from 5: it had failed",
            ),
            (
                "only the cluster knows of it",
                hold(None),
                None,
                live(false, false),
                none(),
                no,
                "watch the way back from 7: held for this",
            ),
            ("held before its pods go back", hold(None), Some(RollingBack), rolling(), none(), no, begin),
            ("nothing is there to watch", hold(None), Some(RollingBack), None, none(), no, begin),
            (
                "applied, and not live now",
                apply(false),
                Some(UnderWay),
                live(true, false),
                applied(),
                no,
                "apply, if it is no undo",
            ),
            ("applied, and deleted since", apply(true), Some(UnderWay), None, applied(), no, "apply"),
            ("not applied before the restart", apply(false), Some(UnderWay), live(true, false), none(), no, "apply"),
        ]);
    }

    #[test]
    fn what_is_nobodys_rollout_stays_as_planned() {
        let (none, open) = ((None, None), Some(Outcome::UnderWay));
        let rejected = PlanStep::Rejected(Reason::new(ReasonCode::InvalidManifest, "no".to_owned()), Vec::new());
        for step in [PlanStep::Prune, PlanStep::Suspended("by ann".to_owned()), rejected] {
            let open = open.map(record);
            let live = live(false, true);
            let recorded =
                RecordedFacts { applied: none.0.clone(), went_back: none.1.clone(), ..RecordedFacts::default() };
            let (open, live, recorded) = (open.as_ref(), live.as_ref(), &recorded);
            let facts = ResumeFacts {
                open,
                live,
                recorded,
                continues_rollout: true,
                continues_scaling: true,
                is_same_manifest: true,
            };
            assert_eq!(resume(step.clone(), &facts), step);
        }
    }

    #[test]
    fn a_rolling_update_that_failed_is_left_half_way() {
        let rolling = LiveProgress { is_rolling_update: true, ..live(false, false).unwrap() };
        let through = live(true, false).unwrap();
        for (case, open, live, is_left_failed, expected) in [
            ("it failed, and is only reported", None, &rolling, true, "unchanged"),
            ("nobody has seen it fail, or somebody asks for another try", None, &rolling, false, "apply"),
            ("a person has ended it", None, &through, true, "apply"),
            ("it is under way", Some(Outcome::UnderWay), &rolling, true, "apply"),
        ] {
            let (open, recorded) = (open.map(record), RecordedFacts { is_left_failed, ..RecordedFacts::default() });
            let facts = ResumeFacts {
                open: open.as_ref(),
                live: Some(live),
                recorded: &recorded,
                continues_rollout: false,
                continues_scaling: false,
                is_same_manifest: true,
            };
            assert_eq!(word(&resume(apply(false), &facts)), expected, "{case}");
        }
    }

    #[test]
    fn a_commit_that_goes_back_to_a_held_manifest_is_told_so() {
        use super::super::step::held_reason;
        let PlanStep::Held(hold) = hold(None) else { unreachable!("a hold is made") };
        let other: CommitId = "89abcdef0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(held_reason(&hold, &other, &Trigger::Commit).code, ReasonCode::HeldAgain);
        assert_eq!(held_reason(&hold, &hold.commit, &Trigger::Commit).code, ReasonCode::Held);
        assert_eq!(held_reason(&hold, &other, &Trigger::Retry).message, "held for this");
    }

    #[test]
    fn a_job_that_went_is_asked_how_it_ended_before_it_is_made_again() {
        let object = |kind: &str, group: &str| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: Some("shop".to_owned()),
            name: "j".to_owned(),
        };
        let (job, web) = (object("Job", "batch"), object("Deployment", "apps"));
        let applied = Baseline { uid: "a".to_owned(), ..Baseline::default() };
        let recorded = RecordedFacts { applied: Some(applied.clone()), ..RecordedFacts::default() };
        let never = RecordedFacts::default();
        let step = |key: &ObjectKey, recorded: &RecordedFacts, is_same_manifest: bool| {
            let open = Record::planned("shop", &COMMIT.parse().unwrap(), key.clone(), Timestamp::UNIX_EPOCH);
            let (live, open) = (None, Some(&open));
            let (continues_rollout, continues_scaling) = (false, false);
            let facts = ResumeFacts { open, live, recorded, continues_rollout, continues_scaling, is_same_manifest };
            let made = Apply { creates: true, rolls_out: true, ..Apply::of(Compact::of(&serde_json::Value::Null)) };
            resume(PlanStep::Apply(made), &facts)
        };
        assert_eq!(step(&job, &recorded, true), PlanStep::Resume(applied));
        for other in [step(&job, &recorded, false), step(&job, &never, true), step(&web, &recorded, true)] {
            assert!(matches!(other, PlanStep::Apply(_)), "{other:?}");
        }
    }
}
