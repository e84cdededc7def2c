//! The environment of the demo: a repository, a working copy, the embedded cluster, the daemon; all in a temporary
//! folder.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::story::Chapter;
use crate::cli::session::embedded::{self, Embedded, new_token, write_kubeconfig};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::SourceConfig;
use crate::daemon::Daemon;
use crate::git::{Credentials, Edit, Location, Signing, WorkingCopy, create_bare};
use crate::history::{History, HistoryLocation, Query};
use belay_core::rollout::CommitId;
use minicluster::MiniCluster;

/// All of it.
pub(super) struct DemoSetup {
    folder: tempfile::TempDir,
    embedded: Embedded,
    history: History,
    stop: CancellationToken,
    daemon: JoinHandle<()>,
}

/// The parts that others can use while the demo is kept.
pub(super) struct Kept {
    pub kubeconfig: PathBuf,
}

impl Kept {
    pub(super) async fn close(self) {}
}

impl DemoSetup {
    /// Sets it.
    pub(super) async fn set() -> anyhow::Result<DemoSetup> {
        let folder =
            tempfile::Builder::new().prefix("belay-demo-").tempdir().context("failed to make a temporary folder")?;
        let (bare, clone, state) =
            (folder.path().join("shop.git"), folder.path().join("shop"), folder.path().join("state"));
        create_bare(&bare, "main")?;
        let copy = WorkingCopy::create(&clone, "main", "Ada", "ada@example.com")?;
        copy.set_origin(&bare.display().to_string().parse::<Location>()?)?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let embedded = embedded::start(MiniCluster::builder(), address, new_token()?).await?;
        let clock = Clock::system();
        let (history, _) = HistoryLocation::in_folder(&state).open(clock.now())?;
        let stop = CancellationToken::new();
        let mut daemon = Daemon::new(history.clone(), clock.clone(), stop.clone());
        let source = SourceConfig { name: "shop".to_owned(), ..SourceConfig::of(bare.display().to_string()) };
        daemon.follow(source, &Cluster::new(embedded.cluster.client_as("belay"), clock))?;
        let daemon = tokio::spawn(daemon.run());
        Ok(DemoSetup { folder, embedded, history, stop, daemon })
    }

    /// Returns a client that is not the daemon's.
    pub(super) fn client(&self) -> kube::Client {
        self.embedded.cluster.client_as("demo")
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.folder.path().join("shop.git")
    }

    pub(super) fn working_copy(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Writes the manifest of a chapter, commits it in its author's name, and pushes.
    pub(super) fn commit(&mut self, chapter: &Chapter) -> anyhow::Result<CommitId> {
        let Chapter { author, subject, .. } = chapter;
        let copy = WorkingCopy::open(&self.working_copy())?;
        let email = format!("{}@example.com", author.to_lowercase());
        let edit = Edit { path: "web.yaml".to_owned(), content: Some(chapter.manifest().into_bytes()) };
        copy.set_author(author, &email)?;
        let commit = copy.commit(&[edit], subject, Signing::Never, Clock::system().now())?;
        let bare = self.repository().display().to_string().parse::<Location>()?;
        copy.push(&Credentials::new(&bare), &self.stop)?;
        Ok(commit)
    }

    /// Returns true when everything that a commit touched has its end in the history.
    pub(super) fn is_recorded(&self, commit: &CommitId) -> bool {
        let query = Query { commit: Some(commit.to_string()), ..Query::default() };
        let records = self.history.records(&query).unwrap_or_default();
        !records.is_empty() && records.iter().all(|record| record.outcome.is_final())
    }

    /// Leaves a kubeconfig for others.
    pub(super) async fn keep(&self) -> anyhow::Result<Kept> {
        let kubeconfig = self.folder.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &self.embedded.kubeconfig)?;
        Ok(Kept { kubeconfig })
    }

    /// Ends everything.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.daemon.await {
            tracing::error!(%error, "belay's own fault: the daemon panicked");
        }
        self.embedded.stop().await;
    }
}
