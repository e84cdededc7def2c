//! A tap on the line between belay and the cluster: counts what goes through, and cuts or disturbs it where a test says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body::Body as _;
use kube::client::Body;
use tokio::sync::Notify;

/// The treatment of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes through.
    Pass,
    /// The server answers with this code instead of doing it.
    Fail(u16),
    /// The server refuses it as invalid, in words that have another number each time.
    Refuse,
    /// The server refuses it with this code, in words that are others each time.
    RefuseInOtherWords(u16),
    /// It goes through after this time.
    After(Duration),
    /// The server answers with the object as it is, and with 200, and does nothing.
    Claim,
    /// No answer ever comes, and nothing is done.
    Swallow,
    /// The process dies before the server sees it.
    DieBefore,
    /// The server does it, and the process dies before it hears of that.
    DieAfter,
}

/// One request that went by, watches left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Went {
    pub method: String,
    pub path: String,
    /// Bytes of its body.
    pub sent: u64,
    /// Bytes of the answer's body, if its length is known; 0 while there is none.
    pub received: u64,
}

impl Went {
    /// Returns true when it changes anything.
    pub fn is_write(&self) -> bool {
        self.method != "GET" && !self.path.contains("dryRun=All")
    }

    /// Returns true when it writes something else than belay's own Lease and Kubernetes' Events.
    pub fn changes_an_object(&self) -> bool {
        self.is_write() && !self.renews_a_lease() && !self.path.contains("/events")
    }

    /// Returns true when it is about a Lease that there is.
    pub fn renews_a_lease(&self) -> bool {
        self.path.contains("/leases/")
    }
}

type Rule = Box<dyn FnMut(&Went, usize) -> Fate + Send>;

/// A tap.
#[derive(Clone)]
pub struct Tap {
    log: Arc<Mutex<Vec<Went>>>,
    rule: Arc<Mutex<Rule>>,
    died: Arc<Notify>,
    /// True when watches that begin are answered with 503.
    no_watches: Arc<AtomicBool>,
}

impl Tap {
    /// Returns a tap on `client`'s line, and the client that is to be used from here on.
    pub fn on(client: kube::Client) -> (Tap, kube::Client) {
        let rule: Rule = Box::new(|_, _| Fate::Pass);
        let rule = Arc::new(Mutex::new(rule));
        let tap = Tap { log: Arc::default(), rule, died: Arc::default(), no_watches: Arc::default() };
        let (own, namespace) = (tap.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (tap, client) = (own.clone(), client.clone());
            async move { tap.carry(client, request).await }
        });
        (tap, kube::Client::new(service, namespace))
    }

    /// Sets the treatment of each request from here on: the rule gets the request, and how many came before it since.
    pub fn rule(&self, mut rule: impl FnMut(&Went, usize) -> Fate + Send + 'static) {
        let mut count = 0;
        *self.rule.lock().unwrap() = Box::new(move |went, _| {
            count += 1;
            rule(went, count - 1)
        });
    }

    /// Sets if watches that begin from here on are refused. Those that are under way go on until their time is over.
    pub fn refuse_watches(&self, refuse: bool) {
        self.no_watches.store(refuse, Ordering::Relaxed);
    }

    /// Returns everything that went by since the last call, watches left out.
    pub fn take(&self) -> Vec<Went> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Waits until a request dies.
    pub async fn died(&self) {
        self.died.notified().await;
    }

    async fn carry(
        &self,
        client: kube::Client,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, kube::Error> {
        let (method, path) = (request.method().to_string(), request.uri().to_string());
        let sent = request.body().size_hint().lower();
        let went = Went { method, path, sent, received: 0 };
        if went.path.contains("watch=true") {
            return match self.no_watches.load(Ordering::Relaxed) {
                true => Ok(refusal(503)),
                false => client.send(request).await,
            };
        }
        let number = {
            let mut log = self.log.lock().unwrap();
            log.push(went.clone());
            log.len() - 1
        };
        let fate = (self.rule.lock().unwrap())(&went, 0);
        if let Fate::After(time) = fate {
            tokio::time::sleep(time).await;
        }
        match fate {
            Fate::Pass | Fate::After(_) => {
                let answer = client.send(request).await;
                let received = answer.as_ref().map_or(0, |answer| answer.body().size_hint().lower());
                // It may have been taken meanwhile.
                if let Some(logged) = self.log.lock().unwrap().get_mut(number).filter(|logged| logged.path == went.path)
                {
                    logged.received = received;
                }
                answer
            }
            Fate::Claim => {
                let path = went.path.split_once('?').map_or(went.path.as_str(), |(path, _)| path);
                client.send(http::Request::get(path).body(Body::empty()).expect("a request")).await
            }
            Fate::Fail(code) => Ok(refusal(code)),
            Fate::Refuse => Ok(answer(422, "Invalid", &format!("refused by the test, request id-{number}-{number}"))),
            Fate::RefuseInOtherWords(code) => {
                let letters: String = number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
                let reason = if code == 403 { "Forbidden" } else { "Invalid" };
                Ok(answer(code, reason, &format!("refused by the test because of {letters}")))
            }
            Fate::Swallow => std::future::pending().await,
            Fate::DieBefore => {
                self.died.notify_one();
                std::future::pending().await
            }
            Fate::DieAfter => {
                drop(client.send(request).await);
                self.died.notify_one();
                std::future::pending().await
            }
        }
    }
}

fn refusal(code: u16) -> http::Response<Body> {
    let (reason, message) = match code {
        429 => ("TooManyRequests", "disturbed by the test"),
        409 => ("Conflict", "Operation cannot be fulfilled: the object has been modified; disturbed by the test"),
        403 => ("Forbidden", "User \"belay\" cannot do this; disturbed by the test"),
        _ => ("InternalError", "disturbed by the test"),
    };
    answer(code, reason, message)
}

fn answer(code: u16, reason: &str, message: &str) -> http::Response<Body> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message});
    http::Response::builder()
        .status(code)
        .header("Content-Type", "application/json")
        .body(Body::from(status.to_string().into_bytes()))
        .expect("a response")
}
