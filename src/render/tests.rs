//! Renders with real tools, if there are any, and with tools that mean harm.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

#[allow(dead_code, reason = "the tests of the program use more of it")]
#[path = "../../tests/support/programs.rs"]
mod programs;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use belay_core::manifest::{File, Scopes};
use programs::write_program;

mod random_changes;
mod said;
mod taken_over;
mod turns;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ";

/// Returns the real tools. Without them a test says that it has nothing to run.
fn real_tools() -> Option<Tools> {
    let folder =
        std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).filter(|folder| folder.join("helm").exists());
    let Some(folder) = folder else {
        eprintln!("KUBEBUILDER_ASSETS names no folder with kubectl and helm: nothing is rendered");
        return None;
    };
    Some(Tools { kustomize: Some(folder.join("kubectl")), helm: Some(folder.join("helm")) })
}

/// Returns a tool that is a script, in a folder of its own.
fn script(text: &str) -> (tempfile::TempDir, Tools) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kustomize");
    write_program(&program, &format!("#!/bin/sh\n{text}\n"));
    (folder, Tools { kustomize: Some(program), helm: None })
}

fn rendered(renderer: &Renderer, tree: &MemoryTree) -> Vec<File> {
    let Ok(plan) = renderer.plan(tree, "");
    let units: Vec<&Unit> = plan.units.values().collect();
    let Ok(()) = renderer.prepare(tree, &units);
    let scopes = Scopes::new("default");
    let file = |unit: &&Unit| {
        let Ok(file) = renderer.file(tree, unit, &scopes);
        file
    };
    units.iter().map(file).collect()
}

fn kustomized() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.file(
        "over/kustomization.yaml",
        "resources: [../base]\nnamePrefix: p-\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n",
    );
    tree.file("base/kustomization.yaml", "resources: [a.yaml]\n");
    tree.file("base/a.yaml", format!("{CONFIG_MAP}a\n"));
    tree
}

/// Returns the only complaint about a kustomization with one tool.
fn complaint_of(text: &str, limits: ChildLimits) -> String {
    let (_folder, tools) = script(text);
    let mut tree = MemoryTree::default();
    tree.file("kustomization.yaml", "");
    let renderer = Renderer::new(Options::default(), tools, None).with_limits(limits);
    let [file] = &rendered(&renderer, &tree)[..] else { panic!("one unit") };
    assert!(file.unreadable && file.manifests.is_empty(), "{file:?}");
    file.complaints[0].to_string()
}

#[test]
fn a_kustomization_is_rendered_by_the_real_tool() {
    let Some(tools) = real_tools() else { return };
    let options = Options::default();
    let tree = kustomized();
    let renderer = Renderer::new(options, tools, None);
    let Ok(plan) = renderer.plan(&tree, "over");
    let unit = plan.units.values().next().unwrap();
    let Ok(file) = renderer.file(&tree, unit, &Scopes::new("shop"));
    assert_eq!(file.complaints, []);
    let places: Vec<String> =
        file.manifests.iter().map(|manifest| format!("{} {}", manifest.place, manifest.key)).collect();
    assert!(places.contains(&"base/a.yaml:1:1 ConfigMap shop/p-a".to_owned()), "{places:?}");
    let generated = |place: &String| place.starts_with("over/kustomization.yaml:1:1 ConfigMap shop/p-g-");
    assert!(places.iter().any(generated), "{places:?}");
    assert!(file.manifests.iter().all(|manifest| manifest.value()["metadata"].get("annotations").is_none()));
    let Ok(_) = renderer.file(&tree, unit, &Scopes::new("shop"));
    assert_eq!(renderer.runs(), 1);
}

#[test]
fn a_chart_is_rendered_by_the_real_tool() {
    let Some(tools) = real_tools() else { return };
    let mut tree = MemoryTree::default();
    tree.file("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    tree.file("apps/web/values.yaml", "size: small\n");
    tree.file("apps/web/templates/a.yaml", format!("{CONFIG_MAP}{{{{ .Release.Name }}}}\ndata: {{size: {{{{ .Values.size }}}}, color: {{{{ .Values.color }}}}, kinds: {{{{ kindOf .Values.count }}}} {{{{ kindOf .Values.ratio }}}} {{{{ kindOf .Values.on }}}}}}\n"));
    tree.file("apps/web/templates/tests/t.yaml", format!("{CONFIG_MAP}t\n  annotations: {{helm.sh/hook: test}}\n"));
    tree.file("values/production.yaml", "size: large\n");
    let chart = HelmOptions {
        capabilities: None,
        chart: "apps/web".to_owned(),
        release: Some("shop".to_owned()),
        namespace: Some("prod".to_owned()),
        values: vec!["values.yaml".to_owned(), "/values/production.yaml".to_owned()],
        set: [("color", json!("blue")), ("count", json!(3)), ("ratio", json!(1.5)), ("on", json!(true))]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    };
    let renderer = Renderer::new(Options { helm: vec![chart], ..Options::default() }, tools, None);
    let [file] = &rendered(&renderer, &tree)[..] else { panic!("one unit") };
    assert_eq!(file.complaints, []);
    let [manifest] = &file.manifests[..] else { panic!("{file:?}") };
    assert_eq!(manifest.place.to_string(), "apps/web/templates/a.yaml:1:1");
    assert_eq!(manifest.key.to_string(), "ConfigMap prod/shop");
    assert_eq!(manifest.value()["data"], json!({"size": "large", "color": "blue", "kinds": "int64 float64 bool"}));
}

#[test]
fn what_a_tool_says_is_the_complaint() {
    let Some(tools) = real_tools() else { return };
    let mut tree = MemoryTree::default();
    tree.file("a/kustomization.yaml", "resources: [missing.yaml]\n");
    tree.file("b/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    tree.file("b/templates/x.yaml", "a: 1\nb: {{ fail \"no size\" }}\n");
    let files = rendered(&Renderer::new(Options::default(), tools, None), &tree);
    let complaints: Vec<String> = files.iter().map(|file| file.complaints[0].to_string()).collect();
    assert!(complaints[0].starts_with("a/kustomization.yaml:1:1: kubectl in a: "), "{complaints:?}");
    assert!(complaints[0].contains("missing.yaml") && !complaints[0].contains("belay-render"), "{complaints:?}");
    assert!(complaints[1].starts_with("b/templates/x.yaml:2:6: helm in b: "), "{complaints:?}");
    assert!(complaints[1].contains("no size"), "{complaints:?}");
}

/// A hostile repository may hold these trees, which only show their size when they are rendered: the real tools end,
/// with a complaint.
#[test]
fn trees_that_grow_when_they_are_rendered_end_in_a_complaint() {
    let Some(tools) = real_tools() else { return };
    let chart = |tree: &mut MemoryTree, folder: &str, template: &str| {
        tree.file(format!("{folder}/Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        tree.file(format!("{folder}/templates/a.yaml"), template);
    };
    let mut tree = MemoryTree::default();
    let many = "{{ range until 100000 }}{{ range until 100000 }}";
    chart(&mut tree, "endless", &format!("{many}{{{{ end }}}}{{{{ end }}}}"));
    chart(&mut tree, "itself", "{{ define \"r\" }}{{ include \"r\" . }}{{ end }}{{ include \"r\" . }}");
    chart(&mut tree, "long", &format!("{many}0123456789012345678901234567890123456789{{{{ end }}}}{{{{ end }}}}"));
    // Eleven lists of ten of the one before.
    let mut laughs = format!("{CONFIG_MAP}laughs\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..11 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    tree.file("laughs/kustomization.yaml", "resources: [a.yaml]\n");
    tree.file("laughs/a.yaml", laughs);
    tree.file("circle/kustomization.yaml", "resources: [sub]\n");
    tree.file("circle/sub/kustomization.yaml", "resources: [../../circle]\n");
    tree.file("fine/kustomization.yaml", "resources: [a.yaml]\n");
    tree.file("fine/a.yaml", format!("{CONFIG_MAP}a\n"));
    let limits = ChildLimits { time: Duration::from_secs(5), memory: 256 << 20, output: 1 << 20 };
    let began = Instant::now();
    let files = rendered(&Renderer::new(Options::default(), tools, None).with_limits(limits), &tree);
    assert!(began.elapsed() < Duration::from_mins(2), "{:?}", began.elapsed());
    let of = |folder: &str| files.iter().find(|file| file.path.starts_with(folder)).unwrap();
    for (folder, words) in [
        ("endless", &["ran for more than", "ended with signal"][..]),
        ("itself", &["calling include", "stack"]),
        ("long", &["memory", "ran for more than", "ended with signal"]),
        ("laughs", &["memory", "ran for more than", "alias", "ended with signal"]),
        ("circle", &["cycle"]),
    ] {
        let file = of(folder);
        assert!(file.manifests.is_empty() && file.complaints.len() == 1, "{folder}: {file:?}");
        let complaint = file.complaints[0].to_string();
        assert!(words.iter().any(|words| complaint.contains(words)), "{folder}: {complaint}");
    }
    assert_eq!(of("fine").manifests.len(), 1, "nothing else is held up");
}

#[test]
fn a_restart_renders_nothing() {
    let Some(tools) = real_tools() else { return };
    let kept = tempfile::tempdir().unwrap();
    let renderer = || Renderer::new(Options::default(), tools.clone(), Some(kept.path().into()));
    let (first, second) = (renderer(), renderer());
    let tree = kustomized();
    let before = rendered(&first, &tree);
    assert_eq!(first.runs(), 2);
    assert_eq!(rendered(&second, &tree), before);
    assert_eq!(second.runs(), 0);
    assert_eq!(fs::read_dir(kept.path().join("rendering")).unwrap().count(), 0, "private folders are gone");
}

#[test]
fn a_tool_that_is_missing_is_named_and_looked_for_again() {
    let nowhere = tempfile::tempdir().unwrap();
    let program = nowhere.path().join("kustomize");
    let tools = Tools { kustomize: Some(program.clone()), helm: None };
    let renderer = Renderer::new(Options::default(), tools, None);
    let tree = kustomized();
    let complaint = rendered(&renderer, &tree)[0].complaints[0].to_string();
    assert!(
        complaint.contains("kustomize is not installed") && complaint.contains("[render] kustomize"),
        "{complaint}"
    );
    assert!(!renderer.forget_passing());
    write_program(&program, &format!("#!/bin/sh\nprintf '{}x'\n", CONFIG_MAP.replace('\n', "\\n")));
    assert!(renderer.forget_passing());
    assert_eq!(rendered(&renderer, &tree)[0].manifests[0].key.name, "x");
}

#[test]
fn a_tool_that_hangs_is_ended_with_what_it_started() {
    let limits = ChildLimits { time: Duration::from_secs(1), ..ChildLimits::default() };
    let began = Instant::now();
    // A process that it started keeps the output open.
    let complaint = complaint_of("sleep 1000 & sleep 1000", limits);
    assert!(complaint.contains("ran for more than 1 s"), "{complaint}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_daemon_that_stops_ends_what_renders() {
    let (_folder, tools) = script("sleep 1000");
    let mut tree = MemoryTree::default();
    tree.file("kustomization.yaml", "");
    let stop = tokio_util::sync::CancellationToken::new();
    let renderer = Renderer::new(Options::default(), tools, None).until(stop.clone());
    let began = Instant::now();
    let files = std::thread::scope(|scope| {
        let rendering = scope.spawn(|| rendered(&renderer, &tree));
        while renderer.runs() == 0 {
            std::thread::yield_now();
        }
        stop.cancel();
        rendering.join().unwrap()
    });
    assert!(files[0].unreadable && began.elapsed() < Duration::from_secs(30), "{files:?}");
}

#[test]
fn processes_beyond_counting_end_with_the_tool() {
    let limits = ChildLimits { time: Duration::from_secs(1), ..ChildLimits::default() };
    let complaint = complaint_of("f() { sleep 1000 & sleep 0.05; f & f; }; f", limits);
    assert!(complaint.contains("was ended"), "{complaint}");
}

#[test]
fn what_a_tool_leaves_behind_ends_with_it() {
    let complaint = complaint_of("sleep 1000 & echo no >&2; exit 1", ChildLimits::default());
    assert!(complaint.contains(": no"), "{complaint}");
}

/// A group of its own is none that can be ended with the tool's.
#[test]
fn what_hides_in_a_group_of_its_own_ends_with_the_tool() {
    let confined = confinement();
    if !confined.network || !Path::new("/proc/self/task").exists() {
        return;
    }
    // The shell gives each job a group when it has job control. A process that it starts there has children of its own.
    let text = "set -m; (sleep 1000 & echo left=$! >&2; sleep 1000) & echo left=$! >&2; sleep 0.3; exit 1";
    let complaint = complaint_of(text, ChildLimits::default());
    let left: Vec<&str> = complaint.split_whitespace().filter_map(|word| word.strip_prefix("left=")).collect();
    assert_eq!(left.len(), 2, "{complaint}");
    for process in left {
        assert!(!Path::new("/proc").join(process).exists(), "{process} is still there");
    }
}

#[test]
fn a_long_error_shows_how_it_ends() {
    let complaint = complaint_of("printf '%02000d the cause' 0 >&2; exit 1", ChildLimits::default());
    assert!(complaint.contains("kustomize in /: 000"), "{complaint}");
    assert!(complaint.ends_with("00 the cause") && complaint.len() < 400, "{complaint}");
}

#[test]
fn output_and_memory_are_bounded() {
    let limits = ChildLimits { output: 1 << 20, ..ChildLimits::default() };
    let complaint = complaint_of("while :; do echo 0123456789012345678901234567890123456789; done", limits);
    assert!(complaint.contains("printed more than 1 MiB"), "{complaint}");
    let errors = complaint_of(
        "i=0; while [ $i -lt 3000 ]; do echo 01234567890123456789012345678901234567890123456789 >&2; i=$((i+1)); done; exit 1",
        limits,
    );
    assert!(errors.len() < 1000, "{}", errors.len());
    let limits = ChildLimits { memory: 32 << 20, ..ChildLimits::default() };
    let complaint = complaint_of("x=0123456789; while :; do x=$x$x; done", limits);
    assert!(complaint.contains("memory") || complaint.contains("Out of space"), "{complaint}");
}

#[test]
fn a_tool_sees_neither_files_nor_the_environment_nor_the_network() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "hunter2").unwrap();
    let outside = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    // A long complaint is cut: the shell's message for each refusal is not in it.
    let text = format!(
        "exec 4>&2 2>/dev/null; head -c 20 {secret} >&4; head -c 20 /etc/passwd >&4; touch {outside}/x; \
         touch $HOME/y && echo home >&4; echo path=$CARGO >&4; \
         (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo connected >&4; kill -0 {pid} && echo killed >&4; exit 1",
        secret = secret.path().display(),
        outside = outside.path().display(),
        port = port.local_addr().unwrap().port(),
        pid = std::os::unix::process::parent_id(),
    );
    // Only bash connects, no other shell.
    let text = if Path::new("/bin/bash").exists() { format!("exec /bin/bash -c '{text}'") } else { text };
    let complaint = complaint_of(&text, ChildLimits::default());
    assert!(complaint.contains("home") && complaint.contains("path="), "{complaint}");
    assert!(!complaint.contains("path=/"), "{complaint}");
    let confined = confinement();
    if confined.files {
        assert!(!complaint.contains("hunter2") && !complaint.contains("root:"), "{complaint}");
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
        assert!(!complaint.contains("killed"), "{complaint}");
    }
    if confined.network {
        assert!(!complaint.contains("connected"), "{complaint}");
    }
    assert!(confined.files && confined.network || std::env::var_os("CI").is_none(), "{confined:?}");
}

/// Five hundred units, of which a commit changes one: one is rendered.
#[test]
fn only_what_changed_is_rendered_again() {
    let (_folder, tools) = script(&format!("printf '{}x'", CONFIG_MAP.replace('\n', "\\n")));
    let mut tree = MemoryTree::default();
    for number in 0..500 {
        tree.file(format!("units/{number}/kustomization.yaml"), "resources: [a.yaml, ../../base]\n");
        tree.file(format!("units/{number}/a.yaml"), format!("{CONFIG_MAP}a\n"));
    }
    tree.file("base/kustomization.yaml", "resources: [b.yaml]\n");
    tree.file("base/b.yaml", "");
    let renderer = Renderer::new(Options::default(), tools, None);
    let prepared = |tree: &MemoryTree| {
        let Ok(plan) = renderer.plan(tree, "units");
        let Ok(()) = renderer.prepare(tree, &plan.units.values().collect::<Vec<_>>());
        renderer.runs()
    };
    assert_eq!(prepared(&tree), 500);
    tree.file("units/17/a.yaml", format!("{CONFIG_MAP}b\n"));
    tree.file("units/18/README.md", "nothing to anybody");
    assert_eq!(prepared(&tree), 501);
    tree.file("base/b.yaml", format!("{CONFIG_MAP}b\n"));
    assert_eq!(prepared(&tree), 1001, "it is in all of them");
}
