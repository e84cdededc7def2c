//! belay's line to the cluster, with everything that went over it written down.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;

/// One request.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    /// The time until the answer's beginning; nothing while there is none.
    pub took: Duration,
    pub method: String,
    pub uri: String,
}

impl Sent {
    pub fn is_watch(&self) -> bool {
        self.uri.contains("watch=true")
    }

    /// Returns true when it sends an Event, which is beside the work.
    pub fn is_event(&self) -> bool {
        self.uri.contains("/events")
    }

    /// Returns true when it reads or renews a Lease, as a daemon with nothing to do does.
    pub fn is_of_a_lease(&self) -> bool {
        self.uri.contains("/leases")
    }

    pub fn is_list(&self) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        self.method == "GET" && !self.is_watch() && path.rsplit('/').next().is_some_and(|last| last.ends_with('s'))
    }

    /// Returns true when it applies an object in earnest; the daemon's own Lease is none of them.
    pub fn is_apply(&self) -> bool {
        self.is_write() && self.method == "PATCH" && !self.uri.contains("/leases/")
    }

    pub fn is_write(&self) -> bool {
        self.method != "GET" && !self.uri.contains("dryRun=All")
    }
}

/// The requests over the line since it was asked last.
#[derive(Clone, Default)]
pub struct Line {
    sent: Arc<Mutex<Vec<Sent>>>,
    heard: Arc<AtomicUsize>,
    apply: Arc<Mutex<Option<Apply>>>,
}

/// One apply, as it was sent.
#[derive(Clone, Debug)]
pub struct Apply {
    pub uri: String,
    pub body: Bytes,
}

impl Line {
    /// Returns a client whose requests are written down.
    pub fn on(client: kube::Client) -> (Line, kube::Client) {
        let line = Line::default();
        let client = line.before(client);
        (line, client)
    }

    /// Another client whose requests are written down here.
    pub fn before(&self, client: kube::Client) -> kube::Client {
        let (own, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let at = Instant::now();
            let (method, uri) = (request.method().to_string(), request.uri().to_string());
            own.sent.lock().unwrap().push(Sent { at, took: Duration::ZERO, method, uri });
            let (client, own) = (client.clone(), own.clone());
            async move {
                let request = own.look_at(request).await?;
                let answer = client.send(request).await;
                if let Some(sent) = own.sent.lock().unwrap().iter_mut().rev().find(|sent| sent.at == at) {
                    sent.took = at.elapsed();
                }
                answer.map(|answer| answer.map(|body| own.listen(body)))
            }
        });
        kube::Client::new(service, namespace)
    }

    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// Returns how many bytes have come as answers, those of watches among them.
    pub fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }

    /// Returns the first apply in earnest.
    pub fn first_apply(&self) -> Option<Apply> {
        self.apply.lock().unwrap().clone()
    }

    async fn look_at(&self, request: http::Request<Body>) -> Result<http::Request<Body>, kube::Error> {
        let tries = request.uri().query().is_some_and(|query| query.contains("dryRun="));
        if request.method() != http::Method::PATCH || tries || self.first_apply().is_some() {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        *self.apply.lock().unwrap() = Some(Apply { uri: head.uri.to_string(), body: body.clone() });
        Ok(http::Request::from_parts(head, Body::from(body)))
    }

    fn listen(
        &self,
        body: Body,
    ) -> impl http_body::Body<Data = Bytes, Error = <Body as http_body::Body>::Error> + use<> {
        let heard = Arc::clone(&self.heard);
        body.map_frame(move |frame| {
            heard.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
            frame
        })
    }

    /// Requests that are part of the work: no watches, no events.
    pub fn take_work(&self) -> Vec<Sent> {
        self.take().into_iter().filter(|sent| !sent.is_watch() && !sent.is_event()).collect()
    }
}
