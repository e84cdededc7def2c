//! The files of a chart: its values, their schema, and its names.

use serde_json::Value;

use super::super::yaml;
use super::files::items;
use super::{Certainty, Redaction, may_be_secret};

impl Redaction {
    /// Hides the values of a chart: in doubt those whose names say nothing of a secret. `name` is that of the value, with dots.
    pub fn hide_values(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, field)| {
                self.hide_values(&below(name, key), field);
            }),
            Value::Array(items) => items.iter().for_each(|item| self.hide_values(name, item)),
            scalar => {
                let is_secret = may_be_secret(name, scalar.as_str().unwrap_or_default());
                self.hide_scalars(scalar, if is_secret { Certainty::Certain } else { Certainty::Possible });
            }
        }
    }

    /// Shows the names in a `Chart.yaml` or `requirements.yaml`. An address with a user in it is hidden.
    pub(super) fn show_names_of_chart(&mut self, text: &str) {
        for placed in yaml::documents(text).0.iter().filter_map(|document| document.read().0) {
            let chart = placed.value();
            for named in std::iter::once(chart).chain(items(&chart["dependencies"])) {
                ["name", "alias"]
                    .iter()
                    .filter_map(|field| named[*field].as_str())
                    .for_each(|name| self.show_name(name));
                if let Some(address) = named["repository"].as_str().filter(|address| address.contains('@')) {
                    self.hide(address, Certainty::Certain);
                }
            }
        }
    }

    /// Hides the values that a schema of a chart's values names: those of settings whose names say that they are secret, and
    /// in doubt those that it fixes. `name` is that of the setting, with dots.
    pub(super) fn hide_schema(&mut self, name: &str, schema: &Value) {
        let Some(fields) = schema.as_object() else {
            return items(schema).iter().for_each(|item| self.hide_schema(name, item));
        };
        for (keyword, field) in fields {
            match (keyword.as_str(), field) {
                ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(settings)) => {
                    settings.iter().for_each(|(key, setting)| self.hide_schema(&below(name, key), setting));
                }
                ("const" | "default" | "examples", value) => self.hide_values(name, value),
                // People choose from these.
                ("enum" | "pattern", value) => {
                    let texts = std::slice::from_ref(value).iter().chain(items(value));
                    let secret = texts.filter(|text| may_be_secret(name, text.as_str().unwrap_or_default()));
                    secret.for_each(|text| self.hide_scalars(text, Certainty::Certain));
                }
                (_, Value::Object(_) | Value::Array(_)) => self.hide_schema(name, field),
                _ => {}
            }
        }
    }
}

fn below(name: &str, key: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") }
}
