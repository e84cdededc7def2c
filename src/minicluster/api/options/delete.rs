//! Options of deletions.

use serde_json::Value;

use super::{dry_run, refuse, unsupported};
use crate::minicluster::api::call::Call;
use crate::minicluster::api::{ApiError, Cause};

/// How a deletion is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Whether nothing is deleted.
    pub dry_run: bool,
    /// How long the object may take to end, in seconds.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of what the object owns.
    pub propagation: Option<Propagation>,
    /// Whether that was said by the old flag `orphanDependents: false`.
    pub legacy_cascade: bool,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resource version that the object must have.
    pub resource_version: Option<String>,
}

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// It stays, without its owner.
    Orphan,
    /// It goes after the object.
    Background,
    /// It goes before the object.
    Foreground,
}

impl DeleteOptions {
    /// Reads and checks the body, or where there is none the parameters.
    ///
    /// # Errors
    /// 400 for a body that can't be read, 422 with all causes.
    pub fn new(call: &Call) -> Result<DeleteOptions, ApiError> {
        let body = call.options()?;
        let grace = call.query.number("gracePeriodSeconds")?;
        let options = body.unwrap_or(Value::Null);
        let from_query = options.is_null();
        let mut causes = Vec::new();
        let dry_runs: Vec<&str> = if from_query {
            call.query.all("dryRun").collect()
        } else {
            options["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let dry_run = dry_run(&dry_runs).unwrap_or_else(|cause| {
            causes.push(cause);
            false
        });
        let policy = if from_query {
            call.query.text("propagationPolicy")
        } else {
            options["propagationPolicy"].as_str().filter(|policy| !policy.is_empty())
        };
        let orphan =
            if from_query { call.query.flag("orphanDependents") } else { options["orphanDependents"].as_bool() };
        let propagation = propagation(policy, orphan, &mut causes);
        refuse("DeleteOptions", causes)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: if from_query { grace } else { options["gracePeriodSeconds"].as_i64() },
            propagation,
            legacy_cascade: orphan == Some(false),
            uid: text(&options["preconditions"]["uid"]),
            resource_version: text(&options["preconditions"]["resourceVersion"]),
        })
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>, causes: &mut Vec<Cause>) -> Option<Propagation> {
    if let (Some(policy), Some(_)) = (policy, orphan) {
        causes.push(Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"),
            field: Some("propagationPolicy".to_owned()),
        });
    }
    match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(unsupported("propagationPolicy", &format!("{other:?}"), &supported));
            None
        }
        (None, None) => None,
    }
}
