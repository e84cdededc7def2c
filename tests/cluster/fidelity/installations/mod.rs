//! Installations of popular software, in small likenesses, on the real control plane: each rolls out with `--once`, exits with
//! 0, and takes a bounded amount of memory.
#![allow(clippy::disallowed_methods, reason = "a real process is waited for")]

mod ingress_controller;
mod large_manifest;
mod storage_system;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, tools_folder};

/// The most memory that belay may take, in KiB.
const MEMORY: u64 = 256 * 1024;

/// The end of one `belay run --once`.
struct Finished {
    exit: Option<i32>,
    log: String,
    /// The most memory that it took, in KiB.
    peak: u64,
}

/// Runs `belay run --once` for a source with these lines of configuration, and waits for its end.
fn run_once(plane: &ControlPlane, world: &World, source: &str) -> Finished {
    let repository = world.repository.path().display();
    let (helm, kustomize) = (plane.program("helm"), plane.program("kubectl"));
    let config = format!(
        "[render]\nhelm = {helm:?}\nkustomize = {kustomize:?}\n[[source]]\nname = \"shop\"\nrepository = \"{repository}\"\n{source}"
    );
    let file = world.repository.beside("belay.toml");
    std::fs::write(&file, config).unwrap();
    let log = world.repository.beside("belay.log");
    let mut belay = Command::new(env!("CARGO_BIN_EXE_belay"));
    belay.env("HOME", world.repository.beside("")).arg("--kubeconfig").arg(plane.kubeconfig());
    belay.arg("--state-dir").arg(world.repository.beside("state"));
    belay.args(["run", "--once", "--timeout", "4m", "--config"]).arg(&file);
    let said = std::fs::File::create(&log).unwrap();
    let child = belay.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said).spawn().unwrap();
    let (exit, peak) = watched(child);
    Finished { exit, log: std::fs::read_to_string(&log).unwrap(), peak }
}

/// Waits for the end of a process; its exit code, and the most memory that it took.
fn watched(mut child: Child) -> (Option<i32>, u64) {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        peak = peak.max(high_water_mark(Path::new(&status)).unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (ended.code(), peak);
        }
        // Real time: this is a real process.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the most memory that a process has taken so far, in KiB.
fn high_water_mark(status: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl Finished {
    fn is_good(&self) {
        assert_eq!(self.exit, Some(0), "{}", self.log);
        assert!(self.peak > 0 && self.peak <= MEMORY, "{} KiB\n{}", self.peak, self.log);
    }
}

/// Installs what the repository holds, and once more without a change; the second run writes nothing. Afterwards these objects
/// are gone.
async fn install(fill: impl FnOnce(&mut World), source: &str, gone: &'static [&'static str]) {
    let Some(_) = tools_folder() else { return };
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    fill(&mut world);
    world.repository.commit("Install it");
    world.repository.push();
    let (plane, world, source) = (plane, world, source.to_owned());
    tokio::task::spawn_blocking(move || {
        run_once(&plane, &world, &source).is_good();
        let before = hooks(&plane);
        run_once(&plane, &world, &source).is_good();
        assert_eq!(hooks(&plane), before, "no hook runs again");
        for name in gone {
            assert!(!before.lines().any(|line| line == *name), "{name} is still there:\n{before}");
        }
    })
    .await
    .unwrap();
    nodes.stop().await;
}

/// Returns the names of the objects that may be hooks, each in a line.
fn hooks(plane: &ControlPlane) -> String {
    const KINDS: &str = "jobs,serviceaccounts,roles,rolebindings";
    let listed = plane.kubectl().args(["get", KINDS, "-A", "-o", "name"]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_large_file_with_everything() {
    install(large_manifest::write, "path = \"manifests\"\n", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_of_an_ingress_controller() {
    const GONE: [&str; 5] = [
        "job.batch/ingress-admission-create",
        "job.batch/ingress-admission-patch",
        "serviceaccount/ingress-admission",
        "role.rbac.authorization.k8s.io/ingress-admission",
        "rolebinding.rbac.authorization.k8s.io/ingress-admission",
    ];
    let source = "[[source.helm]]\nchart = \"ingress\"\nnamespace = \"ingress\"\n";
    install(ingress_controller::write, source, &GONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_of_a_storage_system() {
    let source = "[[source.helm]]\nchart = \"storage\"\nnamespace = \"storage\"\n";
    install(storage_system::write, source, &[]).await;
}
