//! Renders with real tools, where there are any, and with tools that mean harm.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::*;
use belay_core::manifest::{File, Scopes};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ";

/// The real tools. Without them a test says that it has nothing to run.
fn real_tools() -> Option<Tools> {
    let folder =
        std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).filter(|folder| folder.join("helm").exists());
    let Some(folder) = folder else {
        eprintln!("KUBEBUILDER_ASSETS names no folder with kubectl and helm: nothing is rendered");
        return None;
    };
    Some(Tools { kustomize: Some(folder.join("kubectl")), helm: Some(folder.join("helm")) })
}

/// A tool that is a script, in a folder of its own.
fn script(text: &str) -> (tempfile::TempDir, Tools) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kustomize");
    fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
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

/// What a kustomization says with one tool, as its only complaint.
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
    tree.file("apps/web/templates/a.yaml", format!("{CONFIG_MAP}{{{{ .Release.Name }}}}\ndata: {{size: {{{{ .Values.size }}}}, color: {{{{ .Values.color }}}}}}\n"));
    tree.file("apps/web/templates/tests/t.yaml", format!("{CONFIG_MAP}t\n  annotations: {{helm.sh/hook: test}}\n"));
    tree.file("values/production.yaml", "size: large\n");
    let chart = HelmOptions {
        capabilities: None,
        chart: "apps/web".to_owned(),
        release: Some("shop".to_owned()),
        namespace: Some("prod".to_owned()),
        values: vec!["values.yaml".to_owned(), "/values/production.yaml".to_owned()],
        set: [("color".to_owned(), "blue".to_owned())].into(),
    };
    let renderer = Renderer::new(Options { helm: vec![chart], ..Options::default() }, tools, None);
    let [file] = &rendered(&renderer, &tree)[..] else { panic!("one unit") };
    assert_eq!(file.complaints, []);
    let [manifest] = &file.manifests[..] else { panic!("{file:?}") };
    assert_eq!(manifest.place.to_string(), "apps/web/templates/a.yaml:1:1");
    assert_eq!(manifest.key.to_string(), "ConfigMap prod/shop");
    assert_eq!(manifest.value()["data"], serde_json::json!({"size": "large", "color": "blue"}));
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

#[test]
fn a_restart_renders_nothing() {
    let Some(tools) = real_tools() else { return };
    let kept = tempfile::tempdir().unwrap();
    let renderer = || Renderer::new(Options::default(), tools.clone(), Some(kept.path()));
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
    fs::write(&program, format!("#!/bin/sh\nprintf '{}x'\n", CONFIG_MAP.replace('\n', "\\n"))).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(renderer.forget_passing());
    assert_eq!(rendered(&renderer, &tree)[0].manifests[0].key.name, "x");
}

#[test]
fn a_tool_that_hangs_is_ended_with_what_it_started() {
    let limits = ChildLimits { time: Duration::from_secs(1), ..ChildLimits::default() };
    let began = Instant::now();
    // What it started keeps the output open.
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
    let text = format!(
        "cat {secret} >&2; cat /etc/passwd >&2; touch {outside}/x; touch $HOME/y && echo home >&2; \
         echo path=$CARGO >&2; (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo connected >&2; kill -9 {pid} && echo killed >&2; exit 1",
        secret = secret.path().display(),
        outside = outside.path().display(),
        port = port.local_addr().unwrap().port(),
        pid = std::os::unix::process::parent_id(),
    );
    // Of the shells only bash connects.
    let text = if Path::new("/bin/bash").exists() { format!("exec /bin/bash -c '{text}'") } else { text };
    let complaint = complaint_of(&text.replace("kill -9", "kill -0"), ChildLimits::default());
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

/// A random file of a random tree of kustomizations.
fn change(tree: &mut MemoryTree, random: &mut fastrand::Rng) {
    let folder = ["over", "base", "part", "over/sub"][random.usize(..4)];
    let name = ["kustomization.yaml", "kustomization.yml", "a.yaml", "b.yaml", "p.yaml", "e.env", "f.txt", "t.yaml"]
        [random.usize(..8)];
    let path = format!("{folder}/{name}");
    if random.u8(..6) == 0 || (name == "kustomization.yml" && random.bool()) {
        return tree.remove(&path);
    }
    let text = match name {
        "a.yaml" | "b.yaml" => format!("{CONFIG_MAP}{}\ndata: {{k: \"{}\"}}\n", &name[..1], random.u8(..4)),
        "p.yaml" => format!("{CONFIG_MAP}a\ndata: {{p: \"{}\"}}\n", random.u8(..4)),
        "e.env" => format!("E={}\n", random.u8(..4)),
        "t.yaml" => format!(
            "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {{name: t}}\nprefix: t{}-\nfieldSpecs: [{{path: metadata/name}}]\n",
            random.u8(..4)
        ),
        "f.txt" => random.u8(..4).to_string(),
        _ => kustomization(random),
    };
    tree.file(path, text);
}

fn kustomization(random: &mut fastrand::Rng) -> String {
    let mut some = |choices: &[&str]| {
        let mut chosen: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        chosen.retain(|_| random.u8(..3) == 0);
        chosen
    };
    let resources = some(&["a.yaml", "b.yaml", "../base", "../../base", "sub", "../part/b.yaml"]);
    let mut text = format!("resources: [{}]\n", resources.join(", "));
    for line in some(&[
        "patches: [{path: p.yaml}]",
        "configMapGenerator: [{name: g, files: [f.txt], envs: [e.env]}]",
        "secretGenerator: [{name: s, files: [k=f.txt]}]",
        "transformers: [t.yaml]",
        "components: [../part]",
        "namePrefix: x-",
        "buildMetadata: [originAnnotations]",
        "buildMetadata: [managedByLabel]",
        "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1",
    ]) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Whatever changes, what is kept is what would be rendered from all of the repository.
#[test]
fn what_is_kept_is_never_out_of_date() {
    let Some(tools) = real_tools() else { return };
    let seed = std::env::var("BELAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut rendered_well, mut kept) = (0, 0);
    for seed in seed.map_or(1..7, |seed: u64| seed..seed + 1) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = MemoryTree::default();
        tree.file("over/kustomization.yaml", "resources: [a.yaml, ../base]\n");
        tree.file("base/kustomization.yaml", "resources: [b.yaml]\n");
        for file in ["over/a.yaml", "base/b.yaml"] {
            tree.file(file, format!("{CONFIG_MAP}{}\n", file.replace('/', ".")));
        }
        let renderer = Renderer::new(Options::default(), tools.clone(), None);
        for step in 0..12 {
            (0..random.u8(1..3)).for_each(|_| change(&mut tree, &mut random));
            let Ok(plan) = renderer.plan(&tree, "over");
            let scopes = Scopes::new("default");
            for unit in plan.units.values().filter(|unit| unit.refusal.is_none()) {
                let before = renderer.runs();
                let Ok(file) = renderer.file(&tree, unit, &scopes);
                kept += usize::from(renderer.runs() == before);
                let Ok(root) = tree.node("");
                let whole = Unit { inputs: Inputs { nodes: [(String::new(), root)].into() }, ..unit.clone() };
                let Ok(anew) = Renderer::new(Options::default(), tools.clone(), None).file(&tree, &whole, &scopes);
                let wrong =
                    |file: &File| file.complaints.iter().map(|complaint| complaint.place.clone()).collect::<Vec<_>>();
                assert_eq!(file.manifests, anew.manifests, "BELAY_SEED={seed}, step {step}, {tree:?}");
                assert_eq!(wrong(&file), wrong(&anew), "BELAY_SEED={seed}, step {step}, {tree:?}");
                rendered_well += usize::from(!file.manifests.is_empty());
            }
        }
    }
    assert!(rendered_well > 10 && kept > 5, "{rendered_well} rendered, {kept} of them kept: too few to tell anything");
}
