//! Sources that are added, removed or changed while the daemon runs. The others go on untouched.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::shared::source_dependency::LookRequest;
use super::{Daemon, DaemonError};
use crate::cluster::Cluster;
use crate::config::SourceConfig;

/// The result of reading the configuration again.
pub enum Reload {
    /// The sources that are followed from here on.
    Sources {
        /// Every source, with its cluster.
        sources: Vec<(SourceConfig, Cluster)>,
        /// Receives the fetch requests of each source, by name. An error says why nothing has changed.
        done: oneshot::Sender<Result<BTreeMap<String, LookRequest>, DaemonError>>,
    },
    /// The file can't be used; the sources stay as they are.
    Refused {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
}

/// A source that is followed, or was.
pub(super) struct FollowedSource {
    /// Its configuration; `None` once it was removed.
    config: Option<SourceConfig>,
    /// Ends its loop.
    pub stop: CancellationToken,
    /// Cancelled when its loop has ended.
    pub ended: CancellationToken,
}

impl FollowedSource {
    pub fn new(config: SourceConfig, daemon: &CancellationToken) -> FollowedSource {
        FollowedSource { config: Some(config), stop: daemon.child_token(), ended: CancellationToken::new() }
    }

    /// Stops its loop, and returns the token that is cancelled when it has ended.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.cancel();
        self.ended.clone()
    }
}

impl Daemon {
    /// Follows the sources until the daemon is to stop, or none is left and none can be added.
    pub(super) async fn follow_sources(&mut self) {
        let mut reloads = self.reloads.take();
        loop {
            let is_stopping = self.stop.is_cancelled();
            if self.sources.is_empty() && (is_stopping || reloads.is_none()) {
                return;
            }
            let reload = async {
                match &mut reloads {
                    Some(reloads) => reloads.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(ended) = self.sources.join_next() => {
                    if let Err(error) = ended {
                        error!(%error, "belay's own fault: a source panicked");
                    }
                    self.forget_removed();
                }
                reload = reload, if !is_stopping => match reload {
                    Some(reload) => self.reload(reload),
                    None => reloads = None,
                },
                () = self.stop.cancelled(), if !is_stopping => {}
            }
        }
    }

    fn reload(&mut self, reload: Reload) {
        match reload {
            Reload::Refused { file, why } => {
                self.publish_refusal(&[(file, format!("{why}; the configuration of before is followed"))].into());
            }
            Reload::Sources { sources, done } => {
                let changed = self.follow_only(sources).map(|()| self.look_requests());
                if changed.is_ok() {
                    self.publish_refusal(&BTreeMap::new());
                }
                // Nobody waits for it any more where belay is about to end.
                drop(done.send(changed));
            }
        }
    }

    /// Publishes at every source why the configuration file was refused, by the file; nothing where it is taken.
    fn publish_refusal(&self, refusal: &BTreeMap<String, String>) {
        self.status.send_if_modified(|status| {
            let differs = status.sources.values().any(|source| source.obstacles.configuration != *refusal);
            status.sources.values_mut().for_each(|source| source.obstacles.configuration.clone_from(refusal));
            differs
        });
    }

    /// Follows these sources: new ones begin, those that are not among them end, and changed ones are taken up where they
    /// are. All are checked before anything is changed.
    fn follow_only(&mut self, sources: Vec<(SourceConfig, Cluster)>) -> Result<(), DaemonError> {
        let check = |(config, cluster): (SourceConfig, Cluster)| Ok((self.checked(&config)?, config, cluster));
        let sources = sources.into_iter().map(check).collect::<Result<Vec<_>, DaemonError>>()?;
        let names: BTreeSet<&String> = sources.iter().map(|(_, config, _)| &config.name).collect();
        for (name, followed) in &mut self.followed {
            if !names.contains(name) && followed.config.take().is_some() {
                info!(source = name, "the source left the configuration");
                followed.stop.cancel();
            }
        }
        for (subject, config, cluster) in sources {
            let known = self.followed.get(&config.name).and_then(|followed| followed.config.as_ref());
            match known {
                Some(known) if *known == config => continue,
                Some(_) => info!(source = config.name, "the configuration of the source changed"),
                None => info!(source = config.name, "the source is in the configuration now"),
            }
            self.begin(config, &cluster, subject, None);
        }
        Ok(())
    }

    /// Forgets what is published of the removed sources whose loop has ended.
    fn forget_removed(&mut self) {
        if self.stop.is_cancelled() {
            return;
        }
        let has_left = |followed: &FollowedSource| followed.config.is_none() && followed.ended.is_cancelled();
        let left: BTreeSet<String> =
            self.followed.iter().filter(|(_, followed)| has_left(followed)).map(|(name, _)| name.clone()).collect();
        if left.is_empty() {
            return;
        }
        self.followed.retain(|name, _| !left.contains(name));
        self.asked.retain(|name, _| !left.contains(name));
        self.status.send_modify(|status| status.sources.retain(|name, _| !left.contains(name)));
        let stay = self.followed.keys().cloned().collect();
        if let Err(error) = self.history.follow_only(&stay) {
            warn!(%error, "failed to forget the state of the sources that left the configuration");
        }
    }
}
