//! belay under the least memory that it is installed with: the limit of the Deployment in `manifests/belay/`, which is less
//! than the unit's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::Fixture;
use crate::program::{finish, is_root};
use crate::support::daemon::{config_map, deployment};

/// A control group with a limit of memory, removed when it is dropped.
struct MemoryCgroup {
    folder: PathBuf,
    /// The file that tells of kills.
    events: &'static str,
    /// The file with the most memory that there was.
    peak: &'static str,
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.folder));
    }
}

impl MemoryCgroup {
    /// Makes one, of either version of control groups. `None` if nobody may make one here.
    fn with(limit: &str) -> Option<MemoryCgroup> {
        let name = format!("belay-test-{}", std::process::id());
        for (root, limits, events, peak) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.events", "memory.peak"),
        ] {
            let group = MemoryCgroup { folder: Path::new(root).join(&name), events, peak };
            if fs::create_dir(&group.folder).is_ok() && fs::write(group.folder.join(limits), limit).is_ok() {
                return Some(group);
            }
        }
        None
    }

    /// Returns how many processes in it the kernel has ended for want of memory.
    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.events)).unwrap();
        let number = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        number.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
    }
}

/// Returns the limit of the Deployment.
fn limit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/belay/4-deployment.yaml");
    let manifest: serde_json::Value = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let limit = &manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"];
    limit.as_str().unwrap().replace("Mi", "M")
}

/// Returns helm's path, if it is there.
fn helm() -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os("KUBEBUILDER_ASSETS")?).join("helm");
    path.exists().then_some(path)
}

/// Fills the repository: 3,000 objects in files of 300, one file of 2.8 MB, and a chart.
fn fill(stage: &mut Fixture, with_chart: bool) -> String {
    for file in 0..10 {
        let maps: Vec<String> = (0..295).map(|number| config_map(&format!("map-{file}-{number}"), "1")).collect();
        let web = (0..5).map(|number| deployment(&format!("web-{file}-{number}"), "web:1", ""));
        let all: Vec<String> = maps.into_iter().chain(web).collect();
        stage.repository.write(format!("objects/{file}.yaml"), all.join("---\n"));
    }
    let large: Vec<String> =
        (0..40).map(|number| config_map(&format!("large-{number}"), &"x".repeat(70_000))).collect();
    stage.repository.write("objects/large.yaml", large.join("---\n"));
    if with_chart {
        stage.repository.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        let map = config_map("m-{{ $number }}", "1");
        let template = format!("{{{{- range $number := until 200 }}}}\n---\n{map}{{{{- end }}}}\n");
        stage.repository.write("chart/templates/maps.yaml", template);
    }
    let commit = stage.repository.commit("All of it");
    stage.repository.push();
    commit
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_is_enough_for_a_large_file_a_chart_and_3000_objects() {
    let Some(group) = is_root().then(|| MemoryCgroup::with(&limit())).flatten() else {
        eprintln!("not tried under the limit of memory: it needs root, and control groups of memory");
        return;
    };
    let helm = helm();
    if helm.is_none() {
        eprintln!("not tried with a chart: there is no helm in $KUBEBUILDER_ASSETS");
    }
    let mut stage = Fixture::new().await;
    fill(&mut stage, helm.is_some());
    // The files of belay are on a disk: in memory they would count for the limit.
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let repository = stage.repository.path().display();
    let source =
        |path: &str| format!("[[source]]\nname = \"{path}\"\nrepository = \"{repository}\"\npath = \"{path}\"\n");
    let chart = helm.as_ref().map(|helm| {
        format!(
            "{}[[source.helm]]\nchart = \"chart\"\nrelease = \"web\"\n[render]\nhelm = \"{}\"\n",
            source("chart"),
            helm.display()
        )
    });
    let config = source("objects") + &chart.unwrap_or_default();
    fs::write(stage.home.path().join("belay.toml"), config).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$1\"/cgroup.procs && shift && exec \"$@\"", "sh"]).arg(&group.folder);
    command.arg(env!("CARGO_BIN_EXE_belay")).args([
        "run",
        "--once",
        "--config",
        "belay.toml",
        "--kubeconfig",
        "kubeconfig",
    ]);
    command.arg("--state-dir").arg(state.path());
    command.env_clear().env("HOME", stage.home.path()).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.current_dir(stage.home.path());
    let ran = finish(command, "");
    assert_eq!((ran.code, group.kills()), (0, 0), "{}", ran.err);
    // It ran in there.
    let peak: u64 = fs::read_to_string(group.folder.join(group.peak)).unwrap().trim().parse().unwrap();
    assert!(peak > 20 << 20, "{peak}");
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::all(stage.cluster.client());
    let applied = maps.list(&kube::api::ListParams::default()).await.unwrap().items.len();
    assert!(applied >= 2950 + 40 + helm.map_or(0, |_| 200), "{applied}");
}
