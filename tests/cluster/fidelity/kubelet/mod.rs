//! The embedded kubelet drives the pods of the real control plane, and real kubectl shows of them what it shows of a
//! real one's. One control plane for all, since it takes long to start; every scenario has a namespace of its own.

mod scenarios;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use belay::clock::Clock;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;
use minicluster::kubelet::{self, Options, Ports, Running};
use minicluster::{PodLogs, Random};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::support::control_plane::{self, ControlPlane, Controllers};

/// The longest time of a step on a machine that is busy with other things.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// A namespace of the real control plane.
#[derive(Clone)]
struct Namespace {
    name: String,
    kubectl: Arc<PathBuf>,
    kubeconfig: Arc<PathBuf>,
    client: kube::Client,
}

impl Namespace {
    /// Returns kubectl's output on stdout and stderr, and true if it succeeded. Words with blanks are joined by `_`.
    async fn kubectl(&self, command: &str) -> (String, bool) {
        let words = command.split_whitespace().map(|word| word.replace('_', " "));
        let mut kubectl = self.command();
        let output = kubectl.args(words).output().await.unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        // Columns are as wide as what stands in them, which the tests do not know.
        let mut squeezed = String::new();
        for letter in text.chars() {
            if letter != ' ' || !squeezed.ends_with(' ') {
                squeezed.push(letter);
            }
        }
        (squeezed, output.status.success())
    }

    fn command(&self) -> Command {
        let mut kubectl = Command::new(&*self.kubectl);
        kubectl.arg("--kubeconfig").arg(&*self.kubeconfig).args(["--namespace", &self.name]);
        kubectl.env("HOME", self.kubeconfig.parent().unwrap()).kill_on_drop(true);
        kubectl
    }

    /// Returns kubectl's output when it succeeds.
    async fn run(&self, command: &str) -> String {
        let (text, fine) = self.kubectl(command).await;
        assert!(fine, "`kubectl {command}` failed: {text}");
        text
    }

    /// Applies manifests.
    async fn apply(&self, yaml: &str) {
        let mut kubectl = self.command();
        kubectl.args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = kubectl.spawn().unwrap();
        child.stdin.take().unwrap().write_all(yaml.as_bytes()).await.unwrap();
        assert!(child.wait().await.unwrap().success(), "failed to apply {yaml}");
    }

    /// kubectl's output, once it holds `expected`.
    async fn until(&self, command: &str, expected: &str) -> String {
        self.until_it(command, expected, |text| text.contains(expected)).await
    }

    async fn until_it(&self, command: &str, expected: &str, met: impl Fn(&str) -> bool) -> String {
        let start = tokio::time::Instant::now();
        loop {
            let (text, _) = self.kubectl(command).await;
            if met(&text) {
                return text;
            }
            assert!(
                start.elapsed() < STEP_TIMEOUT,
                "{}: `kubectl {command}` never said {expected:?}, but:\n{text}",
                self.name
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Reason and message of all events about a pod.
    async fn events(&self, pod: &str) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.name);
        let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
        let all = events.list(&about).await.unwrap();
        all.items.into_iter().map(|event| (event.reason.unwrap(), event.message.unwrap())).collect()
    }
}

fn start(plane: &ControlPlane) -> Running {
    let mut options = Options::new(Clock::system(), Random::new(1), PodLogs::default());
    options.ports = Ports::Open;
    kubelet::start(plane.client(), options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_the_real_control_plane_live_as_on_real_nodes() {
    let Some(assets) = control_plane::assets("the embedded kubelet below the real control plane") else { return };
    let plane = ControlPlane::start(&assets, Controllers::Real).await;
    let running = start(&plane);
    let all = Namespace {
        name: "default".to_owned(),
        kubectl: Arc::new(assets.join("kubectl")),
        kubeconfig: Arc::new(plane.kubeconfig()),
        client: plane.client(),
    };
    all.until_it("get nodes", "3 ready nodes", |text| text.matches(" Ready ").count() == 3).await;
    let mut under_way = JoinSet::new();
    macro_rules! scenarios {
        ($($scenario:ident),* $(,)?) => {$(
            let namespace = Namespace { name: stringify!($scenario).replace('_', "-"), ..all.clone() };
            all.run(&format!("create namespace {}", namespace.name)).await;
            under_way.spawn(scenarios::$scenario(namespace));
        )*};
    }
    scenarios![
        a_deployment_becomes_available_and_goes,
        a_bad_image_misses_its_deadline_and_is_undone,
        crashes_are_seen_and_their_logs_kept,
        logs_are_shown,
        a_daemon_set_is_on_every_node,
        jobs_end,
        a_stateful_set_comes_up_in_order,
        an_evicted_pod_is_replaced,
        what_does_not_fit_waits,
        a_finalizer_holds_a_pod_that_has_ended,
        configuration_that_comes_late,
        a_pod_of_higher_priority_pushes_out,
        a_host_port_is_for_one,
    ];
    let mut failed = 0;
    while let Some(ended) = under_way.join_next().await {
        failed += usize::from(ended.is_err());
    }
    assert_eq!(failed, 0, "so many scenarios failed; each has said why");
    a_kubelet_that_starts_again_changes_nothing(&all, &plane, running).await;
}

async fn a_kubelet_that_starts_again_changes_nothing(world: &Namespace, plane: &ControlPlane, running: Running) {
    world.run("create deployment web --image=nginx:1.27 --replicas=2").await;
    world.run("rollout status deployment/web --timeout=120s").await;
    running.stop().await;
    let what = "get pods -o jsonpath={.items[*].metadata.resourceVersion}";
    let before = world.run(what).await;
    let running = start(plane);
    // It is there again when it drives a new pod.
    world.run("create deployment other --image=nginx:1.27").await;
    world.run("rollout status deployment/other --timeout=120s").await;
    world.run("delete deployment other").await;
    world.until_it("get pods --no-headers", "two pods", |text| text.lines().count() == 2).await;
    assert_eq!(world.run(what).await, before);
    world.run("delete deployment web").await;
    world.until("get pods", "No resources found").await;
    running.stop().await;
}
