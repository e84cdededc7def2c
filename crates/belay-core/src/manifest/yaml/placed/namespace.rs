//! Taking the namespace out of an object that lives in none.

use super::{At, Placed};

impl Placed {
    /// Returns the same without `metadata.namespace`.
    pub(in crate::manifest) fn without_namespace(mut self) -> Placed {
        let Some(metadata) = self.root().index("metadata") else { return self };
        let Some(inside) = self.root().get("metadata").and_then(|metadata| metadata.index("namespace")) else {
            return self;
        };
        let namespace = metadata + inside;
        let size = self.spots[namespace].size;
        self.spots.drain(namespace..namespace + size as usize);
        self.spots[metadata].size -= size;
        self.spots[0].size -= size;
        if let Some(metadata) = self.value["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        self
    }
}

impl At<'_> {
    /// Returns how many spots lie before that of the value of a key.
    fn index(self, name: &str) -> Option<usize> {
        self.value.get(name)?;
        let before = self.children().take_while(|child| child.name != name);
        Some(before.map(|child| child.at.spots.len()).sum::<usize>() + 1)
    }
}
