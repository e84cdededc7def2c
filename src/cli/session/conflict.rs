//! Writes that somebody else's write outran: the object is read again, and the command acts on that.

use anyhow::bail;

use crate::cli::args::target::{Act, Target};
use crate::cluster::{Cluster, ClusterError};

/// The number of tries of a command on one object: a Deployment's controller writes its status some five times a
/// rollout.
const TRIES: usize = 5;

/// Reads and acts again if the controller, the daemon or somebody else has written between reading and writing.
///
/// # Errors
/// Fails with the action's error; when the object is gone; when others write it each time.
pub(in crate::cli) async fn retry_on_conflict(
    cluster: &Cluster,
    target: &Target,
    act: impl AsyncFn(&Target) -> anyhow::Result<Act>,
) -> anyhow::Result<Act> {
    let mut target = target.clone();
    for _ in 0..TRIES {
        match act(&target).await {
            Err(error) if error.downcast_ref().is_some_and(ClusterError::is_conflict) => {
                let Some(live) = cluster.get(&target.key, &target.served).await? else {
                    bail!("{} not found", target.quoted());
                };
                target.live = live;
            }
            done => return done,
        }
    }
    bail!("{} is being changed by others all the time; try again", target.quoted())
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::{Mode, Served};
    use belay_core::manifest::ObjectKey;

    /// Returns a cluster whose one object is written by somebody else `writes` times, each time just before it is
    /// applied.
    fn contended(writes: u32) -> Cluster {
        let (mut version, mut left) = (1, writes);
        let service = tower::service_fn(move |request: Request<Body>| {
            if request.method() == Method::PATCH && left > 0 {
                (version, left) = (version + 1, left - 1);
            }
            let stored = version.to_string();
            async move {
                let (parts, body) = request.into_parts();
                let sent = body.collect().await.unwrap().to_bytes();
                let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
                let outrun = parts.method == Method::PATCH && sent["metadata"]["resourceVersion"] != stored.as_str();
                let (code, answer) = if outrun {
                    (
                        409,
                        json!({"kind": "Status", "reason": "Conflict", "code": 409, "message": "the object has been modified"}),
                    )
                } else {
                    (200, json!({"metadata": {"name": "web", "resourceVersion": stored}}))
                };
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
                )
            }
        });
        Cluster::new(kube::Client::new(service, "default"), Clock::system())
    }

    async fn apply_beside(writes: u32) -> anyhow::Result<Act> {
        let cluster = contended(writes);
        let target = Target {
            key: ObjectKey {
                group: "apps".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: Some("default".to_owned()),
                name: "web".to_owned(),
            },
            served: Served {
                group: "apps".to_owned(),
                version: "v1".to_owned(),
                kind: "Deployment".to_owned(),
                resource: "deployments".to_owned(),
                namespaced: true,
            },
            live: json!({"metadata": {"name": "web", "resourceVersion": "1"}}),
        };
        retry_on_conflict(&cluster, &target, async |target| {
            let sent = json!({"metadata": {"resourceVersion": target.live["metadata"]["resourceVersion"]}});
            let written = cluster.apply(&target.key, &target.served, &sent, Mode::Real).await?;
            Ok(Act::done(written.object, "applied"))
        })
        .await
    }

    #[tokio::test]
    async fn what_was_written_meanwhile_is_read_again() {
        let act = apply_beside(4).await.unwrap();
        assert_eq!(act.object["metadata"]["resourceVersion"], "5");
    }

    #[tokio::test]
    async fn others_who_write_each_time_are_named() {
        let error = apply_beside(100).await.unwrap_err();
        assert!(error.to_string().contains("is being changed by others all the time"), "{error}");
    }
}
