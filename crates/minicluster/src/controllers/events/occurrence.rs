//! The occurrences that become events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::event_type::EventType;

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The component that speaks.
    pub component: &'static str,
    /// The object.
    pub object: ObjectReference,
    /// The type of the event.
    pub event_type: EventType,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// The moment.
    pub at: Timestamp,
}
