//! The measurements themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belay::clock::Clock;
use belay::config::Span;
use futures::StreamExt as _;
use kube::Client;
use minicluster::{MiniCluster, NodeSpec};

use super::applies::{PODS, Processors, bare, first, idle};
use super::line::{Line, Sent};
use super::said::Said;
use super::world::daemon::{World, deployment};
use super::world::repository::Repository;

/// The number of commits that are measured; the median counts.
const COMMITS: usize = 11;

pub fn measure(part: &str, size: usize) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let measured = runtime.block_on(async {
        match part {
            "commit" => commit(size).await,
            "rollback" => rollback(size).await,
            "bare" => bare(size, Processors::Shared).await,
            "bare-apart" => bare(size, Processors::Apart).await,
            "first" => first(size, Manifests::Deployments, Processors::Shared).await,
            "first-apart" => first(size, Manifests::Deployments, Processors::Apart).await,
            "mixed" => first(size, Manifests::Mixed, Processors::Shared).await,
            "idle" => idle(size).await,
            other => panic!("no part {other}"),
        }
    });
    for (name, value) in measured {
        println!("= {name} {value}");
    }
    // Work that is still under way in the background ends with the process.
    runtime.shutdown_background();
}

pub type Figures = Vec<(&'static str, f64)>;

/// The content of a repository.
#[derive(Clone, Copy, Debug)]
pub enum Manifests {
    /// Deployments without pods.
    Deployments,
    /// The same, but for one with pods.
    OneOfThemBusy,
    /// Objects of several kinds.
    Mixed,
}

impl Manifests {
    const ALL: [Manifests; 3] = [Manifests::Deployments, Manifests::OneOfThemBusy, Manifests::Mixed];

    pub fn name(self) -> &'static str {
        match self {
            Manifests::Deployments => "deployments",
            Manifests::OneOfThemBusy => "one-busy",
            Manifests::Mixed => "mixed",
        }
    }

    /// Returns the path and the text of one of them.
    fn one(self, number: usize) -> (String, String) {
        match self {
            Manifests::OneOfThemBusy if number == 0 => {
                let replicas = format!("replicas: {PODS}");
                ("busy.yaml".to_owned(), deployment("busy", "web:1", "").replace("replicas: 2", &replicas))
            }
            Manifests::Deployments | Manifests::OneOfThemBusy => deployment_of_none(number),
            Manifests::Mixed => mixed(number),
        }
    }
}

/// Fills a repository that stays, for another process, and tells it where that is and what its commit is called.
pub fn fill_for_another(name: &str, count: usize) {
    let mut repository = Repository::new();
    let manifests = Manifests::ALL.into_iter().find(|one| one.name() == name).unwrap();
    let commit = fill(&mut repository, count, manifests);
    println!("{}\n{commit}", repository.path().display());
    // The caller removes it.
    std::mem::forget(repository);
}

/// Returns a Deployment without pods, in a folder with nine others.
fn deployment_of_none(number: usize) -> (String, String) {
    let name = format!("app-{number}");
    let text = deployment(&name, "web:1", "").replace("replicas: 2", "replicas: 0");
    (format!("team-{}/{name}.yaml", number / 10), text)
}

/// Objects of several kinds, as repositories have them.
fn mixed(number: usize) -> (String, String) {
    let name = format!("app-{number}");
    let text = match number % 5 {
        0 => return deployment_of_none(number),
        1 => format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  selector: {{app: {name}}}\n  ports: \
             [{{port: 80}}]\n  clusterIP: None\n"
        ),
        2 => {
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{password: p-{number}}}\n")
        }
        3 => format!("apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}}}\n"),
        _ => format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{number: \"{number}\"}}\n"),
    };
    (format!("team-{}/{name}.yaml", number / 10), text)
}

/// Commits and pushes so many manifests.
pub fn fill(repository: &mut Repository, count: usize, manifests: Manifests) -> String {
    fill_with(repository, count, |number| manifests.one(number))
}

fn fill_with(repository: &mut Repository, count: usize, manifest: impl Fn(usize) -> (String, String)) -> String {
    for number in 0..count {
        let (path, text) = manifest(number);
        repository.write(path, text);
    }
    let commit = repository.commit("All of it");
    repository.push();
    commit
}

async fn embedded(nodes: usize) -> World {
    let clock = Clock::system();
    let builder = MiniCluster::builder().node_specs(NodeSpec::several(nodes));
    let cluster = builder.clock(clock.clone()).start().await.unwrap();
    World::on(cluster.client_as("belay"), clock, Some(cluster))
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1000.0
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Commits that change one file each, among `count`.
async fn commit(count: usize) -> Figures {
    let said = Said::listen();
    let mut world = embedded(3).await;
    // Pushes are noticed, not polled.
    world.config.interval = Span(Duration::from_secs(600));
    let (line, client) = Line::on(world.client.clone());
    world.give_belay(client);
    let first = fill(&mut world.repository, count, Manifests::Mixed);
    world.start();
    world.through(&first).await;
    let mut of_each: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for round in 0..COMMITS {
        tokio::time::sleep(Duration::from_millis(500)).await;
        line.take();
        said.take();
        let (path, text) = mixed(round * 5 % count);
        world.repository.write(path, text.replace("web:1", &format!("web:{}", round + 2)));
        let id = world.repository.commit("One of them");
        let pushed = Instant::now();
        world.repository.push();
        world.through(&id).await;
        for (name, value) in of_commit(pushed, &line.take_work(), &said) {
            of_each.entry(name).or_default().push(value);
        }
    }
    world.stop().await;
    of_each.into_iter().map(|(name, values)| (name, median(values))).collect()
}

/// Returns the cost of one commit.
fn of_commit(pushed: Instant, sent: &[Sent], said: &Said) -> Figures {
    let said = said.take();
    let at = |message: &str| said.iter().find(|(_, what)| what == message).expect("belay says so").0;
    let first = sent.first().expect("a request");
    let write = sent.iter().find(|sent| sent.is_write()).expect("a write");
    let asked: f64 = sent.iter().take_while(|sent| !sent.is_write()).map(|sent| sent.took.as_secs_f64() * 1000.0).sum();
    vec![
        ("files", said.iter().filter(|(_, what)| what == "a file is read").count() as f64),
        ("requests", sent.len() as f64),
        ("lists", sent.iter().filter(|sent| sent.is_list()).count() as f64),
        ("first_request_ms", milliseconds(pushed, first.at)),
        ("first_write_ms", milliseconds(pushed, write.at)),
        ("planning_ms", milliseconds(at("a new head"), write.at) - asked),
    ]
}

/// Rollouts that fail one after another, with all the others under way.
async fn rollback(count: usize) -> Figures {
    let mut world = embedded(count / 50 + 3).await;
    let (line, client) = Line::on(world.client.clone());
    world.give_belay(client);
    // Ten of them fail each second, when all are under way.
    let of = |number: usize, broken: bool| {
        let name = format!("app-{number}");
        let deadline = 60 + number / 10;
        let text = deployment(&name, "web:1", "").replace("replicas: 2", "replicas: 1");
        let text = text.replace("progressDeadlineSeconds: 30", &format!("progressDeadlineSeconds: {deadline}"));
        let text = if broken { text.replace("web:1", "web:404") } else { text };
        (format!("team-{}/{name}.yaml", number / 10), text)
    };
    let first = fill_with(&mut world.repository, count, |number| of(number, false));
    world.start();
    world.through(&first).await;
    let failed = failures(world.client.clone());
    let second = fill_with(&mut world.repository, count, |number| of(number, true));
    world.until("all are under way", |source| source.under_way.len() == count).await;
    line.take();
    world.through(&second).await;
    let failed = failed.await_all(count).await;
    let mut delays: Vec<f64> = Vec::new();
    for sent in line.take().iter().filter(|sent| sent.is_write() && sent.uri.contains("/deployments/")) {
        let path = sent.uri.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(at) = failed.get(name).filter(|at| **at <= sent.at) {
            delays.push(milliseconds(*at, sent.at));
        }
    }
    assert!(delays.len() >= count, "each was taken back: {} of {count}", delays.len());
    delays.sort_by(f64::total_cmp);
    world.stop().await;
    vec![("p99_ms", delays[delays.len() * 99 / 100]), ("median_ms", delays[delays.len() / 2])]
}

/// When which Deployment was first seen to have failed, by a watch of our own.
struct Failures(tokio::sync::watch::Receiver<BTreeMap<String, Instant>>);

impl Failures {
    async fn await_all(mut self, count: usize) -> BTreeMap<String, Instant> {
        self.0.wait_for(|seen| seen.len() == count).await.unwrap().clone()
    }
}

fn failures(client: Client) -> Failures {
    let (sender, receiver) = tokio::sync::watch::channel(BTreeMap::new());
    tokio::spawn(async move {
        let api: kube::Api<k8s_openapi::api::apps::v1::Deployment> = kube::Api::default_namespaced(client);
        let mut events = kube::runtime::watcher(api, kube::runtime::watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            let Ok(kube::runtime::watcher::Event::Apply(live)) = event else { continue };
            let conditions = live.status.and_then(|status| status.conditions).unwrap_or_default();
            let failed = |condition: &k8s_openapi::api::apps::v1::DeploymentCondition| {
                condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
            };
            if conditions.iter().any(failed) {
                let (now, name) = (Instant::now(), live.metadata.name.unwrap_or_default());
                sender.send_modify(|seen| _ = seen.entry(name).or_insert(now));
            }
        }
    });
    Failures(receiver)
}
