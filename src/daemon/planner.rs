//! Makes a plan: reads what is live, asks the server what each manifest would do, and decides nothing itself.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::context::{Context, REQUESTS_AT_ONCE};
use crate::cluster::{Backoff, Cluster, ClusterError, Mode, Served};
use crate::manifest::ObjectKey;
use crate::rollout::{Action, Intent, Planned, Reason, Wanted, intent, is_as_applied, make, settle};

/// From how many objects of one kind on they are listed, not read one by one.
const LIST_FROM: usize = 50;
/// Up to how many new objects are tried before the first is made. More are checked by the server as they are made, since
/// a new object needs no dry run to know that something changes.
const TRY_NEW: usize = 50;

/// One planned object, and the resource that serves it where the cluster knows its kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prepared {
    pub planned: Planned,
    pub served: Option<Served>,
}

/// Plans these manifests. Waits out what the world does; cancel by dropping.
pub(super) async fn plan(context: &Context, wanted: Vec<Wanted>) -> Vec<Prepared> {
    let mut by_kind: BTreeMap<(String, String), Vec<Wanted>> = BTreeMap::new();
    for wanted in wanted {
        by_kind.entry((wanted.api_version.clone(), wanted.key.kind.clone())).or_default().push(wanted);
    }
    let mut prepared = Vec::new();
    for ((api_version, kind), wanted) in by_kind {
        let key = wanted[0].key.clone();
        let served = insist(context, &key, || context.cluster.served(&api_version, &kind)).await;
        match served {
            Ok(served) => prepared.extend(plan_kind(context, &served, wanted).await),
            Err(error) => prepared.extend(wanted.into_iter().map(|wanted| {
                let action = Action::Blocked(error.to_reason());
                Prepared { planned: Planned { wanted, action }, served: None }
            })),
        }
    }
    prepared
}

async fn plan_kind(context: &Context, served: &Served, wanted: Vec<Wanted>) -> Vec<Prepared> {
    let mut live = live_objects(context, served, &wanted).await;
    let new = wanted.iter().filter(|wanted| live.get(&wanted.key).is_some_and(Option::is_none)).count();
    let try_new = new <= TRY_NEW;
    let each = wanted.into_iter().map(|wanted| {
        let live = live.remove(&wanted.key).flatten();
        async move {
            let action = plan_object(context, served, &wanted, live.as_ref(), try_new).await;
            Prepared { planned: Planned { wanted, action }, served: Some(served.clone()) }
        }
    });
    stream::iter(each).buffered(REQUESTS_AT_ONCE).collect().await
}

/// The live objects of these manifests; `None` for those that do not exist.
async fn live_objects(context: &Context, served: &Served, wanted: &[Wanted]) -> BTreeMap<ObjectKey, Option<Value>> {
    if wanted.len() >= LIST_FROM {
        let key = &wanted[0].key;
        let namespace = wanted.iter().all(|other| other.key.namespace == key.namespace).then_some(key.namespace.as_deref());
        let all = insist(context, key, || context.cluster.list(served, namespace.flatten(), "")).await.unwrap_or_default();
        let mut found: BTreeMap<ObjectKey, Option<Value>> =
            wanted.iter().map(|wanted| (wanted.key.clone(), None)).collect();
        for object in all {
            let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let name = text("name").unwrap_or_default();
            let key = ObjectKey { namespace: text("namespace"), name, ..key.clone() };
            if let Some(live) = found.get_mut(&key) {
                *live = Some(object);
            }
        }
        return found;
    }
    let each = wanted.iter().map(|wanted| async move {
        let live = insist(context, &wanted.key, || context.cluster.get(&wanted.key, served)).await.unwrap_or_default();
        (wanted.key.clone(), live)
    });
    stream::iter(each).buffered(REQUESTS_AT_ONCE).collect().await
}

async fn plan_object(
    context: &Context,
    served: &Served,
    wanted: &Wanted,
    live: Option<&Value>,
    try_new: bool,
) -> Action {
    let source = &context.config.name;
    match intent(wanted, source, live) {
        Intent::Leave(action) => action,
        Intent::Make(body) if !try_new => make(wanted, body),
        Intent::Try(body) if live.is_some_and(|live| is_as_applied(live, &body)) => Action::Unchanged,
        Intent::Make(body) | Intent::Try(body) => {
            let tried = insist(context, &wanted.key, || context.cluster.apply(&wanted.key, served, &body, Mode::DryRun)).await;
            match tried {
                Ok(would_be) => settle(wanted, source, live, body, &would_be.object),
                // What it needs may come with this very plan.
                Err(ClusterError::Missing { .. }) => make(wanted, body),
                Err(error) => Action::Rejected(rejected(&error)),
            }
        }
    }
}

/// The reason of a refusal, all its causes included.
pub(super) fn rejected(error: &ClusterError) -> Reason {
    error.to_reason()
}

async fn insist<T, F>(context: &Context, key: &ObjectKey, attempt: impl FnMut() -> F) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let answer = Backoff::insist(context.in_the_way(key), attempt).await;
    context.status.trouble(&key.to_string(), None);
    answer
}

/// Whether the cluster serves a kind that was missing before.
pub(super) async fn is_served(cluster: &Cluster, wanted: &Wanted) -> bool {
    cluster.served(&wanted.api_version, &wanted.key.kind).await.is_ok()
}
