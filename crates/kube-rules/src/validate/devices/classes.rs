//! Classes of devices.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;
use super::{Expressions, MOST_CONFIGURATIONS, configuration, each, selectors};

/// Checks a DeviceClass, its metadata apart.
pub fn class(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    selectors(spec, Expressions::New, &at, errors);
    each(spec.list("config"), MOST_CONFIGURATIONS, &at.field("config"), errors, configuration);
    if let Some(name) = spec.some("extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        errors.invalid(&at.field("extendedResourceName"), name, "must be a valid extended resource name");
    }
}

/// Returns true when a resource is somebody's own: with a domain, and that not Kubernetes'.
fn is_extended(name: &str) -> bool {
    let own = name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"));
    own && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}
