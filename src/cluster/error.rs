//! The errors of a cluster, and who is to blame for them.

use belay_core::manifest::{brief, shortened};
use belay_core::rollout::{Reason, ReasonCode};

/// The reason for which a request did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The API server understood the object and refuses it: the commit's fault. Trying again changes nothing.
    #[error("{0}")]
    Refused(ServerRefusal),
    /// Something that the object needs is not there yet: its namespace, or its kind.
    #[error("failed to find {what}: {message}")]
    Missing {
        /// The missing thing, `namespace shop`.
        what: String,
        /// The API server's message.
        message: String,
    },
    /// Something that the object needs is being deleted: its namespace, or the definition of its kind.
    #[error("{what} is being deleted: {message}")]
    InDeletion {
        /// The thing that goes, `namespace shop`.
        what: String,
        /// The API server's message.
        message: String,
    },
    /// belay may not do this.
    #[error("failed to {what}: the API server does not allow it: {message}")]
    Denied {
        /// The attempt.
        what: String,
        /// The API server's message.
        message: String,
    },
    /// There was no answer, or the answer that it can't be done now: a fault of the infrastructure, to be tried again.
    #[error("failed to {what}: {message}")]
    Away {
        /// The attempt.
        what: String,
        /// The event.
        message: String,
        /// The seconds after which the server asks to be tried again.
        retry_after_seconds: Option<u32>,
        /// The reason for which it could not be done.
        because: AwayCause,
    },
}

/// The message of a write that is given up because this daemon may not write.
pub(super) const NOT_ENTITLED: &str = "this daemon does not hold the Lease of its source now, and does not write";

/// The reason for which the API server could not handle the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwayCause {
    /// It did not answer at all: that is logged once, not for each request.
    Silent,
    /// It answers that it can't.
    Busy,
    /// The API server is ready, and can't do this one thing: a webhook, a conversion, an aggregated API server or a limit of
    /// one kind is in the way of this object or kind, and of nothing else.
    Own,
    /// Somebody else has written the object at the same moment, or since it was read.
    Conflict,
}

/// A refused object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServerRefusal {
    /// The HTTP code.
    pub code: u16,
    /// The reason in one word, `Invalid`.
    pub reason: String,
    /// The fault; for Secrets without any text of the server that could repeat a value.
    pub message: String,
    /// The wrong fields, `spec.replicas`, each with its problem.
    pub causes: Vec<(String, String)>,
}

/// Returns the words of a server as far as they are kept: each waiting object keeps its own, and the history those of all records.
pub(super) fn kept_words(words: &str) -> String {
    /// In bytes: more than the API server says about an object with twenty wrong fields.
    const MOST: usize = 8 << 10;
    if words.len() <= MOST {
        return words.to_owned();
    }
    format!("{}…", &words[..words.floor_char_boundary(MOST)])
}

/// Returns the reason of a refusal, if it is one word. A webhook may write anything into it.
fn in_one_word(reason: String) -> String {
    const LONGEST: usize = 40;
    let is_word = reason.len() <= LONGEST && reason.chars().all(|c| c.is_ascii_alphabetic());
    if is_word { reason } else { "Refused".to_owned() }
}

impl ClusterError {
    /// Returns the error of a server that can't do it now.
    pub(super) fn away(what: impl Into<String>, message: impl Into<String>) -> ClusterError {
        ClusterError::Away {
            what: what.into(),
            message: kept_words(&message.into()),
            retry_after_seconds: None,
            because: AwayCause::Busy,
        }
    }

    /// Returns the error of a server that gave no answer.
    pub(super) fn silence(what: impl Into<String>, message: impl Into<String>) -> ClusterError {
        ClusterError::Away {
            what: what.into(),
            message: kept_words(&message.into()),
            retry_after_seconds: None,
            because: AwayCause::Silent,
        }
    }

    /// Returns the same in words from which something is taken out.
    pub(super) fn in_words(self, words: impl Fn(&str) -> String) -> ClusterError {
        match self {
            ClusterError::Refused(refusal) => ClusterError::Refused(ServerRefusal {
                message: words(&refusal.message),
                causes: refusal.causes.iter().map(|(field, message)| (words(field), words(message))).collect(),
                reason: in_one_word(words(&refusal.reason)),
                ..refusal
            }),
            ClusterError::Missing { what, message } => ClusterError::Missing { what, message: words(&message) },
            ClusterError::InDeletion { what, message } => ClusterError::InDeletion { what, message: words(&message) },
            ClusterError::Denied { what, message } => ClusterError::Denied { what, message: words(&message) },
            ClusterError::Away { what, message, retry_after_seconds, because } => {
                ClusterError::Away { what, message: words(&message), retry_after_seconds, because }
            }
        }
    }

    /// Returns true when there was no answer at all: that is logged once, not for each request.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, ClusterError::Away { because: AwayCause::Silent, .. })
    }

    /// Returns true when the API server can do nothing at all now. Whatever else is asked of it meanwhile waits too.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, ClusterError::Away { because: AwayCause::Silent | AwayCause::Busy, .. })
    }

    /// Returns true when only this object or kind can't be served now, by an API server that is ready.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, ClusterError::Away { because: AwayCause::Own, .. })
    }

    /// Returns true when only this object is in trouble, and waits for it with a limit: it can't be served, or what it
    /// needs is missing, or is being deleted.
    #[must_use]
    pub fn is_waited_for_with_a_limit(&self) -> bool {
        self.is_own() || matches!(self, ClusterError::InDeletion { .. } | ClusterError::Missing { .. })
    }

    /// Returns the same error, of an API server that is ready all the same.
    pub(super) fn of_ready_server(self) -> ClusterError {
        match self {
            ClusterError::Away { what, message, retry_after_seconds, because: AwayCause::Silent | AwayCause::Busy } => {
                ClusterError::Away { what, message, retry_after_seconds, because: AwayCause::Own }
            }
            error => error,
        }
    }

    /// Returns true when somebody else has written between the reading and the writing: after another reading it may be
    /// written.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            ClusterError::Away { because, .. } => *because == AwayCause::Conflict,
            // A JSON patch whose test of the version fails is answered as an invalid object.
            ClusterError::Refused(refusal) => {
                refusal.code == 409 || (refusal.code == 422 && refusal.message.contains("/metadata/resourceVersion"))
            }
            ClusterError::Missing { .. } | ClusterError::InDeletion { .. } | ClusterError::Denied { .. } => false,
        }
    }

    /// Returns true when trying again may help without a change of the repository.
    #[must_use]
    pub fn is_the_worlds(&self) -> bool {
        !matches!(self, ClusterError::Refused(_))
    }

    /// Returns the error as the reason of a record.
    #[must_use]
    pub fn to_reason(&self) -> Reason {
        let code = match self {
            ClusterError::Refused(refusal) => refusal.reason.as_str().into(),
            ClusterError::Missing { .. } => ReasonCode::Missing,
            ClusterError::InDeletion { .. } => ReasonCode::DeletionHangs,
            ClusterError::Denied { .. } => ReasonCode::Forbidden,
            ClusterError::Away { because: AwayCause::Own, .. } => ReasonCode::NotServed,
            ClusterError::Away { .. } => ReasonCode::ClusterAway,
        };
        let message = match self {
            ClusterError::Missing { what, message } => waits_for(what, message),
            ClusterError::InDeletion { what, .. } => {
                format!("waits for the {what}, which is being deleted: belay goes on as soon as it is gone")
            }
            error => cut(&error.to_string()),
        };
        Reason { code, message }
    }
}

/// Returns words of an API server, or of a webhook, without long values, and not longer than a few lines.
fn cut(message: &str) -> String {
    const LONGEST: usize = 600;
    shortened(&brief(message), LONGEST).into_owned()
}

/// Says what an object waits for that is not there, and what to do.
fn waits_for(what: &str, message: &str) -> String {
    match what.strip_prefix("namespace ") {
        Some(name) => format!(
            "waits for the namespace {name}, which does not exist: write the Namespace into the repository, or create it \
             (kubectl create namespace {name})"
        ),
        None => format!("waits for {what}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let missing = |what: &str| ClusterError::Missing { what: what.to_owned(), message: "not found".to_owned() };
        assert_eq!(
            missing("namespace shop").to_reason().message,
            "waits for the namespace shop, which does not exist: write the Namespace into the repository, or create it \
             (kubectl create namespace shop)"
        );
        let kind = missing("kind Widget of example.com/v1").to_reason();
        assert_eq!(kind.message, "waits for kind Widget of example.com/v1: not found");
    }

    #[test]
    fn nothing_of_a_secret_is_in_the_reason_of_a_refusal() {
        let refusal = |reason: &str| {
            let reason = reason.to_owned();
            ClusterError::Refused(ServerRefusal { code: 422, reason, message: String::new(), causes: Vec::new() })
        };
        let masked = |reason: &str| {
            let told = refusal(reason).in_words(|text| text.replace("hunter", "***")).to_reason();
            told.code.as_str().to_owned()
        };
        assert_eq!(masked("Invalid"), "Invalid");
        for reason in ["hunter", "R hunter", "it is not a word", "<b>"] {
            assert_eq!(masked(reason), "Refused", "{reason}");
        }
    }
}
