//! What a configuration says of how a folder is read: which files count, and how charts are rendered.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::{Config, RenderConfig, SourceConfig};
use crate::daemon::render_options;
use crate::render::{Options, Tools};

/// Which source a folder is read as.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// The configuration of the daemon: what its source says of a `path` with several folders, of `include`, `exclude`, `render` and `helm` counts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name of the source in the configuration
    #[arg(long, value_name = "NAME", default_value = "default", requires = "config")]
    source: String,
}

/// How a folder is read.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Reading {
    pub options: Options,
    pub tools: Tools,
}

impl Reading {
    /// As a configuration says.
    pub(in crate::cli) fn of(source: &SourceConfig, render: &RenderConfig) -> Reading {
        let RenderConfig { kustomize, helm } = render.clone();
        Reading { options: render_options(source), tools: Tools { kustomize, helm } }
    }

    /// As a file says of the source with this name, or of its only one. Without a name, and with several sources, folders are
    /// read as where nothing is said.
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
    /// How a folder is read; without a configuration every file counts.
    pub(in crate::cli) fn reading(&self) -> anyhow::Result<Reading> {
        let Some(file) = &self.config else { return Ok(Reading::default()) };
        let (source, render) = configured(file, &self.source)?;
        Ok(Reading::of(&source, &render))
    }
}

/// What a configuration says of a source, and of what renders.
pub(in crate::cli) fn configured(file: &Path, source: &str) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    named(parsed(file)?, file, source)
}

fn parsed(file: &Path) -> anyhow::Result<Config> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read {shown}"))?;
    Ok(Config::parse(&text, &shown)?)
}

/// The source with this name.
fn named(config: Config, file: &Path, source: &str) -> anyhow::Result<(SourceConfig, RenderConfig)> {
    let shown = file.display();
    let Config { source: sources, render, .. } = config;
    let names: Vec<String> = sources.iter().map(|source| format!("{:?}", source.name)).collect();
    let found = sources.into_iter().find(|one| one.name == source);
    let found = found
        .with_context(|| format!("{shown} has no source {source:?}, only {}; say --source NAME", names.join(", ")))?;
    Ok((found, render))
}
