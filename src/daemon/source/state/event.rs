//! The events of a source, and the effects that answer them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::live_objects::LiveChange;
use super::rollouts::Rollout;
use crate::cluster::Served;
use crate::daemon::live::recheck::Recheck;
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use crate::daemon::source::task_result::{FinishedPlan, PlanRecord};
use crate::history::{NotedDispute, Trouble};
use crate::telemetry::Took;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::Standing;
use belay_core::rollout::{CommitId, ForeignField, Hold, Outcome, Reason, Record, RecordId, Trigger};

/// Something has happened.
#[derive(Debug)]
pub enum Event {
    /// The work from before belay stopped was read.
    Resumed { before: Box<WorkBeforeRestart>, at: Timestamp },
    /// The repository is left alone for a while, for the reason of the message.
    Rests { rest: Duration, message: String, at: Timestamp },
    /// The history was lost while it was in use, and has begun anew.
    HistoryLost,
    /// A task of the loop, which is no rollout, or the loop itself has panicked.
    Panicked,
    /// Somebody asks for a fetch, or has pushed to a repository on this machine.
    LookAsked,
    /// A forge reports a push.
    Pushed,
    /// Somebody asks for another try of these objects.
    RetryAsked(BTreeSet<String>),
    /// Something has come that these objects may have missed.
    Came(BTreeSet<ObjectKey>),
    /// It is time to fetch the repository.
    LookDue { at: Timestamp },
    /// A fetch is finished, at a time; with the content of the mirror, if that is to stay in force.
    Looked { seen: HeadSeen, kept: Option<Box<HeadChange>>, at: Timestamp },
    /// A fetch is finished whose facts are forgotten since.
    LookOvertaken,
    /// The source that a head waits for is complete, by the number of the wait.
    Awaited(u64, Option<String>),
    /// The plan of this number is made.
    Planned { number: u64, plan: Box<FinishedPlan> },
    /// A plan was written down, or could not be; whether that history is lost since.
    PlanRecorded { record: Box<PlanRecord>, is_lost: bool },
    /// A new head has this content: it is taken up, and planned.
    HeadTaken(Arc<DesiredState>),
    /// The plan of a new head is begun.
    PlanBegun,
    /// A plan is dropped that nobody begins: the repository is read again.
    PlanDropped,
    /// Kinds may be left that could not be searched for a plan.
    SearchLeft,
    /// A new head plans these objects, or their records have ended: no try of them counts any more.
    TriesOver(BTreeSet<ObjectKey>),
    /// The rollout of an object from before belay stopped is given up for the next plan: one that is judged, or one that only
    /// changes the number of pods.
    Interrupted { key: ObjectKey, is_judged: bool },
    /// A new head is planned, to which the rollouts under way for these objects give way.
    Superseded { by: BTreeMap<ObjectKey, CommitId> },
    /// It may be time to compare objects.
    Due,
    /// Nothing can be searched for now that has left the repository.
    SearchPutOff,
    /// These corrections could not be written down.
    NotWritten(Vec<Prepared>),
    /// The pods of workloads were inspected: with the trouble of each.
    PodsInspected(Vec<(ObjectKey, Option<String>)>),
    /// Another source has an object that this one claims.
    Claimed(String, ObjectKey),
    /// Objects were compared, under the plan of this number.
    Checked { plan: u64, prepared: Vec<Prepared> },
    /// The search for objects that have left the repository is done, under the plan of this number; `searched` is true
    /// when all kinds were searched, if they were to be.
    Searched { plan: u64, prepared: Vec<Prepared>, searched: Option<bool> },
    /// An object was tried again, under this number; with its plan, if there is one.
    Retried { key: ObjectKey, number: u64, prepared: Option<Box<Prepared>> },
    /// A rollout that was to begin without a new head is recorded.
    Begun { key: ObjectKey },
    /// A recorded rollout is begun, put off or left; with the digest of its object, if that is as it should be.
    Scheduled { key: ObjectKey, digest: Option<u64> },
    /// The rollout of an object is under way.
    UnderWay { key: ObjectKey, rollout: Box<Rollout> },
    /// A planned object waits under this record.
    Waits(Box<Record>),
    /// This is told of a planned object that waits.
    WaitTold { key: ObjectKey, message: String },
    /// No slot of `max_rollouts` is free for an object.
    NoSlot(ObjectKey),
    /// The dependency of an object that waits is not coming.
    PassedOver(ObjectKey),
    /// An object was refused, or was waited for in vain.
    Refused(ObjectKey),
    /// It is being read if others go back with a rollout that has ended.
    EndInReading,
    /// One of those was read.
    EndRead,
    /// Somebody has changed an object by hand, which is not recorded yet.
    ChangedByHand { key: ObjectKey, change: Box<ByHand> },
    /// An object is seen.
    Seen(ObjectKey),
    /// A live object has changed since it was seen before.
    Changed { key: ObjectKey, change: LiveChange },
    /// Somebody has removed the hold of an object by hand.
    Released(ObjectKey),
    /// A live workload has this standing by its status; `None` for kinds without one.
    StandingSeen { key: ObjectKey, standing: Option<Standing> },
    /// An autoscaler has changed the number of pods of a workload.
    Autoscaled(ObjectKey),
    /// A definition has changed, or is not going to.
    DefinitionThrough(ObjectKey),
    /// The record of a rollout has ended.
    RecordEnded { key: ObjectKey, outcome: Outcome, reason: Option<Reason> },
    /// Somebody has asked to take an object up again that was left alone.
    SuspensionOver(ObjectKey),
    /// An object may not be as it should be.
    MayDiffer(ObjectKey),
    /// A live object with this digest is as in the head.
    InSync { key: ObjectKey, digest: u64 },
    /// A live object with this digest was compared with its manifest.
    Compared { key: ObjectKey, digest: u64, in_sync: bool },
    /// The watch has reported all objects of a kind.
    Listed { group: String, kind: String },
    /// An object is not there any more.
    Gone(ObjectKey),
    /// Autoscalers decide on the pods of these from now on, or no longer.
    Rescaled(Vec<ObjectKey>),
    /// Others have kept changing an object while it was rolled out.
    Disturbed { key: ObjectKey, dispute: Dispute },
    /// A rollout has ended, and is recorded: with the trigger of its record, and its duration.
    Ended { key: ObjectKey, outcome: Outcome, trigger: Option<Trigger>, took: Option<Took> },
    /// A rollout was cancelled, and has stopped.
    Stopped(ObjectKey),
    /// A rollout has ended by a panic.
    Fault { key: ObjectKey, reason: Reason },
    /// The record of a rollout that is taken up again was read.
    Reopened(Box<Record>),
}

/// Something is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Looks at the repository, of which this head is known.
    Look { known: Option<CommitId> },
    /// Counts a fetch, and whether it reached the repository.
    Fetched(bool),
    /// Publishes the beginning of a fetch that reached the repository.
    LookedAt(Timestamp),
    /// Publishes why the repository can't be followed, if that does not pass by itself.
    Unreadable(Option<String>),
    /// Publishes the trouble with reading the repository, and notes it if it is news.
    RepositoryTrouble { trouble: Option<Trouble>, is_news: bool },
    /// Notes the subject of the source, and its trouble.
    NoteFollowed(Option<Trouble>),
    /// Says whether all that is known comes from the mirror.
    Away(bool),
    /// Publishes that a head is refused.
    RefuseHead { head: CommitId, message: String },
    /// Waits for another source before this head is planned, under this number.
    Await(u64, CommitId),
    /// Waits for no other source any more.
    StopWaiting,
    /// Publishes the content of the repository at its head for the tasks beside the loop.
    PublishDesired(Arc<DesiredState>),
    /// Plans a head.
    PlanHead(Box<HeadChange>),
    /// Writes a plan down.
    RecordPlan(Box<FinishedPlan>),
    /// Begins a recorded plan.
    BeginPlan(Box<PlanRecord>),
    /// Forgets a plan that could not be written down, or that nobody waits for any more.
    DropPlan(Box<PlanRecord>),
    /// Tells a rollout to stop.
    Cancel(ObjectKey),
    /// Looks into these objects.
    Check { plan: u64, rechecks: Vec<Recheck> },
    /// Searches for objects that have left the repository.
    Search { plan: u64 },
    /// Tries these objects again, each by itself, under its number.
    Retry(Vec<(Recheck, u64)>),
    /// Reports why an object can't be corrected for now.
    InTheWay(ObjectKey, String),
    /// Watches for what an object misses.
    Missing(ObjectKey),
    /// Says why an object is refused by now.
    StillRefused(ObjectKey, Reason),
    /// Withdraws the report about an object that had drifted, if there was one.
    NoDrift(ObjectKey),
    /// Says that an object differs by somebody else's hand, and is left so.
    ReportDrift { key: ObjectKey, served: Option<Served>, by: String, fields: Vec<ForeignField> },
    /// Says that somebody else and belay disagree about an object, or, with `None`, that they no longer do.
    Disagree { key: ObjectKey, dispute: Option<Dispute> },
    /// Publishes a disagreement from before belay stopped; it was told of then.
    StillDisagree { key: ObjectKey, dispute: Option<Dispute> },
    /// Reports why an object that differs can't be corrected.
    CantCorrect { key: ObjectKey, fields: Vec<ForeignField>, reason: Reason },
    /// Tells the source that has an object that this one claims it too.
    Claim(Box<Prepared>, Reason),
    /// Takes over the fields of a held controller that somebody has rolled with the command.
    Adopt { prepared: Box<Prepared>, hold: Hold },
    /// Withdraws the report about the obstacle of an object.
    NoTrouble(ObjectKey),
    /// Begins all of this.
    Start(Start),
    /// Ends the record of a rollout that a commit has replaced.
    Supersede(RecordId, CommitId),
    /// Counts a rollout that belay has judged.
    Count { trigger: Trigger, outcome: Outcome, took: Option<Took> },
    /// Counts a correction of drift.
    CountCorrection,
    /// Reads a record that is taken up again.
    Reopen { record: RecordId },
    /// Ends a record.
    Finish { key: ObjectKey, record: RecordId, outcome: Outcome, reason: Reason },
}

/// The work from before belay stopped.
#[derive(Debug, Default)]
pub struct WorkBeforeRestart {
    /// The head that was planned last.
    pub planned: Option<CommitId>,
    /// The newest open record of each object.
    pub records: BTreeMap<ObjectKey, Record>,
    /// The objects whose kinds were missing.
    pub missing: Vec<ObjectKey>,
    /// The disagreements.
    pub disputes: Vec<(ObjectKey, NotedDispute)>,
}

/// The rollouts that begin without a new head.
#[derive(Debug, Default, PartialEq)]
pub struct Start {
    /// The rollouts that continue under their records.
    pub resumed: Vec<(Record, Prepared)>,
    /// The rollouts that begin under a record of their own.
    pub new: Vec<Prepared>,
    /// The corrections of changes by others, in the order of ranks among these.
    pub corrections: Vec<Prepared>,
}

/// The result of a fetch.
#[derive(Debug)]
pub enum HeadSeen {
    /// The branch, tag or commit to follow does not exist yet.
    Unborn(String),
    /// Nothing new.
    Same,
    New(Box<HeadChange>),
    /// The repository could not be read; whether that may pass by itself.
    Failed {
        message: String,
        passes: bool,
    },
}
