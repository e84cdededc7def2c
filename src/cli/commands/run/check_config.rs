//! `belay run --check-config`: checks that everything a configuration names can be read, and with `--online` reached.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::Connections;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::activity::during;
use crate::cli::output::{plain, progress, say};
use crate::config::{Config, NotifyConfig, SourceConfig, read_secret};
use crate::daemon::{CommitTree, credentials, what_to_follow};
use crate::git::{Limits, Location, Mirror};
use crate::regular_file::open_regular;
use crate::render::SourcePaths;
use crate::systemd_unit::stopped_unit;

/// Reads every file that the configuration names, and asks every repository and cluster, if that is to be done. All
/// that is wrong is said, not only the first.
pub(super) async fn check(globals: &Globals, config: &Config, online: bool) -> anyhow::Result<Exit> {
    let mut wrong = unreadable(config);
    if online {
        for source in &config.source {
            let fetching = format!("source {}: fetching the repository", source.name);
            match during(&fetching, reach_repository(source)).await {
                Ok(head) => say(plain(&format!("source {}: the repository is reached, and is at {head}", source.name))),
                Err(error) => wrong.push(format!("source {}: {error:#}", source.name)),
            }
            let connecting = format!("source {}: connecting to the cluster", source.name);
            match during(&connecting, reach_cluster(globals, config, source)).await {
                Ok(told) => say(plain(&format!("source {}: the cluster is reached: {told}", source.name))),
                Err(error) => wrong.push(format!("source {}: {error:#}", source.name)),
            }
        }
    }
    wrong.iter().for_each(|line| progress(plain(&format!("error: {line}"))));
    if !wrong.is_empty() {
        return Ok(Exit::Error);
    }
    say("The configuration can be used.");
    Ok(Exit::Done)
}

/// Returns the faults of the files that a configuration names.
fn unreadable(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut read = |of: &str, key: &str, file: Option<&Path>, read: fn(&Path) -> Result<(), String>| {
        let Some(file) = file else { return };
        if let Some(unit) = stopped_unit(file) {
            let file = file.display();
            let note = format!("{file} is not looked at: systemd puts credentials there while {unit} runs");
            progress(plain(&format!("note: {of}: {key}: {note}")));
            return;
        }
        wrong.extend(read(file).err().map(|why| format!("{of}: {key}: {why}")));
    };
    for source in &config.source {
        let (of, given) = (format!("source {}", source.name), &source.credentials);
        read(&of, "credentials.token_file", given.token_file.as_deref(), secret);
        read(&of, "credentials.ca_file", given.ca_file.as_deref(), readable);
        read(&of, "credentials.ssh_key", given.ssh_key.as_deref(), key);
        read(&of, "credentials.ssh_passphrase_file", given.ssh_passphrase_file.as_deref(), secret);
        read(&of, "credentials.known_hosts", given.known_hosts.as_deref(), readable);
        read(&of, "webhook.secret_file", source.webhook.as_ref().map(|hook| hook.secret_file.as_path()), secret);
    }
    for receiver in &config.notify {
        let NotifyConfig { name, url_file, secret_file, token_file, password_file, ca_file, .. } = receiver;
        let of = format!("notify {name}");
        read(&of, "url_file", url_file.as_deref(), secret);
        read(&of, "secret_file", secret_file.as_deref(), secret);
        read(&of, "token_file", token_file.as_deref(), secret);
        read(&of, "password_file", password_file.as_deref(), secret);
        read(&of, "ca_file", ca_file.as_deref(), readable);
    }
    for analysis in &config.analysis {
        let of = format!("analysis {}", analysis.name);
        read(&of, "token_file", analysis.token_file.as_deref(), secret);
        read(&of, "password_file", analysis.password_file.as_deref(), secret);
        read(&of, "ca_file", analysis.ca_file.as_deref(), readable);
    }
    read("telemetry", "token_file", config.telemetry.token_file.as_deref(), secret);
    read("telemetry", "ca_file", config.telemetry.ca_file.as_deref(), readable);
    read("render", "kustomize", config.render.kustomize.as_deref(), readable);
    read("render", "helm", config.render.helm.as_deref(), readable);
    read("state", "dir", config.state.dir.as_deref(), folder);
    wrong
}

fn secret(file: &Path) -> Result<(), String> {
    read_secret(file).map(drop)
}

fn key(file: &Path) -> Result<(), String> {
    match read_secret(file)?.contains("PRIVATE KEY-----") {
        true => Ok(()),
        false => Err(format!("{} holds no private key", file.display())),
    }
}

fn readable(file: &Path) -> Result<(), String> {
    let read = open_regular(file).and_then(|mut file| file.read(&mut [0]));
    read.map(drop).map_err(|error| format!("failed to read {}: {error}", file.display()))
}

/// Checks a folder; a missing one is made by the daemon.
fn folder(folder: &Path) -> Result<(), String> {
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => Err(format!("{} is no folder", folder.display())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("failed to look at {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Fetches the head of the source into a temporary folder and looks for the source's folders in it. Returns the head,
/// for people.
async fn reach_repository(source: &SourceConfig) -> anyhow::Result<String> {
    let location: Location = source.repository.parse()?;
    let follow = what_to_follow(source).map_err(anyhow::Error::msg)?;
    let credentials = credentials(source, &location);
    let paths = SourcePaths::of(source.path.iter());
    let fetched = tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir()?;
        let (mirror, _) = Mirror::open(&folder.path().join("mirror"), location, credentials, Limits::default())?;
        let head = mirror.fetch(&follow, &CancellationToken::new())?.head;
        match paths.is_one_folder() {
            true => drop(mirror.files(&head, &paths.common())?),
            false => CommitTree::new(&mirror, &head).has_all_folders(&paths)?,
        }
        anyhow::Ok(format!("{} ({follow})", head.short()))
    });
    fetched.await?
}

/// Discovers the cluster of a source.
async fn reach_cluster(globals: &Globals, config: &Config, source: &SourceConfig) -> anyhow::Result<String> {
    let connections = Connections { globals: globals.clone(), embedded: None };
    let (_, cluster) = connections.of(config, source).await?;
    let discovered = cluster.discover().await?;
    let server = cluster.server().map(|server| format!(" at {server}")).unwrap_or_default();
    Ok(format!("Kubernetes {}{server}", discovered.version))
}
