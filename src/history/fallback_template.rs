//! The templates that rollouts took the place of, where nothing better is known to go back to.

use serde_json::Value;

use super::error::HistoryError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::TemplateMarks;

/// The largest template that is kept, in bytes of JSON. The API server takes objects of up to 1.5 MiB.
const SIZE: usize = 512 << 10;

/// A pod template that a workload had before a rollout, without having been seen complete.
#[derive(Clone, Debug, PartialEq)]
pub struct FallbackTemplate {
    /// The uid of the object that had it.
    pub uid: String,
    /// The template.
    pub template: Value,
    /// The object's marks of it.
    pub marks: TemplateMarks,
}

/// Returns the text of a template that may be kept.
pub(in crate::history) fn checked(object: &ObjectKey, template: &Value) -> Result<String, HistoryError> {
    if object.kind == "Secret" {
        return Err(HistoryError::Secret { object: object.clone() });
    }
    let text = template.to_string();
    if text.len() > SIZE {
        let what = format!("the pod template of {object}");
        return Err(HistoryError::TooLarge { what, size: text.len(), limit: SIZE });
    }
    Ok(text)
}
