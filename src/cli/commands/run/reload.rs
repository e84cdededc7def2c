//! Reads the configuration file again: at SIGHUP, and when it has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{Connections, branches, clusters, commit_urls, read_file, repositories, shown_sources};
use crate::cli::session::signals;
use crate::clock::Clock;
use crate::config::Config;
use crate::daemon::{Daemon, Reload, Status, note_lasting_trouble};
use crate::history::History;
use crate::notices::{self, Collector, Http, Links, Settings};
use crate::telemetry::{Metrics, Systemd};
use crate::web::ShownSources;

/// The period between two looks at the file. It is taken when two of them find the same, so that no half of it is.
const CHECK: Duration = Duration::from_secs(5);

/// The reader of the configuration, and everything that is told of a new one.
pub(super) struct Reloader {
    /// The file; `None` where the arguments name the source.
    pub file: Option<PathBuf>,
    pub connections: Connections,
    pub reloads: mpsc::Sender<Reload>,
    pub shown: watch::Sender<Arc<ShownSources>>,
    pub receivers: Receivers,
    pub systemd: Systemd,
}

impl Reloader {
    /// Sends notices, and reads the configuration again, until it is cancelled.
    pub async fn run(self, mut config: Config, stop: CancellationToken) {
        let mut hangups = signals::Hangups::receive();
        let mut sending = self.receivers.send(&config);
        let mut file = ConfigFile { taken: Ok(config.clone()), seen: None };
        loop {
            let is_asked = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = hangups.next() => true,
                () = tokio::time::sleep(CHECK), if self.file.is_some() => false,
            };
            let Some(path) = &self.file else {
                warn!("SIGHUP changes nothing: there is no configuration file");
                continue;
            };
            let Some(read) = file.read(path, is_asked) else { continue };
            self.systemd.reloading();
            let taken = stop.run_until_cancelled(self.take(path, read, &config)).await;
            if let Some(new) = taken.flatten() {
                sending.stop().await;
                sending = self.receivers.send(&new);
                config = new;
            }
            // A systemd that takes no message must not keep belay from its end.
            stop.run_until_cancelled(self.systemd.ready()).await;
        }
        sending.stop().await;
    }

    /// Takes a configuration over as a whole. A refused one is reported, and nothing changes.
    async fn take(&self, file: &Path, read: Result<Config, String>, old: &Config) -> Option<Config> {
        let taken = match read {
            Ok(new) => self.follow(&new).await.map(|()| new).map_err(|error| format!("{error:#}")),
            Err(why) => Err(why),
        };
        let file = file.display().to_string();
        match taken {
            Ok(new) => {
                self.receivers.metrics.configuration_read(true);
                info!(file, "the configuration was read again");
                needs_restart(old, &new).into_iter().for_each(|key| warn!(file, key, "takes effect at the next start"));
                Some(new)
            }
            Err(why) => {
                self.receivers.metrics.configuration_read(false);
                error!(file, why, "the configuration is refused as a whole; the one of before is followed");
                // Nobody takes it any more where belay is about to end.
                drop(self.reloads.send(Reload::Refused { file, why }).await);
                None
            }
        }
    }

    /// Lets the daemon follow the sources of a configuration.
    async fn follow(&self, config: &Config) -> anyhow::Result<()> {
        let sources = self.connections.of_all(config).await?;
        let clusters = clusters(&sources);
        let (done, answer) = oneshot::channel();
        self.reloads.send(Reload::Sources { sources, done }).await.ok().context("belay is about to end")?;
        let looks = answer.await.context("belay is about to end")??;
        let shown = shown_sources(config, clusters, &looks);
        shown.hooks.keys().for_each(|source| self.receivers.metrics.hook(source));
        self.shown.send_replace(Arc::new(shown));
        Ok(())
    }
}

/// Returns the sections that differ and are read at the start only.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let address = |config: &Config| (config.web.listen, config.web.allowed_hosts.clone());
    [
        ("[web] listen, allowed_hosts", address(old) != address(new)),
        ("[state]", old.state != new.state),
        ("[render]", old.render != new.render),
        ("[limits]", old.limits != new.limits),
    ]
    .into_iter()
    .filter_map(|(key, differs)| differs.then_some(key))
    .collect()
}

/// The configuration file, as it was seen.
struct ConfigFile {
    /// The content that was taken, or refused.
    taken: Result<Config, String>,
    /// A newer content, seen once.
    seen: Option<Result<Config, String>>,
}

impl ConfigFile {
    /// Reads the file; `None` where it has nothing new.
    fn read(&mut self, path: &Path, is_asked: bool) -> Option<Result<Config, String>> {
        self.notice(read_file(Some(path)).map_err(|error| format!("{error:#}")), is_asked)
    }

    /// Returns a content that is new, and was seen twice or was asked for.
    fn notice(&mut self, read: Result<Config, String>, is_asked: bool) -> Option<Result<Config, String>> {
        let is_settled = is_asked || self.seen.as_ref() == Some(&read);
        let is_new = is_asked || self.taken != read;
        self.seen = Some(read.clone());
        if !(is_settled && is_new) {
            return None;
        }
        self.taken.clone_from(&read);
        Some(read)
    }
}

/// The facts that notices are sent by, apart from the configuration.
pub(super) struct Receivers {
    status: watch::Receiver<Status>,
    metrics: Metrics,
    history: History,
    clock: Clock,
    /// The name of this daemon, which its traces have.
    instance: String,
}

/// Notices that are being sent.
struct Sending {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Receivers {
    /// Returns what is known of a daemon with this name.
    pub fn new(daemon: &Daemon, history: History, clock: Clock, instance: String) -> Receivers {
        Receivers { status: daemon.status(), metrics: daemon.metrics(), history, clock, instance }
    }

    /// Sends notices of commits to the receivers of a configuration.
    fn send(&self, config: &Config) -> Sending {
        let public_url = config.web.public_url.clone();
        let links = Links { public_url, commit_urls: commit_urls(config), branches: branches(config) };
        let (history, clock, metrics) = (self.history.clone(), self.clock.clone(), self.metrics.clone());
        let receivers = config.notify.clone();
        let collector = Collector::new(&config.telemetry, self.instance.clone(), repositories(config));
        let lasting = note_lasting_trouble(self.status.clone(), history.clone(), clock.clone());
        let stop = CancellationToken::new();
        let until = stop.clone();
        let task = tokio::spawn(async move {
            if !receivers.is_empty() {
                let stop = until.clone();
                tokio::spawn(async move { stop.run_until_cancelled(lasting).await });
            }
            // Also if there are none: those that there were are forgotten.
            let post = Arc::new(Http::new());
            let settings = Settings { history, clock, metrics, links, post };
            notices::tell(receivers, collector, settings, until).await;
        });
        Sending { stop, task }
    }
}

impl Sending {
    async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            error!(%error, "belay's own fault: the sending of notices panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(branch: &str) -> Result<Config, String> {
        let text = format!("[[source]]\nname = \"shop\"\nrepository = \"/srv/shop.git\"\nbranch = \"{branch}\"\n");
        Config::parse(&text, "belay.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_taken_when_it_was_seen_twice_or_was_asked_for() {
        let mut file = ConfigFile { taken: config("first"), seen: None };
        let broken = || Err("belay.toml:3:1: expected a value".to_owned());
        for (read, is_asked, is_taken) in [
            (config("main"), false, false),
            (config("main"), false, true),
            (config("main"), false, false),
            (broken(), false, false),
            (config("next"), false, false),
            (broken(), false, false),
            (broken(), false, true),
            (broken(), false, false),
            (config("next"), true, true),
            (config("next"), false, false),
            (config("next"), true, true),
        ] {
            assert_eq!(file.notice(read.clone(), is_asked).is_some(), is_taken, "{read:?}, {is_asked}");
        }
    }

    #[test]
    fn sections_that_are_read_at_the_start_only_are_named() {
        let old = config("main").unwrap();
        let mut new = config("next").unwrap();
        assert!(needs_restart(&old, &new).is_empty());
        new.web.listen = Some("127.0.0.1:9000".parse().unwrap());
        new.render.helm = Some("/opt/helm".into());
        assert_eq!(needs_restart(&old, &new), ["[web] listen, allowed_hosts", "[render]"]);
    }
}
