//! `belay set image`, `env`, `resources` and the rest: in the working copy, or, with `--live`, in the cluster.

mod containers;
mod difference;
mod env;
mod env_args;
mod env_keys;
mod env_list;
mod env_variables;
mod image;
mod pods;
mod port;
mod resources;
mod security;
mod selector;
mod service_account;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeSet;
use std::io::Read as _;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::cli::Globals;
use crate::cli::args::act_on_each::each;
use crate::cli::args::target::{Act, For, On, Target};
use crate::cli::exit::Exit;
use crate::cli::output::{Format, progress, say_data};
use crate::cli::worktree::cause::annotated;
use crate::cli::worktree::edit_op::Op;
use crate::cli::worktree::kustomization::{EditedUnit, KustomizationField, RenderedFolder};
use crate::cli::worktree::pick::{self, Pick};
use crate::cli::worktree::{Finish, Where, Worktree};
use crate::cluster::{Cluster, Mode, Part, Patch};
use belay_core::manifest::{Manifest, ObjectKey, Scopes, read_file, secret_lines};
use belay_core::rollout::{applied_fields, marks, pod_spec_path};

/// The arguments of `belay set`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Change the images of containers
    Image(image::Args),
    /// Change the environment variables of containers
    Env(env_args::Args),
    /// Change the resource requests and limits of containers
    Resources(resources::Args),
    /// Add, change or remove a volume, and where it is mounted
    #[command(visible_alias = "volumes")]
    Volume(volume::Args),
    /// Change the ports of a container
    #[command(visible_alias = "ports")]
    Port(port::Args),
    /// Change the user and the rights of containers
    Security(security::Args),
    /// Change the ServiceAccount of pods
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(service_account::Args),
    /// Change the pod selector of a Service or a ReplicationController
    Selector(selector::Args),
}

/// The place of a change.
#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Place {
    /// Select workloads by label: app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Select every workload, of these kinds or of all
    #[arg(long, conflicts_with = "selector")]
    all: bool,
    /// Change the cluster, as kubectl does, and no manifest
    #[arg(long, conflicts_with_all = ["filename", "push"])]
    live: bool,
    /// Read manifests from standard input (`-`), and write them to standard output
    #[arg(short, long, value_name = "-", value_parser = ["-"], conflicts_with_all = ["note", "description", "commit", "push"])]
    filename: Option<String>,
    /// Show the change, and make none
    #[arg(long)]
    dry_run: bool,
    /// Change several in the cluster without a question
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    to: Where,
    /// Select the output format for the changed objects
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

impl Place {
    /// Returns the labels that the workloads have: none in particular where all are meant, `None` if they are named.
    fn selector(&self) -> Option<&str> {
        if self.all { Some("") } else { self.selector.as_deref() }
    }
}

/// The kinds that have pods.
pub(in crate::cli) const TEMPLATED: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
];

/// A change of an object, in both forms.
pub(in crate::cli) trait Change {
    /// Returns the operations on the text. Nothing if the manifest says all of it already.
    fn ops(&self, key: &ObjectKey, object: &Value) -> anyhow::Result<Vec<Op>>;
    /// Returns the patch in the cluster; `None` if nothing changes.
    fn patch(&self, key: &ObjectKey, object: &Value) -> anyhow::Result<Option<(Part, Patch)>>;
    /// Returns the result in the cluster, in kubectl's words: `image updated`.
    fn done(&self) -> &'static str;
    /// Returns the subject of the commit: `Set image web:2 of deployment web`.
    fn subject(&self, objects: &[ObjectKey]) -> String;
    /// Returns the kinds that can be changed so.
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        TEMPLATED
    }
    /// Returns the field of a kustomization that does the same, if there is one.
    fn field(&self) -> Option<KustomizationField> {
        None
    }
    /// Returns the message for another kind.
    fn otherwise(&self) -> &'static str {
        "has no pods"
    }
}

/// Returns a strategic merge patch of the specification of an object's pods.
fn in_pods(key: &ObjectKey, spec: Map<String, Value>) -> Option<(Part, Patch)> {
    if spec.is_empty() {
        return None;
    }
    let path = pod_spec_path(&key.group, &key.kind)?;
    let patch = path.iter().rev().fold(Value::Object(spec), |inner, name| json!({ *name: inner }));
    Some((Part::Whole, Patch::Strategic(patch)))
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    match args.what {
        What::Image(args) => image::run(globals, args).await,
        What::Env(args) => env::run(globals, args).await,
        What::Resources(args) => resources::run(globals, args).await,
        What::Volume(args) => volume::run(globals, args).await,
        What::Port(args) => port::run(globals, args).await,
        What::Security(args) => security::run(globals, args).await,
        What::ServiceAccount(args) => service_account::run(globals, args).await,
        What::Selector(args) => selector::run(globals, args).await,
    }
}

/// Changes the named workloads, in the manifest or in the cluster.
pub(in crate::cli) async fn change(
    globals: &Globals,
    place: &Place,
    words: &[String],
    change: &impl Change,
) -> anyhow::Result<Exit> {
    if place.live {
        return live(globals, place, words, change).await;
    }
    if place.filename.is_some() {
        return filter(globals, place, words, change);
    }
    if words.is_empty() && place.selector().is_none() {
        bail!("no workload: say KIND/NAME, -l LABELS, or --all");
    }
    let mut worktree = open(globals, place)?;
    let rendered = rendered(globals, place)?;
    rendered.editable().try_for_each(|path| worktree.load(&path))?;
    let picked = pick_from(globals, place, words, change).in_worktree(&worktree, &rendered)?;
    let mut new: Vec<(String, String)> = Vec::new();
    let mut objects = Vec::new();
    let mut others = BTreeSet::new();
    for (path, manifest) in picked {
        let ops = change.ops(&manifest.key, &manifest.value())?;
        if ops.is_empty() {
            continue;
        }
        let text = |path: &str| match new.iter().find(|(there, _)| there == path) {
            Some((_, text)) => Ok(text.clone()),
            None => worktree.text(path).map(ToOwned::to_owned),
        };
        let (path, text) = if rendered.is_unit(&path) {
            let edited = rendered.edit(&path, text, manifest, change)?;
            let Some(EditedUnit { path, text, others: more }) = edited else {
                objects.push(manifest.key.clone());
                continue;
            };
            // Each was as it should be before.
            if let Some(undone) = more.iter().find(|other| objects.contains(other)) {
                bail!("{undone} and {} have the same image in {path}, and can't be given two", manifest.key);
            }
            others.extend(more);
            (path, text)
        } else {
            rendered.refuse_part(&path)?;
            let text = text(&path)?;
            let text = pick::write(&text, manifest, &ops).with_context(|| manifest.place.to_string())?;
            (path, text)
        };
        worktree.check(&path)?;
        match new.iter().position(|(there, _)| *there == path) {
            Some(at) => new[at].1 = text,
            None => new.push((path, text)),
        }
        objects.push(manifest.key.clone());
    }
    if objects.is_empty() {
        bail!("nothing would change: the manifests say that already");
    }
    for other in others.iter().filter(|other| !objects.contains(other)) {
        progress(format!("note: {other} has the same image, and changes with it"));
    }
    let subject = change.subject(&objects);
    let finish = Finish { to: &place.to, subject, objects, dry_run: place.dry_run, output: place.output };
    worktree.finish(new, &finish).await?;
    Ok(Exit::Done)
}

/// Returns the working copy.
pub(in crate::cli) fn open(globals: &Globals, place: &Place) -> anyhow::Result<Worktree> {
    Worktree::open(&place.to.dir, globals.namespace.as_deref().unwrap_or("default"))
}

/// Returns the units that are rendered there.
fn rendered(globals: &Globals, place: &Place) -> anyhow::Result<RenderedFolder> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    RenderedFolder::below(&place.to.dir, namespace, place.to.reading()?)
}

fn pick_from<'a>(globals: &'a Globals, place: &'a Place, words: &'a [String], change: &impl Change) -> Pick<'a> {
    Pick {
        words,
        selector: place.selector(),
        namespace: globals.namespace.as_deref(),
        kinds: change.kinds(),
        otherwise: change.otherwise(),
    }
}

/// Picks the objects that have pods.
fn pick_templated<'a>(globals: &'a Globals, place: &'a Place, words: &'a [String]) -> Pick<'a> {
    Pick {
        words,
        selector: place.selector(),
        namespace: globals.namespace.as_deref(),
        kinds: TEMPLATED,
        otherwise: "has no pods",
    }
}

/// Returns `deployment web`, `3 workloads`
pub(in crate::cli) fn of(objects: &[ObjectKey]) -> String {
    match objects {
        [one] => format!("{} {}", one.kind.to_lowercase(), one.name),
        several => format!("{} workloads", several.len()),
    }
}

/// Filters standard input to standard output.
fn filter(globals: &Globals, place: &Place, words: &[String], change: &impl Change) -> anyhow::Result<Exit> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("failed to read standard input")?;
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let file = read_file("standard input", text.as_bytes(), &Scopes::new(namespace));
    if let Some(complaint) = file.complaints.first().filter(|_| file.manifests.is_empty()) {
        bail!("{}: {}", complaint.place, complaint.message);
    }
    if let Some(line) = secret_lines(&text).first() {
        bail!(
            "standard input: line {} may hold a value of a Secret, which belay never prints; leave it out of the input, or \
             change the files with --dir DIR",
            line + 1
        );
    }
    let picked: Vec<(String, &Manifest)> = pick_from(globals, place, words, change).in_file(&file)?;
    for (_, manifest) in picked {
        let ops = change.ops(&manifest.key, &manifest.value())?;
        text = pick::write(&text, manifest, &ops).with_context(|| manifest.place.to_string())?;
    }
    say_data(text.strip_suffix('\n').unwrap_or(&text));
    Ok(Exit::Done)
}

/// Changes the cluster as kubectl does.
async fn live(globals: &Globals, place: &Place, words: &[String], change: &impl Change) -> anyhow::Result<Exit> {
    let on = On {
        workloads: words.to_vec(),
        selector: place.selector().map(str::to_owned),
        yes: place.yes,
        dry_run: place.dry_run,
        output: place.output,
    };
    if on.workloads.is_empty() && on.selector.is_none() {
        bail!("no workload: say KIND/NAME, -l LABELS, or --all");
    }
    let only = For { kinds: change.kinds(), otherwise: change.otherwise(), verb: "Change" };
    each(globals, &on, only, async |cluster, target, mode| {
        set_live(globals, place, (cluster, target, mode), change).await
    })
    .await
}

async fn set_live(
    globals: &Globals,
    place: &Place,
    (cluster, target, mode): (&Cluster, &Target, Mode),
    change: &impl Change,
) -> anyhow::Result<Act> {
    let Some((part, patch)) = change.patch(&target.key, &target.live)? else {
        return Ok(Act { object: target.live.clone(), done: None, notes: Vec::new() });
    };
    let why = place.to.cause.annotations(globals, &target.live)?;
    let written = match part {
        Part::Whole => {
            let patch = annotated(patch, &target.live, why);
            cluster.patch(&target.key, &target.served, part, &patch, mode).await?
        }
        Part::Scale => {
            // The number of pods is written apart from the rest of the object.
            if !why.is_empty() {
                let patch = annotated(Patch::Merge(json!({})), &target.live, why);
                cluster.patch(&target.key, &target.served, Part::Whole, &patch, mode).await?;
            }
            cluster.patch(&target.key, &target.served, part, &patch, mode).await?
        }
    };
    let mut act = Act::done(written.object, change.done());
    if applied_fields(&target.live).is_some() && marks::annotation(&target.live, marks::SUSPEND).is_none() {
        act.notes.push(format!(
            "note: belay applies {} from Git, and may put this back; without --live the manifest is changed instead",
            target.named()
        ));
    }
    Ok(act)
}
