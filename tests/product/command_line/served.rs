//! The embedded cluster behind a port, and belay pointed at it.

use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use minicluster::{Listening, MiniCluster};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster_port;
use crate::program::{Ran, belay};

/// A cluster, and a home with its kubeconfig.
pub struct Served {
    home: tempfile::TempDir,
    cluster: MiniCluster,
    _server: Listening,
}

impl Served {
    pub async fn new() -> Served {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        let (cluster, server) = cluster_port::open(MiniCluster::builder(), &home.path().join(".kube/config")).await;
        Served { home, cluster, _server: server }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// belay, which finds the cluster as kubectl would.
    pub fn command(&self) -> Command {
        belay(self.home())
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        crate::program::run(self.home(), args)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home().join(name), text).unwrap();
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.cluster.client().request(request).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let request = http::Request::post(path).header("Content-Type", "application/json");
        self.cluster.client().request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
    }

    pub async fn until<F: Future<Output = bool>>(&self, condition: impl Fn() -> F) {
        let started = Instant::now();
        while !condition().await {
            assert!(started.elapsed() < Duration::from_secs(60), "not within a minute");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
