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
    /// Read the folder as a source of the daemon's configuration does: by its `path`, `include`, `exclude`, `render` and `helm`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Select the source of the configuration; not needed if there is only one
    #[arg(long, value_name = "NAME", requires = "config")]
    source: Option<String>,
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
        if source.is_none() && config.source.len() != 1 {
            let tools = Reading::of(&SourceConfig::of(""), &config.render).tools;
            return Ok(Reading { tools, ..Reading::default() });
        }
        let (source, render) = meant(config, file, source)?;
        Ok(Reading::of(&source, &render))
    }
}

impl SourceArgs {
    /// Returns how a folder is read; without a configuration every file counts.
    pub(in crate::cli) fn reading(&self) -> anyhow::Result<Reading> {
        Ok(self.reading_and_source()?.0)
    }

    /// Returns the same with the source, if a configuration is named.
    pub(in crate::cli) fn reading_and_source(&self) -> anyhow::Result<(Reading, Option<SourceConfig>)> {
        let Some(file) = &self.config else { return Ok((Reading::default(), None)) };
        let (source, render) = configured(file, self.source.as_deref())?;
        Ok((Reading::of(&source, &render), Some(source)))
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

/// Returns the configuration of a source, and of rendering. Without a name it is the only source of the file.
pub(in crate::cli) fn configured(file: &Path, source: Option<&str>) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    meant(parsed(file)?, file, source)
}

fn parsed(file: &Path) -> anyhow::Result<Config> {
    let shown = file.display().to_string();
    let text = read_config_text(file).with_context(|| format!("failed to read {shown}"))?;
    Ok(Config::parse(&text, &shown)?)
}

/// Returns the source with this name; without a name the only one.
fn meant(config: Config, file: &Path, source: Option<&str>) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    let shown = file.display();
    let Config { source: sources, render, .. } = config;
    let names: Vec<String> = sources.iter().map(|source| format!("{:?}", source.name)).collect();
    let names = names.join(", ");
    let is_only = sources.len() == 1;
    let is_meant = |one: &SourceConfig| source.map_or(is_only, |name| one.name == name);
    let found = sources.into_iter().find(is_meant);
    let found = found.with_context(|| match source {
        Some(source) => format!("{shown} has no source {source:?}, only {names}; say --source NAME"),
        None => format!("{shown} has several sources, {names}; say --source NAME"),
    })?;
    Ok((found, render))
}
