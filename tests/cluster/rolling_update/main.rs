//! The rolling update of ReplicationControllers on the embedded cluster (paused time) and on the real control plane
//! (real time): the same cases, the same ends.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod cases;
mod killed;
mod stage;

use belay::clock::Clock;
use minicluster::{PodLogs, Random, kubelet};

use stage::Stage;
use support::control_plane::{self, ControlPlane, Controllers};

/// All cases one after another, each with controllers of its own.
async fn all(stage: &Stage) {
    cases::ends_under_the_old_name(stage).await;
    cases::ends_under_a_new_name(stage).await;
    cases::goes_back_half_way(stage).await;
    cases::refuses_what_is_not_there(stage).await;
    cases::refuses_another_image_half_way(stage).await;
    cases::refuses_a_file_with_the_same_selector(stage).await;
    cases::takes_a_file(stage).await;
    cases::needs_the_name_of_one_of_several_containers(stage).await;
    cases::times_out_where_pods_never_serve(stage).await;
    cases::finishes_a_renaming(stage).await;
    cases::ends_whatever_is_left(stage).await;
}

#[tokio::test(start_paused = true)]
async fn on_the_embedded_cluster() {
    let stage = Stage::embedded().await;
    all(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_write_on_the_embedded_cluster() {
    let mut stage = Stage::embedded().await;
    // As fast as the pods allow: each second of virtual time costs a look at all of them.
    stage.pace.update_period = std::time::Duration::from_secs(2);
    killed::at_every_write(&stage, 3).await;
    killed::at_every_write_of_the_way_back(&stage, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_real_control_plane() {
    let Some(assets) = control_plane::assets("rolling updates on the real control plane") else { return };
    let plane = ControlPlane::start(&assets, Controllers::Real).await;
    let logs = PodLogs::default();
    let mut options = kubelet::Options::new(Clock::system(), Random::new(1), logs);
    options.speed = 10.0;
    let nodes = kubelet::start(plane.client(), options);
    let stage = Stage::real(plane.client());
    all(&stage).await;
    killed::at_every_write(&stage, 2).await;
    nodes.stop().await;
}
