//! The reason for which a rolling update is not begun, or not continued.

/// The reason for which a rolling update is not begun, or not continued, with advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such controller.
    #[error("replicationcontrollers {name:?} not found; `kubectl get rc` lists those there are")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// There is nothing under way that could be rolled back.
    #[error(
        "Could not find {name:?} to rollback.\nTo go back to an earlier version, roll to its image: belay rolling-update {old} --image=IMAGE"
    )]
    NothingToRollBack {
        /// The missing controller.
        name: String,
        /// The controller that would have come back.
        old: String,
    },
    /// No name of a controller under way is known.
    #[error("no rolling update of {old:?} is under way, so there is nothing to roll back")]
    NothingUnderWay {
        /// The controller.
        old: String,
    },
    /// Another image is being rolled out.
    #[error(
        "Found existing in-progress update to image ({present}).\nEither continue in-progress update with --image={present} or rollback with --rollback"
    )]
    OtherImage {
        /// The image.
        present: String,
    },
    /// A template of another commit is being rolled out.
    #[error("an update to another template ({next}, commit {commit:?}) is under way")]
    OtherCommit {
        /// The controller under way.
        next: String,
        /// Its commit; empty if it names none.
        commit: String,
    },
    /// The old controller is gone, and the one that has replaced it is another than is asked for.
    #[error(
        "{old} is gone: {next} has replaced it, with {present}; go on from there: belay rolling-update {next} --image=IMAGE"
    )]
    Replaced {
        /// The controller that is gone.
        old: String,
        /// The one that has replaced it.
        next: String,
        /// The image that it has.
        present: String,
    },
    /// There is no controller to go on with.
    #[error(
        "there is no ReplicationController {name:?} to go on with; say what it is to be: --image=IMAGE, or -f FILE"
    )]
    NoNext {
        /// Its name.
        name: String,
    },
    /// The two controllers have nothing to do with each other.
    #[error(
        "{old} and {next} are both there, and no update from one to the other is under way; if {next} is to replace {old}, say so: --image={image}"
    )]
    Strangers {
        /// The controller that would shrink.
        old: String,
        /// The one that would grow.
        next: String,
        /// The image that it has.
        image: String,
    },
    /// The image stays the same.
    #[error(
        "--image-pull-policy (Always|Never|IfNotPresent) must be provided when --image is the same as existing container image"
    )]
    SameImage,
    /// The two controllers have one name.
    #[error("{name} cannot have the same name as the existing ReplicationController {name}")]
    SameName {
        /// The name.
        name: String,
    },
    /// The manifest is of another controller than the one that was named.
    #[error("the manifest is of {written:?}, not of {new:?}; leave the second name out, or make them the same")]
    OtherName {
        /// The name that was said.
        new: String,
        /// The name in the manifest.
        written: String,
    },
    /// The label that distinguishes the pods has no name.
    #[error("--deployment-label-key can not be empty")]
    NoLabelKey,
    /// The selectors of the two match the same pods.
    #[error("{next} must specify a matching key with non-equal value in Selector for {old}")]
    SameSelector {
        /// The next controller.
        next: String,
        /// The old one.
        old: String,
    },
    /// There are several containers.
    #[error("must specify container to update when updating a multi-container pod: --container {}", .names.join("|"))]
    WhichContainer {
        /// Their names.
        names: Vec<String>,
    },
    /// There is no such container.
    #[error("container {name:?} not found in {controller}; it has {}", .names.join(", "))]
    NoContainer {
        /// The name.
        name: String,
        /// The controller.
        controller: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// The update has no size to go to.
    #[error("Invalid controller spec for {name}; required: >= 0 replicas, actual: {actual}")]
    NoPods {
        /// The controller.
        name: String,
        /// Its size.
        actual: i64,
    },
    /// The controller is part of another update.
    #[error("Missing/unexpected annotations for controller {name}, expected {annotation} : {expected}, got {found:?}")]
    Annotations {
        /// The controller.
        name: String,
        /// The annotation.
        annotation: &'static str,
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// A size is not a number.
    #[error("annotation {annotation} of {name} is not a number: {found:?}")]
    NotANumber {
        /// The controller.
        name: String,
        /// The annotation.
        annotation: &'static str,
        /// The value found.
        found: String,
    },
    /// Nobody knows how large the controller was.
    #[error("couldn't find original replica count of {name:?}; scale it by hand, and delete the other")]
    NoOriginalSize {
        /// The controller.
        name: String,
    },
    /// A renaming is under way, which can't be rolled back.
    #[error(
        "{old} is being renamed already: all pods are new ones, so there is nothing to roll back; finish it with the command that began it"
    )]
    Renaming {
        /// The controller.
        old: String,
    },
    /// There would be no room to move.
    #[error("maxSurge and maxUnavailable can not both be 0: no pod could ever be replaced")]
    NoRoom,
}

impl Refused {
    /// Returns true when an update that was under way can't go on because others have deleted one of its controllers, or
    /// made it again: not because of what was asked for.
    #[must_use]
    pub fn is_by_others(&self) -> bool {
        match self {
            Refused::NotFound { .. }
            | Refused::NothingToRollBack { .. }
            | Refused::NothingUnderWay { .. }
            | Refused::OtherCommit { .. }
            | Refused::Annotations { .. } => true,
            Refused::OtherImage { .. }
            | Refused::Replaced { .. }
            | Refused::NoNext { .. }
            | Refused::Strangers { .. }
            | Refused::SameImage
            | Refused::SameName { .. }
            | Refused::OtherName { .. }
            | Refused::NoLabelKey
            | Refused::SameSelector { .. }
            | Refused::WhichContainer { .. }
            | Refused::NoContainer { .. }
            | Refused::NoPods { .. }
            | Refused::NotANumber { .. }
            | Refused::NoOriginalSize { .. }
            | Refused::Renaming { .. }
            | Refused::NoRoom => false,
        }
    }
}
