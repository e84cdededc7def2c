//! `belay rolling-update OLD [NEW]`

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::cli::args::target::REVISED;
use crate::cli::args::workload::Named;
use crate::cli::exit::Exit;
use crate::cli::output::{Format, output_width, progress, say, say_value};
use crate::cli::session::signals;
use crate::cli::session::who;
use crate::cli::worktree::cause::{Cause, annotated, commit};
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode, Pace, Part, Patch, RollError, Served};
use crate::config::Span;
use belay_core::manifest::{Colour, ObjectKey, Scopes, read_file, render};
use belay_core::rollout::rolling_update::{Ask, Bounds, ByHand, DEFAULT_LABEL_KEY, Live, Refused, RollingUpdate, To};
use belay_core::rollout::{Hold, TemplateMarks, marks};

/// The arguments of `belay rolling-update`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay rolling-update web --image=shop/web:2           # the pods of web, one by one; ends under the name web
  belay rolling-update web web-v2 --image=shop/web:2    # ends under the name web-v2
  belay rolling-update web -f web-v2.yaml               # as written in a file
  belay rolling-update web web-v2                       # go on from web to web-v2; both are there
  belay rolling-update web --rollback                   # take back what is under way
  belay rolling-update web-v2 web                       # the same

Broken off at any moment, the same command goes on where it was; after its end it says that it is done.")]
pub struct Args {
    /// The ReplicationController whose pods are replaced
    old: String,
    /// The name of the one that replaces it [default with --image: the same name]
    new: Option<String>,
    /// Set the new image; not needed if NEW is there already
    #[arg(long, value_name = "IMAGE", conflicts_with = "filename", required_unless_present_any = ["new", "filename", "rollback"])]
    image: Option<String>,
    /// Read the new ReplicationController from this file; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// Roll back the update that is under way
    #[arg(long, conflicts_with_all = ["image", "filename"])]
    rollback: bool,
    /// Select the container that gets the image, if there are several
    #[arg(long, value_name = "NAME", requires = "image")]
    container: Option<String>,
    /// Set the pull policy of that container; needed if the image stays the same
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "Never", "IfNotPresent"], requires = "image")]
    image_pull_policy: Option<String>,
    /// Tell old pods from new ones by this label
    #[arg(long, value_name = "KEY", default_value = DEFAULT_LABEL_KEY)]
    deployment_label_key: String,
    /// Wait this long after new pods before old ones go
    #[arg(long, value_name = "TIME", default_value = "1m")]
    update_period: Span,
    /// Read the cluster at this interval
    #[arg(long, value_name = "TIME", default_value = "3s")]
    poll_interval: Span,
    /// Stop after this time without progress, and exit with 4
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: Span,
    #[command(flatten)]
    cause: Cause,
    /// Show the update, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Select the output format for the result
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.poll_interval.0 < Duration::from_millis(10) {
        bail!("--poll-interval {} is too short: at least 10ms", args.poll_interval);
    }
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let ask = ask(globals, &args, &namespace)?;
    let mut update = RollingUpdate::new(ask.clone())?;
    let live = cluster.look_at_controllers(&update, &namespace).await?;
    if let Some(other) = other_kind(&cluster, &namespace, &ask, &live).await {
        bail!(other);
    }
    if args.dry_run {
        let (from, to) = update.dry_run(&live)?;
        say(format!("Rolling from:\n{from}\nTo:\n{to}"));
        return Ok(Exit::Done);
    }
    warn_of_owner(&live, &ask);
    let pace =
        Pace { update_period: args.update_period.0, poll_interval: args.poll_interval.0, timeout: args.timeout.0 };
    let rolled = tokio::select! {
        biased;
        () = signals::asked_to_stop() => {
            progress("stopped: nothing changes any more; the same command goes on, --rollback goes back");
            return Ok(Exit::Error);
        }
        rolled = cluster.roll(&namespace, update, pace, |line: &str, _| progress(line)) => rolled,
    };
    match rolled {
        Ok(last) => {
            describe(globals, &cluster, &args.cause, &namespace, object_of(&last)).await?;
            print(&cluster, &namespace, &last, args.output).await?;
            Ok(Exit::Done)
        }
        Err(error @ RollError::TimedOut { .. }) => {
            progress(format!("error: {error}"));
            progress("the same command goes on from here, --rollback goes back");
            Ok(Exit::TimedOut)
        }
        Err(error) => Err(error.into()),
    }
}

fn ask(globals: &Globals, args: &Args, namespace: &str) -> anyhow::Result<Ask> {
    let to = match (&args.image, &args.filename) {
        (Some(image), _) => To::Image(image.clone()),
        (None, Some(file)) => To::Manifest(Box::new(controller_in(file, namespace)?)),
        (None, None) if args.rollback => To::Back,
        (None, None) => To::Existing,
    };
    let marks = match &args.cause.commit {
        // The pods that a rollback restores keep the marks of their own commit.
        Some(name) if !args.rollback => TemplateMarks::of(&commit(globals, name)?),
        _ => TemplateMarks::default(),
    };
    Ok(Ask {
        old: controller_named(&args.old, args, namespace)?,
        new: args.new.as_deref().map(|new| controller_named(new, args, namespace)).transpose()?,
        to,
        label_key: args.deployment_label_key.clone(),
        container: args.container.clone(),
        pull_policy: args.image_pull_policy.clone(),
        marks,
        bounds: Bounds::default(),
        by: Some(ByHand {
            by: who::who(globals),
            since: Clock::system().now(),
            source: None,
            from: None,
            hold_follows: false,
        }),
    })
}

/// Returns the one ReplicationController that a file holds.
fn controller_in(file: &Path, namespace: &str) -> anyhow::Result<Value> {
    let mut bytes = Vec::new();
    let shown = file.display().to_string();
    if shown == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("failed to read standard input")?;
    } else {
        bytes = std::fs::read(file).with_context(|| format!("failed to read {shown}"))?;
    }
    let read = read_file(&shown, &bytes, &Scopes::new(namespace));
    if !read.complaints.is_empty() {
        let all: Vec<String> =
            read.complaints.iter().map(|complaint| render(complaint, Colour::Off, output_width())).collect();
        bail!("{shown} can't be used\n{}", all.join("\n"));
    }
    let [manifest] = read.manifests.as_slice() else {
        bail!("{shown} must hold exactly one ReplicationController; it holds {} objects", read.manifests.len());
    };
    if manifest.key.kind != "ReplicationController" {
        bail!("{shown} holds a {}, not a ReplicationController", manifest.key.kind);
    }
    if manifest.key.namespace.as_deref() != Some(namespace) {
        let written = manifest.key.namespace.as_deref().unwrap_or_default();
        bail!("the namespace of {shown} is {written:?}, not {namespace:?}; say -n {written}");
    }
    Ok(manifest.value())
}

/// Returns the name of a ReplicationController as it was typed: alone, or behind its kind.
fn controller_named(typed: &str, args: &Args, namespace: &str) -> anyhow::Result<String> {
    let named: Named = typed.parse().map_err(|error: String| anyhow!(error))?;
    match named.kind {
        Some((_, kind)) if kind != "ReplicationController" => {
            let (container, image) = (args.container.as_deref(), args.image.as_deref());
            bail!(elsewhere((&kind, &named.name, namespace), container, image, args.rollback))
        }
        _ => Ok(named.name),
    }
}

/// Returns advice for another workload of its name, if there is no such controller.
async fn other_kind(cluster: &Cluster, namespace: &str, ask: &Ask, live: &Live) -> Option<String> {
    let is_there = |name: &str| live.controllers.iter().any(|one| one["metadata"]["name"] == name);
    if is_there(&ask.old) || ask.new.as_deref().is_some_and(is_there) {
        return None;
    }
    for (api_version, kind) in REVISED {
        // If the cluster does not answer, the refusal that follows says enough.
        let Ok(served) = cluster.served(api_version, kind).await else { continue };
        let (group, name) = (served.group.clone(), ask.old.clone());
        let key = ObjectKey { group, kind: served.kind.clone(), namespace: Some(namespace.to_owned()), name };
        let Ok(Some(found)) = cluster.get(&key, &served).await else { continue };
        let only = found["spec"]["template"]["spec"]["containers"][0]["name"].as_str();
        let container = ask.container.as_deref().or(only);
        let image = if let To::Image(image) = &ask.to { Some(image.as_str()) } else { None };
        return Some(elsewhere((kind, &ask.old, namespace), container, image, ask.to == To::Back));
    }
    None
}

/// Returns the commands that do the same for another kind.
fn elsewhere(
    (kind, name, namespace): (&str, &str, &str),
    container: Option<&str>,
    image: Option<&str>,
    back: bool,
) -> String {
    let workload = format!("{}/{name} -n {namespace}", kind.to_lowercase());
    let command = if back {
        format!("belay undo {workload}")
    } else {
        format!("belay set image {workload} {}={}", container.unwrap_or("CONTAINER"), image.unwrap_or("IMAGE"))
    };
    format!(
        "{name} is a {kind}, no ReplicationController: its own controller replaces its pods when its template changes; say \
         {command}"
    )
}

/// Warns that a controller that a source follows is corrected by its daemon, unless it is held.
fn warn_of_owner(live: &Live, ask: &Ask) {
    let old = &ask.old;
    let Some(owned) = live.controllers.iter().find(|one| one["metadata"]["name"] == old.as_str()) else { return };
    let Some(source) = marks::label(owned, marks::SOURCE) else { return };
    let suspended = marks::annotation(owned, marks::SUSPEND).is_some();
    let namespace = owned["metadata"]["namespace"].as_str().unwrap_or("default");
    let named = format!("replicationcontroller/{old} -n {namespace}");
    // Under a name of its own the new one is not the source's, and the old one is missed.
    let stays = ask.new.is_none() && matches!(ask.to, To::Image(_));
    progress(match Hold::on(owned) {
        _ if suspended && stays => {
            format!(
                "note: {old} belongs to the source {source:?} and is suspended: belay leaves it alone until belay resume-sync \
                 {named}"
            )
        }
        Some(hold) if stays => format!(
            "note: {old} belongs to the source {source:?}, which holds what commit {} says of it: what is rolled now stays until \
             its manifest changes, or until belay retry {named}",
            hold.commit.short()
        ),
        _ => format!(
            "warning: {old} belongs to the source {source:?}: belay leaves it alone while this goes on, and then puts back what its \
             repository says, or reports the drift where it only does that; change the manifest too"
        ),
    });
}

/// Annotates the controller that is left with the cause of the update.
async fn describe(
    globals: &Globals,
    cluster: &Cluster,
    cause: &Cause,
    namespace: &str,
    object: &str,
) -> anyhow::Result<()> {
    if cause.is_empty() {
        return Ok(());
    }
    let (key, served, live) = controller_at_end(cluster, namespace, object).await?;
    let patch = annotated(Patch::Merge(json!({})), &live, cause.annotations(globals, &live)?);
    cluster.patch(&key, &served, Part::Whole, &patch, Mode::Real).await?;
    Ok(())
}

async fn print(cluster: &Cluster, namespace: &str, last: &str, format: Format) -> anyhow::Result<()> {
    let object = object_of(last);
    match format {
        Format::Table | Format::Wide => say(last),
        Format::Name => say(object),
        Format::Json | Format::Yaml => say_value(&controller_at_end(cluster, namespace, object).await?.2, format)?,
    }
    Ok(())
}

/// Returns the controller that the last line names: `replicationcontroller/web rolling updated`.
fn object_of(last: &str) -> &str {
    last.split(' ').next().unwrap_or_default()
}

async fn controller_at_end(
    cluster: &Cluster,
    namespace: &str,
    object: &str,
) -> anyhow::Result<(ObjectKey, Served, Value)> {
    let name = object.rsplit('/').next().unwrap_or_default().to_owned();
    let served = cluster.served("v1", "ReplicationController").await?;
    let namespace = Some(namespace.to_owned());
    let key = ObjectKey { group: String::new(), kind: served.kind.clone(), namespace, name: name.clone() };
    let live = cluster.get(&key, &served).await?.ok_or(Refused::NotFound { name })?;
    Ok((key, served, live))
}
