//! `belay plan`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Globals;
use super::diff::{self, Unified};
use super::exit::Exit;
use super::output::{Format, progress, say, say_value};
use crate::clock::Clock;
use crate::daemon::plan_once;
use crate::manifest::{Complaint, File, Scopes, is_manifest, read_file};
use crate::rollout::{
    Action, Commit, CommitId, Person, Plan, Planned, Replicas, Trigger, Wanted, configuration_hash,
    named_configuration, only_marks, template,
};

/// What `belay plan` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with the manifests
    #[arg(long, value_name = "DIR", default_value = ".")]
    from: PathBuf,
    /// The name of the source that the manifests are for
    #[arg(long, value_name = "NAME", default_value = "default")]
    source: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { from, source, output } = args;
    let cluster = globals.cluster("").await?;
    let files = read_folder(&from, &Scopes::new(cluster.default_namespace()))?;
    let complaints: Vec<&Complaint> = files.iter().flat_map(|file| &file.complaints).collect();
    let commit = Arc::new(not_committed(Clock::system().now()));
    let wanted = wanted(&files, &commit);
    let plan = plan_once(&cluster, &source, &commit.id, wanted).await?;
    match output {
        Format::Json | Format::Yaml => say_value(&as_value(&plan, &complaints), output)?,
        Format::Name => {
            plan.steps.iter().filter(|step| changes(step)).for_each(|step| say(step.wanted.key.to_string()))
        }
        Format::Table | Format::Wide => print(&plan, &complaints),
    }
    if !complaints.is_empty() || plan.steps.iter().any(|step| matches!(step.action, Action::Rejected(_))) {
        return Ok(Exit::Error);
    }
    Ok(if plan.is_empty() { Exit::Done } else { Exit::No })
}

/// Every manifest below a folder, in the order of paths. Links are not followed.
pub(super) fn read_folder(folder: &Path, scopes: &Scopes) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries =
            std::fs::read_dir(&next).with_context(|| format!("failed to read the folder {}", next.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("failed to read the folder {}", next.display()))?;
            let path = entry.path();
            let shown = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            let kind = entry.file_type().with_context(|| format!("failed to look at {}", path.display()))?;
            if kind.is_dir() && !entry.file_name().to_string_lossy().starts_with(['.', '_']) {
                folders.push(path);
            } else if kind.is_file() && is_manifest(&shown) {
                let bytes = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
                files.push(read_file(&shown, &bytes, scopes));
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// The manifests of files that are in no commit yet.
fn wanted(files: &[File], commit: &Arc<Commit>) -> Vec<Wanted> {
    let all: Vec<_> = files.iter().flat_map(|file| &file.manifests).collect();
    let configuration = |manifest: &crate::manifest::Manifest| {
        let names = named_configuration(template(manifest.value())?, manifest.key.namespace.as_deref());
        let known: Vec<_> = all
            .iter()
            .filter(|other| names.contains(&other.key))
            .map(|other| (&other.key, other.hash.to_string()))
            .collect();
        configuration_hash(known.iter().map(|(key, hash)| (*key, hash.as_str())))
    };
    all.iter()
        .map(|manifest| Wanted {
            key: manifest.key.clone(),
            api_version: manifest.api_version.clone(),
            manifest: Arc::new(manifest.value().clone()),
            hash: manifest.hash.to_string(),
            config: configuration(manifest),
            place: manifest.place.clone(),
            commit: Arc::clone(commit),
            trigger: Trigger::Commit,
            replicas: Replicas::AsWritten,
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

fn changes(step: &Planned) -> bool {
    !matches!(step.action, Action::Unchanged)
}

fn print(plan: &Plan, complaints: &[&Complaint]) {
    for complaint in complaints {
        say(complaint.to_string());
    }
    for step in &plan.steps {
        let key = &step.wanted.key;
        match &step.action {
            Action::Unchanged => {}
            Action::Apply(apply) if apply.creates => {
                say(diff::heading(&format!("{key} is new ({})", step.wanted.place)));
                Unified::of_new(&apply.body).say();
            }
            Action::Apply(apply) => {
                let what = match (apply.rolls_out, only_marks(&apply.changes)) {
                    (true, _) => "rolls out",
                    (false, true) => "is taken over, and nothing else",
                    (false, false) => "changes",
                };
                say(diff::heading(&format!("{key} {what} ({})", step.wanted.place)));
                Unified::of_changes(&apply.changes).say();
            }
            Action::Held(hold) => say(diff::heading(&format!("{key} is held: {}", hold.reason))),
            Action::Suspended(why) => say(diff::heading(&format!("{key} is suspended: {why}"))),
            Action::Rejected(reason) => {
                say(diff::heading(&format!("{key} is refused ({}): {reason}", step.wanted.place)))
            }
            Action::Blocked(reason) => say(diff::heading(&format!("{key} has to wait: {reason}"))),
            Action::Prune => say(diff::heading(&format!("{key} is deleted"))),
        }
    }
    progress(summary(plan, complaints.len()));
}

fn summary(plan: &Plan, complaints: usize) -> String {
    let count = |fits: fn(&Action) -> bool| plan.steps.iter().filter(|step| fits(&step.action)).count();
    let parts = [
        (count(|action| matches!(action, Action::Apply(apply) if apply.creates)), "new"),
        (count(|action| matches!(action, Action::Apply(apply) if !apply.creates)), "changed"),
        (count(|action| matches!(action, Action::Unchanged)), "unchanged"),
        (count(|action| matches!(action, Action::Held(_))), "held"),
        (count(|action| matches!(action, Action::Suspended(_))), "suspended"),
        (count(|action| matches!(action, Action::Rejected(_))), "refused"),
        (count(|action| matches!(action, Action::Blocked(_))), "waiting"),
        (count(|action| matches!(action, Action::Prune)), "deleted"),
        (complaints, "complaints"),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if said.is_empty() { "There are no manifests here.".to_owned() } else { format!("{}.", said.join(", ")) }
}

fn as_value(plan: &Plan, complaints: &[&Complaint]) -> Value {
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            let wanted = &step.wanted;
            let mut value = json!({"object": wanted.key, "place": wanted.place});
            match &step.action {
                Action::Apply(apply) => {
                    value["action"] = json!(if apply.creates { "create" } else { "update" });
                    value["rollsOut"] = json!(apply.rolls_out);
                    value["changes"] = json!(apply.changes);
                }
                Action::Unchanged => value["action"] = json!("unchanged"),
                Action::Held(hold) => {
                    value["action"] = json!("held");
                    value["hold"] = json!(hold);
                }
                Action::Suspended(why) => {
                    value["action"] = json!("suspended");
                    value["why"] = json!(why);
                }
                Action::Rejected(reason) | Action::Blocked(reason) => {
                    let rejected = matches!(step.action, Action::Rejected(_));
                    value["action"] = json!(if rejected { "rejected" } else { "waiting" });
                    value["reason"] = json!(reason);
                }
                Action::Prune => value["action"] = json!("delete"),
            }
            value
        })
        .collect();
    json!({"source": plan.source, "changes": !plan.is_empty(), "steps": steps, "complaints": complaints})
}
