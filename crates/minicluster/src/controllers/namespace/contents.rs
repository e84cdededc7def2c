//! Deleting everything in a namespace: pods first, then the rest.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::controllers::discovery::DiscoveredKind;
use crate::controllers::error::Error;
use crate::controllers::requests::Requests;

/// Kinds that are searched side by side.
const AT_ONCE: usize = 8;

/// The rest in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The number of objects of each kind that are left.
    pub objects: BTreeMap<String, usize>,
    /// The number of objects that each finalizer holds.
    pub finalizers: BTreeMap<String, usize>,
    /// The errors.
    pub errors: Vec<String>,
}

impl Remains {
    /// Returns true when the namespace is empty.
    pub fn is_nothing(&self) -> bool {
        self.objects.is_empty() && self.errors.is_empty()
    }

    fn add(&mut self, other: Remains) {
        self.objects.extend(other.objects);
        for (finalizer, count) in other.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
        self.errors.extend(other.errors);
    }
}

/// Deletes everything in a namespace and returns the rest. Pods go first: while there are any, the objects that they
/// use stay.
pub async fn remove(requests: &Requests, kinds: &BTreeSet<DiscoveredKind>, namespace: &str) -> Remains {
    let (pods, rest): (Vec<&DiscoveredKind>, Vec<&DiscoveredKind>) =
        kinds.iter().filter(|kind| kind.namespaced).partition(|kind| kind.group.is_empty() && kind.plural == "pods");
    let mut remains = Remains::default();
    for kind in pods {
        remains.add(remove_kind(requests, kind, namespace).await);
    }
    if !remains.is_nothing() {
        return remains;
    }
    for kinds in rest.chunks(AT_ONCE) {
        for of_kind in join_all(kinds.iter().map(|kind| remove_kind(requests, kind, namespace))).await {
            remains.add(of_kind);
        }
    }
    remains
}

async fn remove_kind(requests: &Requests, kind: &DiscoveredKind, namespace: &str) -> Remains {
    match try_to_remove_kind(requests, kind, namespace).await {
        Ok(remains) => remains,
        Err(error) => Remains { errors: vec![error.message()], ..Remains::default() },
    }
}

async fn try_to_remove_kind(requests: &Requests, kind: &DiscoveredKind, namespace: &str) -> Result<Remains, Error> {
    let path = kind.path_in(namespace);
    let Some(present) = requests.list_metadata(&path).await? else { return Ok(Remains::default()) };
    if present.is_empty() {
        return Ok(Remains::default());
    }
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
    if kind.deletes_collections {
        requests.raw("delete all", "DELETE", &path, "application/json", &options).await?;
    } else {
        for name in present.iter().filter_map(|metadata| metadata.name.as_ref()) {
            delete_one(requests, &format!("{path}/{name}"), &options).await?;
        }
    }
    let left = requests.list_metadata(&path).await?.unwrap_or_default();
    let mut remains = Remains::default();
    if !left.is_empty() {
        remains.objects.insert(kind.qualified(), left.len());
    }
    for finalizer in left.into_iter().flat_map(|metadata| metadata.finalizers.unwrap_or_default()) {
        *remains.finalizers.entry(finalizer).or_default() += 1;
    }
    Ok(remains)
}

async fn delete_one(requests: &Requests, path: &str, options: &Value) -> Result<(), Error> {
    match requests.raw("delete", "DELETE", path, "application/json", options).await {
        Err(error) if error.is_not_found() => Ok(()),
        answer => answer,
    }
}
