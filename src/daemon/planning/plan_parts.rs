//! Plans manifests object by object: an answered one goes on, whatever keeps another object waiting. An object whose
//! definition the same commit changes is not tried against the old one: it waits until that is through.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use tokio::sync::mpsc;

use super::planner::Planner;
use crate::backoff::Backoff;
use crate::cluster::{ClusterError, ObjectText, Served};
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::live::ListedLive;
use crate::daemon::shared::panics::contained;
use crate::daemon::shared::requests::{LARGE_WITHIN, is_large};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    PlanStep, Planned, Reason, ReasonCode, Trigger, Wanted, is_configuration, note_planned_configuration,
};

/// The time without results of planning after which outstanding objects wait by themselves.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The number of objects of one kind that are read at once.
const OF_ONE_KIND: usize = 256;

/// The receiver of finished objects.
type Finished = mpsc::UnboundedSender<Prepared>;

impl Planner<'_> {
    /// Plans these manifests: definitions and configuration first, since others depend on them.
    ///
    /// # Errors
    /// Fails when the cluster does not answer and [`super::on_outage::OnOutage::GiveUp`] is asked for.
    pub async fn plan(&self, wanted: Vec<Wanted>) -> Result<Vec<Prepared>, ClusterError> {
        let (definitions, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|wanted| is_definition(&wanted.key));
        let mut prepared = self.plan_part(definitions).await?;
        let pending = pending_definitions(&prepared);
        let (behind, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|wanted| pending.contains_key(&wanted.key.group));
        let (configuration, mut others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|wanted| is_configuration(&wanted.key));
        prepared.extend(behind.into_iter().map(|wanted| {
            let reason = waits_for_definitions(&pending[&wanted.key.group]);
            Prepared::of(Planned { wanted, step: PlanStep::Wait(reason) })
        }));
        prepared.extend(self.plan_part(configuration).await?);
        others.iter_mut().for_each(|reader| {
            note_planned_configuration(reader, prepared.iter().map(|prepared: &Prepared| &prepared.planned))
        });
        prepared.extend(self.plan_part(others).await?);
        self.wait_for_refused_definitions(&mut prepared);
        Ok(prepared)
    }

    /// Plans manifests side by side. Those that keep the others waiting, while the API server is ready, are planned to wait.
    async fn plan_part(&self, wanted: Vec<Wanted>) -> Result<Vec<Prepared>, ClusterError> {
        let mut open: BTreeMap<ObjectKey, Wanted> = match self.patience {
            Some(_) => wanted.iter().map(|wanted| (wanted.key.clone(), wanted.clone())).collect(),
            None => BTreeMap::new(),
        };
        let (send, mut finished) = mpsc::unbounded_channel();
        let mut work = Box::pin(self.plan_kinds(wanted, send));
        let mut prepared: Vec<Prepared> = Vec::new();
        loop {
            tokio::select! {
                biased;
                planned = &mut work => {
                    planned?;
                    while let Ok(one) = finished.try_recv() {
                        prepared.push(one);
                    }
                    break;
                }
                Some(one) = finished.recv() => {
                    open.remove(&one.planned.wanted.key);
                    prepared.push(one);
                }
                is_ready = self.stalled() => if is_ready {
                    prepared.extend(open.into_values().map(|wanted| late(wanted, PATIENCE)));
                    break;
                }
            }
        }
        prepared.sort_by(|one, other| one.planned.wanted.key.cmp(&other.planned.wanted.key));
        Ok(prepared)
    }

    /// Waits as long as patience lasts, and says whether the API server is ready all the same.
    async fn stalled(&self) -> bool {
        match self.patience {
            Some(patience) => tokio::time::sleep(patience).await,
            None => future::pending().await,
        }
        self.cluster.is_ready().await
    }

    async fn plan_kinds(&self, wanted: Vec<Wanted>, finished: Finished) -> Result<(), ClusterError> {
        let mut by_kind: BTreeMap<(String, String), Vec<Wanted>> = BTreeMap::new();
        for wanted in wanted {
            by_kind.entry((wanted.manifest.api_version.clone(), wanted.key.kind.clone())).or_default().push(wanted);
        }
        let kinds = by_kind.into_iter().map(|((api_version, kind), wanted)| {
            let finished = finished.clone();
            async move {
                let key = wanted[0].key.clone();
                match self.ask(&key, || self.cluster.served(&api_version, &kind)).await {
                    Ok(served) => self.plan_kind(&served, wanted, &finished).await,
                    Err(error) if self.gives_up(&error) => Err(error),
                    Err(error) => {
                        for wanted in wanted {
                            let reason = self.unknown_kind(&wanted.key, &error);
                            tell(&finished, Prepared::of(Planned { wanted, step: PlanStep::Wait(reason) }));
                        }
                        Ok(())
                    }
                }
            }
        });
        future::try_join_all(kinds).await.map(|_| ())
    }

    async fn plan_kind(&self, served: &Served, wanted: Vec<Wanted>, finished: &Finished) -> Result<(), ClusterError> {
        let mut reads = self.live_objects(served, &wanted).await?;
        let new = AtomicUsize::new(reads.values().filter(|live| matches!(live, Ok(None))).count());
        let each: Vec<(Wanted, Option<ListedLive>)> = wanted
            .into_iter()
            .map(|wanted| {
                let live = reads.remove(&wanted.key);
                (wanted, live)
            })
            .collect();
        let new = &new;
        let prepare = |(wanted, live): (Wanted, Option<ListedLive>)| async move {
            let manifest = wanted.clone();
            let one = contained(Box::pin(self.plan_one(served, wanted, live, new))).await;
            match one {
                Ok(one) => tell(finished, one?),
                Err(panic) => tell(finished, self.faulty(served, manifest, &panic)),
            }
            Ok::<(), ClusterError>(())
        };
        stream::iter(each).map(prepare).buffer_unordered(OF_ONE_KIND).try_collect().await
    }

    async fn plan_one(
        &self,
        served: &Served,
        wanted: Wanted,
        live: Option<ListedLive>,
        new: &AtomicUsize,
    ) -> Result<Prepared, ClusterError> {
        let listed = live.as_ref().and_then(|live| live.as_ref().ok()?.as_ref()).map_or(0, ObjectText::bytes);
        let bytes = listed.max(wanted.manifest.size());
        let Some(requests) = self.requests.filter(|_| is_large(bytes)) else {
            return self.plan_one_now(served, wanted, live, new).await;
        };
        let mut backoff = Backoff::default();
        loop {
            let planned = Box::pin(self.plan_one_now(served, wanted.clone(), live.clone(), new));
            if let Some(planned) = requests.in_room_of_large(bytes, planned).await {
                return planned;
            }
            if self.cluster.is_ready().await {
                return Ok(late(wanted, LARGE_WITHIN));
            }
            // The outage of one cluster keeps no other's objects waiting.
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    async fn plan_one_now(
        &self,
        served: &Served,
        wanted: Wanted,
        live: Option<ListedLive>,
        new: &AtomicUsize,
    ) -> Result<Prepared, ClusterError> {
        let live = match live {
            Some(live) => live.map(|live| live.map(|live| live.read())),
            None => {
                let live = self.read_live(served, &wanted.key).await?;
                new.fetch_add(usize::from(matches!(live, Ok(None))), Ordering::Relaxed);
                live
            }
        };
        // One that is tried again was not made before, for a reason that may be there still.
        let try_new = new.load(Ordering::Relaxed) <= self.try_new || wanted.trigger == Trigger::Retry;
        let kept = wanted.clone();
        let prepared = match live {
            Ok(live) => self.prepare(served, wanted, live, try_new).await,
            Err(error) => Err(error),
        };
        match prepared {
            Err(error) if !self.gives_up(&error) => {
                let planned = Planned { wanted: kept, step: PlanStep::Wait(error.to_reason()) };
                Ok(Prepared { served: Some(served.clone()), ..Prepared::of(planned) })
            }
            prepared => prepared,
        }
    }
}

/// Returns true when an object defines a kind.
pub fn is_definition(key: &ObjectKey) -> bool {
    key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition"
}

fn tell(finished: &Finished, one: Prepared) {
    // Nobody listens where planning has been given up.
    drop(finished.send(one));
}

/// The groups whose definitions are about to change, each with the definitions' names.
fn pending_definitions(prepared: &[Prepared]) -> BTreeMap<String, Vec<String>> {
    let mut pending: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in prepared.iter().filter(|one| matches!(one.planned.step, PlanStep::Apply(_) | PlanStep::Wait(_))) {
        let name = &one.planned.wanted.key.name;
        if let Some((_, group)) = name.split_once('.') {
            pending.entry(group.to_owned()).or_default().push(name.clone());
        }
    }
    pending
}

/// Says which definitions an object waits for: all that change of its group, for one group is applied as a whole.
fn waits_for_definitions(definitions: &[String]) -> Reason {
    let names = named_of_all(definitions);
    let message = match definitions {
        [_] => format!("waits for CustomResourceDefinition {names}, which the same commit changes"),
        _ => format!("waits for the CustomResourceDefinitions {names}, which the same commit changes"),
    };
    Reason::new(ReasonCode::WaitsForAnother, message)
}

/// `a.example.com, b.example.com, c.example.com and 7 more`
fn named_of_all(names: &[String]) -> String {
    const NAMED: usize = 3;
    match names.len().checked_sub(NAMED) {
        Some(left @ 1..) => format!("{} and {left} more of their group", names[..NAMED].join(", ")),
        _ => names.join(", "),
    }
}

/// An object of which the API server has said nothing for this time while it has answered about others.
fn late(wanted: Wanted, waited: Duration) -> Prepared {
    let (key, seconds) = (&wanted.key, waited.as_secs());
    let or_others = if is_large(wanted.manifest.size()) { ", or about large objects before it," } else { "" };
    let message = format!(
        "the API server is ready and has not answered about {key}{or_others} for {seconds} s; belay goes on asking"
    );
    Prepared::of(Planned { wanted, step: PlanStep::Wait(Reason::new(ReasonCode::NotServed, message)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_definitions_that_are_waited_for_are_told() {
        let said = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| format!("{name}.example.com")).collect();
            waits_for_definitions(&names).message
        };
        let commit = "which the same commit changes";
        assert_eq!(said(&["a"]), format!("waits for CustomResourceDefinition a.example.com, {commit}"));
        let three = "a.example.com, b.example.com, c.example.com";
        assert_eq!(said(&["a", "b", "c"]), format!("waits for the CustomResourceDefinitions {three}, {commit}"));
        assert_eq!(
            said(&["a", "b", "c", "d", "e"]),
            format!("waits for the CustomResourceDefinitions {three} and 2 more of their group, {commit}")
        );
    }
}
