//! Which cluster, and where the state is: what the global options and the environment say.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::Globals;
use crate::clock::Clock;
use crate::cluster::{Cluster, without_credentials};
use crate::config::Span;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// `10s`, `1m`, or a number of seconds as kubectl takes it.
pub(super) fn request_timeout(text: &str) -> Result<Duration, String> {
    let limit = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => text.parse::<Span>().map_err(|error| error.to_string())?.0,
    };
    if limit.is_zero() {
        return Err("a request must have a limit; leave it out for 30s".to_owned());
    }
    Ok(limit)
}

/// What is wrong with a kubeconfig, without the lines of it that its reader would show: there are tokens in them.
fn said(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            let at = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            format!("it is no kubeconfig: something can't be read{}", at.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

impl Globals {
    /// The cluster of the kubeconfig, or the one that belay runs in. `context` is asked for unless the command line says
    /// otherwise.
    pub async fn cluster(&self, context: &str) -> anyhow::Result<Cluster> {
        let cluster = Cluster::new(self.client(context).await?, Clock::system());
        Ok(match self.request_timeout {
            Some(limit) => cluster.with_request_timeout(limit),
            None => cluster,
        })
    }

    /// A client of it.
    pub async fn client(&self, context: &str) -> anyhow::Result<Client> {
        let mut config = self.config(context).await?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        if let Some(user) = &self.as_user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = (!self.as_group.is_empty()).then(|| self.as_group.clone());
        }
        config.connect_timeout = Some(self.request_timeout.map_or(CONNECT_TIMEOUT, |limit| limit.min(CONNECT_TIMEOUT)));
        // belay keeps its own back-off, and says so while it waits.
        config.default_retry = false;
        Client::try_from(config)
            .map_err(|error| anyhow!("failed to connect to the cluster: {}", without_credentials(&error)))
    }

    async fn config(&self, context: &str) -> anyhow::Result<Config> {
        let context = self.context.clone().or_else(|| (!context.is_empty()).then(|| context.to_owned()));
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        if let Some(path) = &self.kubeconfig {
            let name = path.display();
            let text =
                Kubeconfig::read_from(path).map_err(|error| anyhow!("failed to read {name}: {}", said(&error)))?;
            let config = Config::from_custom_kubeconfig(text, &options).await;
            return config.map_err(|error| anyhow!("failed to use {name}: {}", said(&error)));
        }
        if options.context.is_none() {
            let inferred = Config::infer().await;
            return inferred.map_err(|error| {
                let why = error.source().and_then(|source| source.downcast_ref()).map(said).unwrap_or_default();
                anyhow!("failed to find a cluster: no kubeconfig, and not in a pod; say --kubeconfig FILE: {why}")
            });
        }
        let config = Config::from_kubeconfig(&options).await;
        config.map_err(|error| anyhow!("failed to use the kubeconfig: {}", said(&error)))
    }

    /// The folder with the mirrors and the history.
    pub fn state_folder(&self, configured: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.state_dir.as_ref().or(configured) {
            return Ok(folder.clone());
        }
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // systemd names several folders with colons between them; the first is belay's.
        if let Some(folder) = from("STATE_DIRECTORY") {
            let first = folder.to_string_lossy().split(':').next().unwrap_or_default().to_owned();
            return Ok(PathBuf::from(first));
        }
        let base = from("XDG_STATE_HOME").or_else(|| from("HOME").map(|home| home.join(".local/state")));
        base.map(|base| base.join("belay")).context("failed to find a state folder: say --state-dir DIR")
    }
}
