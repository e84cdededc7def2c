//! On the real API server: a first apply, beside that of a bare client, and the quiet after it.

use std::time::{Duration, Instant};

use belay::clock::Clock;
use belay::config::Span;
use futures::StreamExt as _;
use kube::Client;
use serde_json::{Value, json};

use super::line::{Apply, Line, Sent};
use super::parts::{Figures, Manifests, fill};
use super::process::{Meter, cpu, most_memory, pin};
use super::world::control_plane::{self, ControlPlane, Controllers};
use super::world::daemon::World;

/// The number of applies that the bare client has under way at once: as many as belay.
const AT_ONCE: usize = 32;
/// The number of the busy workload's pods, and of the changes of each one's status.
pub const PODS: usize = 100;
const CHANGES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

async fn plane() -> ControlPlane {
    let assets = control_plane::assets("the real control plane").unwrap();
    ControlPlane::start(&assets, Controllers::Real).await
}

/// Returns the same applies as belay's first, by a client that does nothing else.
pub async fn bare(count: usize, processors: Processors) -> Figures {
    let Apply { uri, body } = one_of_belays().await;
    let (uri, body) = (uri.as_str(), std::str::from_utf8(&body).unwrap());
    let plane = plane().await;
    let client = plane.client();
    let requests: Vec<(String, Vec<u8>)> = (1..=count)
        .map(|number| {
            let (team, name) = (format!("team-{}/", number / 10), format!("app-{number}"));
            let of_this = |text: &str| text.replace("team-0/", &team).replace("app-0", &name);
            (of_this(uri), of_this(body).into_bytes())
        })
        .collect();
    processors.share_out(&plane);
    let meter = meter(&plane);
    let begin = Instant::now();
    futures::stream::iter(requests)
        .for_each_concurrent(AT_ONCE, |(uri, body)| {
            let client = client.clone();
            async move {
                let request = http::Request::patch(uri).header("Content-Type", "application/apply-patch+yaml");
                client.request::<Value>(request.body(body).unwrap()).await.unwrap();
            }
        })
        .await;
    let end = Instant::now();
    let mut figures = vec![("seconds", (end - begin).as_secs_f64())];
    figures.extend(used(meter, begin, end));
    figures
}

/// The processors of each side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// All on all, and who does more takes them from the others.
    Shared,
    /// The last one is the client's, the others are the control plane's: that is on other machines in real life.
    Apart,
}

impl Processors {
    fn share_out(self, plane: &ControlPlane) {
        if self == Processors::Shared {
            return;
        }
        let count = std::thread::available_parallelism().unwrap().get();
        assert!(count > 1, "a machine with one processor can't give it to two");
        for (_, process) in plane.processes() {
            pin(process, &format!("0-{}", count - 2));
        }
        pin(std::process::id(), &(count - 1).to_string());
    }
}

/// The processes of the control plane that have names here.
const NAMED: [(&str, &str); 3] =
    [("etcd", "etcd_ms"), ("kube-apiserver", "server_ms"), ("kube-controller-manager", "controllers_ms")];

/// Looks at what this process uses, and the control plane.
fn meter(plane: &ControlPlane) -> Meter {
    let processes = plane.processes();
    let number = |name| processes.iter().find(|(process, _)| process == name).expect("it runs").1;
    Meter::start(&NAMED.map(|(name, _)| number(name)))
}

/// Returns the processor time that each took between two moments.
fn used(meter: Meter, begin: Instant, end: Instant) -> Vec<(&'static str, f64)> {
    let names = std::iter::once("cpu_ms").chain(NAMED.map(|(_, name)| name));
    names.zip(meter.between(begin, end)).collect()
}

/// Returns belay's apply of the first Deployment, seen on another cluster: this one's server is to be as new as belay's
/// will be.
async fn one_of_belays() -> Apply {
    let line = Line::default();
    let mut world = World::behind(|client| line.before(client)).await;
    let commit = fill(&mut world.repository, 1, Manifests::Deployments);
    world.start();
    world.through(&commit).await;
    world.stop().await;
    line.first_apply().expect("belay applied one")
}

/// belay beside a real control plane.
struct Stage {
    plane: ControlPlane,
    world: World,
    line: Line,
}

/// belay looks at its repository by itself once in `interval`.
async fn stage(interval: Duration) -> Stage {
    let plane = plane().await;
    let mut world = World::on(plane.client(), Clock::system(), None);
    let (line, client) = Line::on(plane.client());
    world.give_belay(client);
    world.config.interval = Span(interval);
    Stage { plane, world, line }
}

impl Stage {
    /// Fills a repository in a process of its own, so that what that takes is not counted as belay's memory. Returns its
    /// folder, which must live as long, and the commit.
    fn fill_aside(&mut self, count: usize, manifests: Manifests) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        other.args(["--fill", manifests.name(), &count.to_string()]).env("TMPDIR", folder.path());
        let output = other.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let (repository, commit) = said.trim().split_once('\n').unwrap();
        self.world.config.repository = repository.to_owned();
        (folder, commit.to_owned())
    }

    /// Lets belay apply all of it, until all is complete and recorded.
    async fn apply(&mut self, count: usize, manifests: Manifests, processors: Processors) -> Figures {
        let (_folder, commit) = self.fill_aside(count, manifests);
        processors.share_out(&self.plane);
        let meter = meter(&self.plane);
        let begin = Instant::now();
        self.world.start();
        self.world.through(&commit).await;
        let settled = begin.elapsed().as_secs_f64();
        let sent = self.line.take();
        let applied: Vec<&Sent> = sent.iter().filter(|sent| sent.is_apply()).collect();
        assert!(applied.len() >= count, "each is applied: {} of {count}", applied.len());
        let first = applied.iter().map(|sent| sent.at).min().expect("an apply");
        let last = applied.iter().map(|sent| sent.at + sent.took).max().expect("an apply");
        let mut figures = vec![
            ("before", (first - begin).as_secs_f64()),
            ("seconds", (last - begin).as_secs_f64()),
            ("settled", settled),
            ("requests", sent.iter().filter(|sent| !sent.is_watch() && !sent.is_event()).count() as f64),
            ("mebibytes", most_memory()),
        ];
        figures.extend(used(meter, begin, last));
        figures
    }
}

/// belay's first apply.
pub async fn first(count: usize, manifests: Manifests, processors: Processors) -> Figures {
    let mut stage = stage(Duration::from_secs(600)).await;
    let figures = stage.apply(count, manifests, processors).await;
    stage.world.stop().await;
    figures
}

/// A minute of nothing to do, and a minute of changes of pods.
pub async fn idle(count: usize) -> Figures {
    let mut stage = stage(Duration::from_secs(60)).await;
    let kubelet = tokio::spawn(make_ready(stage.plane.client()));
    stage.apply(count, Manifests::OneOfThemBusy, Processors::Shared).await;
    kubelet.abort();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let asked = |line: &Line| line.take().iter().filter(|sent| !sent.is_watch() && !sent.is_of_a_lease()).count();
    asked(&stage.line);
    let (before, silent) = (cpu(), stage.line.heard());
    tokio::time::sleep(MINUTE).await;
    let (used, requests) = (cpu() - before, asked(&stage.line));
    let (heard, begin) = (stage.line.heard(), Instant::now());
    // The bytes of a minute without changes: leases, bookmarks.
    let anyway = heard - silent;
    let changed = change_pods(&stage.plane.client()).await;
    tokio::time::sleep(MINUTE.saturating_sub(begin.elapsed())).await;
    let figures = vec![
        ("requests", requests as f64),
        ("cpu_ms", used),
        ("changes", changed as f64),
        ("requests_of_changes", asked(&stage.line) as f64),
        ("bytes_of_changes", stage.line.heard().saturating_sub(heard + anyway) as f64),
    ];
    stage.world.stop().await;
    figures
}

/// In the kubelet's place: every pod becomes ready.
async fn make_ready(client: Client) {
    loop {
        for pod in pods(&client).await {
            if pod["status"]["phase"] != "Running" {
                set_status(&client, &pod, 0).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Changes the status of every pod, several times: its container has ended and runs again. Returns how many changes
/// there were.
async fn change_pods(client: &Client) -> usize {
    let pods = pods(client).await;
    for restarts in 1..=CHANGES {
        for pod in &pods {
            set_status(client, pod, restarts).await;
        }
    }
    pods.len() * CHANGES
}

async fn pods(client: &Client) -> Vec<Value> {
    let list = http::Request::get("/api/v1/namespaces/default/pods").body(Vec::new()).unwrap();
    let mut list: Value = client.request(list).await.unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

async fn set_status(client: &Client, pod: &Value, restarts: usize) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let since = "2026-01-01T00:00:00Z";
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        "containerStatuses": [{
            "name": "app", "image": "web:1", "imageID": "web:1", "ready": true, "restartCount": restarts,
            "state": {"running": {"startedAt": since}},
        }],
    }});
    let path = format!("/api/v1/namespaces/default/pods/{name}/status?fieldManager=kubelet");
    let patch = http::Request::patch(path).header("Content-Type", "application/merge-patch+json");
    client.request::<Value>(patch.body(status.to_string().into_bytes()).unwrap()).await.unwrap();
}
