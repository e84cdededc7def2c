//! One live object, and the names under which manifests have it: the namespace in a manifest means nothing where only the
//! cluster knows that its kind is cluster-wide.

use crate::cluster::Seen;
use crate::daemon::repository::desired_state::DesiredState;
use belay_core::manifest::ObjectKey;

impl DesiredState {
    /// Returns the name under which the repository has the live object that `key` names, valid or not; `None` if it has none
    /// of it. `namespaced` is the scope with which the cluster serves the kind.
    pub fn written_as(&self, key: &ObjectKey, namespaced: bool) -> Option<&ObjectKey> {
        if key.is_built_in() {
            return None;
        }
        let mut written = self.paths().flat_map(|path| self.objects_in(path));
        written.find(|written| written.may_name(key, namespaced))
    }

    /// Returns an observation under the name that the repository has for its object.
    pub fn under_its_name(&self, seen: Seen) -> Seen {
        match seen {
            Seen::Live(key, text) => Seen::Live(self.name_of(key), text),
            Seen::TooLarge(key, error) => Seen::TooLarge(self.name_of(key), error),
            Seen::Gone(key) => Seen::Gone(self.name_of(key)),
            seen => seen,
        }
    }

    fn name_of(&self, key: ObjectKey) -> ObjectKey {
        if key.namespace.is_some() || self.mentions(&key) {
            return key;
        }
        self.written_as(&key, false).cloned().unwrap_or(key)
    }
}
