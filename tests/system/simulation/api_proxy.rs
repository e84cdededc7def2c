//! The line between belay and the API server: every request and its answer is written down, the weather disturbs them, a
//! trap kills, and a planted bug may twist them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use minicluster::Random;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bugs::Bug;
use super::events::{Actor, Kill};
use super::fault_rates::{FaultRates, Fortune};
use super::findings::{
    after, hold, is_crashing, is_unwell, is_workload, key_of_path, path_of, pod_template, template, version,
};
use super::history_rows::{HistoryRows, Open, RecordOutcome, verdicts};
use super::run::WatchReport;
use super::watching;
use crate::support::daemon::EPOCH;

/// The reason for which a request failed.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

/// The template of a workload, if a pod of it crashes again and again, and the number of its pods by their template.
type PodsAtWrite = (Option<(String, String)>, BTreeMap<(String, String), usize>);

/// An answer as it comes over the line.
pub type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// A request, and what became of it. Times are milliseconds from the start.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The process that made it.
    pub process: usize,
    pub begun: u64,
    /// When it heard the answer.
    pub heard: Option<u64>,
    /// When it gave up waiting.
    pub given_up: Option<u64>,
    pub method: String,
    /// The path, with the text behind the question mark.
    pub path: String,
    pub media: String,
    pub body: Value,
    pub fortune: Fortune,
    /// The code that it heard.
    pub code: Option<u16>,
    /// The server's action: the code, and the answer.
    pub done: Option<(u16, Value)>,
    /// For a write: the open records of its object in belay's own books when it was made.
    pub open: Vec<Open>,
    /// For a write: the verdicts in belay's own books when it was made.
    pub verdicts: Vec<RecordOutcome>,
    /// For an apply that says what it comes after: the open records of that.
    pub ahead: Vec<Open>,
    /// For an apply of a workload: its template until then, if a pod of it crashes again and again.
    pub crashing: Option<(String, String)>,
    /// For an apply of a workload: its pods until then that are not being deleted, by their template.
    pub pods: BTreeMap<(String, String), usize>,
}

/// The line. Cheap to clone.
#[derive(Clone)]
pub struct ApiProxy {
    server: kube::Client,
    random: Random,
    started: Instant,
    bug: Option<Bug>,
    state: Arc<Mutex<State>>,
    sky: Arc<Sky>,
    /// Told when the trap springs.
    sprung: Arc<Notify>,
}

/// The weather, how often it has turned, and who waits for that: woken in the order in which they came.
struct Sky {
    now: Mutex<(u64, FaultRates)>,
    turned: Notify,
}

#[derive(Default)]
struct State {
    log: Vec<Exchange>,
    heard: Vec<WatchReport>,
    trap: Option<(u64, Done)>,
    /// The objects that a webhook or a quota refuses, by path.
    refused: BTreeMap<String, Actor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Before,
    After,
}

/// One belay process on the line.
#[derive(Clone)]
pub struct Process {
    pub number: usize,
    pub state: PathBuf,
    /// Cancelled when it is dead: nothing of it goes out any more.
    pub dead: CancellationToken,
}

impl ApiProxy {
    /// Returns a line to a server, in fair weather.
    pub fn new(server: kube::Client, random: Random, bug: Option<Bug>, sprung: Arc<Notify>) -> ApiProxy {
        let sky = Arc::new(Sky { now: Mutex::new((0, FaultRates::fair())), turned: Notify::new() });
        ApiProxy { server, random, started: Instant::now(), bug, state: Arc::default(), sky, sprung }
    }

    /// Returns the client of a process.
    pub fn client(&self, process: &Process) -> kube::Client {
        let (line, process) = (self.clone(), process.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (line, process) = (line.clone(), process.clone());
            async move { line.carry(&process, request).await }
        });
        kube::Client::new(service, "default")
    }

    /// Sets the trap, or takes it away.
    pub fn trap(&self, kill: Option<Kill>) {
        self.state.lock().unwrap().trap = match kill {
            Some(Kill::BeforeRequest(count)) => Some((count, Done::Before)),
            Some(Kill::AfterRequest(count)) => Some((count, Done::After)),
            _ => None,
        };
    }

    /// A webhook or a quota refuses an object, or nothing does any more.
    pub fn refuse(&self, path: &str, by: Option<Actor>) {
        let mut state = self.state.lock().unwrap();
        match by {
            Some(by) => state.refused.insert(path.to_owned(), by),
            None => state.refused.remove(path),
        };
        if let Some(bug) = &self.bug {
            bug.sees_webhooks(state.refused.values().any(|by| *by == Actor::Webhook));
        }
    }

    /// The answer of whoever refuses an object. There is room in a quota for what was there before.
    fn refusal_of(&self, parts: &http::request::Parts, body: &Bytes) -> Option<(u16, Bytes)> {
        if parts.method != http::Method::PATCH {
            return None;
        }
        let path = parts.uri.path();
        let by = self.state.lock().unwrap().refused.get(path).copied();
        let goes_back = hold(&serde_json::from_slice(body).unwrap_or_default()).is_some();
        let for_good = self.bug.as_ref().is_some_and(|bug| bug.is_refused_for_good(path));
        match by {
            Some(Actor::Quota) if goes_back => None,
            None if !for_good || goes_back => None,
            Some(Actor::Webhook | Actor::Controller) => Some(webhook_failure()),
            Some(Actor::Quota) | None => {
                if let Some(bug) = &self.bug {
                    bug.is_refused_by_quota(path);
                }
                Some(quota_refusal(path))
            }
        }
    }

    /// A bug writes again at once what somebody else has changed.
    pub async fn fight(&self, process: &Process, path: &str) {
        let Some((uri, bytes)) = self.bug.as_ref().and_then(|bug| bug.fights(path)) else { return };
        let request = Request::patch(uri).header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
        let request = request.body(Body::from(bytes)).expect("a request");
        drop(self.carry(process, request).await);
    }

    /// Returns everything that went over the line, watches left out.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Returns everything that watches told of workloads.
    pub fn take_heard(&self) -> Vec<WatchReport> {
        std::mem::take(&mut self.state.lock().unwrap().heard)
    }

    /// Notes what a line of a watch tells a process of a workload.
    pub fn hears(&self, process: &Process, path: &str, line: &[u8]) {
        if !path.starts_with("/apis/apps/v1/") {
            return;
        }
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let live = &event["object"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&live["kind"]), text(&live["metadata"]["name"]));
        if is_workload(&key) {
            let (at, process) = (self.now(), process.number);
            let heard = WatchReport { process, at, key, version: version(live), is_unwell: is_unwell(live) };
            self.state.lock().unwrap().heard.push(heard);
        }
    }

    /// Milliseconds from the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the weather now.
    pub fn weather(&self) -> FaultRates {
        self.sky.now.lock().unwrap().1
    }

    /// Returns how often the weather has turned.
    pub fn turns(&self) -> u64 {
        self.sky.now.lock().unwrap().0
    }

    /// Turns the weather.
    pub fn turn(&self, weather: FaultRates) {
        let mut now = self.sky.now.lock().unwrap();
        *now = (now.0 + 1, weather);
        self.sky.turned.notify_waiters();
    }

    /// Waits until the weather has turned more often than this.
    pub async fn turned(&self, turns: u64) {
        loop {
            let turned = self.sky.turned.notified();
            if self.turns() > turns {
                return;
            }
            turned.await;
        }
    }

    async fn carry(&self, process: &Process, request: Request<Body>) -> Result<Answer, Broken> {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            return watching::carry(self, process, request).await;
        }
        let (parts, body) = request.into_parts();
        let mut bytes = body.collect().await?.to_bytes();
        let mut parts = parts;
        if let Some(bug) = &self.bug {
            bug.twist_request(&mut parts, &mut bytes);
        }
        if let Some(bug) = &self.bug {
            tokio::time::sleep(bug.delay(&parts.uri.to_string(), &bytes)).await;
        }
        let (number, trap) = self.begin(process, &parts, &bytes);
        let fortune = self.state.lock().unwrap().log[number].fortune;
        let _guard = Waiting { line: self, number };
        if trap == Some(Done::Before) {
            self.sprung.notify_one();
            return std::future::pending().await;
        }
        self.travel(process).await;
        let (crashing, pods) = self.pods_at(&parts).await?;
        {
            let exchange = &mut self.state.lock().unwrap().log[number];
            (exchange.crashing, exchange.pods) = (crashing, pods);
        }
        match fortune {
            Fortune::Fails(code) => return self.answer(process, number, refusal(code, None)).await,
            Fortune::Busy(seconds) => {
                let told = self.bug.as_ref().map_or(Some(seconds), |bug| bug.heeds(seconds));
                return self.answer(process, number, refusal(429, told)).await;
            }
            Fortune::Silent(false) => return std::future::pending().await,
            Fortune::Broken(false) => return Err("connection refused".into()),
            _ => {}
        }
        if let Some(refusal) = self.refusal_of(&parts, &bytes) {
            return self.answer(process, number, refusal).await;
        }
        let (code, answer) = self.send(process, parts, bytes).await?;
        self.state.lock().unwrap().log[number].done = Some((code, serde_json::from_slice(&answer).unwrap_or_default()));
        if trap == Some(Done::After) {
            self.sprung.notify_one();
            return std::future::pending().await;
        }
        match fortune {
            Fortune::Silent(_) => std::future::pending().await,
            Fortune::Broken(_) => Err("connection reset by peer".into()),
            Fortune::Cut => {
                let half = answer.slice(..answer.len() / 2);
                self.answer(process, number, (code, half)).await
            }
            _ => self.answer(process, number, (code, answer)).await,
        }
    }

    /// Does a request, and what a bug adds to it.
    async fn send(&self, process: &Process, parts: http::request::Parts, bytes: Bytes) -> Result<(u16, Bytes), Broken> {
        let path = parts.uri.to_string();
        let extra = self.bug.as_ref().map(|bug| bug.extra(&parts, &bytes)).unwrap_or_default();
        let (code, mut answer) = self.exchange(parts, bytes).await?;
        for (parts, bytes) in extra {
            let (number, _) = self.begin(process, &parts, &bytes);
            let (code, answer) = self.exchange(parts, bytes).await?;
            let answer = serde_json::from_slice(&answer).unwrap_or_default();
            let mut state = self.state.lock().unwrap();
            let exchange = &mut state.log[number];
            (exchange.done, exchange.code, exchange.heard) = (Some((code, answer)), Some(code), Some(exchange.begun));
        }
        if let Some(bug) = &self.bug {
            bug.twist_answer(&path, &mut answer, &self.weather());
        }
        Ok((code, answer))
    }

    /// Returns the template of the workload that a request writes, if a pod of it crashes again and again; and the number of its
    /// pods by their template.
    async fn pods_at(&self, parts: &http::request::Parts) -> Result<PodsAtWrite, Broken> {
        let path = parts.uri.to_string();
        let key = key_of_path(&path).filter(|key| is_workload(key) && parts.method == http::Method::PATCH);
        let Some(key) = key.filter(|_| !path.contains("dryRun=All")) else { return Ok(PodsAtWrite::default()) };
        let Some(present) = template(&self.read(&path_of(&key)).await?) else { return Ok(PodsAtWrite::default()) };
        let pods = self.read(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{}", key.1)).await?;
        let now = EPOCH.parse::<Timestamp>()? + SignedDuration::try_from(self.started.elapsed())?;
        let pods = || pods["items"].as_array().into_iter().flatten();
        let of_it = |pod: &&Value| pod_template(pod).as_ref() == Some(&present);
        let crashes = pods().filter(of_it).any(|pod| is_crashing(pod, now));
        let mut count = BTreeMap::new();
        for pod in pods().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()) {
            *count.entry(pod_template(pod).unwrap_or_default()).or_default() += 1;
        }
        Ok((crashes.then_some(present), count))
    }

    /// Returns an object or a list, as the server has it.
    async fn read(&self, path: &str) -> Result<Value, Broken> {
        let response = self.server.send(Request::get(path).body(Body::empty())?).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes()).unwrap_or_default())
    }

    async fn exchange(&self, parts: http::request::Parts, bytes: Bytes) -> Result<(u16, Bytes), Broken> {
        let response = self.server.send(Request::from_parts(parts, Body::from(bytes))).await?;
        let code = response.status().as_u16();
        Ok((code, response.into_body().collect().await?.to_bytes()))
    }

    /// Passes on what came over a watch, as a planted bug would see it.
    pub fn twisted(&self, path: &str, line: Bytes) -> Bytes {
        match &self.bug {
            Some(bug) => bug.twist_event(path, line, &self.weather()),
            None => line,
        }
    }

    /// Returns the server itself.
    pub fn server(&self) -> &kube::Client {
        &self.server
    }

    /// Returns the source of chance.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// One way takes its time; nothing of a dead process arrives.
    pub async fn travel(&self, process: &Process) {
        tokio::time::sleep(self.weather().delay(&self.random)).await;
        if process.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    fn begin(&self, process: &Process, parts: &http::request::Parts, bytes: &Bytes) -> (usize, Option<Done>) {
        let (method, path) = (parts.method.to_string(), parts.uri.to_string());
        let media = parts.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_write = method != "GET" && !path.contains("dryRun=All");
        let key = key_of_path(&path).filter(|_| is_write);
        let open = key.as_ref().map(|key| books_of(&process.state, key)).unwrap_or_default();
        let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let verdicts = if is_write { verdicts(&process.state) } else { Vec::new() };
        let ahead = key.and_then(|_| after(&body)).map(|key| books_of(&process.state, &key)).unwrap_or_default();
        let exchange = Exchange {
            process: process.number,
            begun: self.now(),
            heard: None,
            given_up: None,
            media: media.unwrap_or_default().to_owned(),
            body,
            fortune: self.weather().fortune(&self.random, method != "GET"),
            method,
            path,
            code: None,
            done: None,
            open,
            verdicts,
            ahead,
            crashing: None,
            pods: BTreeMap::new(),
        };
        let mut state = self.state.lock().unwrap();
        state.log.push(exchange);
        let number = state.log.len() - 1;
        let trap = match state.trap {
            Some((0, done)) => {
                state.trap = None;
                Some(done)
            }
            Some((left, done)) => {
                state.trap = Some((left - 1, done));
                None
            }
            None => None,
        };
        (number, trap)
    }

    async fn answer(&self, process: &Process, number: usize, (code, answer): (u16, Bytes)) -> Result<Answer, Broken> {
        self.travel(process).await;
        let mut state = self.state.lock().unwrap();
        let now = self.now();
        let exchange = &mut state.log[number];
        (exchange.heard, exchange.code) = (Some(now), Some(code));
        let response = Response::builder().status(code).header("Content-Type", "application/json");
        Ok(response.body(whole(answer))?)
    }
}

/// Notes when a request is given up.
struct Waiting<'a> {
    line: &'a ApiProxy,
    number: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.line.now();
        if let Some(exchange) = self.line.state.lock().unwrap().log.get_mut(self.number)
            && exchange.heard.is_none()
        {
            exchange.given_up = Some(now);
        }
    }
}

fn books_of(state: &Path, key: &super::repository::Key) -> Vec<Open> {
    HistoryRows::open_records(state, key)
}

/// Returns a body that comes at once.
pub fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, Broken> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns the answer where a webhook does not.
fn webhook_failure() -> (u16, Bytes) {
    let message = "Internal error occurred: failed calling webhook \"check.example.com\": failed to call webhook: Post \
                   \"https://check.default.svc:443/check?timeout=10s\": dial tcp 10.0.0.7:443: connect: connection refused";
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "reason": "InternalError", "message": message});
    (500, Bytes::from(status.to_string()))
}

/// Returns the answer of an API server whose quota is used up.
fn quota_refusal(path: &str) -> (u16, Bytes) {
    let mut words = path.rsplit('/');
    let (name, resource) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let message = format!(
        "{resource}.apps \"{name}\" is forbidden: exceeded quota: compute, requested: requests.cpu=2, used: requests.cpu=9, \
         limited: requests.cpu=10"
    );
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": message, "details": {"name": name, "group": "apps", "kind": resource}});
    (403, Bytes::from(status.to_string()))
}

/// Returns a refusal by the server.
pub fn refusal(code: u16, seconds: Option<u64>) -> (u16, Bytes) {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let message = match code {
        409 => {
            "Operation cannot be fulfilled on this object: the object has been modified; please apply your changes to \
                the latest version and try again"
        }
        410 => "too old resource version",
        _ => "the server is currently unable to handle the request",
    };
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message});
    if let Some(seconds) = seconds {
        status["details"] = json!({ "retryAfterSeconds": seconds });
    }
    (code, Bytes::from(status.to_string()))
}
