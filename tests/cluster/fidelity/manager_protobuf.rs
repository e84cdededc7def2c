//! The real kube-controller-manager on the embedded API server, speaking protocol buffers, as it does where nobody tells
//! it otherwise: it rolls workloads out. Real time: it is a real process.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use minicluster::{Access, Authority, MiniCluster, Part, Token, Transport, User};
use serde_json::{Value, json};

use crate::support::control_plane::{self, ControllerManager, Manager};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The longest time of a rollout.
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_controllers_roll_out_over_protocol_buffers() {
    let Some(assets) = control_plane::assets("kube-controller-manager over protocol buffers") else { return };
    let token = Token { token: "admin".to_owned(), user: User::admin() };
    let access = Access { tokens: vec![token], ..Access::default() };
    let cluster = MiniCluster::builder().access(access).without(Part::Controllers).speed(10.0).start().await.unwrap();
    let authority = Authority::new().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = cluster.listen(address, Transport::Tls(authority.clone())).await.unwrap();
    let how = Manager { media_type: PROTOBUF, ..Manager::JSON };
    let _manager = ControllerManager::start(&assets, &server.kubeconfig(Some("admin")), &authority.certificate(), how);

    let web: Api<Deployment> = Api::default_namespaced(cluster.client());
    web.create(&PostParams::default(), &read(workload("Deployment"))).await.unwrap();
    let db: Api<StatefulSet> = Api::default_namespaced(cluster.client());
    db.create(&PostParams::default(), &read(workload("StatefulSet"))).await.unwrap();
    Box::pin(rolled_out(&web, &db)).await;

    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "app:2" }] } } } });
    let patch = Patch::Strategic(patch);
    web.patch("app", &PatchParams::default(), &patch).await.unwrap();
    db.patch("app", &PatchParams::default(), &patch).await.unwrap();
    Box::pin(rolled_out(&web, &db)).await;

    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    let sets = sets.list(&ListParams::default()).await.unwrap();
    let mut sizes: Vec<_> = sets.iter().map(|set| set.spec.replicas).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [Some(0), Some(3)]);
    cluster.stop().await;
}

/// Waits until both have all their pods, of the present version.
async fn rolled_out(web: &Api<Deployment>, db: &Api<StatefulSet>) {
    let of_web = await_condition(web.clone(), "app", |web: Option<&Deployment>| {
        let status = web.and_then(|web| web.status.as_ref());
        web.is_some_and(|web| status.is_some_and(|status| status.observed_generation == web.metadata.generation))
            && status.is_some_and(|status| {
                [status.replicas, status.updated_replicas, status.available_replicas] == [Some(3); 3]
            })
    });
    let of_db = await_condition(db.clone(), "app", |db: Option<&StatefulSet>| {
        let status = db.and_then(|db| db.status.as_ref());
        db.is_some_and(|db| status.is_some_and(|status| status.observed_generation == db.metadata.generation))
            && status.is_some_and(|status| {
                status.current_revision == status.update_revision && status.available_replicas == Some(3)
            })
    });
    let both = async { tokio::join!(of_web, of_db) };
    let (web, db) = Box::pin(tokio::time::timeout(ROLLOUT_TIMEOUT, both)).await.expect("both are rolled out in time");
    web.unwrap();
    db.unwrap();
}

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn workload(kind: &str) -> Value {
    let labels = json!({ "app": kind.to_lowercase() });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "app" },
        "spec": {
            "replicas": 3, "serviceName": "app", "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
            },
        },
    })
}
