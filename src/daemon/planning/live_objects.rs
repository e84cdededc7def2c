//! Reads the live objects of a plan: one by one if they are few, by list if they are many.

use std::collections::{BTreeMap, BTreeSet};

use super::planner::Planner;
use crate::cluster::{ClusterError, Served};
use crate::daemon::shared::live::{ListedLive, Live};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Wanted;

/// The number of objects of one kind from which on they are listed, not read one by one.
const LIST_FROM: usize = 50;

impl Planner<'_> {
    /// Returns the live objects of these manifests, as far as a list says them; why not, of those that belay may not
    /// read, or that can't be served. Those that are not in it are read one by one, by [`Planner::read_live`].
    pub async fn live_objects(
        &self,
        served: &Served,
        wanted: &[Wanted],
    ) -> Result<BTreeMap<ObjectKey, ListedLive>, ClusterError> {
        let keys: BTreeSet<ObjectKey> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
        let mut live = BTreeMap::new();
        if keys.len() < LIST_FROM {
            return Ok(live);
        }
        let mut by_namespace: BTreeMap<Option<String>, BTreeSet<ObjectKey>> = BTreeMap::new();
        for key in &keys {
            by_namespace.entry(key.namespace.clone()).or_default().insert(key.clone());
        }
        // Perhaps it may in each of the namespaces, if it may not list everywhere.
        if by_namespace.len() > 1 && self.list(served, None, &keys, &mut live).await? {
            return Ok(live);
        }
        for (namespace, keys) in by_namespace.into_iter().filter(|(_, keys)| keys.len() >= LIST_FROM) {
            self.list(served, namespace.as_deref(), &keys, &mut live).await?;
        }
        Ok(live)
    }

    /// Returns the live object of a manifest, read by itself.
    pub async fn read_live(&self, served: &Served, key: &ObjectKey) -> Result<Live, ClusterError> {
        let live = self.ask(key, || self.cluster.get(key, served)).await;
        match self.or_nothing(live) {
            Err(error) if self.gives_up(&error) => Err(error),
            live => Ok(live),
        }
    }

    /// Lists a kind, and says whether belay may. Objects are read one by one instead if most of the kind is not among
    /// the manifests.
    async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        keys: &BTreeSet<ObjectKey>,
        live: &mut BTreeMap<ObjectKey, ListedLive>,
    ) -> Result<bool, ClusterError> {
        let Some(first) = keys.first() else { return Ok(true) };
        let say = |slow: Option<&str>| self.on_outage.say_of_list(&served.address_in(namespace), slow);
        match self.ask(first, || self.cluster.list_wanted(served, namespace, keys, say)).await {
            Ok((found, one_by_one)) => {
                let one_by_one: BTreeSet<ObjectKey> = one_by_one.into_iter().collect();
                live.extend(keys.iter().filter(|key| !one_by_one.contains(key)).map(|key| (key.clone(), Ok(None))));
                live.extend(found.into_iter().map(|(key, object)| (key, object.map(Some))));
                Ok(true)
            }
            Err(ClusterError::Denied { .. }) => Ok(false),
            Err(error) if self.gives_up(&error) => Err(error),
            // Thousands of objects of a kind that can't be listed can't be read one by one either.
            Err(error) if error.is_own() => {
                live.extend(keys.iter().map(|key| (key.clone(), Err(error.clone()))));
                Ok(true)
            }
            // A kind that is not there has no objects.
            Err(_) => {
                live.extend(keys.iter().map(|key| (key.clone(), Ok(None))));
                Ok(true)
            }
        }
    }
}
