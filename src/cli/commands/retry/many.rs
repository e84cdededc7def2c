//! `belay retry --all` and `-l`: all that is held, and with `--all` all that was refused.

use super::refused::{self, Refused};
use crate::cli::args::act_on_each::{act_on, ask};
use crate::cli::args::target::{Act, Meant, On, Target, argument, meant, named};
use crate::cli::commands::status::labels;
use crate::cli::exit::Exit;
use crate::cli::output::progress;
use crate::cluster::{Cluster, Mode, WORKLOADS};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Hold;

/// The action, for the question.
pub(super) const VERB: &str = "Try again";

/// Retries these refused objects, and every held workload in a namespace, or in all.
pub(super) async fn run(
    cluster: &Cluster,
    on: &On,
    (namespace, refused): (Option<&str>, Refused),
    act: impl AsyncFn(&Cluster, &Target, Mode) -> anyhow::Result<Act>,
) -> anyhow::Result<Exit> {
    let held = held(cluster, namespace, on).await?;
    let keys = || held.iter().map(|target| &target.key).chain(refused.keys());
    let count = keys().count();
    if count == 0 {
        let refused = if on.selector.is_some() { "" } else { ", rejected or given up" };
        let (place, hint) = match namespace {
            Some(namespace) => (format!(" in namespace {namespace}"), " (-A: in all)"),
            None => (String::new(), ""),
        };
        progress(format!("Nothing is held{refused}{place}{hint}."));
        return Ok(Exit::Done);
    }
    if count > 1 && !on.yes && !on.dry_run {
        let called: fn(&ObjectKey) -> String = if namespace.is_some() { named } else { argument };
        ask(VERB, &keys().map(called).collect::<Vec<_>>())?;
    }
    if !refused.is_empty() {
        refused::ask(cluster, on, &refused, held.is_empty()).await?;
    }
    if held.is_empty() {
        return Ok(Exit::Done);
    }
    act_on(cluster, on, held, Vec::new(), act).await
}

/// Returns the workloads with a hold, of the kinds that are named, or of all.
async fn held(cluster: &Cluster, namespace: Option<&str>, on: &On) -> anyhow::Result<Vec<Target>> {
    let kinds = match meant(&on.workloads, on.selector.is_some())? {
        Meant::Kinds(kinds, _) => kinds,
        Meant::Each(_) => None,
    };
    let labels = labels(on.selector.as_deref());
    let mut held = Vec::new();
    for (api_version, kind) in WORKLOADS {
        let is_meant = kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|(_, meant)| meant == kind));
        if !is_meant {
            continue;
        }
        let served = cluster.served(api_version, kind).await?;
        for live in cluster.list(&served, namespace, &labels).await? {
            if Hold::on(&live).is_some() {
                held.push(Target { key: served.key_of(&live), served: served.clone(), live });
            }
        }
    }
    Ok(held)
}
