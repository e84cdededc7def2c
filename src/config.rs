//! The configuration file: which sources there are, and how each is followed.

mod analysis;
mod analysis_names;
mod faults;
mod nearest;
mod order;
mod prune_bound;
mod read;
mod receiver;
mod schema;
mod secret_file;
mod source;
mod source_path;
mod telemetry;
mod weekly_times;
mod window;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::regular_file::read_regular_text;
pub use analysis::{AnalysisConfig, AnalysisSubject};
pub use belay_core::span::{InvalidSpan, Span};
use read::{ReadConfig, SyntaxError, read};
pub use receiver::{Address, NotifyConfig, NotifyEvent, NotifyKind};
pub use schema::{reference, schema};
pub use secret_file::read_secret;
pub use source::{
    CredentialsConfig, Drift, HelmConfig, HookConfig, IgnoreConfig, OnFailure, Render, SetValue, SourceConfig,
};
pub use source_path::SourcePath;
pub use telemetry::{CollectorUrl, TelemetryConfig};
pub use weekly_times::{InvalidWeeklyTimes, WeeklyTimes};
pub use window::{WindowConfig, WindowState};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The sources to follow.
    // Missing ones are an error of [`Config::parse`].
    #[serde(default)]
    #[schemars(required)]
    pub source: Vec<SourceConfig>,
    /// The login to clusters.
    #[serde(default)]
    pub cluster: ClusterConfig,
    /// The state folder, and the bounds of the history in it.
    #[serde(default)]
    pub state: StateConfig,
    /// The pages over HTTP.
    #[serde(default)]
    pub web: WebConfig,
    /// The tools that render kustomizations and charts.
    #[serde(default)]
    pub render: RenderConfig,
    /// The limits of all sources together.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The receivers of notices about commits.
    #[serde(default)]
    pub notify: Vec<NotifyConfig>,
    /// The measurements by Prometheus that a rollout can be judged by.
    #[serde(default)]
    pub analysis: Vec<AnalysisConfig>,
    /// A trace of each commit, for a collector of OpenTelemetry.
    #[serde(default)]
    pub telemetry: TelemetryConfig,
}

/// The limits of all sources together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// The most workloads that are rolled out at a time, of those that ran before; 0 is no limit. Rollbacks don't count.
    pub max_rollouts: usize,
}

/// The programs that render; by default those on the PATH.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RenderConfig {
    /// The tool that renders kustomizations: `kustomize`, or `kubectl`, which has it in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<PathBuf>,
    /// The tool that renders charts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<PathBuf>,
}

/// The login to clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// Run a program that the kubeconfig names to log in with (`exec`, `auth-provider`), as kubectl does; else such a
    /// kubeconfig is refused.
    pub allow_exec: bool,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig { allow_exec: true }
    }
}

/// The state folder, and the bounds of the history in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StateConfig {
    /// The folder with the mirrors and `history.db`; by default systemd's, else the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The time for which the history remembers. Records of rollouts under way, and of revisions that a workload can go
    /// back to, are never forgotten.
    pub keep_for: Span,
    /// The number of records that the history remembers.
    pub keep_records: u32,
}

impl Default for StateConfig {
    fn default() -> StateConfig {
        StateConfig { dir: None, keep_for: Span(Duration::from_hours(2 * 365 * 24)), keep_records: 1_000_000 }
    }
}

/// The pages over HTTP: `/healthz`, `/readyz`, `/metrics`, and a page for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// The address and port, `127.0.0.1:9750`; not at all where it is left out. Everybody who reaches it may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// The names that a browser or a scraper may ask this server by, besides the machine's own loopback names and the
    /// address that it has reached; `belay.example.com`. Others get 421, so that no web site of somebody else's can read
    /// the pages through a visitor's browser.
    pub allowed_hosts: Vec<String>,
    /// The forge's page of a commit, with `{commit}` in the place of its id:
    /// `https://git.example.com/shop/commit/{commit}`. Left out, it follows from the repository of GitHub, GitLab,
    /// Bitbucket, Gitea, Forgejo and Codeberg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<String>,
    /// The address at which people reach these pages, `https://belay.example.com`: notices link to them there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// The reason for which a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("failed to read {file}: {message}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason, and advice.
        message: String,
    },
    /// The text is no configuration.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The fault, with its line.
        message: String,
    },
    /// A value can't be used.
    #[error("{file}: source {name:?}: {message}")]
    Source {
        /// The file.
        file: String,
        /// The source.
        name: String,
        /// The fault.
        message: String,
    },
    /// The address of a commit is none.
    #[error("{file}: {table} commit_url {url:?} is no http or https address with {{commit}} in it")]
    CommitUrl {
        /// The file.
        file: String,
        /// The table that has it: `[web]`, or that of a source.
        table: String,
        /// The given address.
        url: String,
    },
    /// The address of the pages is none.
    #[error("{file}: [web] public_url {url:?} is no http or https address")]
    PublicUrl {
        /// The file.
        file: String,
        /// The given address.
        url: String,
    },
    /// A receiver of notices can't be used.
    #[error("{file}: receiver {name:?}: {message}")]
    Notify {
        /// The file.
        file: String,
        /// The receiver.
        name: String,
        /// The fault.
        message: String,
    },
    /// An analysis can't be used.
    #[error("{file}: analysis {name:?}: {message}")]
    Analysis {
        /// The file.
        file: String,
        /// The analysis.
        name: String,
        /// The fault.
        message: String,
    },
    /// There is nothing to follow.
    #[error("{file}: no [[source]]: name at least one repository")]
    Empty {
        /// The file.
        file: String,
    },
    /// There are several errors.
    #[error("{}", _0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// Returns one error for several.
    fn of(mut errors: Vec<ConfigError>) -> ConfigError {
        if errors.len() == 1 { errors.remove(0) } else { ConfigError::Several(errors) }
    }

    /// Returns each of the errors.
    #[must_use]
    pub fn each(&self) -> &[ConfigError] {
        match self {
            ConfigError::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }
}

/// The largest configuration file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads the text of a configuration file.
///
/// # Errors
/// Fails when it can't be read, is no regular file, or is larger than 1 MiB.
pub fn read_config_text(file: &Path) -> std::io::Result<String> {
    read_regular_text(file, LARGEST)
}

impl Config {
    /// Reads a configuration; `file` is named in errors.
    ///
    /// # Errors
    /// [`ConfigError`], with every error that was found: its line and, for an unknown key, the nearest known one.
    pub fn parse(text: &str, file: &str) -> Result<Config, ConfigError> {
        let ReadConfig { config, errors, taken_out } = read(text);
        let located = |SyntaxError { at, message }| ConfigError::Syntax {
            file: at.map_or_else(|| file.to_owned(), |(line, column)| format!("{file}:{line}:{column}")),
            message,
        };
        let mut errors: Vec<ConfigError> = errors.into_iter().map(located).collect();
        if let Some(config) = &config {
            errors.extend(config.faults(file, &taken_out));
        }
        match config.filter(|_| errors.is_empty()) {
            Some(mut config) => {
                analysis_names::assign(&mut config);
                Ok(config)
            }
            None => Err(ConfigError::of(errors)),
        }
    }

    /// Checks one source that was not read from a file.
    ///
    /// # Errors
    /// [`ConfigError::Source`], or several of them; `origin` is named as the file.
    pub fn check_source(source: &SourceConfig, origin: &str) -> Result<(), ConfigError> {
        let fault = |message| ConfigError::Source { file: origin.to_owned(), name: source.name.clone(), message };
        let faults: Vec<ConfigError> = source.faults().into_iter().map(fault).collect();
        if faults.is_empty() { Ok(()) } else { Err(ConfigError::of(faults)) }
    }
}

/// Returns true when notices can link to it: such an address, without characters that would end a link early.
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
    fn a_value_of_a_chart_is_text_a_number_or_a_flag() {
        let text = |set: &str| {
            format!("[[source]]\nrepository = \"/srv\"\n[[source.helm]]\nchart = \"web\"\nset = {{ {set} }}\n")
        };
        let config = Config::parse(&text("a = \"1\", b = 2, c = 1.5, d = true"), "belay.toml").unwrap();
        let set: Vec<&SetValue> = config.source[0].helm[0].set.values().collect();
        let number = |text: &str| SetValue::Number(text.parse().unwrap());
        assert_eq!(set, [&SetValue::Text("1".to_owned()), &number("2"), &number("1.5"), &SetValue::Flag(true)]);
        let error = wrong(&text("a = [1]"));
        assert!(error.starts_with("belay.toml:5:") && error.contains("text, a number, true or false"), "{error}");
    }

    #[test]
    fn a_commit_has_an_address() {
        for (before, named) in [("[web]\n", "[web] commit_url"), ("", "[[source]] default commit_url")] {
            let with = |url: &str| format!("[[source]]\nrepository = \"/srv\"\n{before}commit_url = \"{url}\"\n");
            assert!(Config::parse(&with("https://git.example.com/shop/commit/{commit}"), "belay.toml").is_ok());
            for url in ["https://git.example.com/shop/commit/", "javascript:alert('{commit}')"] {
                assert!(wrong(&with(url)).contains(named), "{url}: {}", wrong(&with(url)));
            }
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
