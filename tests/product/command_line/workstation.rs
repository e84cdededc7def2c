//! The desk of a person: a cluster with a kubeconfig, belay and kubectl beside each other, a home with a working copy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use minicluster::{Listening, MiniCluster};
use serde_json::Value;

use crate::cluster_port;
use crate::program::{Ran, belay, finish};
use crate::support::control_plane::{ControlPlane, Controllers};

/// A cluster, and somebody who types.
pub struct Workstation {
    pub home: tempfile::TempDir,
    pub kubeconfig: PathBuf,
    kubectl: Option<PathBuf>,
    keep: Keep,
}

enum Keep {
    // The server closes when it is dropped.
    Embedded(MiniCluster, #[expect(dead_code, reason = "held open")] Listening),
    Real(ControlPlane),
}

impl Workstation {
    /// The embedded cluster. kubectl is there where the reference's programs are.
    pub async fn embedded() -> Workstation {
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let (cluster, server) = cluster_port::open(MiniCluster::builder(), &kubeconfig).await;
        let kubectl = std::env::var_os("KUBEBUILDER_ASSETS").map(|assets| PathBuf::from(assets).join("kubectl"));
        Workstation { home, kubeconfig, kubectl, keep: Keep::Embedded(cluster, server) }
    }

    /// Returns the real control plane, whose programs are in `assets`.
    pub async fn real(assets: &Path) -> Workstation {
        let plane = ControlPlane::start(assets, Controllers::Real).await;
        let home = tempfile::tempdir().unwrap();
        Workstation {
            home,
            kubeconfig: plane.kubeconfig(),
            kubectl: Some(assets.join("kubectl")),
            keep: Keep::Real(plane),
        }
    }

    /// Returns a client of the cluster.
    pub fn client(&self) -> kube::Client {
        match &self.keep {
            Keep::Embedded(cluster, _) => cluster.client(),
            Keep::Real(plane) => plane.client(),
        }
    }

    /// Runs belay to its end.
    pub fn belay(&self, args: &[&str]) -> Ran {
        self.belay_in(self.home.path(), args, "")
    }

    /// Runs belay in a folder, with this on its standard input.
    pub fn belay_in(&self, folder: &Path, args: &[&str], input: &str) -> Ran {
        let mut command = belay(self.home.path());
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--state-dir").arg(self.state()).args(args);
        command.current_dir(folder);
        let ran = finish(command, input);
        crate::schema::check(args, &ran.out);
        ran
    }

    /// Returns the state folder of this desk's daemon.
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Runs kubectl to its end, if there is one.
    pub fn kubectl(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(self.kubectl.as_ref().expect("kubectl"));
        command.env("HOME", self.home.path()).arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        finish(command, "")
    }

    /// Applies a manifest as a person with another tool.
    pub async fn apply(&self, path: &str, manifest: &str) -> Value {
        let manifest: Value = serde_yaml::from_str(manifest).expect("YAML");
        let request = http::Request::patch(format!("/{path}?fieldManager=someone&force=true"))
            .header("Content-Type", "application/apply-patch+yaml")
            .body(manifest.to_string().into_bytes())
            .unwrap();
        self.client().request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns a live object by its path; `None` if there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let request = http::Request::get(format!("/{path}")).body(Vec::new()).unwrap();
        match self.client().request::<Value>(request).await {
            Ok(value) => Some(value),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// A live object, once it is as wanted. Real time: another process makes it so.
    pub async fn until(&self, path: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..600 {
            if let Some(live) = self.get(path).await {
                if condition(&live) {
                    return live;
                }
                last = live;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within 30 s: {what}\n{last:#}");
    }

    /// Returns a workload, once its controller has seen it as it is.
    pub async fn synced(&self, path: &str) -> Value {
        self.until(path, "its controller has seen it", |live| {
            let generation = live["metadata"]["generation"].as_i64();
            live["status"]["observedGeneration"].as_i64() >= generation
        })
        .await
    }
}

/// Returns the path of a workload in namespace default.
pub fn path(resource: &str, name: &str) -> String {
    let group = if resource == "replicationcontrollers" { "api/v1" } else { "apis/apps/v1" };
    format!("{group}/namespaces/default/{resource}/{name}")
}
