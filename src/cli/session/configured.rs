//! The part of a configuration about reading a folder: which files count, and how charts are rendered.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use kube_facts::facts;

use crate::config::{Config, RenderConfig, SourceConfig, read_config_text};
use crate::daemon::render_options;
use crate::render::{Capabilities, Options, SourcePaths, Tools};

/// The source as which a folder is read.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// The configuration of the daemon: what its source says of `path`, `include`, `exclude`, `render` and `helm` counts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name of the source in the configuration
    #[arg(long, value_name = "NAME", default_value = "default", requires = "config")]
    source: String,
}

/// The way in which a folder is read.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Reading {
    pub options: Options,
    pub tools: Tools,
    /// The folders that count, from the root of the repository; if no configuration says so, the folder that is read.
    pub followed: Option<SourcePaths>,
}

impl Default for Reading {
    /// Returns a reading without a configuration: every file counts. Charts are rendered for the version of Kubernetes
    /// that manifests are checked against.
    fn default() -> Reading {
        let options = Options { capabilities: Some(Arc::new(own_capabilities())), ..Options::default() };
        Reading { options, tools: Tools::default(), followed: None }
    }
}

impl Reading {
    /// Returns a reading by a configuration.
    pub(in crate::cli) fn of(source: &SourceConfig, render: &RenderConfig) -> Reading {
        let RenderConfig { kustomize, helm } = render.clone();
        let followed = Some(SourcePaths::of(source.path.iter()));
        let capabilities = Reading::default().options.capabilities;
        let options = Options { capabilities, ..render_options(source) };
        Reading { options, tools: Tools { kustomize, helm }, followed }
    }

    /// Returns a reading by a file's source with this name, or its only one. Without a name, and with several sources,
    /// folders are read as where nothing is said.
    pub(in crate::cli) fn of_file(file: &Path, source: Option<&str>) -> anyhow::Result<Reading> {
        let config = parsed(file)?;
        match (&config.source[..], source) {
            ([only], None) => Ok(Reading::of(only, &config.render)),
            (_, None) => {
                Ok(Reading { tools: Reading::of(&SourceConfig::of(""), &config.render).tools, ..Reading::default() })
            }
            (_, Some(name)) => {
                let (source, render) = named(config, file, name)?;
                Ok(Reading::of(&source, &render))
            }
        }
    }
}

impl SourceArgs {
    /// Returns how a folder is read; without a configuration every file counts.
    pub(in crate::cli) fn reading(&self) -> anyhow::Result<Reading> {
        let Some(file) = &self.config else { return Ok(Reading::default()) };
        let (source, render) = configured(file, &self.source)?;
        Ok(Reading::of(&source, &render))
    }
}

/// Returns the capabilities of the version of Kubernetes whose kinds belay knows.
fn own_capabilities() -> Capabilities {
    let kinds = &facts().kinds;
    let versions = kinds.iter().map(|kind| kind.api_version());
    let all: BTreeSet<String> =
        versions.chain(kinds.iter().map(|kind| format!("{}/{}", kind.api_version(), kind.kind))).collect();
    Capabilities { kube_version: facts().kubernetes.clone(), api_versions: all.into_iter().collect() }
}

/// Returns the configuration of a source, and of rendering.
pub(in crate::cli) fn configured(file: &Path, source: &str) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    named(parsed(file)?, file, source)
}

fn parsed(file: &Path) -> anyhow::Result<Config> {
    let shown = file.display().to_string();
    let text = read_config_text(file).with_context(|| format!("failed to read {shown}"))?;
    Ok(Config::parse(&text, &shown)?)
}

/// Returns the source with this name.
fn named(config: Config, file: &Path, source: &str) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    let shown = file.display();
    let Config { source: sources, render, .. } = config;
    let names: Vec<String> = sources.iter().map(|source| format!("{:?}", source.name)).collect();
    let found = sources.into_iter().find(|one| one.name == source);
    let found = found
        .with_context(|| format!("{shown} has no source {source:?}, only {}; say --source NAME", names.join(", ")))?;
    Ok((found, render))
}
