//! Runs a command on each of the named workloads.

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
    let (targets, mut failures) = find(&cluster, &namespace, on, only).await?;
    if targets.is_empty() && failures.is_empty() {
        progress(format!("No resources found in {namespace} namespace."));
        return Ok(Exit::Done);
    }
    if targets.len() > 1 && !on.yes && !on.dry_run {
        ask(only.verb, &targets)?;
    }
    let mode = if on.dry_run { Mode::DryRun } else { Mode::Real };
    let mut acted = Vec::new();
    for target in &targets {
        match retry_on_conflict(&cluster, target, async |target| act(&cluster, target, mode).await).await {
            Ok(Act { object, done, notes }) => {
                notes.iter().for_each(progress);
                let tried = if on.dry_run { " (server dry run)" } else { "" };
                match on.output {
                    Format::Table | Format::Wide => {
                        done.iter().for_each(|done| say(format!("{} {done}{tried}", target.named())));
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
fn ask(verb: &str, targets: &[Target]) -> anyhow::Result<()> {
    let names: Vec<String> = targets.iter().map(Target::named).collect();
    if !std::io::stdin().is_terminal() {
        bail!("these are {}: {}; say --yes to act on all of them", targets.len(), names.join(", "));
    }
    let mut out = anstream::stderr().lock();
    write!(out, "{verb} all of these?\n  {}\n[y/N] ", names.join("\n  "))?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") { Ok(()) } else { bail!("nothing was done") }
}
