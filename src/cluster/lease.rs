//! Leases, and writing only while one is held.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use kube::api::{ApiResource, DynamicObject};
use kube::client::Body;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

use super::bounded_body::with_short_lines;
use super::call::{Purpose, get, request};
use super::error::NOT_ENTITLED;
use super::served::escape;
use super::{Backoff, Cluster, ClusterError};
use crate::clock::Clock;
use belay_core::rollout::{Lease, marks};

const API_VERSION: &str = "coordination.k8s.io/v1";
/// The most bytes of a Lease, as a list or a line of a watch has it.
const ANSWER_BYTES: usize = 1 << 20;

/// The time until which a daemon may write; `None` while it may not at all.
pub type Entitled = watch::Receiver<Option<Until>>;

/// A moment, by two clocks: tokio's, which wakes who waits for it, and the one that goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    at: Instant,
    elapsed: Duration,
}

impl Until {
    /// Returns the moment after so long from now on.
    #[must_use]
    pub fn after(wait: Duration, clock: &Clock) -> Until {
        Until { at: Instant::now() + wait, elapsed: clock.elapsed() + wait }
    }

    /// Returns true when it is still to come, by both clocks.
    fn is_to_come(self, clock: &Clock) -> bool {
        Instant::now() < self.at && clock.elapsed() < self.elapsed
    }
}

impl Cluster {
    /// Returns the same cluster, to which nothing is written, but for dry runs, unless `entitled` says that it may. A
    /// write that may not be made fails as if the cluster were away.
    #[must_use]
    pub fn writing_while(self, entitled: Entitled) -> Cluster {
        Cluster { entitled: Some(Arc::new(entitled)), ..self }
    }

    /// Returns a Lease; `None` if there is none.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Lease>, ClusterError> {
        Ok(self.lease_object(namespace, name).await?.as_ref().map(Lease::of))
    }

    /// Returns a Lease as the API server returns it; `None` if there is none.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn lease_object(&self, namespace: &str, name: &str) -> Result<Option<Value>, ClusterError> {
        let what = format!("read Lease {namespace}/{name}");
        match self.call(purpose(&what), get(&path(namespace, name))).await {
            Ok(answer) => Ok(Some(answer.value)),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an annotation of a Lease. The holder reads it again before renewing it.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn annotate_lease(
        &self,
        namespace: &str,
        name: &str,
        annotation: &str,
        text: &str,
    ) -> Result<(), ClusterError> {
        let what = format!("annotate Lease {namespace}/{name}");
        let patch = json!({"metadata": {"annotations": {(annotation): text}}}).to_string();
        let path = format!("{}?fieldManager={}", path(namespace, name), marks::FIELD_MANAGER);
        let request = request(Method::PATCH, &path, "application/merge-patch+json", patch.into_bytes());
        self.call(purpose(&what), request).await.map(|_| ())
    }

    /// Writes a Lease as it was seen, or makes it. `None` if somebody else was faster.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn write_lease(
        &self,
        namespace: &str,
        name: &str,
        seen: Option<&Lease>,
        spec: &Value,
    ) -> Result<Option<Lease>, ClusterError> {
        let what = format!("write Lease {namespace}/{name}");
        let manager = marks::FIELD_MANAGER;
        let request = match seen {
            Some(seen) => {
                let patch = json!({"metadata": {"uid": seen.uid, "resourceVersion": seen.version}, "spec": spec});
                let path = format!("{}?fieldManager={manager}", path(namespace, name));
                request(Method::PATCH, &path, "application/merge-patch+json", patch.to_string().into_bytes())
            }
            None => {
                let body = json!({"apiVersion": API_VERSION, "kind": "Lease", "spec": spec,
                    "metadata": {"name": name, "namespace": namespace}});
                let path = format!("{}?fieldManager={manager}", path(namespace, ""));
                request(Method::POST, &path, "application/json", body.to_string().into_bytes())
            }
        };
        match self.call(purpose(&what), request).await {
            Ok(answer) => Ok(Some(Lease::of(&answer.value))),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells of a Lease whenever it changes: one watch, that begins again by itself. Obstacles are reported as errors.
    pub fn watch_lease(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Stream<Item = Result<Option<Lease>, String>> + Send + use<> {
        let resource = ApiResource {
            group: "coordination.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: API_VERSION.to_owned(),
            kind: "Lease".to_owned(),
            plural: "leases".to_owned(),
        };
        let client = impatient(self.client.clone(), self.request_timeout);
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        watcher::watch_object(api, name).backoff(Backoff::default()).map(|seen| {
            let lease = |object: DynamicObject| Lease::of(&serde_json::to_value(object).unwrap_or_default());
            seen.map(|object| object.map(lease)).map_err(|error| error.to_string())
        })
    }

    /// Does an exchange with the API server for as long as this daemon is entitled to it, if it is a write that needs
    /// that: checked before every step of it, so that a daemon that was stopped or suspended in between sends nothing
    /// when it goes on.
    pub(super) async fn while_entitled<T>(
        &self,
        method: &Method,
        uri: &Uri,
        exchange: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let Some(entitled) = self.entitled.as_ref().filter(|_| is_write(method, uri)) else { return exchange.await };
        let mut entitled = Entitled::clone(entitled);
        let mut exchange = pin!(exchange);
        loop {
            let until = *entitled.borrow_and_update();
            let Some(until) = until.filter(|until| until.is_to_come(&self.clock)) else {
                return Err(NOT_ENTITLED.to_owned());
            };
            let step = poll_fn(|context| match until.is_to_come(&self.clock) {
                true => exchange.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            });
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until.at) => {}
                // Nobody is left who could renew it: it holds until it ends.
                Ok(()) = entitled.changed() => {}
                answer = step => match answer {
                    Some(answer) => return answer,
                    None => return Err(NOT_ENTITLED.to_owned()),
                },
            }
        }
    }
}

/// Returns true when a request changes anything.
fn is_write(method: &Method, uri: &Uri) -> bool {
    let tries = || uri.query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"));
    *method != Method::GET && !tries()
}

fn purpose(what: &str) -> Purpose<'_> {
    Purpose { what, secret: false }
}

fn path(namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("/{}", escape(name)) };
    format!("/apis/{API_VERSION}/namespaces/{}/leases{name}", escape(namespace))
}

/// Returns a client whose requests end: a list that is not answered in time is given up, and so is a watch that does
/// not begin. Then the watch tries again, as after any other trouble.
fn impatient(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = async {
                let response = client.send(request).await?;
                let (parts, body) = response.into_parts();
                let body = match is_watch {
                    true => with_short_lines(body, ANSWER_BYTES),
                    false => Full::from(Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes())
                        .map_err(|never| match never {})
                        .boxed_unsync(),
                };
                Ok::<_, BoxError>(Response::from_parts(parts, body))
            };
            let late = |_| BoxError::from(format!("no answer within {limit:?}"));
            tokio::time::timeout(limit, answer).await.map_err(late)?
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use std::sync::atomic::{AtomicUsize, Ordering};

    impl Cluster {
        fn until(&self, seconds: u64) -> Option<Until> {
            Some(Until::after(Duration::from_secs(seconds), &self.clock))
        }
    }

    const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/a";

    /// Returns a cluster that answers after so long, how many requests have reached it, and who says until when it may
    /// be written.
    fn cluster(takes: Duration) -> (Cluster, Arc<AtomicUsize>, watch::Sender<Option<Until>>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(takes).await;
                Ok::<_, kube::Error>(Response::new(Body::from(b"{}".to_vec())))
            }
        });
        let (entitled, may_write) = watch::channel(None);
        let cluster = Cluster::new(Client::new(service, "default"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH));
        (cluster.writing_while(may_write), count, entitled)
    }

    async fn send(cluster: &Cluster, method: Method, path: &str) -> Result<(), String> {
        let sent = cluster.call(purpose("try it"), request(method, path, "application/json", Vec::new())).await;
        sent.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Answers that the client would read for ever, and keep.
    #[tokio::test(start_paused = true)]
    async fn an_answer_about_a_lease_that_never_ends_is_given_up() {
        for endless in ["", "watch=true&"] {
            let said = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&said);
            let service = tower::service_fn(move |_: Request<Body>| {
                let counted = Arc::clone(&counted);
                let frames = futures::stream::repeat_with(move || {
                    let said = counted.fetch_add(1 << 16, Ordering::Relaxed);
                    assert!(said < 4 * ANSWER_BYTES, "it is read for ever");
                    Ok::<_, BoxError>(hyper::body::Frame::data(bytes::Bytes::from(vec![b' '; 1 << 16])))
                });
                async move { Ok::<_, BoxError>(Response::new(http_body_util::StreamBody::new(frames))) }
            });
            let client = impatient(Client::new(service, "default"), Duration::from_secs(30));
            let request = Request::get(format!("/leases?{endless}")).body(Body::empty()).unwrap();
            let broke_off = match client.send(request).await {
                Ok(answer) => answer.into_body().collect().await.is_err(),
                Err(_) => true,
            };
            assert!(broke_off, "{endless:?}");
            assert!(said.load(Ordering::Relaxed) <= ANSWER_BYTES + (2 << 16), "{endless:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_without_being_entitled_to_it() {
        let (cluster, count, entitled) = cluster(Duration::ZERO);
        for path in [CONFIG_MAP, "/api/v1/namespaces/default/configmaps/leases?fieldManager=dryRun=All"] {
            assert!(send(&cluster, Method::PATCH, path).await.unwrap_err().contains(NOT_ENTITLED), "{path}");
        }
        let lease = path("default", "one-of-the-repository");
        assert!(send(&cluster, Method::PATCH, &lease).await.is_err(), "a Lease is an object like any other");
        assert_eq!(count.load(Ordering::Relaxed), 0);
        send(&cluster, Method::GET, CONFIG_MAP).await.unwrap();
        send(&cluster, Method::PATCH, &format!("{CONFIG_MAP}?fieldManager=a&dryRun=All")).await.unwrap();
        entitled.send_replace(cluster.until(10));
        send(&cluster, Method::PATCH, CONFIG_MAP).await.unwrap();
        // As for a process that was stopped in between.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(send(&cluster, Method::PATCH, CONFIG_MAP).await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_suspended_is_not_entitled_any_more() {
        let (cluster, count, entitled) = cluster(Duration::ZERO);
        entitled.send_replace(cluster.until(15));
        // tokio's clock, which stands still meanwhile, says that there is time left.
        cluster.clock.suspend(15);
        assert!(send(&cluster, Method::PATCH, CONFIG_MAP).await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_may_take_as_long_as_the_lease_is_renewed() {
        let (cluster, _, entitled) = cluster(Duration::from_secs(20));
        entitled.send_replace(cluster.until(15));
        let renew = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            entitled.send_replace(cluster.until(15));
        };
        let (sent, ()) = tokio::join!(send(&cluster, Method::PATCH, CONFIG_MAP), renew);
        sent.unwrap();
        let began = Instant::now();
        entitled.send_replace(cluster.until(15));
        assert!(send(&cluster, Method::PATCH, CONFIG_MAP).await.unwrap_err().contains(NOT_ENTITLED));
        assert_eq!(began.elapsed().as_secs(), 15);
    }
}
