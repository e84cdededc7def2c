//! The options of a source for Git and for the tools that render, from its configuration.

use serde_json::Value;

use crate::config::{HelmConfig, Render, SetValue, SourceConfig};
use crate::git::{Credentials, Follow, Location};
use crate::render::{Excluded, HelmOptions, Options, SourcePaths};

/// Returns the credentials that belay shows to the server of a source's repository, and only to that.
#[must_use]
pub fn credentials(config: &SourceConfig, location: &Location) -> Credentials {
    let given = &config.credentials;
    let mut credentials = Credentials::new(location);
    if let Some(user) = &given.username {
        credentials = credentials.user(user);
    }
    if let Some(file) = &given.token_file {
        credentials = credentials.token_file(file);
    }
    if let Some(file) = &given.ca_file {
        credentials = credentials.ca_file(file);
    }
    if let Some(key) = &given.ssh_key {
        credentials = credentials.key_file(key);
    }
    if let Some(file) = &given.ssh_passphrase_file {
        credentials = credentials.passphrase_file(file);
    }
    if let Some(file) = &given.known_hosts {
        credentials = credentials.known_hosts(file);
    }
    credentials
}

/// Returns the options for reading a source's folder.
#[must_use]
pub fn render_options(config: &SourceConfig) -> Options {
    let chart = |chart: &HelmConfig| HelmOptions {
        chart: chart.chart.clone(),
        release: chart.release.clone(),
        namespace: chart.namespace.clone(),
        values: chart.values.clone(),
        set: chart.set.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
        capabilities: None,
    };
    let paths = SourcePaths::of(config.path.iter());
    // The Job of an analysis is made for a rollout, and not by itself.
    let exclude: Vec<String> = config.exclude.iter().cloned().chain(config.analysis_jobs()).collect();
    let excluded = Excluded::of(&config.include, &exclude).outside_of(&paths);
    Options {
        off: config.render == Render::Off,
        helm: config.helm.iter().map(chart).collect(),
        excluded,
        capabilities: None,
    }
}

fn json(value: &SetValue) -> Value {
    match value {
        SetValue::Text(text) => Value::String(text.clone()),
        SetValue::Flag(flag) => Value::Bool(*flag),
        SetValue::Number(number) => Value::Number(number.clone()),
    }
}

/// Returns the branch, the newest tag or the commit that is followed.
///
/// # Errors
/// Fails when the configured commit is none.
pub fn what_to_follow(config: &SourceConfig) -> Result<Follow, String> {
    match (&config.tag, &config.commit) {
        (Some(pattern), _) => Ok(Follow::Tag(pattern.clone())),
        (None, Some(commit)) => commit.parse().map(Follow::Commit).map_err(|error| format!("commit: {error}")),
        (None, None) => Ok(Follow::Branch(config.branch.clone())),
    }
}
