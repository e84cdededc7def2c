//! `belay plan`

pub(in crate::cli) mod config_rollout;
pub(in crate::cli) mod markdown;
pub(in crate::cli) mod plan_text;
mod present_traffic;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use self::plan_text::{PlanNotes, waits, what};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::activity::during;
use crate::cli::output::answer::{ActionWord, PlanAnswer, StepAnswer};
use crate::cli::output::diff::{self, Unified};
use crate::cli::output::{Format, counted, output_width, plain, progress, say, say_value};
use crate::cli::session::configured::{Reading, configured};
use crate::cli::worktree::folder::{self, Folder};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::SourceConfig;
use crate::daemon::{Leaving, LeavingPlan, capabilities, leave_finished, plan_leaving, plan_once};
use crate::git::WorkingCopy;
use crate::render::{Capabilities, IGNORE_FILE, MemoryTree, SourcePaths, Unit};
use belay_core::manifest::{Colour, Complaint, File, Scopes, is_manifest, render};
use belay_core::rollout::{
    After, Commit, CommitId, Person, Plan, PlanStep, Planned, Reason, ReasonCode, Trigger, Wanted, configuration_hash,
    named_configuration, template,
};

/// The arguments of `belay plan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The revision of the Git working copy here: HEAD, a branch, a commit [default: the folder as it is now]
    #[arg(value_name = "REV", conflicts_with = "from")]
    revision: Option<String>,
    /// Read this folder of the revision [default: all; with --config all that its source follows]
    #[arg(long, value_name = "DIR", requires = "revision")]
    path: Option<String>,
    /// Read this folder, committed or not [default: the present one; with --config all that its source follows]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Plan for this source [default: the only one of --config, without it "default"]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Roll workloads out with the ConfigMaps and Secrets that they read, as `roll_on_config = true` of the source does
    #[arg(long)]
    roll_on_config: bool,
    /// Plan as a source of the daemon's configuration does: by its `path`, `include`, `exclude`, `render`, `helm`,
    /// `ignore`, `prune`, `prune_limit`, `roll_on_config` and `context`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: PlanFormat,
}

/// The format of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PlanFormat {
    /// For people.
    #[default]
    #[value(hide = true)]
    Text,
    /// A comment under a pull request, at most 65,000 characters.
    Markdown,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { revision, path, from, source, roll_on_config, config, output } = args;
    let configured = config.map(|file| configured(&file, source.as_deref())).transpose()?;
    let reading = configured.as_ref().map(|(source, render)| Reading::of(source, render)).unwrap_or_default();
    let configured = configured.map(|(source, _)| source);
    let path = path.unwrap_or_default();
    let roll_on_config = roll_on_config || configured.as_ref().is_some_and(|source| source.roll_on_config);
    let context = configured.as_ref().map_or("", |source| &source.context);
    let cluster = globals.cluster(context).await?;
    let mut reading = reading;
    reading.options.capabilities = of_cluster(&cluster).await?;
    let scopes = Scopes::new(cluster.default_namespace());
    let (commit, Folder { files, complaints, .. }) = match revision {
        Some(name) => of_revision(&name, &path, &reading, scopes)?,
        None => {
            let folder = folder::read(from.as_deref(), &reading, scopes)?;
            (not_committed(Clock::system().now()), folder)
        }
    };
    let commit = Arc::new(commit);
    let mut wanted = wanted(&files, &commit, roll_on_config);
    if let Some(source) = &configured {
        wanted.iter_mut().for_each(|wanted| wanted.ignored_fields = source.ignored_fields(&wanted.key));
    }
    // A contradiction between two manifests is a complaint of both.
    wanted.retain(|wanted| !complaints.iter().any(|complaint| complaint.object.as_ref() == Some(&wanted.key)));
    let mentioned = files.iter().flat_map(|file| &file.manifests).map(|manifest| manifest.key.clone());
    let mentioned = mentioned.chain(complaints.iter().filter_map(|complaint| complaint.object.clone())).collect();
    let is_configured = configured.is_some();
    let of_source = configured.unwrap_or_else(|| {
        let unnamed = SourceConfig::of("");
        SourceConfig { name: source.unwrap_or_else(|| unnamed.name.clone()), ..unnamed }
    });
    let unreadable = complaints.iter().any(|complaint| complaint.object.is_none());
    let leaving = Leaving { config: &of_source, commit: &commit, mentioned: &mentioned, unreadable };
    let planning = format!("planning {}", counted(wanted.len(), "object"));
    let Plan { source, head, mut planned } =
        during(&planning, plan_once(&cluster, &of_source.name, &commit.id, wanted)).await?;
    leave_finished(&cluster, &of_source, &mut planned).await;
    let LeavingPlan { planned: left, beyond_limit } =
        during("looking for objects that have left the repository", plan_leaving(&cluster, leaving)).await?;
    planned.extend(left);
    let plan = Plan::new(source, head, planned);
    let differs = !plan.is_empty() || beyond_limit.is_some();
    let says_guards = is_configured && output != PlanFormat::Name;
    let guards = if says_guards { present_traffic::guards(&of_source, &plan).await } else { BTreeMap::new() };
    let notes = PlanNotes { stale: config_rollout::unnoticed(&plan, roll_on_config), guards };
    show(&plan, beyond_limit, &complaints, &notes, output)?;
    if !complaints.is_empty() || plan.planned.iter().any(|planned| is_refused(&planned.step)) {
        return Ok(Exit::Error);
    }
    Ok(if differs { Exit::No } else { Exit::Done })
}

/// Prints a plan in a format; `beyond_limit` says that more objects have left than may be deleted.
fn show(
    plan: &Plan,
    beyond_limit: Option<String>,
    complaints: &[Complaint],
    notes: &PlanNotes,
    output: PlanFormat,
) -> anyhow::Result<()> {
    let answer = || PlanAnswer {
        source: plan.source.clone(),
        changes: !plan.is_empty() || beyond_limit.is_some(),
        beyond_prune_limit: beyond_limit.clone(),
        steps: plan.planned.iter().map(|planned| step(planned, notes)).collect(),
        complaints: complaints.to_vec(),
    };
    match output {
        PlanFormat::Json => say_value(&answer(), Format::Json)?,
        PlanFormat::Yaml => say_value(&answer(), Format::Yaml)?,
        PlanFormat::Markdown => {
            let warning = beyond_limit.as_deref();
            say(markdown::plan(plan, complaints, notes, &summary(plan, complaints.len()), warning).trim_end());
        }
        PlanFormat::Name => {
            plan.planned.iter().filter(|step| changes(step)).for_each(|step| say(step.wanted.key.to_string()));
            // Standard output has only names; complaints go to standard error.
            let refused = plan.planned.iter().flat_map(refusals);
            complaints
                .iter()
                .cloned()
                .chain(refused)
                .for_each(|complaint| progress(plain(&format!("error: {complaint}"))));
            beyond_limit.iter().for_each(|message| progress(plain(&format!("warning: {message}"))));
            progress(summary(plan, complaints.len()));
        }
        PlanFormat::Text => {
            print(plan, complaints, notes);
            beyond_limit.iter().for_each(|message| progress(plain(&format!("warning: {message}"))));
            progress(summary(plan, complaints.len()));
        }
    }
    Ok(())
}

/// Returns the capabilities of the cluster for charts. Nothing if that may not be asked for.
async fn of_cluster(cluster: &Cluster) -> anyhow::Result<Option<Arc<Capabilities>>> {
    match cluster.discover().await {
        Ok(discovered) => Ok(Some(Arc::new(capabilities(discovered)))),
        Err(error @ ClusterError::Away { .. }) => Err(error.into()),
        Err(error) => {
            progress(format!("charts are rendered for the version and the kinds that helm assumes: {error}"));
            Ok(None)
        }
    }
}

/// Returns the content of a revision of this working copy below a folder, as far as it is followed.
fn of_revision(name: &str, path: &str, reading: &Reading, scopes: Scopes) -> anyhow::Result<(Commit, Folder)> {
    let copy = WorkingCopy::open(Path::new("."))?;
    let asked = SourcePaths::of([path]).written().join("");
    let start = reading.followed.as_ref().map_or_else(|| asked.clone(), SourcePaths::common);
    let wanted = |path: &str| is_manifest(path) || Unit::may_change_with(path);
    let revision = copy.revision(name, &start, wanted)?;
    let mut tree = MemoryTree::default();
    // Folders above it may say which files count.
    let above = copy.revision(revision.commit.id.as_str(), "", |path| path.ends_with(IGNORE_FILE))?;
    let charts = !reading.options.helm.is_empty();
    let several = reading.followed.as_ref().is_some_and(|followed| !followed.is_one_folder());
    let units = || revision.files.keys().any(|path| Unit::may_change_with(path));
    if charts || several || !above.files.is_empty() || !revision.links.is_empty() || units() {
        // A unit may be rendered from any file of the repository.
        let all = copy.revision(revision.commit.id.as_str(), "", |_| true)?;
        all.files.into_iter().for_each(|(path, bytes)| tree.file(path, bytes));
        all.links.iter().for_each(|(path, target)| tree.link(path, target));
    } else {
        revision.files.iter().for_each(|(path, bytes)| tree.file(path, bytes.as_slice()));
    }
    let commit = revision.commit.clone();
    Ok((commit, folder::read_revision(&copy, tree, &asked, revision, reading, scopes)?))
}

/// Returns the manifests of files, as the plan wants them.
fn wanted(files: &[File], commit: &Arc<Commit>, roll_on_config: bool) -> Vec<Wanted> {
    let all: Vec<_> = files.iter().flat_map(|file| &file.manifests).collect();
    let by_key: BTreeMap<_, _> = all.iter().map(|manifest| (&manifest.key, *manifest)).collect();
    let configuration = |manifest: &belay_core::manifest::Manifest| {
        let names = named_configuration(template(&manifest.value())?, manifest.key.namespace.as_deref());
        let known: Vec<_> = all
            .iter()
            .filter(|other| names.contains(&other.key))
            .map(|other| (&other.key, other.hash.to_string()))
            .collect();
        configuration_hash(known.iter().map(|(key, hash)| (*key, hash.as_str())))
    };
    all.iter()
        .map(|manifest| Wanted {
            config: configuration(manifest),
            config_hash: config_rollout::config_hash_of(manifest, &by_key, roll_on_config),
            ..Wanted::of((*manifest).clone(), Arc::clone(commit), Trigger::Commit)
        })
        .collect()
}

fn not_committed(now: Timestamp) -> Commit {
    Commit {
        id: "0".repeat(40).parse::<CommitId>().expect("40 digits"),
        subject: "not committed".to_owned(),
        author: Person { name: "you".to_owned(), email: String::new() },
        authored: now,
        committed: now,
        parents: Vec::new(),
        trailers: Vec::new(),
    }
}

fn changes(planned: &Planned) -> bool {
    !matches!(planned.step, PlanStep::Unchanged) && orphaned(&planned.step).is_none()
}

/// Returns why an object stays whose manifest has left.
pub(in crate::cli) fn orphaned(step: &PlanStep) -> Option<&Reason> {
    match step {
        PlanStep::Rejected(reason, _) if reason.code == ReasonCode::PruneRefused => Some(reason),
        _ => None,
    }
}

fn is_refused(step: &PlanStep) -> bool {
    matches!(step, PlanStep::Rejected(..)) && orphaned(step).is_none()
}

fn print(plan: &Plan, complaints: &[Complaint], notes: &PlanNotes) {
    complaints.iter().for_each(complain);
    for planned in &plan.planned {
        let key = &planned.wanted.key;
        match &planned.step {
            PlanStep::Unchanged | PlanStep::Resume(_) | PlanStep::RollBack { .. } => {}
            PlanStep::Apply(apply) if apply.creates => {
                say(diff::heading(&format!("{key} is new ({}){}", planned.wanted.manifest.place, waits(planned))));
                Unified::of_new(&apply.body.read()).say();
            }
            PlanStep::Apply(apply) => {
                say(diff::heading(&format!(
                    "{key} {} ({}){}",
                    what(apply),
                    planned.wanted.manifest.place,
                    waits(planned)
                )));
                Unified::of_changes(&apply.changes).say();
            }
            PlanStep::Held(hold) => say(diff::heading(&format!("{key} is held: {}", hold.reason))),
            PlanStep::Suspended(why) => say(diff::heading(&format!("{key} is suspended: {why}"))),
            PlanStep::Rejected(reason, _) if orphaned(&planned.step).is_some() => {
                say(diff::heading(&format!("{key} is orphaned: {reason}")));
            }
            PlanStep::Rejected(..) => refusals(planned).iter().for_each(complain),
            PlanStep::Wait(reason) => say(diff::heading(&format!("{key} has to wait: {reason}"))),
            PlanStep::Prune => say(diff::heading(&format!("{key} is deleted"))),
        }
        notes.on(key).for_each(|note| say(plain(&format!("note: {note}"))));
    }
}

/// Returns the complaints about an object that is refused.
fn refusals(planned: &Planned) -> Vec<Complaint> {
    let PlanStep::Rejected(_, complaints) = &planned.step else { return Vec::new() };
    complaints.iter().map(|complaint| planned.wanted.manifest.shown(complaint.clone())).collect()
}

/// Prints a complaint with its line.
pub(in crate::cli) fn complain(complaint: &Complaint) {
    say(render(complaint, Colour::On, output_width()).trim_end());
    say("");
}

fn summary(plan: &Plan, complaints: usize) -> String {
    let count = |fits: fn(&PlanStep) -> bool| plan.planned.iter().filter(|planned| fits(&planned.step)).count();
    let parts = [
        (count(|action| matches!(action, PlanStep::Apply(apply) if apply.creates)), "new"),
        (count(|action| matches!(action, PlanStep::Apply(apply) if !apply.creates)), "changed"),
        (count(|action| matches!(action, PlanStep::Unchanged)), "unchanged"),
        (count(|action| matches!(action, PlanStep::Held(_))), "held"),
        (count(|action| matches!(action, PlanStep::Suspended(_))), "suspended"),
        (count(is_refused), "refused"),
        (count(|action| matches!(action, PlanStep::Wait(_))), "waiting"),
        (count(|action| matches!(action, PlanStep::Prune)), "deleted"),
        (count(|action| orphaned(action).is_some()), "orphaned"),
        (complaints, "complaints"),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if said.is_empty() { "There are no manifests here.".to_owned() } else { format!("{}.", said.join(", ")) }
}

fn step(planned: &Planned, notes: &PlanNotes) -> StepAnswer {
    let Planned { wanted, step: planned } = planned;
    let mut step = StepAnswer {
        object: wanted.key.clone(),
        place: wanted.manifest.place.clone(),
        action: ActionWord::Unchanged,
        rolls_out: None,
        after: After::of(&wanted.manifest).map(|after| after.names),
        changes: None,
        hold: None,
        why: None,
        reason: None,
        complaints: None,
        unnoticed: notes.stale.get(&wanted.key).cloned(),
        guards: notes.guards.get(&wanted.key).cloned(),
    };
    step.action = match planned {
        PlanStep::Apply(apply) => {
            step.rolls_out = Some(apply.rolls_out);
            step.changes = Some(apply.changes.clone());
            if apply.creates { ActionWord::Create } else { ActionWord::Update }
        }
        // The daemon knows the rollouts under way: a command knows of none.
        PlanStep::Unchanged | PlanStep::Resume(_) | PlanStep::RollBack { .. } => ActionWord::Unchanged,
        PlanStep::Held(hold) => {
            step.hold = Some(hold.clone());
            ActionWord::Held
        }
        PlanStep::Suspended(why) => {
            step.why = Some(why.clone());
            ActionWord::Suspended
        }
        PlanStep::Rejected(reason, _) if orphaned(planned).is_some() => {
            step.reason = Some(reason.clone());
            ActionWord::Orphan
        }
        PlanStep::Rejected(reason, complaints) => {
            step.reason = Some(reason.clone());
            step.complaints = Some(complaints.clone());
            ActionWord::Rejected
        }
        PlanStep::Wait(reason) => {
            step.reason = Some(reason.clone());
            ActionWord::Waiting
        }
        PlanStep::Prune => ActionWord::Delete,
    };
    step
}
