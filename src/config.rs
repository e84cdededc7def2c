//! The configuration file: which sources there are, and how each is followed.

mod nearest;

mod order;
mod receiver;
mod schema;
mod secret_file;
mod span;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{FieldPath, LeftAlone};
use ignore::gitignore::GitignoreBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use nearest::{position, with_nearest};
pub use receiver::{Address, NotifyConfig, NotifyEvent, NotifyKind};
pub use schema::{reference, schema};
pub use secret_file::read_secret;
pub use span::{InvalidSpan, Span};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What is followed.
    pub source: Vec<SourceConfig>,
    /// How belay logs in to clusters.
    #[serde(default)]
    pub cluster: ClusterConfig,
    /// Where belay keeps what it remembers.
    #[serde(default)]
    pub state: StateConfig,
    /// How belay shows itself over HTTP.
    #[serde(default)]
    pub web: WebConfig,
    /// What renders kustomizations and charts.
    #[serde(default)]
    pub render: RenderConfig,
    /// Who is told what became of commits.
    #[serde(default)]
    pub notify: Vec<NotifyConfig>,
}

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
    /// The folder; every `*.yaml`, `*.yml` and `*.json` below it.
    #[serde(default)]
    pub path: String,
    /// The only files that count, as patterns of gitignore's from the repository's root; where it is empty, all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// The files that do not count, as such patterns. What is excluded is no manifest. Files `.belayignore` in the repository
    /// say the same; where both speak of a file, this counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// How often the repository is asked; one on this machine also wakes belay at once.
    #[serde(default = "default_interval")]
    pub interval: Span,
    /// Whether objects are deleted when their manifests leave the repository.
    #[serde(default)]
    pub prune: bool,
    /// The most that one commit may delete: a number, or a part of the source's objects.
    #[serde(default = "default_prune_limit")]
    pub prune_limit: String,
    /// What is done when a rollout fails.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How long a rollback may take, besides the workload's own deadline.
    #[serde(default = "default_rollback_budget")]
    pub rollback_budget: Span,
    /// How long a fault of the infrastructure is waited out, besides the workload's own deadline.
    #[serde(default = "span::default_outage_timeout")]
    pub outage_timeout: Span,
    /// Whether belay gives up as soon as the pods show that they can't start, before the deadline.
    #[serde(default)]
    pub fail_fast: bool,
    /// Whether a commit that changes a ConfigMap or Secret also rolls out the workloads of this source that read it.
    #[serde(default)]
    pub roll_on_config: bool,
    /// What is done when somebody else changes what belay applied.
    #[serde(default)]
    pub drift: Drift,
    /// The kubeconfig context; empty for the current one.
    #[serde(default)]
    pub context: String,
    /// The namespace of the Lease that keeps a second daemon from writing too; by default belay's own where it runs in the
    /// cluster that it writes to, else `default`. All daemons of a source must use the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_namespace: Option<String>,
    /// How belay shows itself to the repository.
    #[serde(default)]
    pub credentials: CredentialsConfig,
    /// How a forge, or a script, tells belay that something was pushed; not at all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<HookConfig>,
    /// Whether folders with a kustomization or a chart are rendered; else every file is read as it is.
    #[serde(default)]
    pub render: Render,
    /// How charts are rendered: by default with their own values, as a release that is called like the chart's folder.
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

/// How one chart of a source is rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelmConfig {
    /// The chart's folder, from the repository's root.
    pub chart: String,
    /// The release's name; by default the folder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Where objects go that name no namespace; by default `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The files with values, from the chart's folder, or from the repository's root with a leading `/`; the chart's own
    /// `values.yaml` always counts first.
    #[serde(default)]
    pub values: Vec<String>,
    /// Single values, as `helm --set` takes them.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// Whether folders with a kustomization or a chart are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Render {
    /// They are.
    #[default]
    On,
    /// They are not.
    Off,
}

/// The programs that render; by default those on the PATH.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RenderConfig {
    /// What renders kustomizations: `kustomize`, or `kubectl`, which has it in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<PathBuf>,
    /// What renders charts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<PathBuf>,
}

/// Where the secrets lie that a repository asks for. Files, so that they are in no command line and no log; under systemd
/// they are best given by `LoadCredential=`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialsConfig {
    /// The user, where the URL names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with a token or password, for https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
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

/// `POST /hooks/NAME` at the address of `[web] listen`: whoever knows a secret may ask belay to look at the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// A file with the secret that the forge knows too. Several lines are several secrets, at most 16; it is read for each
    /// request.
    pub secret_file: PathBuf,
}

/// How belay logs in to clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// Whether a program is run that the kubeconfig names to log in with (`exec`, `auth-provider`), as kubectl does; else
    /// such a kubeconfig is refused.
    pub allow_exec: bool,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig { allow_exec: true }
    }
}

/// Where belay keeps what it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StateConfig {
    /// The folder with the mirrors and `history.db`; by default systemd's, else the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// For how long the history remembers. What is under way, and what a workload can go back to, is never forgotten.
    pub keep_for: Span,
    /// How many records the history remembers.
    pub keep_records: u32,
}

impl Default for StateConfig {
    fn default() -> StateConfig {
        StateConfig { dir: None, keep_for: Span(Duration::from_hours(2 * 365 * 24)), keep_records: 1_000_000 }
    }
}

/// How belay shows itself over HTTP: `/healthz`, `/readyz`, `/metrics`, and a page for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// The address and port, `127.0.0.1:9750`; not at all where it is left out. Whoever reaches it may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// The names that a browser or a scraper may ask this server by, besides the machine's own loopback names and the
    /// address that it has reached; `belay.example.com`. Others get 421, so that no web site of somebody else's can read
    /// the pages through a visitor's browser.
    pub allowed_hosts: Vec<String>,
    /// Where the forge shows a commit, with `{commit}` in the place of its id:
    /// `https://git.example.com/shop/commit/{commit}`. Left out, it follows from the repository of GitHub, GitLab,
    /// Bitbucket, Gitea, Forgejo and Codeberg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<String>,
    /// Where people reach these pages, `https://belay.example.com`: notices link to them there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// What is done when a rollout fails.
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

/// What is done when somebody else changes what belay applied.
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

fn default_rollback_budget() -> Span {
    Span(Duration::from_mins(5))
}

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not what a configuration looks like.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        message: String,
    },
    /// A value can't be used.
    #[error("{file}: source {name:?}: {message}")]
    Source {
        /// The file.
        file: String,
        /// The source.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// The address of a commit is none.
    #[error("{file}: [web] commit_url {url:?} is no http or https address with {{commit}} in it")]
    CommitUrl {
        /// The file.
        file: String,
        /// What was said.
        url: String,
    },
    /// The address of the pages is none.
    #[error("{file}: [web] public_url {url:?} is no http or https address")]
    PublicUrl {
        /// The file.
        file: String,
        /// What was said.
        url: String,
    },
    /// A receiver of notices can't be used.
    #[error("{file}: receiver {name:?}: {message}")]
    Notify {
        /// The file.
        file: String,
        /// The receiver.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is nothing to follow.
    #[error("{file}: no [[source]]: name at least one repository")]
    Empty {
        /// The file.
        file: String,
    },
}

impl SourceConfig {
    /// A source with everything but its repository at its default.
    #[must_use]
    pub fn of(repository: impl Into<String>) -> SourceConfig {
        SourceConfig {
            name: default_name(),
            repository: repository.into(),
            branch: default_branch(),
            tag: None,
            commit: None,
            after: None,
            path: String::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            interval: default_interval(),
            prune: false,
            prune_limit: default_prune_limit(),
            on_failure: OnFailure::default(),
            rollback_budget: default_rollback_budget(),
            outage_timeout: span::default_outage_timeout(),
            fail_fast: false,
            roll_on_config: false,
            drift: Drift::default(),
            context: String::new(),
            lease_namespace: None,
            credentials: CredentialsConfig::default(),
            webhook: None,
            render: Render::default(),
            helm: Vec::new(),
            ignore: Vec::new(),
        }
    }

    /// What is left alone of an object.
    #[must_use]
    pub fn left_alone(&self, key: &ObjectKey) -> LeftAlone {
        LeftAlone::of(self.ignore.iter().filter(|ignore| ignore.is_of(key)).flat_map(|ignore| &ignore.fields))
    }

    /// The namespace of the source's Lease.
    #[must_use]
    pub fn lease_namespace(&self) -> &str {
        self.lease_namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// The most objects that one commit may delete, of `objects` in the source. A part is rounded up, so that a small
    /// source may lose one.
    #[must_use]
    pub fn prune_limit(&self, objects: usize) -> usize {
        match self.bound() {
            Some(Bound::Part(part)) => (objects * part).div_ceil(100),
            Some(Bound::Number(number)) => number,
            None => 0,
        }
    }

    fn bound(&self) -> Option<Bound> {
        let text = self.prune_limit.trim();
        match text.strip_suffix('%') {
            Some(part) => part.trim_end().parse().ok().filter(|part| *part <= 100).map(Bound::Part),
            None => text.parse().ok().map(Bound::Number),
        }
    }

    fn check(&self) -> Result<(), String> {
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty()
            || self.name.len() > 63
            || !self.name.chars().all(label)
            || self.name.starts_with('-')
            || self.name.ends_with('-')
        {
            return Err(format!(
                "name {:?} is not a DNS label (lower-case letters, digits and '-', at most 63)",
                self.name
            ));
        }
        if self.repository.trim().is_empty() {
            return Err("repository is empty: name a path, or an https or ssh URL".to_owned());
        }
        if self.tag.is_some() && self.commit.is_some() {
            return Err("tag and commit can't both be followed: leave one out".to_owned());
        }
        if self.interval.0 < Duration::from_secs(1) {
            return Err(format!("interval {} is too short: at least 1s", self.interval));
        }
        let folder = self.path.trim_matches('/');
        if folder.split('/').any(|part| part == "..") {
            return Err(format!("path {:?} leaves the repository", self.path));
        }
        for pattern in self.include.iter().chain(&self.exclude) {
            if let Err(error) = GitignoreBuilder::new("").add_line(None, pattern) {
                return Err(format!("pattern {pattern:?}: {error}"));
            }
        }
        for HelmConfig { chart, .. } in &self.helm {
            if chart.trim_matches('/').is_empty() || chart.split('/').any(|part| part == "..") {
                return Err(format!("helm: chart {chart:?} is no folder below the repository's root"));
            }
        }
        if self.ignore.iter().any(|ignore| ignore.fields.is_empty()) {
            return Err("ignore: names no fields".to_owned());
        }
        match self.bound() {
            Some(_) => Ok(()),
            None => Err(format!("prune_limit {:?} is neither a number nor a part like 10%", self.prune_limit)),
        }
    }
}

/// What `prune_limit` says.
enum Bound {
    /// Of a hundred.
    Part(usize),
    /// As many.
    Number(usize),
}

impl Config {
    /// Reads a configuration; `file` is named in errors.
    ///
    /// # Errors
    /// [`ConfigError`], with the line and, for an unknown key, the nearest known one.
    pub fn parse(text: &str, file: &str) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            file: position(text, &error)
                .map_or_else(|| file.to_owned(), |(line, column)| format!("{file}:{line}:{column}")),
            message: with_nearest(error.message()),
        })?;
        if config.source.is_empty() {
            return Err(ConfigError::Empty { file: file.to_owned() });
        }
        let mut names = std::collections::BTreeSet::new();
        for source in &config.source {
            let wrong =
                |message: String| ConfigError::Source { file: file.to_owned(), name: source.name.clone(), message };
            source.check().map_err(wrong)?;
            if let Some(message) = order::wrong_order(source, &config.source) {
                return Err(wrong(message));
            }
            if !names.insert(&source.name) {
                return Err(wrong("there are two sources of that name".to_owned()));
            }
            if source.webhook.is_some() && config.web.listen.is_none() {
                return Err(wrong("webhook: nothing listens for it: say listen under [web]".to_owned()));
            }
        }
        config.check_receivers(file)?;
        if let Some(url) = config.web.public_url.as_ref().filter(|url| !is_public_url(url)) {
            return Err(ConfigError::PublicUrl { file: file.to_owned(), url: url.clone() });
        }
        match config.web.commit_url.as_ref().filter(|url| !is_commit_url(url)) {
            Some(url) => Err(ConfigError::CommitUrl { file: file.to_owned(), url: url.clone() }),
            None => Ok(config),
        }
    }

    fn check_receivers(&self, file: &str) -> Result<(), ConfigError> {
        let mut names = std::collections::BTreeSet::new();
        for receiver in &self.notify {
            let wrong =
                |message: String| ConfigError::Notify { file: file.to_owned(), name: receiver.name.clone(), message };
            receiver.check(&self.source).map_err(wrong)?;
            if !names.insert(&receiver.name) {
                return Err(wrong("there are two receivers of that name".to_owned()));
            }
        }
        Ok(())
    }

    /// Checks one source that was not read from a file.
    ///
    /// # Errors
    /// [`ConfigError::Source`]; `origin` is named as the file.
    pub fn check_source(source: &SourceConfig, origin: &str) -> Result<(), ConfigError> {
        let name = source.name.clone();
        source.check().map_err(|message| ConfigError::Source { file: origin.to_owned(), name, message })
    }
}

/// Whether notices can link to it: such an address, without what would end a link early.
fn is_public_url(url: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !"<>|\"'`\\".contains(c);
    ["https://", "http://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
        && url.chars().all(plain)
}

fn is_commit_url(url: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) && url.contains("{commit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Config::parse(text, "belay.toml").unwrap_err().to_string()
    }

    #[test]
    fn everything_but_the_repository_has_a_default() {
        let config = Config::parse("[[source]]\nrepository = \"/srv/git/shop.git\"\n", "belay.toml").unwrap();
        assert_eq!(config.source, [SourceConfig::of("/srv/git/shop.git")]);
        assert_eq!(config.source[0].interval.to_string(), "30s");
        assert_eq!(config.source[0].rollback_budget.to_string(), "5m");
    }

    #[test]
    fn a_commit_has_an_address() {
        let with = |url: &str| format!("[[source]]\nrepository = \"/srv\"\n[web]\ncommit_url = \"{url}\"\n");
        assert!(Config::parse(&with("https://git.example.com/shop/commit/{commit}"), "belay.toml").is_ok());
        for url in ["https://git.example.com/shop/commit/", "javascript:alert('{commit}')"] {
            assert!(wrong(&with(url)).contains("commit_url"), "{url}");
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        let error = wrong("[[source]]\nrepository = \"/srv\"\nbrunch = \"main\"\n");
        assert_eq!(error, "belay.toml:3:1: unknown key \"brunch\"; did you mean \"branch\"?");
    }

    #[test]
    fn values_that_can_not_be_used_are_named() {
        let source = |rest: &str| wrong(&format!("[[source]]\nrepository = \"/srv\"\n{rest}\n"));
        assert!(source("interval = \"30\"").contains("not a length of time"), "{}", source("interval = \"30\""));
        assert!(source("name = \"Shop\"").contains("not a DNS label"));
        assert!(source("path = \"a/../../b\"").contains("leaves the repository"));
        assert!(source("[[source.helm]]\nchart = \"../web\"").contains("below the repository's root"));
        assert!(source("[[source.helm]]\nchart = \"/\"").contains("below the repository's root"));
        assert!(source("[[source.ignore]]\nfields = []").contains("names no fields"));
        let field = source("[[source.ignore]]\nfields = [\"spec.replicas\"]");
        assert!(field.contains("belay.toml:4") && field.contains("is no JSON pointer"), "{field}");
        assert!(source("[[source.ignore]]\nfields = [\"/metadata/name\"]").contains("knows the object by"));
        assert!(source("exclude = [\"[z-a]\"]").contains("pattern \"[z-a]\""), "{}", source("exclude = [\"[z-a]\"]"));
        assert!(source("prune_limit = \"most\"").contains("prune_limit"));
        assert!(source("tag = \"v*\"\ncommit = \"1\"").contains("leave one out"));
        assert!(source("[[source]]\nrepository = \"/srv\"").contains("two sources"));
        assert!(source("webhook = { secret_file = \"/s\" }").contains("say listen under [web]"));
        assert!(wrong("").contains("source"));
    }

    #[test]
    fn pages_are_shown_only_where_asked_for() {
        let listen = |rest: &str| {
            Config::parse(&format!("[[source]]\nrepository = \"/srv\"\n{rest}"), "belay.toml")
                .map(|config| config.web.listen)
        };
        assert_eq!(listen("").unwrap(), None);
        assert_eq!(listen("[web]\nlisten = \"127.0.0.1:9750\"\n").unwrap(), Some("127.0.0.1:9750".parse().unwrap()));
        assert!(listen("[web]\nlisten = \"9750\"\n").is_err());
    }

    #[test]
    fn a_limit_is_a_number_or_a_part() {
        let limit =
            |text: &str| SourceConfig { prune_limit: text.to_owned(), ..SourceConfig::of("/srv") }.prune_limit(25);
        assert_eq!((limit("10%"), limit("3"), limit("0"), limit("100%")), (3, 3, 0, 25));
        assert_eq!((limit(" 10 % "), limit(" 3")), (3, 3));
    }
}
