//! The reason for an end.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::ReasonCode;

/// The reason for an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// One word that programs can rely on, `ProgressDeadlineExceeded`.
    pub code: ReasonCode,
    /// One sentence for people.
    pub message: String,
}

impl Reason {
    /// Returns a reason.
    #[must_use]
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Reason {
        Reason { code, message: message.into() }
    }

    /// Returns the same, with something that came to it: `it exceeded its deadline; the way back failed too`.
    #[must_use]
    pub fn and(self, more: impl fmt::Display) -> Reason {
        Reason { message: format!("{}; {more}", self.message), ..self }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
