//! The words by which programs know why something ended as it did.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

macro_rules! reason_codes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The reason for an end, as one word: the same in JSON, in the history and in metrics. The words are stable.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(from = "String")]
        #[non_exhaustive]
        pub enum ReasonCode {
            $($(#[doc = $doc])+ $name,)+
            /// A word of Kubernetes (the state of a pod, the reason of a condition or of a refusal), or of another version of
            /// belay.
            Other(OtherCode),
        }

        impl ReasonCode {
            /// belay's own words.
            pub const OWN: &[ReasonCode] = &[$(ReasonCode::$name,)+];

            /// Returns the word.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(ReasonCode::$name => stringify!($name),)+
                    ReasonCode::Other(OtherCode(word)) => word,
                }
            }
        }

        impl From<&str> for ReasonCode {
            fn from(word: &str) -> ReasonCode {
                match word {
                    $(stringify!($name) => ReasonCode::$name,)+
                    other => ReasonCode::Other(OtherCode(other.into())),
                }
            }
        }
    };
}

reason_codes! {
    /// An analysis within its bake time has shown that it is bad.
    AnalysisFailed,
    /// The API server did not answer while a rollout was judged.
    ApiServerAway,
    /// It was complete, and failed within its bake time.
    BakeFailed,
    /// Its new pods were ready, and failed within a step of its canary.
    CanaryFailed,
    /// Another source has the same object.
    ClaimedTwice,
    /// The API server can't be reached.
    ClusterAway,
    /// Another object of the same commit failed, and all of it goes back.
    CommitFailed,
    /// The workload's controller does nothing.
    ControllerSilent,
    /// The object was deleted and does not go away.
    DeletionHangs,
    /// It failed, and nothing more exact is known.
    Failed,
    /// belay is not allowed to.
    Forbidden,
    /// Its manifest is held.
    Held,
    /// A newer commit has gone back to a manifest that is held.
    HeldAgain,
    /// Another belay has taken the workload back and holds its manifest.
    HeldMeanwhile,
    /// belay's own fault.
    InternalError,
    /// The manifest is not valid.
    InvalidManifest,
    /// The manifest's kind or namespace is not in the cluster.
    Missing,
    /// The new pods are well, and the rollout does not end.
    NotFinishing,
    /// The object that is to be deleted was not made by belay.
    NotMadeByBelay,
    /// The API server is ready, and can't serve this object or kind: its webhook, its conversion or its own server does not
    /// answer, or its kind is throttled.
    NotServed,
    /// A pod of another revision keeps the controller from going on.
    OldPodNotReady,
    /// Its manifest has left the repository, and the object stays.
    Orphaned,
    /// The pods can't be read.
    PodsNotReadable,
    /// The rollout made no progress within its deadline.
    ProgressDeadlineExceeded,
    /// Too much would be deleted, or it was changed meanwhile.
    PruneRefused,
    /// The Git repository can't be reached.
    RepositoryAway,
    /// The rolling update of a ReplicationController can't be made.
    RollingUpdateRefused,
    /// An autoscaler has changed the number of pods.
    Scaled,
    /// A newer commit, or another try of the same one, took its place.
    Superseded,
    /// The object is suspended.
    Suspended,
    /// A person has taken it back.
    UndoneByHand,
    /// A dependency failed, or is held.
    WaitsForAnother,
}

impl ReasonCode {
    /// Returns true when an object waits for this with a limit: then its record fails, and it is tried again all the same.
    #[must_use]
    pub fn is_waited_for_with_a_limit(&self) -> bool {
        matches!(self, ReasonCode::DeletionHangs | ReasonCode::Missing | ReasonCode::NotServed)
    }
}

/// A word that is not one of belay's own. Only reading a word makes one, so that no two codes have the same word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherCode(Box<str>);

impl From<String> for ReasonCode {
    fn from(word: String) -> ReasonCode {
        ReasonCode::from(word.as_str())
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ReasonCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl JsonSchema for ReasonCode {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_the_code_that_it_was_written_for() {
        for code in ReasonCode::OWN {
            assert_eq!(ReasonCode::from(code.as_str()), *code);
            assert!(!matches!(code, ReasonCode::Other(_)), "{code}");
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(
                (serde_json::from_str::<ReasonCode>(&json).unwrap(), json),
                (code.clone(), format!("\"{code}\""))
            );
        }
        assert!(ReasonCode::OWN.is_sorted(), "the list is in the order of the alphabet");
    }

    #[test]
    fn a_word_that_is_not_known_is_kept() {
        let code: ReasonCode = serde_json::from_str("\"ImagePullBackOff\"").unwrap();
        assert!(matches!(code, ReasonCode::Other(_)), "{code:?}");
        assert_eq!((code.as_str(), code == ReasonCode::from("ImagePullBackOff")), ("ImagePullBackOff", true));
    }
}
