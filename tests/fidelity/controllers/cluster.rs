//! The combinations: whose API server, whose controllers.

use std::path::Path;

use belay::clock::Clock;
use belay::minicluster::Random;
use belay::minicluster::controllers::{self, Options, Running};
use kube::Client;

use super::kubelet::Kubelet;
use super::observer::Observer;
use crate::world::control_plane::{ControlPlane, Controllers};

/// Whose part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// Kubernetes' own.
    Real,
    /// Ours.
    Embedded,
}

/// One way to put a cluster together. The kubelet is always the test's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination {
    pub api: Whose,
    pub controllers: Whose,
}

impl Combination {
    /// What everything is measured by.
    pub const REFERENCE: Combination = Combination { api: Whose::Real, controllers: Whose::Real };

    /// All that are run.
    pub const ALL: [Combination; 2] =
        [Combination::REFERENCE, Combination { api: Whose::Real, controllers: Whose::Embedded }];

    /// A heading for the table.
    pub fn title(self) -> String {
        let part = |whose| if whose == Whose::Real { "real" } else { "own" };
        format!("{} api, {} controllers", part(self.api), part(self.controllers))
    }
}

/// A running cluster of one combination, with the test's kubelet and an observer of everything.
pub struct Cluster {
    pub client: Client,
    pub kubelet: Kubelet,
    pub observer: Observer,
    running: Option<Running>,
    plane: ControlPlane,
}

impl Cluster {
    pub async fn start(assets: &Path, combination: Combination) -> Cluster {
        let which = match combination.controllers {
            Whose::Real => Controllers::Real,
            Whose::Embedded => Controllers::None,
        };
        let plane = match combination.api {
            Whose::Real => ControlPlane::start(assets, which).await,
            Whose::Embedded => unimplemented!("the embedded API server is not part of this test yet"),
        };
        let client = plane.client();
        let observer = Observer::start(client.clone()).await;
        let kubelet = Kubelet::start(client.clone(), &observer);
        kubelet.make_nodes().await;
        let running = (combination.controllers == Whose::Embedded).then(|| {
            let options = Options::new(Clock::system(), Random::new(1));
            controllers::start(client.clone(), &options)
        });
        Cluster { client, kubelet, observer, running, plane }
    }

    /// The real kubectl, pointed at this cluster.
    pub fn kubectl(&self) -> std::process::Command {
        self.plane.kubectl()
    }

    pub async fn stop(self) {
        if let Some(running) = self.running {
            running.stop().await;
        }
    }
}
