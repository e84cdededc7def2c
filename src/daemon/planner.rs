//! Makes a plan: reads what is live, asks the server what each manifest would do, and decides nothing itself.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::context::{Context, REQUESTS_AT_ONCE};
use super::judging::is_complete;
use super::live::{digest, newest_other_manager};
use crate::cluster::{Backoff, ClusterError, Mode, Served};
use crate::manifest::{Complaint, ObjectKey};
use crate::rollout::{
    Action, Apply, Baseline, Intent, Planned, Reason, TemplateMarks, Wanted, Workload, body, intent, is_as_applied, make,
    marks, settle,
};

/// From how many objects of one kind on they are listed, not read one by one.
const LIST_FROM: usize = 50;
/// Up to how many new objects are tried before the first is made. More are checked by the server as they are made, since
/// a new object needs no dry run to know that something changes.
const TRY_NEW: usize = 50;

/// One planned object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prepared {
    pub planned: Planned,
    /// The resource that serves it, where the cluster knows its kind.
    pub served: Option<Served>,
    /// How the live object stands; `None` where there is none.
    pub standing: Option<Standing>,
    /// The live object's digest, where it is as it should be.
    pub digest: Option<u64>,
    /// Who wrote the live object last, beside belay.
    pub last_writer: Option<String>,
}

/// How a live workload stands, for taking up what was under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// Whether it says that it is complete.
    pub complete: bool,
    /// Whether its pod template is the one of the wanted manifest's commit, by its mark.
    pub ours: bool,
    /// Where judging it would begin.
    pub baseline: Baseline,
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
                Prepared { planned: Planned { wanted, action }, served: None, standing: None, digest: None, last_writer: None }
            })),
        }
    }
    prepared
}

async fn plan_kind(context: &Context, served: &Served, wanted: Vec<Wanted>) -> Vec<Prepared> {
    let mut live = live_objects(context, served, &wanted).await;
    let new = wanted.iter().filter(|wanted| live.get(&wanted.key).is_some_and(Option::is_none)).count();
    let try_new = new <= TRY_NEW;
    let each: Vec<(Wanted, Option<Value>)> = wanted
        .into_iter()
        .map(|wanted| {
            let live = live.remove(&wanted.key).flatten();
            (wanted, live)
        })
        .collect();
    let prepare = |(wanted, live): (Wanted, Option<Value>)| async move {
            let action = plan_object(context, served, &wanted, live.as_ref(), try_new).await;
            let standing = live.as_ref().and_then(|live| standing(&wanted, live));
            let digest = live.as_ref().filter(|_| action == Action::Unchanged).map(digest);
            let last_writer = live.as_ref().and_then(newest_other_manager);
            Prepared { planned: Planned { wanted, action }, served: Some(served.clone()), standing, digest, last_writer }
    };
    stream::iter(each).map(prepare).buffered(REQUESTS_AT_ONCE).collect().await
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
    let keys: Vec<ObjectKey> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
    let read = |key: ObjectKey| async move {
        let live = insist(context, &key, || context.cluster.get(&key, served)).await.unwrap_or_default();
        (key, live)
    };
    stream::iter(keys).map(read).buffered(REQUESTS_AT_ONCE).collect().await
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
                Err(error) => Action::Rejected(error.to_reason()),
            }
        }
    }
}

fn standing(wanted: &Wanted, live: &Value) -> Option<Standing> {
    Workload::of(&wanted.key)?;
    // What it says of a failure is this rollout's, as far as anybody knows.
    let baseline = Baseline { generation: marks::generation(live), old_failure: None };
    let ours = marks::annotation(live, marks::COMMIT) == Some(wanted.commit.id.as_str());
    Some(Standing { complete: is_complete(&wanted.key, live), ours, baseline })
}

/// What would be sent for a rollout that is taken up again.
pub(super) fn resumed_apply(wanted: &Wanted, source: &str) -> Apply {
    let body = body(&wanted.manifest, source, &TemplateMarks::of(&wanted.commit), None, wanted.replicas);
    Apply { body, creates: false, rolls_out: true, changes: Vec::new() }
}

/// A refusal as a complaint about the manifest.
pub(super) fn complaint(wanted: &Wanted, reason: &Reason) -> Complaint {
    Complaint {
        place: wanted.place.clone(),
        object: Some(wanted.key.clone()),
        message: reason.message.clone(),
        hint: None,
        excerpt: None,
        also: Vec::new(),
    }
}

/// What the API server says of a manifest that it refuses, each field at its place.
pub(super) fn complaints(wanted: &Wanted, error: &ClusterError) -> Vec<Complaint> {
    vec![complaint(wanted, &error.to_reason())]
}

async fn insist<T, F>(context: &Context, key: &ObjectKey, attempt: impl FnMut() -> F) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let answer = Backoff::insist(context.in_the_way(key), attempt).await;
    context.status.trouble(&key.to_string(), None);
    answer
}
