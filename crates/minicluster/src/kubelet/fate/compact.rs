//! The fate of a container that is kept for as long as the container: most have the ordinary one.

use std::ops::Deref;

use super::{Fate, ORDINARY};

/// A fate that takes no room of its own while it is the ordinary one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactFate(Option<Box<Fate>>);

impl From<Fate> for CompactFate {
    fn from(fate: Fate) -> CompactFate {
        CompactFate((fate != ORDINARY).then(|| Box::new(fate)))
    }
}

impl Deref for CompactFate {
    type Target = Fate;

    fn deref(&self) -> &Fate {
        self.0.as_deref().unwrap_or(&ORDINARY)
    }
}
