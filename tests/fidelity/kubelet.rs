//! The embedded kubelet drives the pods of the real control plane, and real kubectl shows what it expects of pods.

use std::time::Duration;

use belay::clock::Clock;
use belay::minicluster::kubelet::{self, Options, Running};
use belay::minicluster::{PodLogs, Random};

use crate::world::control_plane::{self, ControlPlane, Controllers};

/// The real control plane with three embedded nodes.
struct World {
    plane: ControlPlane,
    kubelet: Running,
}

impl World {
    async fn start(skipped: &str) -> Option<World> {
        let assets = control_plane::assets(skipped)?;
        let plane = ControlPlane::start(&assets, Controllers::Real).await;
        let options = Options::new(Clock::system(), Random::new(1), PodLogs::default());
        let kubelet = kubelet::start(plane.client(), options);
        Some(World { plane, kubelet })
    }

    /// What kubectl prints on stdout and stderr, and whether it succeeded.
    async fn kubectl(&self, command: &str) -> (String, bool) {
        let mut kubectl = tokio::process::Command::from(self.plane.kubectl());
        let output = kubectl.args(command.split_whitespace()).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).unwrap(), output.status.success())
    }

    /// kubectl's output, once it holds `expected`; panics after 30 s.
    async fn until(&self, command: &str, expected: &str) -> String {
        let mut last = String::new();
        for _ in 0..150 {
            last = self.kubectl(command).await.0;
            if last.contains(expected) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("`kubectl {command}` never said {expected:?}, but:\n{last}");
    }
}

#[tokio::test]
async fn a_deployment_becomes_available_and_goes() {
    let Some(world) = World::start("a Deployment on the embedded kubelet").await else { return };
    world.kubectl("create deployment web --image=nginx:1.27 --replicas=3").await;
    let (text, fine) = world.kubectl("rollout status deployment/web --timeout=60s").await;
    assert!(fine, "{text}");
    world.kubectl("delete deployment web").await;
    world.until("get pods", "No resources found").await;
    world.kubelet.stop().await;
}

#[tokio::test]
async fn look() {
    let Some(world) = World::start("look").await else { return };
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{}", world.kubectl("apply -f /tmp/pods.yaml").await.0);
    for _ in 0..14 {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        println!("{}", world.kubectl("get pods").await.0);
    }
    println!("{}", world.kubectl("delete pod plain init --wait=false").await.0);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        println!("{}", world.kubectl("get pods").await.0);
    }
    println!("{}", world.kubectl("get event").await.0);
    println!("{}", world.kubectl("get pod done config -o yaml").await.0);
}
