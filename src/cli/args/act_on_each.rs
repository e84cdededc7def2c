//! Runs a command on each of the named workloads.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::bail;
use serde_json::{Value, json};

use super::target::{Act, For, On, Target, find};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{Format, progress, say, say_value};
use crate::cli::session::conflict::retry_on_conflict;
use crate::cluster::{Cluster, Mode, RollError};

/// Does something to each of the workloads that are meant, and says so. A refused workload does not keep the others
/// from it; the exit code shows that there was one.
pub(in crate::cli) async fn each(
    globals: &Globals,
    on: &On,
    only: For,
    act: impl AsyncFn(&Cluster, &Target, Mode) -> anyhow::Result<Act>,
) -> anyhow::Result<Exit> {
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let (targets, failures) = find(&cluster, &namespace, on, only).await?;
    if targets.is_empty() && failures.is_empty() {
        progress(format!("No resources found in {namespace} namespace."));
        return Ok(Exit::Done);
    }
    if targets.len() > 1 && !on.yes && !on.dry_run {
        ask(only.verb, &targets.iter().map(Target::named).collect::<Vec<_>>())?;
    }
    act_on(&cluster, on, targets, failures, act).await
}

/// Does something to each of these workloads, and says so. The exit code also shows the `failures` that there were
/// before.
pub(in crate::cli) async fn act_on(
    cluster: &Cluster,
    on: &On,
    targets: Vec<Target>,
    mut failures: Vec<anyhow::Error>,
    act: impl AsyncFn(&Cluster, &Target, Mode) -> anyhow::Result<Act>,
) -> anyhow::Result<Exit> {
    let namespaces: BTreeSet<Option<&str>> = targets.iter().map(|target| target.key.namespace.as_deref()).collect();
    let is_of_several = namespaces.len() > 1;
    let mode = if on.dry_run { Mode::DryRun } else { Mode::Real };
    let mut acted = Vec::new();
    for target in &targets {
        match retry_on_conflict(cluster, target, async |target| act(cluster, target, mode).await).await {
            Ok(Act { object, done, notes }) => {
                notes.iter().for_each(progress);
                let tried = if on.dry_run { " (server dry run)" } else { "" };
                match on.output {
                    Format::Table | Format::Wide => {
                        let named = if is_of_several { target.argument() } else { target.named() };
                        done.iter().for_each(|done| say(format!("{named} {done}{tried}")));
                    }
                    Format::Name => say(target.named()),
                    Format::Json | Format::Yaml => acted.push(presented(object)),
                }
            }
            Err(error) => failures.push(error),
        }
    }
    match (on.output, acted.len()) {
        (Format::Json | Format::Yaml, 1) => say_value(&acted[0], on.output)?,
        (Format::Json | Format::Yaml, 2..) => {
            say_value(&json!({"apiVersion": "v1", "kind": "List", "items": acted}), on.output)?;
        }
        _ => {}
    }
    failures.iter().for_each(|error| progress(format!("error: {error:#}")));
    let timed_out = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(RollError::TimedOut { .. }));
    Ok(match failures.as_slice() {
        [] => Exit::Done,
        failures if failures.iter().all(timed_out) => Exit::TimedOut,
        _ => Exit::Error,
    })
}

/// Returns an object without the fields that nobody reads.
fn presented(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Asks before several are acted on.
pub(in crate::cli) fn ask(verb: &str, names: &[String]) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("these are {}: {}; say --yes to act on all of them", names.len(), names.join(", "));
    }
    let mut out = anstream::stderr().lock();
    write!(out, "{verb} all of these?\n  {}\n[y/N] ", names.join("\n  "))?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") { Ok(()) } else { bail!("nothing was done") }
}
