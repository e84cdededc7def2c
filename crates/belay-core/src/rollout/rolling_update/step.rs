//! The next step.

use serde_json::Value;

use super::Sizes;

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// One write; then the objects are read again.
    Write {
        /// The write.
        write: Write,
        /// The lines about it.
        says: Vec<String>,
    },
    /// A controller has not caught up yet: read again after the poll interval.
    Wait {
        /// The awaited thing, for people.
        what: String,
        /// The lines about it.
        says: Vec<String>,
    },
    /// Nothing may grow now: the update period is to pass, then [`super::RollingUpdate::rested`].
    Rest {
        /// The progress.
        sizes: Sizes,
        /// The lines about it.
        says: Vec<String>,
    },
    /// Everything is done; the last line.
    Done(String),
}

/// One write. Each names the uid that it is about, so that nothing else of the same name is hit.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Make this controller.
    Create(Value),
    /// Change a controller, by a merge patch.
    Change {
        /// Its name.
        name: String,
        /// The patch, with uid and resourceVersion.
        patch: Value,
    },
    /// Delete a controller.
    Delete {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// The treatment of its pods.
        pods: Left,
    },
    /// Change a pod, by a merge patch.
    ChangePod {
        /// Its name.
        name: String,
        /// The patch, with uid.
        patch: Value,
    },
    /// Delete a pod.
    DeletePod {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
}

/// The treatment of the pods of a controller that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// They stay, without a controller.
    Orphaned,
    /// They are deleted with it.
    Deleted,
}

impl Step {
    pub(super) fn write(write: Write) -> Step {
        Step::Write { write, says: Vec::new() }
    }

    pub(super) fn wait(what: impl Into<String>) -> Step {
        Step::Wait { what: what.into(), says: Vec::new() }
    }

    /// Returns the same step, with lines before its own.
    pub(super) fn after_saying(mut self, mut lines: Vec<String>) -> Step {
        if let Step::Write { says, .. } | Step::Wait { says, .. } | Step::Rest { says, .. } = &mut self {
            lines.append(says);
            *says = lines;
        }
        self
    }
}
