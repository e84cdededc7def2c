//! The errors between a controller and the API server.

use kube::core::Status;

/// The cause that a refusal carries while the namespace is going away.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// A sync that did not succeed. The key is tried again later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be asked.
    #[error("failed to {action} {what}: {source}")]
    Request {
        /// The request, `create`.
        action: &'static str,
        /// The object, `replicasets shop/web-5d4`.
        what: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("failed to {action} {what}: no answer within {seconds} s")]
    NoAnswer {
        /// The request.
        action: &'static str,
        /// The object.
        what: String,
        /// The time of waiting.
        seconds: u64,
    },
    /// An object that no controller can work with.
    #[error("failed to read {what}: {why}")]
    Unusable {
        /// The object.
        what: String,
        /// The fault.
        why: String,
    },
    /// Something that must be true before the work can go on is not true yet.
    #[error("failed to go on with {what}: {why}")]
    NotYet {
        /// The object.
        what: String,
        /// The missing part.
        why: String,
    },
    /// Nothing is wrong: something was just written, and its event will bring the object back into the queue.
    #[error("more to do once what was written shows")]
    ComesBack,
    /// Several things went wrong at once; the first is reported.
    #[error("{first} (and {others} more)")]
    Several {
        /// The first.
        first: Box<Error>,
        /// The number of others.
        others: usize,
    },
}

impl Error {
    /// Returns one error out of many; `None` if there is none.
    pub fn first_of(errors: Vec<Error>) -> Option<Error> {
        let others = errors.len().saturating_sub(1);
        let first = errors.into_iter().next()?;
        Some(if others == 0 { first } else { Error::Several { first: Box::new(first), others } })
    }

    /// Returns the server's own account, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Error::Several { first, .. } => first.status(),
            _ => None,
        }
    }

    /// Returns the message for people in events and conditions: the server's own words if it answered.
    pub fn message(&self) -> String {
        self.status().map_or_else(|| self.to_string(), |status| status.message.clone())
    }

    /// Returns true when there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.has_reason("NotFound")
    }

    /// Returns true when there is such an object already.
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    /// Returns true when the object has changed since it was read, or is another one of the same name.
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict")
    }

    /// Returns true when the object breaks rules.
    pub fn is_invalid(&self) -> bool {
        self.has_reason("Invalid")
    }

    /// Returns true when the namespace is going away, so that nothing can be made in it any more.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == NAMESPACE_TERMINATING))
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }
}
