//! The command lines of the tools.

use std::ffi::OsString;

use serde_json::Value;

use super::tools::Tool;
use super::unit::{HelmOptions, Unit, UnitKind};

/// Returns the namespace of a chart's objects that name none.
pub(super) fn namespace(options: &HelmOptions) -> &str {
    options.namespace.as_deref().unwrap_or("default")
}

/// Returns Helm's argument for a single value. Its `--set` knows whole numbers only; others would become text.
fn set(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("--set={name}={text}"),
        Value::Number(number) if number.is_f64() => format!("--set-json={name}={number}"),
        other => format!("--set={name}={other}"),
    }
}

/// Returns the arguments of the tool, in the root of the exported files.
pub(super) fn arguments(unit: &Unit, tool: Tool) -> Vec<OsString> {
    let folder = if unit.folder.is_empty() { "." } else { &unit.folder };
    let mut arguments: Vec<OsString> = Vec::new();
    match &unit.kind {
        UnitKind::Kustomize { reaches_out, .. } => {
            arguments.push(if tool == Tool::Kubectl { "kustomize" } else { "build" }.into());
            let restrictor = if *reaches_out { "LoadRestrictionsNone" } else { "LoadRestrictionsRootOnly" };
            arguments.push(format!("--load-restrictor={restrictor}").into());
            arguments.extend(["--".into(), folder.into()]);
        }
        UnitKind::Helm(options) => {
            arguments.extend(["template".into(), "--include-crds".into(), "--skip-tests".into()]);
            arguments.push(format!("--namespace={}", namespace(options)).into());
            for values in options.values.iter().filter_map(|values| options.values_path(values)) {
                arguments.push(format!("--values={values}").into());
            }
            arguments.extend(options.capabilities.iter().flat_map(|capabilities| capabilities.arguments()));
            arguments.extend(options.set.iter().map(|(name, value)| set(name, value).into()));
            arguments.extend(["--".into(), options.release().into(), format!("./{folder}").into()]);
        }
    }
    arguments
}
