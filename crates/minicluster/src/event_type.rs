//! The `type` of an Event.

/// The type of an event: as intended, or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// It is.
    Normal,
    /// A person should act.
    Warning,
}

impl EventType {
    /// As events say it.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}
