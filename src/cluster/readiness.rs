//! Asks if the API server itself is ready, by a second request that no webhook, no conversion and no aggregated server
//! guards. A request that failed says little about the server: its webhook may be away, and everything else be well.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument as _;

use super::call::{Purpose, get};
use super::{Cluster, ClusterError};

/// The time within which a server that is ready answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which an answer is believed. Thousands of requests that fail together ask once.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// The last answer, and when it came.
#[derive(Debug, Default)]
pub(super) struct Readiness(tokio::sync::Mutex<Option<(Instant, bool)>>);

impl Cluster {
    /// Asks the API server whether it is ready. One answer serves everybody who asks within a second.
    pub async fn is_ready(&self) -> bool {
        let cluster = self.clone();
        // The task is polled also while the caller waits for something else: the lock is never held by a future that stands still.
        let asking = tokio::spawn(async move { cluster.ask_whether_ready().await }.in_current_span());
        asking.await.unwrap_or_default()
    }

    async fn ask_whether_ready(&self) -> bool {
        let mut known = self.readiness.0.lock().await;
        if let Some((at, ready)) = *known
            && at.elapsed() < BELIEVED_FOR
        {
            return ready;
        }
        let ready = self.probe().await;
        *known = Some((Instant::now(), ready));
        ready
    }

    /// Says whose fault a failed request is: where the server is ready, it is about this object or kind alone.
    pub(super) async fn blame(&self, error: ClusterError) -> ClusterError {
        if error.is_outage() && Box::pin(self.is_ready()).await { error.of_ready_server() } else { error }
    }

    async fn probe(&self) -> bool {
        let purpose = Purpose { what: "ask whether the API server is ready", secret: false };
        let Ok(request) = get("/readyz").build(purpose) else { return false };
        let answer = tokio::time::timeout(PROBE_TIMEOUT, self.send(request)).await;
        // A server that does not let belay ask has answered by itself.
        answer.is_ok_and(|answer| {
            answer.is_ok_and(|answer| matches!(answer.status().as_u16(), 200..300 | 401 | 403 | 404))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::AwayCause;
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;

    /// Returns a cluster that answers a probe with one code, and everything else with another; `None` is no answer.
    /// With it the number of probes.
    fn cluster(ready: Option<u16>, other: Option<u16>) -> (Cluster, Arc<AtomicUsize>) {
        let probes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&probes);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_probe = request.uri().path() == "/readyz";
            counted.fetch_add(usize::from(is_probe), Ordering::Relaxed);
            let code = if is_probe { ready } else { other };
            async move {
                match code {
                    Some(code) => Ok::<_, kube::Error>(Response::builder().status(code).body(Body::empty()).unwrap()),
                    None => std::future::pending().await,
                }
            }
        });
        (Cluster::new(Client::new(service, "default"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH)), probes)
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_what_a_second_request_says_it_is() {
        let table = [
            (Some(200), Some(500), AwayCause::Own),
            (Some(200), Some(429), AwayCause::Own),
            (Some(200), Some(503), AwayCause::Own),
            (Some(200), None, AwayCause::Own),
            (Some(403), Some(500), AwayCause::Own),
            (Some(500), Some(500), AwayCause::Busy),
            (Some(503), Some(429), AwayCause::Busy),
            (None, Some(503), AwayCause::Busy),
            (None, None, AwayCause::Silent),
        ];
        for (ready, other, expected) in table {
            let (cluster, _) = cluster(ready, other);
            let purpose = Purpose { what: "read it", secret: false };
            let error = cluster.call(purpose, get("/api/v1/namespaces/a/configmaps/b")).await.unwrap_err();
            let ClusterError::Away { because, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*because, expected, "/readyz {ready:?}, the object {other:?}");
            let (now, second) = (cluster.clock.steady(), jiff::SignedDuration::from_secs(1));
            let is_out = cluster.outages().within(now, now + second) == second;
            let unanswered = !matches!(other, Some(code) if !(502..=504).contains(&code));
            assert_eq!(is_out, expected != AwayCause::Own && unanswered, "/readyz {ready:?}, the object {other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_fail_together_ask_once() {
        let (cluster, probes) = cluster(Some(200), Some(503));
        let purpose = Purpose { what: "read it", secret: false };
        let ask = || cluster.call(purpose, get("/api/v1/namespaces/a/configmaps/b"));
        let all = futures::future::join_all((0..100).map(|_| ask())).await;
        assert!(all.iter().all(|answer| answer.as_ref().is_err_and(ClusterError::is_own)));
        assert_eq!(probes.load(Ordering::Relaxed), 1);
        tokio::time::sleep(BELIEVED_FOR).await;
        assert!(ask().await.unwrap_err().is_own());
        assert_eq!(probes.load(Ordering::Relaxed), 2);
    }
}
