//! Requests about one object, whose answer is that object. The server of an API group may answer anything.

use serde_json::Value;

use super::call::{Answer, Purpose, Unsent};
use super::object_text::with_sound_entries;
use super::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;

impl Cluster {
    /// Sends a request about one object. An answer that is not that object is none.
    pub(super) async fn call_for(
        &self,
        purpose: Purpose<'_>,
        key: &ObjectKey,
        request: Unsent,
    ) -> Result<Answer, ClusterError> {
        let answer = self.call(purpose, request).await?;
        match is_of(&answer.value, key) {
            true => Ok(Answer { value: with_sound_entries(answer.value), ..answer }),
            false => Err(self.blame(ClusterError::away(purpose.what, format!("the answer is not {key}"))).await),
        }
    }
}

/// Returns true when a value is the object with this name, in this namespace where it names one.
fn is_of(value: &Value, key: &ObjectKey) -> bool {
    let metadata = &value["metadata"];
    let namespace = metadata["namespace"].as_str();
    let is_there = namespace.is_none() || key.namespace.is_none() || namespace == key.namespace.as_deref();
    metadata["name"] == key.name.as_str() && is_there
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::{Mode, Served};

    const WEB: &str = r#"{"kind": "A", "metadata": {"name": "web", "namespace": "shop"}}"#;

    /// Returns an API server that is ready, and answers all else so.
    fn server(answer: &str) -> Cluster {
        let answer = answer.to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let body = if request.uri().path() == "/readyz" { "ok".to_owned() } else { answer.clone() };
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        });
        Cluster::new(kube::Client::new(service, "default"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_the_object_is_none() {
        let word = str::to_owned;
        let key = ObjectKey {
            group: word("a.example.com"),
            kind: word("A"),
            namespace: Some(word("shop")),
            name: word("web"),
        };
        let (group, version) = (word("a.example.com"), word("v1"));
        let served = Served { group, version, kind: word("A"), resource: word("as"), namespaced: true };
        let body = json!({"apiVersion": "a.example.com/v1", "kind": "A", "metadata": {"name": "web"}});
        for (answer, is_it) in [
            (WEB, true),
            (r#"{"metadata": {"name": "web"}}"#, true),
            (r#"{"metadata": {"name": "api", "namespace": "shop"}}"#, false),
            (r#"{"metadata": {"name": "web", "namespace": "other"}}"#, false),
            (r#"["<html>"]"#, false),
            (r#"{"items": []}"#, false),
            (r#"{"kind": "Status", "status": "Success"}"#, false),
            ("null", false),
            ("7", false),
        ] {
            let cluster = server(answer);
            let answers = [
                cluster.get(&key, &served).await.map(|live| live.is_some()),
                cluster.apply(&key, &served, &body, Mode::DryRun).await.map(|_| true),
                cluster.apply(&key, &served, &body, Mode::Real).await.map(|_| true),
                cluster.annotate(&key, &served, None, &[("a", Some("b"))]).await.map(|_| true),
            ];
            for came in answers {
                match came {
                    Ok(there) => assert!(is_it && there, "{answer}"),
                    Err(error) => {
                        assert!(!is_it && error.is_own(), "{answer}: {error:?}");
                        assert!(error.to_string().ends_with("the answer is not A shop/web"), "{error}");
                    }
                }
            }
        }
    }
}
