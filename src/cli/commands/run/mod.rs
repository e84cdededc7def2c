//! `belay run`

mod check_config;
mod first_plan;
mod once;
mod reload;
mod systemd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use reload::{Receivers, Reloader};

use super::version;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{Format, say, say_value};
use crate::cli::session::connect::{EMBEDDED_KUBECONFIG, Programs};
use crate::cli::session::embedded::{self, Embedded, new_token, write_kubeconfig};
use crate::cli::session::identity;
use crate::cli::session::service;
use crate::cli::session::signals;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::{
    self, ClusterConfig, Config, ConfigError, LimitsConfig, RenderConfig, SourceConfig, Span, StateConfig,
    TelemetryConfig, WebConfig, read_config_text,
};
use crate::daemon::{Daemon, LookRequest, Pruning, answer_commands};
use crate::git::Location;
use crate::history::{History, HistoryLocation, OpenedHistory, Retention};
use crate::render::Tools;
use crate::state_folder::StateFolder;
use crate::telemetry::{self, LogFormat, Systemd};
use crate::web::{Hook, Shown, ShownSources, Web, forge};
use minicluster::MiniCluster;

/// The arguments of `belay run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Read this configuration file [default: /etc/belay/belay.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "repository")]
    config: Option<PathBuf>,
    /// Follow this repository instead: a path on this machine, or an https or ssh URL
    #[arg(long, value_name = "REPOSITORY")]
    repository: Option<String>,
    /// Follow this branch
    #[arg(long, value_name = "NAME", requires = "repository")]
    branch: Option<String>,
    /// Follow this folder of it; may be given several times, and hold `*`
    #[arg(long, value_name = "PATH", requires = "repository")]
    path: Vec<String>,
    /// Fetch the repository at this interval
    #[arg(long, value_name = "TIME", requires = "repository")]
    interval: Option<Span>,
    /// Name the source
    #[arg(long, value_name = "NAME", requires = "repository")]
    name: Option<String>,
    /// Stop when the present head is through: 0 complete, 3 something failed, 4 timed out, 1 the repository or the cluster
    /// can't be reached
    #[arg(long)]
    once: bool,
    /// Stop --once after this time
    #[arg(long, value_name = "TIME", default_value = "15m", requires = "once")]
    timeout: Span,
    /// Roll out to an embedded cluster of its own
    #[arg(long)]
    embedded: bool,
    /// Delete all objects that have left the repository, even beyond prune_limit; only if the source prunes
    #[arg(long)]
    allow_prune: bool,
    /// Check the configuration and every file that it names, and run nothing
    #[arg(long)]
    check_config: bool,
    /// Fetch each repository, too, into a temporary folder, and connect to each cluster; with --check-config
    #[arg(long, requires = "check_config")]
    online: bool,
    /// Print the JSON schema of the configuration file, and run nothing
    #[arg(long)]
    print_config_schema: bool,
    /// Print the reference of the configuration file as Markdown, and run nothing
    #[arg(long, hide = true)]
    print_config_reference: bool,
    /// Log one JSON object a line
    #[arg(long)]
    log_json: bool,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if tell_of_the_configuration(&args)? {
        return Ok(Exit::Done);
    }
    telemetry::start_logging(globals.verbose, if args.log_json { LogFormat::Json } else { LogFormat::Text });
    let config = read_config(&args)?;
    let tools = Tools { kustomize: config.render.kustomize.clone(), helm: config.render.helm.clone() };
    tell_of_the_sources(&args, &config, &tools)?;
    if args.check_config {
        return check_config::check(globals, &config, args.online).await;
    }
    version::not_confined().iter().for_each(|open| warn!("rendering: {open}"));
    let state = StateFolder::from(&globals.state_folder(config.state.dir.as_ref())?);
    let clock = Clock::system();
    // The lock comes before anything is opened: the state of another daemon is left alone.
    History::make_folder(&state)?;
    let mut identity = identity::of(&state)?;
    let location = HistoryLocation::in_folder(state.clone());
    let history = open_history(&location, &clock, &config)?;
    let stop = CancellationToken::new();
    let embedded = if args.embedded { Some(start_embedded(state.path()).await?) } else { None };
    let pruning = if args.allow_prune { Pruning::Unlimited } else { Pruning::Limited };
    let daemon = Daemon::new(history.clone(), clock.clone(), stop.clone()).leading(identity.name.clone());
    let daemon = daemon.rendering_with(tools).remembering(retention(&config.state)).pruning(pruning);
    let mut daemon = daemon.limited(config.limits.max_rollouts);
    let connections = Connections::new(globals, embedded.as_ref(), &clock);
    let sources = connections.of_all(&config).await?;
    let clusters = clusters(&sources);
    sources.into_iter().try_for_each(|(source, cluster)| daemon.follow(source, &cluster))?;
    let (reloads, status) = (daemon.reloads(), daemon.status());
    let (shown, sources) = shown_sources(&config, clusters, &daemon.look_requests()).shown();
    let _web = open_web(&config, &daemon, sources, &location, &clock).await?;
    let answering = tokio::spawn(answer_commands(status.clone(), state.clone()));
    let systemd = Systemd::of_this_process();
    tell_of_the_work(&args, &systemd, &daemon);
    let reloader = Reloader {
        file: config_file(&args),
        connections,
        reloads,
        shown,
        receivers: Receivers::new(&daemon, history, clock, identity.name.clone()),
        systemd: systemd.clone(),
    };
    let reloading = tokio::spawn(reloader.run(config.clone(), stop.clone()));
    let (mut timed_out, mut lost) = (false, None);
    let mut running = tokio::spawn(daemon.run());
    tokio::select! {
        biased;
        () = signals::asked_to_stop() => info!("asked to stop"),
        why = identity.until_lost() => lost = Some(why),
        () = once::settled(status.clone(), &config.source), if args.once => {}
        () = tokio::time::sleep(args.timeout.0), if args.once => timed_out = true,
        ended = &mut running => ended.context("the daemon ended badly")?,
    }
    systemd.stopping();
    answering.abort();
    // A status that is published while everything stops has less in it.
    let last = status.borrow().clone();
    stop.cancel();
    if !running.is_finished() {
        running.await.context("the daemon ended badly")?;
    }
    reloading.await.context("the telling of receivers ended badly")?;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    match lost {
        Some(why) => bail!(why),
        None if args.once => once::how_it_went(&last, timed_out.then_some(args.timeout)),
        None => Ok(Exit::Done),
    }
}

/// Tells systemd, and a person at a terminal, of the daemon's work.
fn tell_of_the_work(args: &Args, systemd: &Systemd, daemon: &Daemon) {
    tokio::spawn(systemd::tell(systemd.clone(), daemon.liveness(), daemon.status()));
    // Lines for programs are not mixed with one for people.
    if !args.log_json {
        tokio::spawn(first_plan::show(daemon.status()));
    }
}

/// Opens the history, which forgets the sources that the configuration does not name any more.
fn open_history(location: &HistoryLocation, clock: &Clock, config: &Config) -> anyhow::Result<History> {
    let (history, opened) = location.open(clock.now())?;
    if let OpenedHistory::SetAside { why, to } = &opened {
        warn!(why, to = %to.display(), "the history could not be read and was set aside; a fresh one was begun");
    }
    history.follow_only(&config.source.iter().map(|source| source.name.clone()).collect())?;
    Ok(history)
}

/// Serves the daemon's pages, if they are configured.
async fn open_web(
    config: &Config,
    daemon: &Daemon,
    sources: watch::Receiver<Arc<ShownSources>>,
    location: &HistoryLocation,
    clock: &Clock,
) -> anyhow::Result<Option<Web>> {
    let Some(address) = config.web.listen else { return Ok(None) };
    let shown = Shown {
        status: daemon.status(),
        metrics: daemon.metrics(),
        state: location.folder().to_owned(),
        history: location.clone(),
        sources,
        clock: clock.clone(),
    };
    let web = Web::open(address, &config.web.allowed_hosts, shown).await?;
    info!(address = %web.address(), "showing status and metrics");
    Ok(Some(web))
}

/// Returns the facts about the sources that the pages show.
fn shown_sources(
    config: &Config,
    clusters: BTreeMap<String, Cluster>,
    looks: &BTreeMap<String, LookRequest>,
) -> ShownSources {
    let hook = |source: &SourceConfig| {
        let file = source.webhook.as_ref()?.secret_file.clone();
        let hook = Hook::new(file, looks.get(&source.name)?.clone());
        hook.report_problems(&source.name);
        Some((source.name.clone(), hook))
    };
    let hooks = config.source.iter().filter_map(hook).collect();
    ShownSources { clusters, commit_urls: commit_urls(config), hooks }
}

/// Returns the forges' pages of commits, by source.
fn commit_urls(config: &Config) -> BTreeMap<String, String> {
    let of_all = config.web.commit_url.as_ref();
    let url = |source: &SourceConfig| {
        source.commit_url.as_ref().or(of_all).cloned().or_else(|| forge::commit_url(&source.repository))
    };
    config.source.iter().filter_map(|source| Some((source.name.clone(), url(source)?))).collect()
}

/// Returns the branches that sources follow, if that is no tag and no commit.
fn branches(config: &Config) -> BTreeMap<String, String> {
    let followed = config.source.iter().filter(|source| source.tag.is_none() && source.commit.is_none());
    followed.map(|source| (source.name.clone(), source.branch.clone())).collect()
}

/// Returns the URLs of the repositories that have one, without credentials, by the names of their sources.
fn repositories(config: &Config) -> BTreeMap<String, String> {
    let url = |source: &SourceConfig| {
        let location: Location = source.repository.parse().ok()?;
        location.origin().map(|_| (source.name.clone(), location.to_string()))
    };
    config.source.iter().filter_map(url).collect()
}

/// Returns the clusters of sources, by the names of those.
fn clusters(sources: &[(SourceConfig, Cluster)]) -> BTreeMap<String, Cluster> {
    sources.iter().map(|(source, cluster)| (source.name.clone(), cluster.clone())).collect()
}

/// The connections to the clusters that a configuration names.
struct Connections {
    globals: Globals,
    /// The cluster of every source, where it is an embedded one.
    embedded: Option<Cluster>,
}

impl Connections {
    fn new(globals: &Globals, embedded: Option<&Embedded>, clock: &Clock) -> Connections {
        let of_embedded = |embedded: &Embedded| {
            let cluster = Cluster::new(embedded.cluster.client_as("belay"), clock.clone());
            cluster.of_server(&embedded.server.url())
        };
        Connections { globals: globals.clone(), embedded: embedded.map(of_embedded) }
    }

    /// Returns every source with its cluster.
    async fn of_all(&self, config: &Config) -> anyhow::Result<Vec<(SourceConfig, Cluster)>> {
        let mut all = Vec::new();
        for source in &config.source {
            all.push(self.of(config, source).await?);
        }
        Ok(all)
    }

    /// Returns a source with its cluster, and with its Lease in belay's own namespace where it names none.
    async fn of(&self, config: &Config, source: &SourceConfig) -> anyhow::Result<(SourceConfig, Cluster)> {
        if let Some(embedded) = &self.embedded {
            return Ok((source.clone(), embedded.clone()));
        }
        let programs = if config.cluster.allow_exec { Programs::Run } else { Programs::Refused };
        let cluster = self.globals.cluster_of(&source.context, programs).await?;
        let mut source = source.clone();
        if source.lease_namespace.is_none() {
            source.lease_namespace = self.globals.own_namespace(&source.context).await;
        }
        Ok((source, cluster))
    }
}

/// Prints the schema or the reference of the configuration; returns `false` if neither is asked for.
fn tell_of_the_configuration(args: &Args) -> anyhow::Result<bool> {
    if args.print_config_schema {
        say_value(&config::schema(), Format::Json)?;
    } else if args.print_config_reference {
        say(config::reference().trim_end());
    }
    Ok(args.print_config_schema || args.print_config_reference)
}

/// Prints the followed branch and the renderers of each source, for a check of the configuration.
fn tell_of_the_sources(args: &Args, config: &Config, tools: &Tools) -> anyhow::Result<()> {
    for source in &config.source {
        let repository: Location = source.repository.parse()?;
        if args.check_config {
            say(format!("source {}: {repository} ({})", source.name, source.branch));
        }
    }
    if args.check_config {
        version::tools(tools).iter().for_each(say);
    }
    Ok(())
}

fn retention(state: &StateConfig) -> Retention {
    let age = jiff::SignedDuration::try_from(state.keep_for.0).ok();
    Retention { age, records: Some(state.keep_records) }
}

/// Returns the configuration file that is read again while belay runs.
fn config_file(args: &Args) -> Option<PathBuf> {
    let named = args.config.clone().unwrap_or_else(|| PathBuf::from(service::CONFIG));
    (args.repository.is_none() && !args.once).then_some(named)
}

fn read_config(args: &Args) -> anyhow::Result<Config> {
    if let Some(repository) = &args.repository {
        let mut source = SourceConfig::of(repository);
        source.branch = args.branch.clone().unwrap_or(source.branch);
        match &args.path[..] {
            [] => {}
            [path] => source.path = path.as_str().into(),
            paths => source.path = paths.to_vec().into(),
        }
        source.interval = args.interval.unwrap_or(source.interval);
        source.name = args.name.clone().unwrap_or(source.name);
        Config::check_source(&source, "command line")?;
        return Ok(Config {
            limits: LimitsConfig::default(),
            source: vec![source],
            cluster: ClusterConfig::default(),
            state: StateConfig::default(),
            web: WebConfig::default(),
            render: RenderConfig::default(),
            notify: Vec::new(),
            analysis: Vec::new(),
            telemetry: TelemetryConfig::default(),
        });
    }
    read_file(args.config.as_deref())
}

/// Returns the configuration in a file; the service's where none is named.
pub(in crate::cli) fn read_file(named: Option<&Path>) -> anyhow::Result<Config> {
    let path = named.unwrap_or_else(|| Path::new(service::CONFIG));
    let file = path.display().to_string();
    let text = read_config_text(path).map_err(|error| {
        let advice = if named.is_none() { "; say --config FILE or --repository REPOSITORY" } else { "" };
        ConfigError::Unreadable { file: file.clone(), message: format!("{error}{advice}") }
    })?;
    Ok(Config::parse(&text, &file)?)
}

async fn start_embedded(state: &std::path::Path) -> anyhow::Result<Embedded> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let embedded = embedded::start(MiniCluster::builder(), address, new_token()?).await?;
    let kubeconfig = state.join(EMBEDDED_KUBECONFIG);
    write_kubeconfig(&kubeconfig, &embedded.kubeconfig)?;
    info!(server = embedded.server.url(), kubeconfig = %kubeconfig.display(), "an embedded cluster of its own, which runs no containers");
    Ok(embedded)
}
