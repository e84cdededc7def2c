//! The names of pods: in requests, and among all that ever were.

use std::sync::Arc;

/// A pod's uid, shared by all who keep something under it.
pub type Uid = Arc<str>;

/// The pod of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, without which another of its name could be meant.
    pub uid: Uid,
}
