//! Makes a plan: reads what is live, asks the server what each manifest would do, and decides nothing itself.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::context::{Context, REQUESTS_AT_ONCE};
use super::judging::is_complete;
use super::live::{digest, newest_other_manager};
use super::status::Publisher;
use crate::cluster::{Backoff, Cluster, ClusterError, Mode, Served};
use crate::manifest::{Complaint, ObjectKey};
use crate::rollout::{
    Action, Apply, Baseline, Intent, Planned, TemplateMarks, Wanted, Workload, body, intent, is_as_applied, make,
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

/// Who plans, for which source and cluster.
pub(super) struct Planner<'a> {
    pub cluster: &'a Cluster,
    pub source: &'a str,
    pub patience: Patience<'a>,
    /// Up to how many new objects are tried before the first is made.
    pub try_new: usize,
}

/// What is done when the cluster does not answer.
#[derive(Clone, Copy)]
pub(super) enum Patience<'a> {
    /// It is asked again, and that is published.
    Insist(&'a Publisher),
    /// Nothing is planned.
    GiveUp,
}

/// Plans these manifests for the daemon. Waits out what the world does; cancel by dropping.
pub(super) async fn plan(context: &Context, wanted: Vec<Wanted>) -> Vec<Prepared> {
    let patience = Patience::Insist(&context.status);
    let planner = Planner { cluster: &context.cluster, source: &context.config.name, patience, try_new: TRY_NEW };
    // Insisting ends in an answer; what is refused is part of the plan.
    planner.plan(wanted).await.unwrap_or_default()
}

impl Planner<'_> {
    /// Plans these manifests.
    ///
    /// # Errors
    /// Where the cluster does not answer and the planner does not insist.
    pub(super) async fn plan(&self, wanted: Vec<Wanted>) -> Result<Vec<Prepared>, ClusterError> {
        let mut by_kind: BTreeMap<(String, String), Vec<Wanted>> = BTreeMap::new();
        for wanted in wanted {
            by_kind.entry((wanted.manifest.api_version.clone(), wanted.key.kind.clone())).or_default().push(wanted);
        }
        let mut prepared = Vec::new();
        for ((api_version, kind), wanted) in by_kind {
            let key = wanted[0].key.clone();
            let served = self.ask(&key, || self.cluster.served(&api_version, &kind)).await;
            match served {
                Ok(served) => prepared.extend(self.plan_kind(&served, wanted).await?),
                Err(error) if self.gives_up(&error) => return Err(error),
                Err(error) => prepared.extend(wanted.into_iter().map(|wanted| {
                    let action = Action::Blocked(error.to_reason());
                    Prepared {
                        planned: Planned { wanted, action },
                        served: None,
                        standing: None,
                        digest: None,
                        last_writer: None,
                    }
                })),
            }
        }
        Ok(prepared)
    }

    async fn plan_kind(&self, served: &Served, wanted: Vec<Wanted>) -> Result<Vec<Prepared>, ClusterError> {
        let mut live = self.live_objects(served, &wanted).await?;
        let new = wanted.iter().filter(|wanted| live.get(&wanted.key).is_some_and(Option::is_none)).count();
        let try_new = new <= self.try_new;
        let each: Vec<(Wanted, Option<Value>)> = wanted
            .into_iter()
            .map(|wanted| {
                let live = live.remove(&wanted.key).flatten();
                (wanted, live)
            })
            .collect();
        let prepare = |(wanted, live): (Wanted, Option<Value>)| async move {
            let action = self.plan_object(served, &wanted, live.as_ref(), try_new).await?;
            let standing = live.as_ref().and_then(|live| standing(&wanted, live));
            let digest = live.as_ref().filter(|_| action == Action::Unchanged).map(digest);
            let last_writer = live.as_ref().and_then(newest_other_manager);
            let planned = Planned { wanted, action };
            Ok(Prepared { planned, served: Some(served.clone()), standing, digest, last_writer })
        };
        stream::iter(each).map(prepare).buffered(REQUESTS_AT_ONCE).try_collect().await
    }

    /// The live objects of these manifests; `None` for those that do not exist.
    async fn live_objects(
        &self,
        served: &Served,
        wanted: &[Wanted],
    ) -> Result<BTreeMap<ObjectKey, Option<Value>>, ClusterError> {
        if wanted.len() >= LIST_FROM {
            let key = &wanted[0].key;
            let namespace =
                wanted.iter().all(|other| other.key.namespace == key.namespace).then_some(key.namespace.as_deref());
            let all = self.ask(key, || self.cluster.list(served, namespace.flatten(), "")).await;
            let all = self.or_nothing(all)?;
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
            return Ok(found);
        }
        let keys: Vec<ObjectKey> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
        let read = |key: ObjectKey| async move {
            let live = self.ask(&key, || self.cluster.get(&key, served)).await;
            Ok((key, self.or_nothing(live)?))
        };
        stream::iter(keys).map(read).buffered(REQUESTS_AT_ONCE).try_collect().await
    }

    async fn plan_object(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        try_new: bool,
    ) -> Result<Action, ClusterError> {
        let source = self.source;
        Ok(match intent(wanted, source, live) {
            Intent::Leave(action) => action,
            Intent::Make(body) if !try_new => make(wanted, body),
            Intent::Try(body) if live.is_some_and(|live| is_as_applied(live, &body)) => Action::Unchanged,
            Intent::Make(body) | Intent::Try(body) => {
                let tried =
                    self.ask(&wanted.key, || self.cluster.apply(&wanted.key, served, &body, Mode::DryRun)).await;
                match tried {
                    Ok(would_be) => settle(wanted, source, live, body, &would_be.object),
                    // What it needs may come with this very plan.
                    Err(ClusterError::Missing { .. }) => make(wanted, body),
                    Err(error) if self.gives_up(&error) => return Err(error),
                    Err(error) => Action::Rejected(error.to_reason(), complaints(wanted, &error)),
                }
            }
        })
    }

    /// Asks the cluster, again and again where the planner insists.
    async fn ask<T, F>(&self, key: &ObjectKey, mut attempt: impl FnMut() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        match self.patience {
            Patience::GiveUp => attempt().await,
            Patience::Insist(publisher) => {
                let place = key.to_string();
                let say = |error: &ClusterError| publisher.trouble(&place, Some(error.to_string()));
                let answer = Backoff::insist(say, attempt).await;
                publisher.trouble(&place, None);
                answer
            }
        }
    }

    fn gives_up(&self, error: &ClusterError) -> bool {
        let away = matches!(error, ClusterError::Away { .. } | ClusterError::Denied { .. });
        away && matches!(self.patience, Patience::GiveUp)
    }

    /// What can't be read because it is not there is nothing.
    fn or_nothing<T: Default>(&self, answer: Result<T, ClusterError>) -> Result<T, ClusterError> {
        match answer {
            Err(error) if !self.gives_up(&error) => Ok(T::default()),
            answer => answer,
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
    let body = body(wanted.manifest.value(), source, &TemplateMarks::of(&wanted.commit), None, wanted.replicas);
    Apply { body, creates: false, rolls_out: true, changes: Vec::new() }
}

/// What the API server says of a manifest that it refuses, each field at its place.
pub(super) fn complaints(wanted: &Wanted, error: &ClusterError) -> Vec<Complaint> {
    let ClusterError::Refused(refusal) = error else { return vec![wanted.complaint("", &error.to_string())] };
    let named: Vec<Complaint> = refusal
        .causes
        .iter()
        .filter(|(field, _)| !field.is_empty())
        .map(|(field, message)| wanted.complaint(field, &format!("{field}: {message}")))
        .collect();
    if !named.is_empty() {
        return named;
    }
    // `strict decoding error: unknown field "spec.foo", unknown field "spec.bar"`
    let mut unknown = Vec::new();
    for part in refusal.message.split("unknown field \"").skip(1) {
        if let Some((field, _)) = part.split_once('"') {
            unknown.push(wanted.complaint(field, &format!("there is no field {field}")));
        }
    }
    if unknown.is_empty() { vec![wanted.complaint("", &refusal.message)] } else { unknown }
}
