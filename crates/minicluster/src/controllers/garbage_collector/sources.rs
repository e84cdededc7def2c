//! Following every kind there is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{EVERY, GarbageCollector, PAUSES, Stop, Tasks, discovery, lock};
use crate::controllers::informer::{Extent, Informer, OwnerInfo};

/// The time for which the first reading of a kind may hold up the others.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after the kinds could not be read.
const RETRY: Duration = Duration::from_secs(1);
/// Kinds that own nothing, are owned by nothing, and change all the time.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Follows all kinds that there are, and returns when all their objects have been seen.
pub async fn follow_all_kinds_once(collector: &Arc<GarbageCollector>, tasks: &Tasks, stop: &Stop) {
    while let Err(error) = follow_kinds(collector, tasks, stop).await {
        tracing::warn!(%error, "the kinds can't be read; trying again");
        tokio::time::sleep(RETRY).await;
    }
}

/// Follows kinds as they appear, until `stop`.
pub async fn follow_new_kinds(collector: &Arc<GarbageCollector>, tasks: &Tasks, stop: &Stop) {
    loop {
        let changed = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = collector.definitions_changed.notified() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        for pause in PAUSES.into_iter().take(if changed { PAUSES.len() } else { 1 }) {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = follow_kinds(collector, tasks, stop).await {
                tracing::warn!(%error, "the kinds can't be read; trying again later");
            }
        }
    }
}

async fn follow_kinds(collector: &Arc<GarbageCollector>, tasks: &Tasks, stop: &Stop) -> Result<(), super::Error> {
    let mut kinds = discovery::kinds(&collector.context.requests).await?;
    kinds.retain(|kind| !IGNORED.contains(&(kind.group.as_str(), kind.plural.as_str())));
    let known: BTreeSet<String> = lock(&collector.followed).keys().cloned().collect();
    let mut fresh: Vec<Informer<OwnerInfo>> = Vec::new();
    for path in kinds.iter().map(discovery::DiscoveredKind::path) {
        if known.contains(&path) || lock(&collector.shared).contains(&path) {
            continue;
        }
        let informer = Informer::new(path.clone(), Extent::Metadata);
        let this = collector.clone();
        let of = path.clone();
        informer.on_change(move |change| this.take(&of, change.metadata()));
        let until = stop.child_token();
        lock(&collector.followed).insert(path, until.clone());
        let (runner, client) = (informer.clone(), collector.context.requests.client().clone());
        let random = collector.context.random.fork();
        tasks.spawn(async move { runner.run(client, random, until).await });
        fresh.push(informer);
    }
    let present: BTreeSet<String> = kinds.iter().map(discovery::DiscoveredKind::path).collect();
    lock(&collector.followed).retain(|path, until| {
        let stays = present.contains(path);
        if !stays {
            until.cancel();
        }
        stays
    });
    *lock(&collector.kinds) = kinds;
    for informer in fresh {
        // A kind that can't be read must not keep all others from being collected.
        if tokio::time::timeout(SYNC_TIMEOUT, informer.synced()).await.is_err() {
            tracing::warn!(path = informer.path(), "a kind could not be read yet; its objects are not collected");
        }
    }
    Ok(())
}
