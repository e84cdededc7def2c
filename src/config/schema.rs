//! The configuration's description for others: a JSON schema for editors, and its reference for people. Both come from
//! the types that read it and what is said of them, so that they can't fall behind.

use std::fmt::Write as _;

use schemars::schema_for;
use serde_json::Value;

use super::Config;

/// Returns the JSON schema (draft 2020-12) of the configuration file.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schema_for!(Config).to_value();
    schema["title"] = "belay.toml".into();
    schema
}

/// Returns the reference of the configuration file, as Markdown.
#[must_use]
pub fn reference() -> String {
    let schema = schema();
    let mut text = String::new();
    let sections = [
        ("[[source]]", "SourceConfig"),
        ("[source.credentials]", "CredentialsConfig"),
        ("[source.webhook]", "HookConfig"),
        ("[[source.helm]]", "HelmConfig"),
        ("[[source.ignore]]", "IgnoreConfig"),
        ("[[source.window]]", "WindowConfig"),
        ("[cluster]", "ClusterConfig"),
        ("[state]", "StateConfig"),
        ("[web]", "WebConfig"),
        ("[render]", "RenderConfig"),
        ("[limits]", "LimitsConfig"),
        ("[[notify]]", "NotifyConfig"),
        ("[[analysis]]", "AnalysisConfig"),
        ("[telemetry]", "TelemetryConfig"),
    ];
    for (title, name) in sections {
        let section = &schema["$defs"][name];
        let about = section["description"].as_str().unwrap_or_default();
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "## `{title}`\n\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|",
            one_line(about)
        );
        let required = section["required"].as_array().cloned().unwrap_or_default();
        for (key, property) in section["properties"].as_object().into_iter().flatten() {
            let section = format!("source.{key}]");
            if name == "SourceConfig" && sections.iter().any(|(title, _)| title.contains(&section)) {
                continue;
            }
            let default = match property.get("default") {
                _ if required.iter().any(|one| one == key) => "**required**".to_owned(),
                None | Some(Value::Null) => "none".to_owned(),
                Some(value) => format!("`{value}`"),
            };
            let about = property["description"].as_str().unwrap_or_default();
            let _ = writeln!(text, "| `{key}` | {} | {default} | {} |", values(&schema, property), one_line(about));
        }
        text.push('\n');
    }
    text
}

/// Returns the values of a key: its type, or the allowed words.
fn values(schema: &Value, property: &Value) -> String {
    if let Some(name) = property["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let target = &schema["$defs"][name];
        if name == "Span" {
            return "time".to_owned();
        }
        let words: Vec<String> = target["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["const"].as_str().map(|word| format!("`\"{word}\"`")))
            .collect();
        return words.join(" or ");
    }
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null")),
        kind => kind.as_str(),
    };
    match kind {
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("string") => "text".to_owned(),
        Some("array") => "texts".to_owned(),
        Some("object") => "a table of values".to_owned(),
        other => other.unwrap_or("text").to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        CredentialsConfig, HelmConfig, HookConfig, IgnoreConfig, SetValue, SourceConfig, WindowConfig,
    };
    use jiff::tz::TimeZone;

    /// Returns a source with every key that may be left out.
    fn full() -> Value {
        let path = || Some("/a".into());
        let mut source = SourceConfig::of("/srv/git/shop.git");
        source.tag = Some("v*".to_owned());
        source.commit = Some("1".to_owned());
        source.commit_url = Some("1".to_owned());
        source.after = Some("infra".to_owned());
        source.lease_namespace = Some("belay".to_owned());
        source.credentials = CredentialsConfig {
            username: Some("a".to_owned()),
            token_file: path(),
            ca_file: path(),
            ssh_key: path(),
            ssh_passphrase_file: path(),
            known_hosts: path(),
        };
        source.webhook = Some(HookConfig { secret_file: "/a".into() });
        source.helm = vec![HelmConfig {
            chart: "apps/web".to_owned(),
            release: Some("web".to_owned()),
            namespace: Some("shop".to_owned()),
            values: vec!["values.yaml".to_owned()],
            set: [("a".to_owned(), SetValue::Text("b".to_owned()))].into(),
        }];
        source.analysis = vec!["errors".to_owned()];
        source.include = vec!["apps/".to_owned()];
        source.exclude = vec!["*.test.yaml".to_owned()];
        let fields = vec!["/spec/replicas".parse().unwrap()];
        source.ignore = vec![IgnoreConfig { kind: None, name: None, namespace: None, fields }];
        source.window =
            vec![WindowConfig { allow: Some("Mon-Fri".parse().unwrap()), deny: None, timezone: TimeZone::UTC }];
        serde_json::to_value(source).unwrap()
    }

    #[test]
    fn the_schema_has_every_key_and_its_default() {
        let schema = schema();
        let source = &schema["$defs"]["SourceConfig"];
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&source["properties"]), keys(&full()));
        assert_eq!(source["additionalProperties"], false);
        assert_eq!(source["required"], serde_json::json!(["repository"]));
        let credentials = &schema["$defs"]["CredentialsConfig"]["properties"];
        assert_eq!(keys(credentials), keys(&full()["credentials"]));
        let defaults = serde_json::to_value(SourceConfig::of("")).unwrap();
        for (key, property) in source["properties"].as_object().unwrap() {
            if key != "repository" && key != "credentials" && defaults.get(key).is_some() {
                assert_eq!(property["default"], defaults[key], "{key}");
            }
            assert!(!property["description"].as_str().unwrap_or_default().is_empty(), "{key} is not told of");
        }
    }

    #[test]
    fn the_reference_names_every_key() {
        let reference = reference();
        for key in full().as_object().unwrap().keys() {
            let has_a_section = ["credentials", "webhook", "helm", "ignore", "window"].contains(&key.as_str());
            assert!(has_a_section || reference.contains(&format!("| `{key}` |")), "{key}");
        }
        assert!(reference.contains("| `repository` | text | **required** |"), "{reference}");
        assert!(
            reference.contains(
                "| `on_failure` | `\"roll-back\"` or `\"roll-back-commit\"` or `\"report\"` | `\"roll-back\"` |"
            ),
            "{reference}"
        );
        assert!(
            reference.contains("## `[[source.ignore]]`") && reference.contains("| `fields` | texts | **required** |")
        );
        assert!(reference.contains("| `timezone` | text | `\"UTC\"` |"), "{reference}");
        assert!(reference.contains("## `[[source.helm]]`") && reference.contains("| `chart` | text | **required** |"));
        assert!(reference.contains("| `helm` | text | none |"), "the program of [render]: {reference}");
        assert!(reference.contains("| `interval` | time | `\"30s\"` |"), "{reference}");
    }
}
