//! Why something ended as it did.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why something ended as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// One word that programs can rely on, `ProgressDeadlineExceeded`.
    pub code: String,
    /// One sentence for people.
    pub message: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
