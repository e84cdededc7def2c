//! The environment of a command: an embedded cluster with a server, a repository, and a home of its own.

use std::process::{Command, Stdio};
use std::time::Duration;

use minicluster::{Builder, Listening, MiniCluster};
use tokio::time::Instant;

use crate::cluster_port;
use crate::program::{Ran, belay, run};
use crate::support::repository::Repository;

/// An embedded cluster with a server, a repository, and a home.
pub struct Fixture {
    pub home: tempfile::TempDir,
    pub repository: Repository,
    pub cluster: MiniCluster,
    /// The port of the cluster; closed when it is taken away.
    pub server: Option<Listening>,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::of(MiniCluster::builder()).await
    }

    /// With a cluster that is made so.
    pub async fn of(builder: Builder) -> Fixture {
        let home = tempfile::tempdir().unwrap();
        let (cluster, server) = cluster_port::open(builder, &home.path().join("kubeconfig")).await;
        Fixture { home, repository: Repository::new(), cluster, server: Some(server) }
    }

    pub fn command(&self) -> Command {
        let mut command = belay(self.home.path());
        let repository = self.repository.path().display().to_string();
        command.args(["run", "--interval", "1s", "--repository", &repository]).args(self.globals());
        command.stdout(Stdio::null()).stderr(std::fs::File::create(self.home.path().join("log")).unwrap());
        command
    }

    pub fn globals(&self) -> [String; 4] {
        let at = |name: &str| self.home.path().join(name).display().to_string();
        ["--kubeconfig".to_owned(), at("kubeconfig"), "--state-dir".to_owned(), at("state")]
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Waits until the history says so of a commit.
    pub async fn until(&self, commit: &str, outcome: &str) {
        let started = Instant::now();
        loop {
            let globals = self.globals();
            let mut args = vec!["history", "--commit", commit, "-o", "json"];
            args.extend(globals.iter().map(String::as_str));
            let ran = run(self.home.path(), &args);
            if all_are(&ran, outcome) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{}\n{}", ran.out, self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs a command against this cluster and this history.
    pub fn run(&self, args: &[&str]) -> Ran {
        let globals = self.globals();
        let mut all: Vec<&str> = args.to_vec();
        all.extend(globals.iter().map(String::as_str));
        run(self.home.path(), &all)
    }
}

/// Returns true if `belay history -o json` printed records, all with this outcome.
pub fn all_are(ran: &Ran, outcome: &str) -> bool {
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
    let records = found["records"].as_array().map_or(&[][..], Vec::as_slice);
    !records.is_empty() && records.iter().all(|record| record["outcome"] == outcome)
}
