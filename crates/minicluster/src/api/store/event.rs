//! The events of objects, of which watches hear.

use std::sync::Arc;

use super::change::Change;
use super::stored::Stored;

/// Something that happened to an object.
#[derive(Debug)]
pub struct Event {
    /// The change.
    pub change: Change,
    /// The object from then on; for a deletion, its last state with the revision of the deletion.
    pub object: Arc<Stored>,
    /// The object until then.
    pub previous: Option<Arc<Stored>>,
}
