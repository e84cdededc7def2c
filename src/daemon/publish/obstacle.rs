//! Obstacles to following a source, or one of its objects, and their names for people.

use std::fmt;

use serde::{Serialize, Serializer};

use belay_core::manifest::ObjectKey;

/// An obstacle. Its name is the same for as long as it is in the way; the message about it may change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// The repository can't be read, or its head is refused.
    Repository,
    /// The API server does not answer.
    Cluster,
    /// The Lease can't be read or kept.
    Lease,
    /// Outcomes can't be written down.
    History,
    /// Objects that have left are not deleted.
    Prune,
    /// Old records can't be forgotten, or commits that records name can't be pinned.
    Retention,
    /// Objects carry the label of the source, and no commit names them.
    Unmanaged,
    /// A fault of belay itself.
    Belay,
    /// The objects of a resource can't be listed, everywhere or in a namespace.
    Listing(String),
    /// An object can't be read, written or rolled out.
    Object(ObjectKey),
    /// An object differs from Git and is not corrected.
    Drift(ObjectKey),
    /// Somebody else keeps changing an object.
    Disagreement(ObjectKey),
    /// The good revisions of a workload are gone from the cluster.
    Revisions(ObjectKey),
    /// A live object is too large to be read.
    Size(ObjectKey),
    /// Another source claims an object.
    Claim(ObjectKey, String),
}

impl Obstacle {
    /// The obstacles that keep all of a source from being read, applied or recorded.
    pub const BLOCKING: [Obstacle; 4] = [Obstacle::Repository, Obstacle::Cluster, Obstacle::Lease, Obstacle::History];

    /// Returns the obstacle to the list at an address of the API server.
    pub fn listing(address: &str) -> Obstacle {
        let parts: Vec<&str> = address.trim_start_matches('/').split('/').collect();
        Obstacle::Listing(match parts[..] {
            ["apis", group, _, "namespaces", namespace, resource] => format!("{resource}.{group} in {namespace}"),
            ["api", _, "namespaces", namespace, resource] => format!("{resource} in {namespace}"),
            ["apis", group, _, resource] => format!("{resource}.{group}"),
            _ => parts.last().copied().unwrap_or_default().to_owned(),
        })
    }

    /// Returns the object that it is about; `None` for one of the whole source, or of a kind.
    pub fn object(&self) -> Option<&ObjectKey> {
        use Obstacle::{
            Belay, Claim, Cluster, Disagreement, Drift, History, Lease, Listing, Object, Prune, Repository, Retention,
            Revisions, Size, Unmanaged,
        };
        match self {
            Object(key) | Drift(key) | Disagreement(key) | Revisions(key) | Size(key) | Claim(key, _) => Some(key),
            Repository | Cluster | Lease | History | Prune | Retention | Unmanaged | Belay | Listing(_) => None,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Repository => f.write_str("repository"),
            Obstacle::Cluster => f.write_str("cluster"),
            Obstacle::Lease => f.write_str("lease"),
            Obstacle::History => f.write_str("history"),
            Obstacle::Prune => f.write_str("prune"),
            Obstacle::Retention => f.write_str("keeping"),
            Obstacle::Unmanaged => f.write_str("marks"),
            Obstacle::Belay => f.write_str("belay"),
            Obstacle::Listing(resource) => write!(f, "list {resource}"),
            Obstacle::Object(key) => write!(f, "{key}"),
            Obstacle::Drift(key) => write!(f, "{key}, drift"),
            Obstacle::Disagreement(key) => write!(f, "{key}, disagreement"),
            Obstacle::Revisions(key) => write!(f, "{key}, revisions"),
            Obstacle::Size(key) => write!(f, "{key}, size"),
            Obstacle::Claim(key, source) => write!(f, "{key}, claimed by {source}"),
        }
    }
}

impl Serialize for Obstacle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Obstacle;

    #[test]
    fn each_list_has_its_own_name() {
        for (address, name) in [
            ("/api/v1/configmaps", "list configmaps"),
            ("/api/v1/namespaces", "list namespaces"),
            ("/api/v1/namespaces/shop/configmaps", "list configmaps in shop"),
            ("/apis/apps/v1/deployments", "list deployments.apps"),
            ("/apis/apps/v1/namespaces/shop/deployments", "list deployments.apps in shop"),
        ] {
            assert_eq!(Obstacle::listing(address).to_string(), name);
        }
    }
}
