//! The arguments of `belay set env`.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context as _, bail};

use super::Place;
use super::env_variables::{EnvSource, Variables, named};

/// The arguments of `belay set env`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads (KIND/NAME …, KIND NAME …, or NAME …), NAME=VALUE … to set, NAME- … to remove, `-` to read
    /// NAME=VALUE from standard input
    #[arg(value_name = "WORKLOAD|NAME=VALUE|NAME-", allow_hyphen_values = false)]
    pub(super) words: Vec<String>,
    /// Set a variable, as NAME=VALUE does
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(super) env: Vec<String>,
    /// Select containers; `*` stands for anything
    #[arg(short, long, value_name = "NAME", default_value = "*")]
    pub(super) containers: String,
    /// Set a variable for each key of a ConfigMap or Secret, as its manifest here has them; with --live, as the cluster
    /// has them
    #[arg(long = "from", value_name = "KIND/NAME")]
    pub(super) from: Option<String>,
    /// Select keys of --from; needed if no manifest here has it
    #[arg(long, value_name = "KEY,…", value_delimiter = ',', requires = "from")]
    pub(super) keys: Vec<String>,
    /// Begin the names of these variables with a prefix
    #[arg(long, value_name = "TEXT", requires = "from", default_value = "")]
    pub(super) prefix: String,
    /// Change variables that exist already
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(super) overwrite: bool,
    /// List the variables, and change nothing
    #[arg(long, conflicts_with_all = ["from", "env"])]
    pub(super) list: bool,
    /// List the values from ConfigMaps, too; a value from a Secret is never shown
    #[arg(long, requires = "list")]
    pub(super) resolve: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Args {
    /// Returns the words that name workloads, and the variables.
    pub(super) fn read(&self) -> anyhow::Result<(Vec<String>, Variables)> {
        let mut variables = Variables {
            set: BTreeMap::new(),
            order: Vec::new(),
            remove: Vec::new(),
            overwrite: self.overwrite,
            containers: self.containers.clone(),
        };
        let mut workloads = Vec::new();
        for word in self.words.iter().chain(&self.env) {
            if word == "-" {
                if self.place.filename.is_some() {
                    bail!("standard input can't be both manifests and variables");
                }
                let mut text = String::new();
                std::io::stdin().lock().read_to_string(&mut text).context("failed to read standard input")?;
                for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
                    let (name, value) = line.split_once('=').context("standard input has a line without =")?;
                    variables.set(name, EnvSource::Text(value.to_owned()))?;
                }
            } else if let Some((name, value)) = word.split_once('=') {
                variables.set(name, EnvSource::Text(value.to_owned()))?;
            } else if let Some(name) = word.strip_suffix('-').filter(|name| !name.contains('/')) {
                named(name)?;
                variables.remove.push(name.to_owned());
            } else {
                workloads.push(word.clone());
            }
        }
        if let Some(twice) = variables.remove.iter().find(|name| variables.set.contains_key(*name)) {
            bail!("can not both modify and remove an environment variable in the same command: {twice}");
        }
        Ok((workloads, variables))
    }
}
