//! Options of creations, updates and patches.

use super::{dry_run, forbidden, refuse, unsupported};
use crate::api::call::{Call, User};
use crate::api::resource::Resource;
use crate::api::{ApiError, Cause};
use kube_rules::{Effect, FieldValidation};

/// The options of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// True when nothing is stored.
    pub dry_run: bool,
    /// The writer.
    pub manager: String,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// True when an apply takes over fields of others.
    pub force: bool,
    /// The requester, if that counts: requests for certificates name it, and nobody grants rights that they do not
    /// have.
    pub requester: Option<User>,
}

impl WriteOptions {
    /// Returns the effect of the write.
    pub fn effect(&self) -> Effect {
        if self.dry_run { Effect::DryRun } else { Effect::Stored }
    }

    /// Reads and checks the parameters of a creation.
    ///
    /// # Errors
    /// 422 with all causes.
    pub fn create(call: &Call) -> Result<WriteOptions, ApiError> {
        WriteOptions::read(call, "CreateOptions", Vec::new())
    }

    /// Reads and checks the parameters of an update.
    ///
    /// # Errors
    /// 422 with all causes.
    pub fn update(call: &Call) -> Result<WriteOptions, ApiError> {
        WriteOptions::read(call, "UpdateOptions", Vec::new())
    }

    /// Reads and checks the parameters of a patch; an apply must name its manager, and may use force.
    ///
    /// # Errors
    /// 422 with all causes.
    pub fn patch(call: &Call, apply: bool) -> Result<WriteOptions, ApiError> {
        let mut causes = Vec::new();
        if apply && call.query.text("fieldManager").is_none() {
            causes.push(Cause {
                reason: "FieldValueRequired",
                message: "Required value: is required for apply patch".to_owned(),
                field: Some("fieldManager".to_owned()),
            });
        }
        if !apply && call.query.flag("force").is_some() {
            causes.push(forbidden("force", "may not be specified for non-apply patch"));
        }
        WriteOptions::read(call, "PatchOptions", causes)
    }

    /// Returns the same, with who asks for it, if that counts for objects of this kind.
    #[must_use]
    pub fn asked_by(self, call: &Call, resource: &Resource) -> WriteOptions {
        let counts = resource.is("certificates.k8s.io", "certificatesigningrequests")
            || resource.definition.group == "rbac.authorization.k8s.io";
        WriteOptions { requester: counts.then(|| call.user.clone()), ..self }
    }

    fn read(call: &Call, kind: &str, mut causes: Vec<Cause>) -> Result<WriteOptions, ApiError> {
        causes.extend(call.query.text("fieldManager").and_then(manager_complaint));
        let dry_runs: Vec<&str> = call.query.all("dryRun").collect();
        let dry_run = dry_run(&dry_runs).unwrap_or_else(|cause| {
            causes.push(cause);
            false
        });
        let field_validation = match call.query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(unsupported("fieldValidation", &format!("{other:?}"), &supported));
                FieldValidation::Warn
            }
        };
        refuse(kind, causes)?;
        let force = call.query.flag("force").unwrap_or_default();
        Ok(WriteOptions { dry_run, manager: call.manager(), field_validation, force, requester: None })
    }
}

fn manager_complaint(manager: &str) -> Option<Cause> {
    let field = Some("fieldManager".to_owned());
    if manager.len() > 128 {
        let message = "Too long: may not be more than 128 bytes".to_owned();
        return Some(Cause { reason: "FieldValueTooLong", message, field });
    }
    let (at, wrong) = manager.char_indices().find(|(_, c)| c.is_control())?;
    let shown: String =
        manager.chars().map(|c| if c.is_control() { format!("\\x{:02x}", c as u32) } else { c.to_string() }).collect();
    let message = format!("Invalid value: \"{shown}\": invalid character U+{:04X} (at position {at})", wrong as u32);
    Some(Cause { reason: "FieldValueInvalid", message, field })
}
