//! A whole belay: a real repository, the daemon, a cluster, and a history in a temporary folder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belay::clock::Clock;
use belay::cluster::Cluster;
use belay::config::SourceConfig;
use belay::daemon::{Daemon, DaemonError, LookRequest, Pruning, Reload, SourceStatus, Status};
use belay::history::{History, HistoryLocation, Query, Retention};
use belay::prometheus::InstantQuery;
use belay::render::Tools;
use belay::telemetry::Metrics;
use belay::web::{Hook, Shown, ShownSources};
use belay_core::rollout::{Outcome, Record, SourceState, Trigger};
use jiff::Timestamp;
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::habits::{Habit, habits};
use super::repository::Repository;
use super::tap::{Fate, Tap};

/// When the world of a paused test begins.
pub const EPOCH: &str = "2026-01-01T00:00:00Z";

/// Tools that are nowhere: what a test renders with does not depend on the machine.
pub fn no_tools() -> Tools {
    Tools { kustomize: Some("/nonexistent/kustomize".into()), helm: Some("/nonexistent/helm".into()) }
}

/// Returns the folder with the real kubectl and helm. Without them a test says that it has nothing to run.
pub fn tools_folder() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").map(std::path::PathBuf::from);
    let folder = folder.filter(|folder| folder.join("helm").exists() && folder.join("kubectl").exists());
    if folder.is_none() {
        eprintln!("KUBEBUILDER_ASSETS names no folder with kubectl and helm: nothing is rendered");
    }
    folder
}

/// Returns the real kubectl and helm, if they are there.
pub fn real_tools() -> Option<Tools> {
    let folder = tools_folder()?;
    Some(Tools { kustomize: Some(folder.join("kubectl")), helm: Some(folder.join("helm")) })
}

/// Everything that a behaviour test stands on.
pub struct World {
    pub repository: Repository,
    pub client: kube::Client,
    /// The client that belay is given.
    belays: kube::Client,
    pub clock: Clock,
    /// `[limits] max_rollouts`.
    pub max_rollouts: usize,
    pub config: SourceConfig,
    /// Further sources.
    pub more: Vec<SourceConfig>,
    /// The retention of records.
    pub retention: Retention,
    /// The limit of deletions at once.
    pub pruning: Pruning,
    /// The tools that belay renders with.
    pub tools: Tools,
    /// The longest wait of belay for what it renders. Tools live in the machine's time, however busy that is.
    pub patience: Duration,
    /// True when pushes are noticed by polling only, as those to a repository on another machine.
    pub polls: bool,
    /// The name of this daemon among others.
    pub identity: String,
    /// The Prometheus that it asks.
    pub prometheus: Option<Arc<dyn InstantQuery>>,
    pub cluster: Option<MiniCluster>,
    running: Option<Running>,
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    status: watch::Receiver<Status>,
    metrics: Metrics,
    looks: BTreeMap<String, LookRequest>,
    history: History,
    reloads: mpsc::Sender<Reload>,
}

impl World {
    /// Returns an embedded cluster and an empty repository; belay does not run yet. Needs a paused clock.
    pub async fn embedded() -> World {
        let clock = Clock::tokio(EPOCH.parse::<Timestamp>().expect("a time"));
        let cluster = MiniCluster::builder()
            .clock(clock.clone())
            .without(Part::Roles)
            .start()
            .await
            .expect("the embedded cluster starts");
        let client = cluster.client_as("belay");
        World::on(client, clock, Some(cluster))
    }

    /// Returns the same with the sample Deployment, whose first version is complete; and that version's commit.
    pub async fn with_web() -> (World, String) {
        let mut world = World::embedded().await;
        let first = world.with_first_version().await;
        (world, first)
    }

    /// Pushes the sample Deployment's first version, starts belay, and waits until it is through.
    pub async fn with_first_version(&mut self) -> String {
        let first = self.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        self.start();
        self.through(&first).await;
        first
    }

    /// Commits and pushes what was written, starts belay, and waits until it is through.
    pub async fn with_all_of_them(&mut self) -> String {
        let first = self.repository.commit("All of them");
        self.repository.push();
        self.start();
        self.through(&first).await;
        first
    }

    /// Returns the same with so many ConfigMaps in files of their own: `map-0` in `0.yaml`.
    pub async fn with_maps(&mut self, count: usize) -> String {
        for number in 0..count {
            self.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
        }
        self.with_all_of_them().await
    }

    /// Returns the same, with a tap on the line between belay and the cluster. The world's own client goes around it.
    pub async fn tapped() -> (World, Tap) {
        let mut world = World::embedded().await;
        let (tap, client) = Tap::on(world.client.clone());
        world.belays = client;
        (world, tap)
    }

    /// Returns the same, with something else on the line between belay and the cluster.
    pub async fn behind(line: impl FnOnce(kube::Client) -> kube::Client) -> World {
        let mut world = World::embedded().await;
        world.belays = line(world.client.clone());
        world
    }

    /// Returns the same on another cluster.
    pub fn on(client: kube::Client, clock: Clock, cluster: Option<MiniCluster>) -> World {
        let repository = Repository::new();
        let mut config = SourceConfig::of(repository.path().display().to_string());
        config.name = "shop".to_owned();
        config.interval = belay::config::Span(Duration::from_secs(5));
        World {
            repository,
            belays: client.clone(),
            client,
            clock,
            config,
            more: Vec::new(),
            retention: Retention::default(),
            pruning: Pruning::default(),
            tools: no_tools(),
            patience: Duration::from_hours(1),
            polls: false,
            identity: "one".to_owned(),
            max_rollouts: 0,
            prometheus: None,
            cluster,
            running: None,
        }
    }

    /// Gives belay a client of its own; the world's stays as it is.
    pub fn give_belay(&mut self, client: kube::Client) {
        self.belays = client;
    }

    /// Starts belay.
    pub fn start(&mut self) {
        let state = self.repository.beside("state");
        let (history, _) = History::open(&state, self.clock.now()).expect("a history");
        let stop = CancellationToken::new();
        let daemon = Daemon::new(history.clone(), self.clock.clone(), stop.clone());
        let mut daemon =
            daemon.remembering(self.retention.clone()).pruning(self.pruning).leading(self.identity.clone());
        daemon = daemon.rendering_with(self.tools.clone()).waiting_for_units(self.patience);
        daemon = daemon.limited(self.max_rollouts);
        if let Some(prometheus) = &self.prometheus {
            daemon = daemon.measuring(Arc::clone(prometheus));
        }
        if self.polls {
            daemon = daemon.repeatable(|| Duration::ZERO);
        }
        let cluster = Cluster::new(self.belays.clone(), self.clock.clone());
        for config in [&self.config].into_iter().chain(&self.more) {
            daemon.follow(config.clone(), &cluster).expect("the source can be followed");
        }
        let (status, metrics, looks) = (daemon.status(), daemon.metrics(), daemon.look_requests());
        let reloads = daemon.reloads();
        let task = tokio::spawn(daemon.run());
        self.running = Some(Running { stop, task, status, metrics, looks, history, reloads });
    }

    /// Lets belay follow the sources of the world as they are now.
    ///
    /// # Errors
    /// The reason for which belay refuses them.
    pub async fn reload(&mut self) -> Result<(), DaemonError> {
        let cluster = Cluster::new(self.belays.clone(), self.clock.clone());
        let all = [&self.config].into_iter().chain(&self.more);
        let sources = all.map(|config| (config.clone(), cluster.clone())).collect();
        let (done, answer) = oneshot::channel();
        self.tell_of_configuration(Reload::Sources { sources, done }).await;
        answer.await.expect("belay answers").map(drop)
    }

    /// Tells belay that the configuration can't be used.
    pub async fn refuse_configuration(&mut self, file: &str, why: &str) {
        self.tell_of_configuration(Reload::Refused { file: file.to_owned(), why: why.to_owned() }).await;
    }

    async fn tell_of_configuration(&mut self, reload: Reload) {
        let reloads = &self.running.as_ref().expect("belay runs").reloads;
        assert!(reloads.send(reload).await.is_ok(), "belay runs");
    }

    /// Asks belay to stop, and waits until it has.
    pub async fn stop(&mut self) {
        let running = self.running.take().expect("belay runs");
        running.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), running.task)
            .await
            .expect("belay stops within 5 s")
            .expect("it ends well");
    }

    /// Ends belay as `kill -9` would: at whatever await it is.
    pub async fn kill(&mut self) {
        let running = self.running.take().expect("belay runs");
        running.task.abort();
        drop(running.task.await);
    }

    /// Commits one file, pushes it, and returns the commit.
    pub fn push(&mut self, path: &str, content: &str, message: &str) -> String {
        let commit = self.repository.commit_file(path, content, message);
        self.repository.push();
        commit
    }

    /// Follows a repository of each habit in place of the world's own. The repositories live as long as what is returned.
    pub fn follow_habits(&mut self) -> Vec<(Habit, Repository)> {
        let base = self.config.clone();
        let mut repositories = Vec::new();
        let mut configs = Vec::new();
        for habit in habits() {
            let (repository, config) = habit.source(&base);
            configs.push(config);
            repositories.push((habit, repository));
        }
        self.config = configs.remove(0);
        self.more = configs;
        repositories
    }

    /// Returns the sources that are not `synced` although they could be, or are although they can't be, each with its
    /// status.
    pub fn wrong_habits(&self, repositories: &[(Habit, Repository)]) -> Vec<String> {
        let sources = self.whole_status().sources;
        let is_right = |habit: &Habit| {
            let state = sources.get(habit.name).map(SourceStatus::state);
            state.is_some_and(|state| (state == SourceState::Synced) == habit.is_good)
        };
        let wrong = repositories.iter().filter(|(habit, _)| !is_right(habit));
        wrong.map(|(habit, _)| format!("{}: {:?}", habit.name, sources.get(habit.name))).collect()
    }

    /// Returns all that belay says of itself.
    pub fn whole_status(&self) -> Status {
        self.running.as_ref().expect("belay runs").status.borrow().clone()
    }

    /// Hears what belay says of itself.
    pub fn listen(&self) -> watch::Receiver<Status> {
        self.running.as_ref().expect("belay runs").status.clone()
    }

    /// Returns the content of belay's pages.
    pub fn shown(&self) -> Shown {
        self.shown_with(BTreeMap::new())
    }

    /// Returns the content of belay's pages, with these hooks.
    pub fn shown_with(&self, hooks: BTreeMap<String, Hook>) -> Shown {
        let sources = ShownSources {
            clusters: [("shop".to_owned(), Cluster::new(self.client.clone(), self.clock.clone()))].into(),
            commit_urls: [("shop".to_owned(), "https://git.example.com/shop/commit/{commit}".to_owned())].into(),
            hooks,
        };
        Shown {
            status: self.listen(),
            metrics: self.metrics(),
            state: self.repository.beside("state"),
            history: HistoryLocation::in_folder(&self.repository.beside("state")),
            sources: sources.shown().1,
            clock: self.clock.clone(),
        }
    }

    /// Returns the request for a look at the source.
    pub fn look_request(&self) -> LookRequest {
        self.running.as_ref().expect("belay runs").looks["shop"].clone()
    }

    /// Returns belay's counters.
    pub fn metrics(&self) -> Metrics {
        self.running.as_ref().expect("belay runs").metrics.clone()
    }

    /// Returns belay's status of its source.
    pub fn status(&self) -> belay::daemon::SourceStatus {
        let running = self.running.as_ref().expect("belay runs");
        running.status.borrow().sources.get("shop").cloned().unwrap_or_default()
    }

    /// Returns the state of a source; `None` if belay publishes nothing of it.
    pub fn state_of(&self, source: &str) -> Option<SourceState> {
        let status = self.running.as_ref().expect("belay runs").status.borrow();
        status.sources.get(source).map(SourceStatus::state)
    }

    /// Waits until a source is in a state; `None` is that belay publishes nothing of it.
    pub async fn until_state(&mut self, source: &str, state: Option<SourceState>) {
        let status = &mut self.running.as_mut().expect("belay runs").status;
        let met = status.wait_for(|status| status.sources.get(source).map(SourceStatus::state) == state);
        let met = tokio::time::timeout(Duration::from_secs(3600), met).await.map(|met| met.is_ok());
        assert_eq!(met, Ok(true), "source {source} is {state:?}");
    }

    /// Waits until belay says so of its source.
    pub async fn until(&mut self, what: &str, condition: impl Fn(&belay::daemon::SourceStatus) -> bool) {
        let running = self.running.as_mut().expect("belay runs");
        let limit = Duration::from_secs(3600);
        let met = running.status.wait_for(|status| status.sources.get("shop").is_some_and(&condition));
        if tokio::time::timeout(limit, met).await.is_err() {
            let status = running.status.borrow().clone();
            panic!("not within an hour: {what}\n{}", serde_json::to_string_pretty(&status).expect("JSON"));
        }
    }

    /// Waits until a commit is planned and everything that it says is through.
    pub async fn through(&mut self, commit: &str) {
        let commit = commit.to_owned();
        self.until(&format!("{commit} is through"), move |source| {
            source.settled && source.planned.as_ref().is_some_and(|planned| planned.as_str() == commit)
        })
        .await;
    }

    /// The same, and if the tap kills belay on the way, it starts again. Returns true when it was killed.
    pub async fn through_a_kill(&mut self, tap: &Tap, commit: &str) -> bool {
        let killed = tokio::select! {
            biased;
            () = tap.died() => true,
            () = self.through(commit) => false,
        };
        if killed {
            self.kill().await;
            tap.rule(|_, _| Fate::Pass);
            self.start();
            self.through(commit).await;
        }
        killed
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.running.as_ref().expect("belay runs").history
    }

    /// Returns all records, the oldest first.
    pub fn records(&self) -> Vec<Record> {
        let mut records = self.history().records(&Query::default()).expect("records");
        records.reverse();
        records
    }

    /// Returns the record of an object by a commit. A rebuilt record after a loss stands beside it.
    pub fn record(&self, commit: &str, object: &str) -> Record {
        let all = self.records();
        let mut fitting = all
            .iter()
            .filter(|record| record.commit.as_str() == commit && record.object.to_string() == object)
            .filter(|record| record.trigger != Trigger::Rebuilt);
        let found = fitting.next().unwrap_or_else(|| panic!("no record of {object} at {commit}: {all:#?}"));
        assert!(fitting.next().is_none(), "one record of {object} at {commit}: {all:#?}");
        found.clone()
    }

    /// Returns the outcomes of all records, the oldest first, as `object outcome`.
    pub fn outcomes(&self) -> Vec<(String, Outcome)> {
        self.records().into_iter().map(|record| (record.object.to_string(), record.outcome)).collect()
    }

    /// Returns a live object by its path, `apis/apps/v1/namespaces/shop/deployments/web`; `None` if there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let request = http::Request::get(format!("/{path}")).body(Vec::new()).expect("a request");
        match self.client.request::<Value>(request).await {
            Ok(value) => Some(value),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// Makes an object, as a person with another tool would.
    pub async fn create(&self, path: &str, manager: &str, object: &Value) -> Value {
        let request = http::Request::post(format!("/{path}?fieldManager={manager}"))
            .header("Content-Type", "application/json")
            .body(object.to_string().into_bytes())
            .expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) {
        let request = http::Request::delete(format!("/{path}")).body(Vec::new()).expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("DELETE {path}: {error}"));
    }

    /// `kubectl replace --force`: deletes an object, and makes it anew as it was.
    pub async fn make_anew(&self, path: &str) -> Value {
        let object = anew(self.get(path).await.unwrap_or_else(|| panic!("no {path}")));
        self.delete(path).await;
        let (all, _) = path.rsplit_once('/').expect("a path has slashes");
        self.create(all, "kubectl-replace", &object).await
    }

    /// Returns all objects of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("no {path}"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Sends a merge patch, as a person with another tool would.
    pub async fn patch(&self, path: &str, manager: &str, patch: &Value) -> Value {
        self.patch_with("application/merge-patch+json", path, manager, patch).await
    }

    /// Applies an object on the server's side, as `manager`.
    pub async fn apply(&self, path: &str, manager: &str, object: &Value) -> Value {
        self.patch_with("application/apply-patch+yaml", path, &format!("{manager}&force=true"), object).await
    }

    /// Sends a JSON patch.
    pub async fn json_patch(&self, path: &str, manager: &str, patch: &Value) -> Value {
        self.patch_with("application/json-patch+json", path, manager, patch).await
    }

    async fn patch_with(&self, content: &str, path: &str, manager: &str, patch: &Value) -> Value {
        let request = http::Request::patch(format!("/{path}?fieldManager={manager}"))
            .header("Content-Type", content)
            .body(patch.to_string().into_bytes())
            .expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    /// Does the same to the sample Deployment as `kubectl rollout undo`: it gets the template of the revision with that
    /// image again, and with it the annotations of the revision.
    pub async fn undo_to(&self, wanted: &str) {
        let sets = self.list("apis/apps/v1/namespaces/default/replicasets").await;
        let kept = sets.into_iter().find(|set| image(set) == wanted).expect("a revision");
        self.undo_to_kept(&kept).await;
    }

    /// The same, to the revision that a ReplicaSet keeps.
    pub async fn undo_to_kept(&self, kept: &Value) {
        let mut template = kept["spec"]["template"].clone();
        template["metadata"]["labels"].as_object_mut().expect("labels").remove("pod-template-hash");
        let mut annotations = kept["metadata"]["annotations"].as_object().expect("annotations").clone();
        annotations.retain(|name, _| !name.starts_with("deployment.kubernetes.io/"));
        let undo = json!([{"op": "replace", "path": "/spec/template", "value": template},
            {"op": "replace", "path": "/metadata/annotations", "value": annotations}]);
        self.patch_with("application/json-patch+json", &path_of("web"), "kubectl-rollout", &undo).await;
    }
}

/// The definition of a custom kind.
pub const WIDGETS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
";

/// Returns an object without what the server has written there for itself, to be made once more.
pub fn anew(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"] {
        object["metadata"].as_object_mut().expect("an object").remove(field);
    }
    object
}

/// Returns the sample Deployment, in namespace default.
pub fn deployment(name: &str, image: &str, more: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  replicas: 2\n  \
         progressDeadlineSeconds: 30\n{more}  selector:\n    matchLabels: {{app: {name}}}\n  template:\n    metadata:\n      \
         labels: {{app: {name}}}\n    spec:\n      containers:\n      - name: app\n        image: {image}\n"
    )
}

/// Returns the same with another image, whose pods have a fate.
pub fn broken(name: &str, fate: &str) -> String {
    let annotated = format!("      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      containers");
    deployment(name, "web:2", "").replace("    spec:\n      containers", &annotated)
}

/// Returns the image of a workload's first container.
pub fn image(live: &Value) -> &str {
    live["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image")
}

/// Returns a ConfigMap in namespace default.
pub fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  A: \"{value}\"\n")
}

/// Returns the path of a Deployment in namespace default.
pub fn path_of(name: &str) -> String {
    format!("apis/apps/v1/namespaces/default/deployments/{name}")
}

/// Returns a commit's id, short.
pub fn short(commit: &str) -> &str {
    &commit[..7]
}
