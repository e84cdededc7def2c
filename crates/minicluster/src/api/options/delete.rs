//! Options of deletions.

use serde_json::Value;

use super::{dry_run, refuse, unsupported};
use crate::api::call::Call;
use crate::api::{ApiError, Cause};

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// True when nothing is deleted.
    pub dry_run: bool,
    /// The time that the object may take to end, in seconds.
    pub grace_period_seconds: Option<i64>,
    /// The treatment of objects that this one owns.
    pub propagation: Option<Propagation>,
    /// True when the old flag `orphanDependents: false` set that.
    pub legacy_cascade: bool,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resource version that the object must have.
    pub resource_version: Option<String>,
}

/// The treatment of objects that another owns.
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
    /// Reads and checks the body, or if there is none the parameters.
    ///
    /// # Errors
    /// 400 for a body that can't be read, 422 with all causes.
    pub fn new(call: &Call) -> Result<DeleteOptions, ApiError> {
        if let Some(body) = call.options()? {
            let (kind, version) = (body["kind"].as_str(), body["apiVersion"].as_str().unwrap_or_default());
            if let Some(kind) = kind.filter(|kind| *kind != "DeleteOptions") {
                let message = format!(
                    "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
                );
                return Err(ApiError::bad_request(message));
            }
            return DeleteOptions::from_value(&body);
        }
        let query = &call.query;
        let dry_runs: Vec<&str> = query.all("dryRun").collect();
        Ok(DeleteOptions {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            ..check(&dry_runs, query.text("propagationPolicy"), query.flag("orphanDependents"))?
        })
    }

    /// Reads and checks an object of options.
    ///
    /// # Errors
    /// 422 with all causes.
    pub fn from_value(options: &Value) -> Result<DeleteOptions, ApiError> {
        let dry_runs: Vec<&str> =
            options["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let policy = options["propagationPolicy"].as_str().filter(|policy| !policy.is_empty());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(DeleteOptions {
            grace_period_seconds: options["gracePeriodSeconds"].as_i64(),
            uid: text(&options["preconditions"]["uid"]),
            resource_version: text(&options["preconditions"]["resourceVersion"]),
            ..check(&dry_runs, policy, options["orphanDependents"].as_bool())?
        })
    }
}

fn check(dry_runs: &[&str], policy: Option<&str>, orphan: Option<bool>) -> Result<DeleteOptions, ApiError> {
    let mut causes = Vec::new();
    let dry_run = dry_run(dry_runs).unwrap_or_else(|cause| {
        causes.push(cause);
        false
    });
    let propagation = propagation(policy, orphan, &mut causes);
    refuse("DeleteOptions", causes)?;
    Ok(DeleteOptions { dry_run, propagation, legacy_cascade: orphan == Some(false), ..DeleteOptions::default() })
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
