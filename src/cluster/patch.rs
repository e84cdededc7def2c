//! The writes of the commands: small patches, under a field manager of their own, so that a change by hand never passes
//! for one that belay applied.

use http::Method;
use serde_json::{Value, json};

use super::apply::{Mode, Written};
use super::call::{Purpose, request};
use super::{Cluster, ClusterError, Served};
use belay_core::manifest::{ObjectKey, without_values};
use belay_core::rollout::marks;

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// Kubernetes' own way to merge: lists by their keys.
    Strategic(Value),
    /// RFC 7396: whole lists.
    Merge(Value),
    /// RFC 6902: operations; none is done unless all can be.
    Json(Vec<Value>),
}

/// A part of an object that is written by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object.
    Whole,
    /// The number of its pods.
    Scale,
}

impl Cluster {
    /// Changes an object as a command asks, by [`marks::COMMAND_MANAGER`].
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them; a test in a [`Patch::Json`] that fails is [`ClusterError::Refused`].
    pub async fn patch(
        &self,
        key: &ObjectKey,
        served: &Served,
        part: Part,
        patch: &Patch,
        mode: Mode,
    ) -> Result<Written, ClusterError> {
        let what = format!("change {key}");
        let (media_type, body) = match patch {
            Patch::Strategic(patch) => ("application/strategic-merge-patch+json", patch.to_string()),
            Patch::Merge(patch) => ("application/merge-patch+json", patch.to_string()),
            Patch::Json(operations) => ("application/json-patch+json", Value::from(operations.clone()).to_string()),
        };
        let part = if part == Part::Scale { "/scale" } else { "" };
        let dry = if mode == Mode::DryRun { "&dryRun=All" } else { "" };
        let path = format!("{}{part}?fieldManager={}{dry}", served.path_of(key), marks::COMMAND_MANAGER);
        let request = request(Method::PATCH, &path, media_type, body.into_bytes());
        let mut sent = match patch {
            Patch::Strategic(patch) | Patch::Merge(patch) => patch.clone(),
            Patch::Json(operations) => json!({"data": operations}),
        };
        sent["kind"] = json!(key.kind);
        let words = |text: &str| without_values(&sent, text);
        let answer = self.call_for(Purpose { what: &what, secret: key.kind == "Secret" }, key, request).await;
        let answer = answer.map_err(|error| error.in_words(words))?;
        let warnings = answer.warnings.iter().map(|warning| words(warning)).collect();
        Ok(Written { object: answer.value, warnings, created: false })
    }
}
