//! Decisions about objects and their rollouts. Pure: no I/O, no clock, no async; facts and the present moment are arguments.

pub mod analysis;
mod annotations;
mod autoscaler;
pub mod canary;
mod deletion;
mod judge;
mod live_workload;
pub mod marks;
mod ownership;
mod plan;
mod record;
mod revision_pods;
pub mod rollback;
pub mod rolling_update;
mod template;
mod workload;

pub use annotations::{FailurePolicy, NamedAnalyses, asked_analyses, failure_policy};
pub use autoscaler::scaled_by;
pub use deletion::{being_deleted, finalizers, namespace_stays};
pub use judge::bake::{Bake, BakeStart, bake_time, comes_back};
pub use judge::fail_fast::{FailFast, is_unwell};
pub use judge::failure_cause::FailureCause;
pub use judge::health;
pub use judge::health::{Counters, health, is_complete, progress_deadline_seconds};
pub use judge::never_started::NeverStarted;
pub use judge::observation::Observation;
pub use judge::outage::Outages;
pub use judge::{Baseline, GRACE, Judge, Judgement, Verdict, Waiting, WaitingOn};
pub use live_workload::LiveWorkload;
pub use ownership::cluster_fields::{ClusterField, cluster_fields};
pub use ownership::extract::{applied_fields, give_up_templates};
pub use ownership::field_path::{FieldPath, InvalidFieldPath};
pub use ownership::ignored_fields::IgnoredFields;
pub use ownership::lease::{Lease, RetryRequest, SyncRequest, holding, releasing};
pub use ownership::managers::{Takeover, unchanged};
pub use ownership::owned::{is_as_applied, is_label_of_others};
pub use ownership::surplus::{ForeignField, Reach, Surplus, UNKNOWN_MANAGER, foreign_fields};
pub use ownership::takeover::{before_apply, takeover};
pub use plan::after::{After, DependencyStanding, Gate, awaited, gate, is_well};
pub use plan::body::{TemplateMarks, body, held_body, with_template};
pub use plan::config_hash::{
    ConfigHash, Only, config_hash, config_hash_in, contents_hash, rolls_on_config, say_config_hash,
};
pub use plan::diff::{Change, changes, differs, only_marks, presentable, presentable_pair};
pub use plan::hook_until::{HookUntil, has_succeeded};
pub use plan::job_run::{RunFacts, goes_by_itself, is_over, job_end};
pub use plan::order::{Rank, rank};
pub use plan::prune::{Prunable, allowed_by_trailer, prunable, too_many};
pub use plan::references::{
    Contents, Reading, Unnoticed, changes_contents, configuration_hash, is_configuration, named_configuration,
    note_planned_configuration, readings,
};
pub use plan::resume::{LiveProgress, RecordedFacts, ResumeFacts, has_settled, is_broken_off, resume};
pub use plan::step::{Apply, Plan, PlanStep, Planned, held_reason};
pub use plan::strategy_default::without_strategy;
pub use plan::wrong_order::wrong_order;
pub use plan::{
    HookRun, Intent, OtherLabel, Wanted, claimed_twice, guess, hook_run, intent, make, make_held, other_label,
    run_hook_again, settle, settle_held, take_over, take_surplus,
};
pub use record::commit::{Commit, CommitId, InvalidCommitId, Person, read_change_cause};
pub use record::note::{Note, one_line};
pub use record::outcome::Outcome;
pub use record::reason::{Reason, lasting_words};
pub use record::reason_code::{OtherCode, ReasonCode};
pub use record::rebuilt::{Rebuilt, rebuilt};
pub use record::short_cause::short_cause;
pub use record::state::{ObjectFacts, ObjectState, SourceFacts, SourceState, StateCounts};
pub use record::trigger::Trigger;
pub use record::{EventSeen, Evidence, PodSeen, Record, RecordId, Step, StepKind};
pub use revision_pods::{RevisionPods, revision_pods};
pub use rollback::hold::{Companion, Hold, held_template_hash};
pub use rollback::manual_rollback::{Recorded, RolledOut, manual_rollback};
pub use rollback::target::{
    Known, NoRollbackTarget, Revision, RollbackTarget, keeps_template, revisions, rollback_target,
};
pub use rollback::undo::{NoTarget, as_kubectl_would, target};
pub use template::{same_template, template_hash, without_controllers_labels, without_restart};
pub use workload::{Workload, is_hook_pod, is_job, is_pod, pod_spec_path, runs_once, service_account, template};
