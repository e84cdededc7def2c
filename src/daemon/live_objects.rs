//! Reading what is live of the objects that are planned: one by one where they are few, by list where they are many.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::live::Live;
use super::planner::Planner;
use super::requests::OF_ONE_SOURCE;
use crate::cluster::{ClusterError, Served};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Wanted;

/// From how many objects of one kind on they are listed, not read one by one.
const LIST_FROM: usize = 50;

impl Planner<'_> {
    /// The live objects of these manifests; of those that belay may not read, why.
    pub(super) async fn live_objects(
        &self,
        served: &Served,
        wanted: &[Wanted],
    ) -> Result<BTreeMap<ObjectKey, Live>, ClusterError> {
        let keys: BTreeSet<ObjectKey> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
        let (listed, one_by_one) =
            if keys.len() >= LIST_FROM { self.listed(served, keys).await? } else { (Vec::new(), keys) };
        let read = |key: ObjectKey| async move {
            let live = self.ask(&key, || self.cluster.get(&key, served)).await;
            let live = match self.or_nothing(live) {
                Err(denied @ ClusterError::Denied { .. }) if !self.gives_up(&denied) => Err(denied),
                live => Ok(live?),
            };
            Ok((key, live))
        };
        let mut live: BTreeMap<ObjectKey, Live> =
            stream::iter(one_by_one).map(read).buffered(OF_ONE_SOURCE).try_collect().await?;
        live.extend(listed.into_iter().map(|(key, object)| (key, Ok(Some(object)))));
        Ok(live)
    }

    /// The live ones among many objects of a kind, from lists, and those that are better read one by one: most of the kind
    /// is not among them, or belay may not list it.
    async fn listed(
        &self,
        served: &Served,
        keys: BTreeSet<ObjectKey>,
    ) -> Result<(Vec<(ObjectKey, Value)>, BTreeSet<ObjectKey>), ClusterError> {
        let mut by_namespace: BTreeMap<Option<String>, BTreeSet<ObjectKey>> = BTreeMap::new();
        for key in &keys {
            by_namespace.entry(key.namespace.clone()).or_default().insert(key.clone());
        }
        if by_namespace.len() > 1 {
            match self.list(served, None, &keys).await {
                // Perhaps it may in each of the namespaces.
                Err(ClusterError::Denied { .. }) => {}
                listed => return listed,
            }
        }
        let (mut found, mut one_by_one) = (Vec::new(), BTreeSet::new());
        for (namespace, keys) in by_namespace {
            let few = keys.len() < LIST_FROM;
            match if few { None } else { Some(self.list(served, namespace.as_deref(), &keys).await) } {
                None | Some(Err(ClusterError::Denied { .. })) => one_by_one.extend(keys),
                Some(listed) => {
                    let (listed, rest) = listed?;
                    found.extend(listed);
                    one_by_one.extend(rest);
                }
            }
        }
        Ok((found, one_by_one))
    }

    async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        keys: &BTreeSet<ObjectKey>,
    ) -> Result<(Vec<(ObjectKey, Value)>, BTreeSet<ObjectKey>), ClusterError> {
        let Some(first) = keys.first() else { return Ok(Default::default()) };
        let listed = self.ask(first, || self.cluster.list_wanted(served, namespace, keys)).await;
        let (found, rest) = match listed {
            Err(denied @ ClusterError::Denied { .. }) => return Err(denied),
            listed => self.or_nothing(listed)?,
        };
        Ok((found, rest.into_iter().collect()))
    }
}
