//! The combinations: whose API server, whose controllers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use belay::clock::Clock;
use kube::Client;
use minicluster::controllers::{self, Controller, Options, Running, Which};
use minicluster::{Access, Authority, Listening, MiniCluster, Part, Random, Token, Transport, User};

use super::kubelet::Kubelet;
use super::observer::Observer;
use crate::support::control_plane::{ControlPlane, ControllerManager, Controllers, Manager};

/// The owner of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// Kubernetes' own.
    Real,
    /// Ours.
    Embedded,
}

/// One way to put a cluster together. The kubelet is always the test's own: it does what the scripts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination {
    pub api: Whose,
    pub controllers: Whose,
}

impl Combination {
    /// The reference for everything.
    pub const REFERENCE: Combination = Combination { api: Whose::Real, controllers: Whose::Real };

    /// All that are run.
    pub const ALL: [Combination; 4] = [
        Combination::REFERENCE,
        Combination { api: Whose::Real, controllers: Whose::Embedded },
        Combination { api: Whose::Embedded, controllers: Whose::Real },
        Combination { api: Whose::Embedded, controllers: Whose::Embedded },
    ];

    /// Returns those that are asked for, and always the reference.
    pub fn wanted() -> Vec<Combination> {
        let wanted = std::env::var("BELAY_COMBINATIONS").unwrap_or_default();
        let is_wanted = |one: &Combination| {
            *one == Combination::REFERENCE || wanted.is_empty() || wanted.split(',').any(|title| title == one.title())
        };
        Combination::ALL.into_iter().filter(is_wanted).collect()
    }

    /// Returns a heading for the table, and the name in the file of deviations: whose API server, whose controllers.
    pub fn title(self) -> &'static str {
        match (self.api, self.controllers) {
            (Whose::Real, Whose::Real) => "real+real",
            (Whose::Real, Whose::Embedded) => "real+own",
            (Whose::Embedded, Whose::Real) => "own+real",
            (Whose::Embedded, Whose::Embedded) => "own+own",
        }
    }
}

/// A running cluster of one combination, with the test's kubelet and an observer of everything.
pub struct Cluster {
    pub client: Client,
    pub kubelet: Kubelet,
    pub observer: Observer,
    running: Option<Running>,
    server: Server,
}

/// The server of the API, and the parts that have to live as long.
enum Server {
    Real(ControlPlane),
    Embedded(Box<Embedded>),
}

struct Embedded {
    cluster: MiniCluster,
    _server: Listening,
    manager: Option<ControllerManager>,
    folder: tempfile::TempDir,
    kubectl: PathBuf,
}

/// The running controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// All of them.
    Whole,
    /// The controller of Deployments alone: nobody makes pods, and a script's write into a ReplicaSet's status stays.
    DeploymentsAlone,
}

impl Stage {
    /// Their names in kube-controller-manager.
    fn names(self) -> &'static str {
        match self {
            Stage::Whole => Manager::JSON.controllers,
            Stage::DeploymentsAlone => "deployment",
        }
    }

    fn which(self) -> Which {
        match self {
            // Two controllers drive DaemonSets' pods off tainted nodes; which is first is left to chance. And a real
            // cluster's volumes come from others.
            Stage::Whole => Which::all().without(&[Controller::TaintEviction, Controller::Volumes]),
            Stage::DeploymentsAlone => Which::only(&[Controller::Deployment]),
        }
    }
}

impl Cluster {
    pub async fn start(assets: &Path, combination: Combination, stage: Stage) -> Cluster {
        let server = match combination.api {
            Whose::Real => Server::Real(real(assets, combination.controllers, stage).await),
            Whose::Embedded => Server::Embedded(Box::new(embedded(assets, combination.controllers, stage).await)),
        };
        let client = match &server {
            Server::Real(plane) => plane.client(),
            Server::Embedded(embedded) => embedded.cluster.client(),
        };
        let observer = Observer::start(client.clone()).await;
        let kubelet = Kubelet::start(client.clone(), &observer);
        kubelet.make_nodes().await;
        let running = (combination.controllers == Whose::Embedded).then(|| {
            let client = match &server {
                Server::Real(plane) => plane.client(),
                Server::Embedded(embedded) => embedded.cluster.client_as("kube-controller-manager"),
            };
            let mut options = Options::new(Clock::system(), Random::new(1));
            options.which = stage.which();
            controllers::start(client, &options)
        });
        Cluster { client, kubelet, observer, running, server }
    }

    /// Returns the real kubectl, pointed at this cluster.
    pub fn kubectl(&self) -> Command {
        match &self.server {
            Server::Real(plane) => plane.kubectl(),
            Server::Embedded(embedded) => {
                let mut kubectl = Command::new(&embedded.kubectl);
                kubectl.arg("--kubeconfig").arg(embedded.folder.path().join("kubeconfig"));
                kubectl.env("HOME", embedded.folder.path());
                kubectl
            }
        }
    }

    /// Returns the real controllers' complaints about events that they could not write or dropped.
    pub fn complaints_about_events(&self) -> Vec<String> {
        let log = match &self.server {
            Server::Real(plane) => plane.manager_log(),
            Server::Embedded(embedded) => embedded.manager.as_ref().map(ControllerManager::log).unwrap_or_default(),
        };
        let is_about_events = |line: &&str| line.starts_with(['E', 'W']) && line.to_lowercase().contains(" event");
        log.lines().filter(is_about_events).map(str::to_owned).collect()
    }

    pub async fn stop(self) {
        if let Some(running) = self.running {
            running.stop().await;
        }
        if let Server::Embedded(embedded) = self.server {
            embedded.cluster.stop().await;
        }
    }
}

async fn real(assets: &Path, controllers: Whose, stage: Stage) -> ControlPlane {
    let which = match controllers {
        Whose::Real => Controllers::Only(stage.names()),
        Whose::Embedded => Controllers::None,
    };
    ControlPlane::start(assets, which).await
}

/// Returns the embedded API server, listening for kubectl and kube-controller-manager.
async fn embedded(assets: &Path, controllers: Whose, stage: Stage) -> Embedded {
    let token = Token { token: "admin".to_owned(), user: User::admin() };
    let access = Access { tokens: vec![token], ..Access::default() };
    let builder = MiniCluster::builder().access(access).without(Part::Controllers).without(Part::Kubelet);
    let cluster = builder.start().await.unwrap();
    let authority = Authority::new().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = cluster.listen(address, Transport::Tls(authority.clone())).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = server.kubeconfig(Some("admin"));
    std::fs::write(folder.path().join("kubeconfig"), &kubeconfig).unwrap();
    let manager = (controllers == Whose::Real).then(|| {
        let how = Manager { controllers: stage.names(), ..Manager::JSON };
        ControllerManager::start(assets, &kubeconfig, &authority.certificate(), how)
    });
    Embedded { cluster, _server: server, manager, folder, kubectl: assets.join("kubectl") }
}
