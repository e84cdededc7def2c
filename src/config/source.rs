//! One source: a repository, and how it is followed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{FieldPath, IgnoredFields};
use ignore::gitignore::GitignoreBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::AnalysisConfig;
use super::prune_bound::PruneBound;
use super::source_path::SourcePath;
use super::window::{self, WindowConfig};
use belay_core::span::Span;

/// One source: a repository, a ref in it, a folder in it, and the cluster that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// Its name: a DNS label, written on every object that is applied from it.
    #[serde(default = "default_name")]
    pub name: String,
    /// A path on this machine, or an https or ssh URL.
    pub repository: String,
    /// The branch that is followed.
    #[serde(default = "default_branch")]
    pub branch: String,
    /// A tag pattern that is followed instead of a branch, `v*`: the newest by version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// One commit that is followed instead of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The source of this file whose head must be complete before anything of this one is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The folder, or a list of folders; every `*.yaml`, `*.yml` and `*.json` below counts. `*` stands for any characters of
    /// one name: `apps/*/production`.
    #[serde(default)]
    pub path: SourcePath,
    /// The only files that count, as patterns of gitignore's from the repository's root; if it is empty, all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// The files that do not count, as such patterns. An excluded file is no manifest. Files `.belayignore` in the
    /// repository say the same; if both speak of a file, this counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The period between two fetches of the repository; one on this machine also wakes belay at once.
    #[serde(default = "default_interval")]
    pub interval: Span,
    /// Delete objects when their manifests leave the repository.
    #[serde(default)]
    pub prune: bool,
    /// The most that one commit may delete: a number, or a part of the source's objects.
    #[serde(default = "default_prune_limit")]
    pub prune_limit: String,
    /// The reaction to a failed rollout.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The longest time of a rollback, besides the workload's own deadline.
    #[serde(default = "default_rollback_budget")]
    pub rollback_budget: Span,
    /// The bake time: for so long a workload is watched after it is complete, and rolled back if one of its pods restarts
    /// or is not ready any more. `belay.dev/bake` of a workload comes before it.
    #[serde(default = "default_bake")]
    pub bake: Span,
    /// A pod template that was complete, and ran within this last time, has no bake time when it comes again; 0 is none.
    #[serde(default = "default_rollback_window")]
    pub rollback_window: Span,
    /// The names of the analyses of its workloads within their bake time. `belay.dev/analysis` of a workload comes before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analysis: Vec<String>,
    /// All analyses of the configuration.
    #[serde(skip)]
    pub known_analyses: Vec<AnalysisConfig>,
    /// The time for which a fault of the infrastructure is waited out, besides the workload's own deadline.
    #[serde(default = "default_outage_timeout")]
    pub outage_timeout: Span,
    /// The most workloads that are rolled out at a time, of those that ran before; 0 is no limit. Rollbacks don't count.
    #[serde(default)]
    pub max_rollouts: usize,
    /// The times at which new commits are rolled out, or wait; by default they never wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<WindowConfig>,
    /// Give up as soon as the pods show that they can't start, before the deadline: at once where only another manifest
    /// helps, after a minute of images that can't be pulled (three tries of a kubelet, for a registry may heal), after 3
    /// restarts.
    #[serde(default)]
    pub fail_fast: bool,
    /// Let a commit that changes a ConfigMap or Secret also roll out the workloads of this source that read it.
    #[serde(default)]
    pub roll_on_config: bool,
    /// The reaction when somebody else changes an object that belay applied.
    #[serde(default)]
    pub drift: Drift,
    /// The kubeconfig context; empty for the current one.
    #[serde(default)]
    pub context: String,
    /// The namespace of the Lease that keeps a second daemon from writing too; by default belay's own where it runs in the
    /// cluster that it writes to, else `default`. All daemons of a source must use the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_namespace: Option<String>,
    /// The credentials for the repository.
    #[serde(default)]
    pub credentials: CredentialsConfig,
    /// The hook by which a forge, or a script, reports a push to belay; not at all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<HookConfig>,
    /// The forge's page of a commit of this source, with `{commit}` in the place of its id; `[web] commit_url` is that of all
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<String>,
    /// Render folders with a kustomization or a chart; else every file is read as it is.
    #[serde(default)]
    pub render: Render,
    /// The rendering of charts: by default with their own values, as a release that is called like the chart's folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helm: Vec<HelmConfig>,
    /// Fields that somebody else decides on, an autoscaler or an admission webhook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreConfig>,
}

/// Fields that belay writes when it creates an object, and leaves alone afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IgnoreConfig {
    /// The kind of the objects, `Deployment`; by default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Their name; by default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Their namespace; by default any, and none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The fields, as JSON pointers (`/spec/replicas`, `/metadata/annotations/example.com~1owner`), in which `*` stands for
    /// every item of a list and `[name=web]` for the one with that name.
    pub fields: Vec<FieldPath>,
}

impl IgnoreConfig {
    fn is_of(&self, key: &ObjectKey) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == key.kind)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
            && self.namespace.as_ref().is_none_or(|namespace| Some(namespace) == key.namespace.as_ref())
    }
}

/// The rendering of one chart of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelmConfig {
    /// The chart's folder, from the repository's root.
    pub chart: String,
    /// The release's name; by default the folder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The namespace of objects that name none; by default `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The files with values, from the chart's folder, or from the repository's root with a leading `/`; the chart's own
    /// `values.yaml` always counts first.
    #[serde(default)]
    pub values: Vec<String>,
    /// Single values: text as `helm --set` takes it, numbers, and true or false.
    #[serde(default)]
    pub set: BTreeMap<String, SetValue>,
}

/// A single value of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a value is text, a number, true or false")]
pub enum SetValue {
    /// Text, which Helm reads as `--set` reads it.
    Text(String),
    /// True or false.
    Flag(bool),
    /// A number.
    Number(Number),
}

/// The choice if folders with a kustomization or a chart are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Render {
    /// They are.
    #[default]
    On,
    /// They are not.
    Off,
}

/// The files with the secrets that a repository asks for. Files, so that they are in no command line and no log; under
/// systemd they are best given by `LoadCredential=`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialsConfig {
    /// The user, if the URL names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with a token or password, for https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with certificates in PEM, of authorities that are trusted beside those that the machine trusts, for https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A private key, for ssh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<PathBuf>,
    /// A file with the passphrase of that key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_passphrase_file: Option<PathBuf>,
    /// The host keys that are trusted, in OpenSSH's form; by default those of the user that belay runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<PathBuf>,
}

/// `POST /hooks/NAME` at the address of `[web] listen`: a sender that knows a secret may request a fetch of the
/// repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// A file with the secret that the forge knows too. Several lines are several secrets, at most 16; it is read for each
    /// request.
    pub secret_file: PathBuf,
}

/// The reaction to a failed rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The workload goes back to its last good revision.
    #[default]
    RollBack,
    /// Everything that the commit touched goes back.
    RollBackCommit,
    /// It is reported, and left as it is.
    Report,
}

/// The reaction when somebody else changes an object that belay applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drift {
    /// It is put back.
    #[default]
    Correct,
    /// It is reported.
    Report,
}

fn default_name() -> String {
    "default".to_owned()
}

fn default_branch() -> String {
    "main".to_owned()
}

fn default_interval() -> Span {
    Span(Duration::from_secs(30))
}

fn default_prune_limit() -> String {
    "10%".to_owned()
}

fn default_outage_timeout() -> Span {
    Span(Duration::from_mins(10))
}

fn default_bake() -> Span {
    Span(Duration::ZERO)
}

fn default_rollback_window() -> Span {
    Span(Duration::from_hours(24))
}

fn default_rollback_budget() -> Span {
    Span(Duration::from_mins(5))
}

impl SourceConfig {
    /// Returns a source with everything but its repository at its default.
    #[must_use]
    pub fn of(repository: impl Into<String>) -> SourceConfig {
        SourceConfig {
            name: default_name(),
            repository: repository.into(),
            branch: default_branch(),
            tag: None,
            commit: None,
            after: None,
            path: SourcePath::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            interval: default_interval(),
            prune: false,
            prune_limit: default_prune_limit(),
            on_failure: OnFailure::default(),
            rollback_budget: default_rollback_budget(),
            bake: default_bake(),
            rollback_window: default_rollback_window(),
            analysis: Vec::new(),
            known_analyses: Vec::new(),
            outage_timeout: default_outage_timeout(),
            max_rollouts: 0,
            window: Vec::new(),
            fail_fast: false,
            roll_on_config: false,
            drift: Drift::default(),
            context: String::new(),
            lease_namespace: None,
            credentials: CredentialsConfig::default(),
            webhook: None,
            commit_url: None,
            render: Render::default(),
            helm: Vec::new(),
            ignore: Vec::new(),
        }
    }

    /// Returns the fields of an object that are left alone.
    #[must_use]
    pub fn ignored_fields(&self, key: &ObjectKey) -> IgnoredFields {
        IgnoredFields::of(self.ignore.iter().filter(|ignore| ignore.is_of(key)).flat_map(|ignore| &ignore.fields))
    }

    /// Returns the files of the Jobs of its analyses, as patterns of `exclude`.
    pub fn analysis_jobs(&self) -> impl Iterator<Item = String> {
        let own = self.known_analyses.iter().filter(|known| self.analysis.contains(&known.name));
        own.filter_map(AnalysisConfig::job_pattern)
    }

    /// Returns the namespace of the source's Lease.
    #[must_use]
    pub fn lease_namespace(&self) -> &str {
        self.lease_namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// Returns the most objects that one commit may delete, of `objects` in the source. A part is rounded up, so that a
    /// small source may lose one.
    #[must_use]
    pub fn prune_limit(&self, objects: usize) -> usize {
        PruneBound::parse(&self.prune_limit).map_or(0, |bound| bound.of(objects))
    }

    /// Returns the faults in it, beside those that its types rule out.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty()
            || self.name.len() > 63
            || !self.name.chars().all(label)
            || self.name.starts_with('-')
            || self.name.ends_with('-')
        {
            let rule = "is not a DNS label (lower-case letters, digits and '-', at most 63)";
            faults.push(format!("name {:?} {rule}", self.name));
        }
        if self.repository.trim().is_empty() {
            faults.push("repository is empty: name a path, or an https or ssh URL".to_owned());
        }
        if self.tag.is_some() && self.commit.is_some() {
            faults.push("tag and commit can't both be followed: leave one out".to_owned());
        }
        if self.interval.0 < Duration::from_secs(1) {
            faults.push(format!("interval {} is too short: at least 1s", self.interval));
        }
        faults.extend(self.path.check().err());
        faults.extend(window::check(&self.window).err());
        for pattern in self.include.iter().chain(&self.exclude) {
            let error = GitignoreBuilder::new("").add_line(None, pattern).err();
            faults.extend(error.map(|error| format!("pattern {pattern:?}: {error}")));
        }
        for HelmConfig { chart, .. } in &self.helm {
            if chart.trim_matches('/').is_empty() || chart.split('/').any(|part| part == "..") {
                faults.push(format!("helm: chart {chart:?} is no folder below the repository's root"));
            }
        }
        if self.ignore.iter().any(|ignore| ignore.fields.is_empty()) {
            faults.push("ignore: names no fields".to_owned());
        }
        if PruneBound::parse(&self.prune_limit).is_none() {
            faults.push(format!("prune_limit {:?} is neither a number nor a part like 10%", self.prune_limit));
        }
        faults
    }
}
