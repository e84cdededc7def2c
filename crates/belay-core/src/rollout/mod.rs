//! WHAT TO DO. Pure: no I/O, no clock, no async; facts and the present moment are arguments.

mod after;
mod anew;
mod autoscaler;
mod body;
mod commit;
mod config_hash;
mod diff;
mod extract;
mod fail_fast;
pub mod health;
mod hold;
mod judge;
mod lease;
mod left_alone;
mod live_workload;
mod managers;
mod manual_rollback;
pub mod marks;
mod note;
mod order;
mod outage;
mod outcome;
mod owned;
mod plan;
mod prune;
mod reason;
mod reason_texts;
mod rebuilt;
mod record;
mod references;
mod revision_pods;
mod rollback_target;
pub mod rolling_update;
mod sight;
mod state;
mod strategy_default;
mod takeover;
mod template;
mod template_change;
mod trigger;
mod undo;
mod wishes;
mod workload;

pub use after::{After, DependencyStanding, Gate, gate, is_well, wrong_order};
pub use autoscaler::scaled_by;
pub use body::{TemplateMarks, body, held_body, with_template};
pub use commit::{Commit, CommitId, InvalidCommitId, Person, read_change_cause};
pub use config_hash::{ConfigHash, Only, config_hash, config_hash_in, contents_hash, rolls_on_config, say_config_hash};
pub use diff::{Change, changes, differs, only_marks, presentable, presentable_pair};
pub use extract::{applied_fields, give_up_templates};
pub use fail_fast::{FailFast, is_unwell};
pub use health::{Counters, health, progress_deadline_seconds};
pub use hold::{Companion, Hold};
pub use judge::{Baseline, GRACE, Judge, Ruling, Verdict, Waiting, WaitingOn};
pub use lease::{Lease, holding, releasing};
pub use left_alone::{FieldPath, InvalidFieldPath, LeftAlone};
pub use live_workload::LiveWorkload;
pub use managers::{Takeover, unchanged};
pub use manual_rollback::{Recorded, RolledOut, manual_rollback};
pub use note::{Note, one_line};
pub use order::{Rank, rank};
pub use outage::Outages;
pub use outcome::Outcome;
pub use owned::{is_as_applied, is_label_of_others};
pub use plan::{
    Action, Apply, CLAIMED_TWICE, HELD_AGAIN, Intent, OtherLabel, Plan, Planned, Wanted, held_reason, intent, make,
    other_label, settle, settle_held, take_over,
};
pub use prune::{Prunable, allowed_by_trailer, prunable, too_many};
pub use reason::Reason;
pub use rebuilt::{Rebuilt, rebuilt};
pub use record::{EventSeen, Evidence, PodSeen, Record, RecordId, Step, StepKind};
pub use references::{
    Contents, Reading, Unnoticed, changes_contents, configuration_hash, is_configuration, named_configuration, readings,
};
pub use revision_pods::{RevisionPods, revision_pods};
pub use rollback_target::{Known, NoRollbackTarget, Revision, RollbackTarget, revisions, rollback_target};
pub use sight::Sight;
pub use state::{ObjectFacts, ObjectState, SourceFacts, SourceState, StateCounts};
pub use strategy_default::without_strategy;
pub use takeover::{before_apply, reclaim, takeover};
pub use template::{same_template, template_hash, without_controllers_labels};
pub use trigger::Trigger;
pub use undo::{NoTarget, as_kubectl_would, target};
pub use wishes::{Wish, wish};
pub use workload::{Workload, pod_spec_path, service_account, template};
