#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! Built like the large one: [`api`] is the API server, a tower service and the only owner of the store; [`controllers`] and
//! [`kubelet`] are clients of it like anyone else and take a [`kube::Client`] and nothing more, so that each part can be
//! exchanged for the real one.

pub mod api;
mod apply;
#[cfg(test)]
mod at_rest;
mod clock;
pub mod controllers;
mod event_type;
mod faults;
#[cfg(test)]
mod growth;
mod impl_resource;
pub mod kubelet;
mod listen;
mod pod_logs;
mod random;
mod tls;
mod unmanaged;
#[cfg(test)]
mod work_count;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use jiff::Timestamp;
use tower::ServiceExt;

pub use apply::ApplyError;
pub use faults::Fault;

pub use api::{Access, ApiServer, Authorization, Backup, KeepError, Token, User};
pub use clock::Clock;
pub use kubelet::{NodeSpec, Script, ScriptError};
pub use listen::{ListenError, Listening, Transport};
pub use pod_logs::{LogLine, LogPlace, PodLogs, Reading};
pub use random::Random;
pub use tls::{Authority, Credentials};

use api::{Kept, Settings};

/// A running small Kubernetes.
#[derive(Debug)]
pub struct MiniCluster {
    api: ApiServer,
    /// The options of the parts that are started.
    options: (Option<controllers::Options>, Option<kubelet::Options>),
    controllers: Option<controllers::Running>,
    kubelet: Option<kubelet::Running>,
}

/// The parts of a cluster that can be left out, for another in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The controllers, which make status follow spec.
    Controllers,
    /// The scheduler and the nodes.
    Kubelet,
    /// The maker of volumes for claims, and the default storage class.
    Volumes,
    /// The roles of every new cluster, and the controller that gathers their rules: for a cluster without
    /// authorization.
    Roles,
    /// The admission of ServiceAccounts: pods then need no account, and get no token. Without controllers nothing makes the
    /// account `default` that pods have otherwise.
    ServiceAccounts,
}

/// The settings of a small Kubernetes.
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    clock: Option<Clock>,
    access: Access,
    nodes: Vec<NodeSpec>,
    heartbeat: Duration,
    speed: f64,
    script: Option<Script>,
    without: Vec<Part>,
    root_certificate: String,
    folder: Option<PathBuf>,
    signing_key: Option<[u8; 32]>,
    name: String,
    definitions: String,
}

/// The reason for which a small Kubernetes did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The API server refused the objects of every new cluster.
    #[error("failed to set up the API server: {0}")]
    Api(String),
    /// A custom resource definition can't be served.
    #[error("failed to apply the custom resource definitions: {0}")]
    Definitions(ApplyError),
    /// Its state can't be kept, or the kept state can't be read.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

impl MiniCluster {
    /// Returns a small Kubernetes, to be made as wanted.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            seed: 0,
            clock: None,
            access: Access::default(),
            root_certificate: String::new(),
            nodes: NodeSpec::several(3),
            heartbeat: Duration::from_secs(10),
            speed: 1.0,
            script: None,
            without: Vec::new(),
            folder: None,
            signing_key: None,
            name: "minicluster".to_owned(),
            definitions: String::new(),
        }
    }

    /// Returns the API server.
    #[must_use]
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Returns a client of it, in process: no socket, no time passes.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        client(&self.api, None)
    }

    /// Returns a client that gives itself a name, which is its field manager where it names no other. A name that no
    /// header can carry is left out.
    #[must_use]
    pub fn client_as(&self, agent: &str) -> kube::Client {
        client(&self.api, HeaderValue::from_str(agent).ok())
    }

    /// Returns a client with faults: it asks `fault` for the fault of each request, by method and path (without the
    /// query). Other clients do not notice.
    #[must_use]
    pub fn client_with_faults(
        &self,
        fault: impl Fn(&http::Method, &str) -> Option<Fault> + Send + Sync + 'static,
    ) -> kube::Client {
        faults::client(&self.api, fault)
    }

    /// Applies manifests: YAML documents or JSON, of kinds that the cluster serves. Fields of other managers are taken
    /// over. A document without a namespace goes to `default`, and an empty one is skipped.
    ///
    /// # Errors
    /// The first document that can't be read, whose kind is not served, or that the API server refuses. Those before it
    /// are applied.
    pub async fn apply(&self, manifests: &str) -> Result<(), ApplyError> {
        apply::apply(&self.client_as("minicluster"), manifests).await
    }

    /// Opens a server for clients outside of the process: HTTP over TCP, at an address whose port may be 0 for any that is
    /// free. Closing or dropping the result closes it.
    ///
    /// # Errors
    /// The address can't be had, or no certificate be made for it.
    pub async fn listen(&self, address: SocketAddr, transport: Transport) -> Result<Listening, ListenError> {
        listen::listen(&self.api, address, transport).await
    }

    /// Returns when a write could not be kept, of which the state in the folder knows nothing then: the disk is full or
    /// failing. Never, if nothing is kept.
    pub async fn state_is_lost(&self) {
        self.api.lost().cancelled_owned().await;
    }

    /// Returns everything that is stored now, for [`MiniCluster::restore`].
    #[must_use]
    pub fn back_up(&self) -> Backup {
        self.api.back_up()
    }

    /// Goes back to what was stored at a backup, as a cluster does whose etcd is restored from a snapshot: with all parts stopped,
    /// and started again afterwards. Clients see resource versions go back, and their watches end.
    pub async fn restore(&mut self, backup: &Backup) {
        let (controllers, kubelet) = (self.controllers.is_some(), self.kubelet.is_some());
        self.stop_part(Part::Controllers).await;
        self.stop_part(Part::Kubelet).await;
        self.api.restore(backup);
        self.api.saved().await;
        for (part, _) in [(Part::Controllers, controllers), (Part::Kubelet, kubelet)].iter().filter(|(_, ran)| *ran) {
            self.start_part(*part);
        }
    }

    /// Stops the controllers, or the kubelet, as an outage of it alone does. Does nothing where that part does not run, and for other
    /// parts.
    pub async fn stop_part(&mut self, part: Part) {
        match part {
            Part::Controllers => {
                if let Some(controllers) = self.controllers.take() {
                    controllers.stop().await;
                }
            }
            Part::Kubelet => {
                if let Some(kubelet) = self.kubelet.take() {
                    kubelet.stop().await;
                }
            }
            Part::Volumes | Part::Roles | Part::ServiceAccounts => {}
        }
    }

    /// Starts a part again that was stopped. Does nothing where that part runs or was left out, and for other parts.
    pub fn start_part(&mut self, part: Part) {
        let (controllers, kubelet) = &self.options;
        match part {
            Part::Controllers if self.controllers.is_none() => {
                let agent = HeaderValue::from_static("kube-controller-manager");
                let start = |options| controllers::start(client(&self.api, Some(agent)), options);
                self.controllers = controllers.as_ref().map(start);
            }
            Part::Kubelet if self.kubelet.is_none() => {
                let agent = HeaderValue::from_static("kubelet");
                let start = |options| kubelet::start(client(&self.api, Some(agent)), options);
                self.kubelet = kubelet.clone().map(start);
            }
            _ => {}
        }
    }

    /// Stops everything: watches end, controllers and nodes stop.
    pub async fn stop(self) {
        if let Some(controllers) = self.controllers {
            controllers.stop().await;
        }
        if let Some(kubelet) = self.kubelet {
            kubelet.stop().await;
        }
        self.api.close();
        self.api.saved().await;
    }
}

impl Builder {
    /// Returns the seed of everything random: the same seed gives the same run.
    #[must_use]
    pub fn seed(self, seed: u64) -> Builder {
        Builder { seed, ..self }
    }

    /// Returns the clock; the machine's own if none is given.
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Builder {
        Builder { clock: Some(clock.into()), ..self }
    }

    /// Sets virtual time: the cluster's clock begins at 2000-01-01T00:00:00Z and moves with tokio's, which jumps to the
    /// next timer when nothing is left to do. For tests with `start_paused = true`. To be called inside a tokio
    /// runtime.
    #[must_use]
    pub fn virtual_time(self) -> Builder {
        self.clock(Clock::tokio(Timestamp::constant(946_684_800, 0)))
    }

    /// Sets the name of the cluster in kubeconfigs and in the version that it reports; `minicluster` by default.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Builder {
        Builder { name: name.into(), ..self }
    }

    /// Sets custom resource definitions, as YAML documents, that are served when [`Builder::start`] returns. May be
    /// called again.
    #[must_use]
    pub fn crds(mut self, manifests: &str) -> Builder {
        self.definitions.push_str("\n---\n");
        self.definitions.push_str(manifests);
        self
    }

    /// Sets the rights of those who come in over the network; everybody may do everything by default.
    #[must_use]
    pub fn access(self, access: Access) -> Builder {
        Builder { access, ..self }
    }

    /// Sets how many nodes there are, all of the usual size; three by default.
    #[must_use]
    pub fn nodes(self, nodes: usize) -> Builder {
        self.node_specs(NodeSpec::several(nodes))
    }

    /// Sets the nodes, one by one.
    #[must_use]
    pub fn node_specs(self, nodes: Vec<NodeSpec>) -> Builder {
        Builder { nodes, ..self }
    }

    /// Returns the certificate, as PEM, of the authority that clients inside the cluster trust: every namespace has it
    /// in its ConfigMap `kube-root-ca.crt`, and `kube-system` once more for servers that stand in for this one, in
    /// `extension-apiserver-authentication`.
    #[must_use]
    pub fn root_certificate(self, certificate: String) -> Builder {
        Builder { root_certificate: certificate, ..self }
    }

    /// Sets how often each node renews its lease, in the cluster's time; every 10 s by default. In virtual time each
    /// costs a write for every so many seconds that are skipped.
    #[must_use]
    pub fn heartbeat(self, heartbeat: Duration) -> Builder {
        Builder { heartbeat, ..self }
    }

    /// Sets how much faster than written pods live and die; 1 by default.
    #[must_use]
    pub fn speed(self, speed: f64) -> Builder {
        Builder { speed, ..self }
    }

    /// Sets rules about the behaviour of pods, by image, namespace and pod; they come before the built-in ones.
    #[must_use]
    pub fn script(self, script: Script) -> Builder {
        Builder { script: Some(script), ..self }
    }

    /// Keeps everything in a folder, and begins with its content.
    #[must_use]
    pub fn persist_in(self, folder: impl Into<PathBuf>) -> Builder {
        Builder { folder: Some(folder.into()), ..self }
    }

    /// Sets the key that signs the tokens of ServiceAccounts. If nothing is said it follows from the seed, so a cluster
    /// with a server should be given one that nobody knows.
    #[must_use]
    pub fn signing_key(self, key: [u8; 32]) -> Builder {
        Builder { signing_key: Some(key), ..self }
    }

    /// Leaves a part out.
    #[must_use]
    pub fn without(mut self, part: Part) -> Builder {
        self.without.push(part);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// The API server refused the objects of every new cluster, or a definition of [`Builder::crds`]; or the cluster's
    /// state can't be kept.
    pub async fn start(self) -> Result<MiniCluster, StartError> {
        let kept = self.folder.as_deref().map(Kept::open).transpose()?;
        // The random values after a restart must differ from those before.
        let revision = kept.as_ref().map_or(0, Kept::revision);
        let random = Random::new(self.seed ^ revision.rotate_left(32));
        let clock = self.clock.unwrap_or_else(Clock::system);
        let logs = PodLogs::default();
        // Each part draws from its own generator, also when another is left out.
        let [of_api, of_controllers, of_kubelet] = [(); 3].map(|()| random.fork());
        let api = ApiServer::new(Settings {
            clock: clock.clone(),
            random: of_api,
            logs: logs.clone(),
            access: self.access,
            name: self.name,
            service_accounts: !self.without.contains(&Part::ServiceAccounts),
            kept,
            signing_key: self.signing_key,
        });
        api.set_up().map_err(|error| StartError::Api(error.message))?;
        if !self.without.contains(&Part::Roles) {
            api.provide_roles().map_err(|error| StartError::Api(error.message))?;
        }
        if !self.root_certificate.is_empty() {
            api.publish_authority(&self.root_certificate).map_err(|error| StartError::Api(error.message))?;
        }
        apply::apply(&client(&api, None), &self.definitions).await.map_err(StartError::Definitions)?;
        api.saved().await;
        let controllers = (!self.without.contains(&Part::Controllers)).then(|| {
            let root_certificate = self.root_certificate;
            let mut options =
                controllers::Options { root_certificate, ..controllers::Options::new(clock.clone(), of_controllers) };
            for (part, controller) in [
                (Part::Volumes, controllers::Controller::Volumes),
                (Part::Roles, controllers::Controller::ClusterRoleAggregation),
            ] {
                if self.without.contains(&part) {
                    options.which = options.which.without(&[controller]);
                }
            }
            options
        });
        let kubelet = (!self.without.contains(&Part::Kubelet)).then(|| kubelet::Options {
            nodes: self.nodes,
            heartbeat: self.heartbeat,
            speed: self.speed,
            script: self.script,
            ..kubelet::Options::new(clock, of_kubelet, logs)
        });
        let mut cluster = MiniCluster { api, options: (controllers, kubelet), controllers: None, kubelet: None };
        cluster.start_part(Part::Controllers);
        cluster.start_part(Part::Kubelet);
        Ok(cluster)
    }
}

/// Returns a client of an API server in the same process.
fn client(api: &ApiServer, agent: Option<HeaderValue>) -> kube::Client {
    let service = api.clone().map_request(move |mut request: Request<kube::client::Body>| {
        if let Some(agent) = &agent {
            request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| agent.clone());
        }
        request
    });
    kube::Client::new(service, "default")
}

#[cfg(test)]
mod tests;
