//! Sources as they are written into `belay.toml`: only the settings that differ from the default.

use std::fmt::Write as _;

use crate::config::{Drift, HelmConfig, IgnoreConfig, SetValue, SourceConfig, SourcePath};

/// Returns the `[[source]]` of each.
pub(super) fn text(sources: &[SourceConfig]) -> String {
    sources.iter().map(source).collect::<Vec<_>>().join("\n")
}

fn source(source: &SourceConfig) -> String {
    let default = SourceConfig::of("");
    let mut text = "[[source]]\n".to_owned();
    line(&mut text, "name", Some(&source.name));
    line(&mut text, "repository", Some(&source.repository));
    let followed = source.tag.is_some() || source.commit.is_some();
    line(&mut text, "branch", Some(&source.branch).filter(|_| !followed));
    line(&mut text, "tag", source.tag.as_ref());
    line(&mut text, "commit", source.commit.as_ref());
    line(&mut text, "after", source.after.as_ref());
    match &source.path {
        SourcePath::One(path) => line(&mut text, "path", Some(path).filter(|path| !path.is_empty())),
        SourcePath::Several(paths) => list(&mut text, "path", paths),
    }
    list(&mut text, "include", &source.include);
    list(&mut text, "exclude", &source.exclude);
    line(&mut text, "interval", Some(&source.interval.to_string()).filter(|_| source.interval != default.interval));
    if source.prune {
        text.push_str("prune = true\n");
    }
    if source.drift == Drift::Report {
        text.push_str("drift = \"report\"\n");
    }
    source.helm.iter().for_each(|chart| helm(&mut text, chart));
    source.ignore.iter().for_each(|one| ignore(&mut text, one));
    text
}

fn helm(text: &mut String, chart: &HelmConfig) {
    text.push_str("\n[[source.helm]]\n");
    line(text, "chart", Some(&chart.chart));
    line(text, "release", chart.release.as_ref());
    line(text, "namespace", chart.namespace.as_ref());
    list(text, "values", &chart.values);
    if !chart.set.is_empty() {
        let set = chart.set.iter().map(|(name, value)| format!("{} = {}", quoted(name), set_value(value)));
        // Writing to a String can't fail.
        let _ = writeln!(text, "set = {{ {} }}", set.collect::<Vec<_>>().join(", "));
    }
}

fn set_value(value: &SetValue) -> String {
    match value {
        SetValue::Text(text) => quoted(text),
        SetValue::Flag(flag) => flag.to_string(),
        SetValue::Number(number) => number.to_string(),
    }
}

fn ignore(text: &mut String, one: &IgnoreConfig) {
    text.push_str("\n[[source.ignore]]\n");
    line(text, "kind", one.kind.as_ref());
    line(text, "name", one.name.as_ref());
    line(text, "namespace", one.namespace.as_ref());
    list(text, "fields", &one.fields.iter().map(ToString::to_string).collect::<Vec<_>>());
}

fn line(text: &mut String, key: &str, value: Option<&String>) {
    if let Some(value) = value {
        let _ = writeln!(text, "{key} = {}", quoted(value));
    }
}

fn list(text: &mut String, key: &str, values: &[String]) {
    if !values.is_empty() {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        let _ = writeln!(text, "{key} = [{}]", values.join(", "));
    }
}

/// Returns a text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
