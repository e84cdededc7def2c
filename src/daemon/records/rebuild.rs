//! After the history was lost, the traces of a source in the cluster and Git are put into the new one, before the first
//! plan, so that they are there when that plan fails.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{Backoff, Cluster, ClusterError};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::shared::context::Context;
use crate::history::HistoryError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, Rebuilt, marks, rebuilt};

/// The number of workloads whose revisions are read at once.
const AT_ONCE: usize = 8;

/// Returns the rollouts of workloads that the cluster remembers: those of one source, or all that belay has applied, in
/// one namespace or everywhere.
///
/// # Errors
/// Fails when the API server does not answer, or does not allow it.
pub async fn recollect(
    cluster: &Cluster,
    source: Option<&str>,
    namespace: Option<&str>,
) -> Result<Rebuilt, ClusterError> {
    let labels = source.map_or_else(|| marks::SOURCE.to_owned(), |source| format!("{}={source}", marks::SOURCE));
    let live = cluster.workloads(namespace, &labels).await?;
    told_by(cluster, live).await
}

/// What the revisions of these workloads say.
async fn told_by(
    cluster: &Cluster,
    live: impl IntoIterator<Item = (ObjectKey, Value), IntoIter: Send>,
) -> Result<Rebuilt, ClusterError> {
    let tell = |(key, live): (ObjectKey, Value)| async move {
        let revisions = cluster.revisions(&key, &live).await?;
        let source = marks::label(&live, marks::SOURCE).unwrap_or_default();
        Ok(rebuilt(source, &key, &live, &revisions))
    };
    let add = |mut all: Rebuilt, told| async move {
        all.extend(told);
        Ok(all)
    };
    // A few at a time: thousands of workloads with ten revisions each would be a lot.
    stream::iter(live).map(tell).buffered(AT_ONCE).try_fold(Rebuilt::default(), add).await
}

/// Rebuilds the records of a source of which the history knows nothing. Waits out infrastructure faults.
pub async fn if_forgotten(context: &Context) {
    let source = &context.config.name;
    let known = context
        .history
        .heads(source)
        .and_then(|heads| Ok(heads.recorded.is_some() || context.history.rebuilt(source)?.is_some()));
    match known {
        Ok(false) => {}
        Ok(true) => return,
        Err(error) => {
            warn!(%error, "failed to ask the history whether it knows the source");
            return;
        }
    }
    context.finished_jobs.recall(&context.cluster).await;
    let say = |error: &ClusterError| context.status.trouble(&Obstacle::Cluster, Some(error.to_string()));
    let labels = format!("{}={source}", marks::SOURCE);
    let namespaces = context.repository.namespaces();
    let ask = || async {
        let told = async {
            let live = context.cluster.workloads_where_allowed(&namespaces, &labels).await?;
            // Thousands of values at once would take much memory.
            told_by(&context.cluster, live.into_iter().map(|(key, text)| (key, text.read()))).await
        };
        told.await
    };
    let told = Backoff::until_answered(say, ask).await;
    context.status.trouble(&Obstacle::Cluster, None);
    match told {
        Ok(told) => put_in(context, told).await,
        // Missing rights do not come by asking again; rollouts under way do not depend on it.
        Err(error) => warn!(%error, "failed to rebuild the history from the cluster"),
    }
}

async fn put_in(context: &Context, mut told: Rebuilt) {
    // A rollout that is under way gets a record of its own: belay takes it up.
    told.records.retain(|record| record.outcome.is_final());
    if told.records.is_empty() {
        return;
    }
    let commits: Vec<Commit> =
        told.records.iter().filter_map(|record| context.repository.mirror.commit(&record.commit).ok()).collect();
    if let Err(error) = write(context, &told, &commits) {
        warn!(%error, "failed to write down the history that was rebuilt");
        return;
    }
    let (records, not_in_git) = (told.records.len(), told.records.len() - commits.len());
    info!(records, not_in_git, nameless = told.nameless, "the history knew nothing: rebuilt from the cluster and Git");
}

fn write(context: &Context, told: &Rebuilt, commits: &[Commit]) -> Result<(), HistoryError> {
    let (history, source, now) = (&context.history, &context.config.name, context.clock.now());
    for (key, commit, template) in &told.templates {
        // Without it belay goes back to a revision that the cluster keeps.
        if let Err(error) = history.keep_template(source, key, commit, template, now) {
            warn!(object = %key, %error, "failed to keep the template");
        }
    }
    history.rebuild(source, &told.records, commits, now)
}
