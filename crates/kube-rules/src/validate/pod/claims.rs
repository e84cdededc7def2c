//! Devices that a pod claims.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;

/// Checks the claims of a pod.
pub fn claims(claims: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        let name = claim.text("name");
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(&at.field("name"), name);
        } else {
            errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
        }
        let shown = || {
            let text = |name: &str| claim.get(name).unwrap_or(&Value::Null).to_string();
            let (claim, template) = (text("resourceClaimName"), text("resourceClaimTemplateName"));
            let name = Value::from(name);
            Shown::Plain(format!(
                "{{\"Name\":{name},\"ResourceClaimName\":{claim},\"ResourceClaimTemplateName\":{template}}}"
            ))
        };
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        match sources.iter().filter(|name| claim.has(name)).count() {
            0 => errors.invalid(&at, shown(), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => {}
            _ => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&at, shown(), detail);
            }
        }
        for source in sources {
            if let Some(name) = claim.some(source).and_then(Value::as_str) {
                errors.each_invalid(&at.field(source), name, &names::object_name(name));
            }
        }
    }
}
