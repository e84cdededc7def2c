//! `belay render`, and `check` and `plan` where something is rendered. The tools are the real ones; without them a test says that
//! it has nothing to run.

use std::path::{Path, PathBuf};

use crate::program::{self, Ran};
use crate::support::daemon::{config_map, deployment, tools_folder};

/// Returns a folder with a base and an overlay, and the PATH with the real tools.
fn folder() -> Option<(tempfile::TempDir, PathBuf)> {
    let tools = tools_folder()?;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "base/kustomization.yaml", "resources: [web.yaml]\n");
    write(folder.path(), "base/web.yaml", &deployment("web", "web:1", ""));
    write(folder.path(), "live/kustomization.yaml", "resources: [../base, map.yaml]\nnamespace: shop\n");
    write(folder.path(), "live/map.yaml", &config_map("map", "1"));
    write(folder.path(), ".git/HEAD", "ref: refs/heads/main\n");
    Some((folder, tools))
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn belay(at: &Path, tools: &Path, arguments: &[&str]) -> Ran {
    let mut command = program::belay(at);
    command.args(arguments).env("PATH", tools);
    program::finish(command, "")
}

#[test]
fn what_would_be_applied_is_printed_with_its_origin() {
    let Some((folder, tools)) = folder() else { return };
    let ran = belay(&folder.path().join("live"), &tools, &["render"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("# Source: ../base/web.yaml (rendered by kustomization.yaml)\n"), "{}", ran.out);
    assert!(ran.out.contains("# Source: map.yaml (rendered by kustomization.yaml)\n"), "{}", ran.out);
    assert!(ran.out.contains("namespace: shop") && !ran.out.contains("config.kubernetes.io"), "{}", ran.out);
    let names = belay(folder.path(), &tools, &["render", "live", "-o", "name"]);
    assert_eq!(names.out.lines().collect::<Vec<_>>(), ["ConfigMap shop/map", "Deployment shop/web"]);
    let json: serde_json::Value =
        serde_json::from_str(&belay(folder.path(), &tools, &["render", "live", "-o", "json"]).out).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
}

#[test]
fn check_reads_what_is_rendered_and_warns_of_a_base_that_is_rolled_out_too() {
    let Some((folder, tools)) = folder() else { return };
    let fine = belay(folder.path(), &tools, &["check", "live"]);
    assert_eq!(fine.code, 0, "{fine:?}");
    let wide = belay(folder.path(), &tools, &["check"]);
    assert!(
        wide.out.contains("base/kustomization.yaml:1:1") && wide.out.contains("exclude = [\"/base/\"]"),
        "{wide:?}"
    );
    write(folder.path(), "base/web.yaml", &deployment("web", "web:1", "").replace("image:", "imagee:"));
    let wrong = belay(folder.path(), &tools, &["check", "live"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.out.contains("imagee") && wrong.out.contains("--> base/web.yaml:1:1"), "{wrong:?}");
    write(folder.path(), "live/kustomization.yaml", "resources: [missing.yaml]\n");
    let failing = belay(folder.path(), &tools, &["render", "live"]);
    assert_eq!(failing.code, 1, "{failing:?}");
    assert!(failing.err.contains("missing.yaml") && !failing.err.contains("/tmp/"), "{failing:?}");
    assert_eq!(failing.out, "");
}

#[test]
fn the_tools_that_were_found_are_told() {
    let Some((folder, tools)) = folder() else { return };
    let version = belay(folder.path(), &tools, &["version"]);
    assert!(version.out.contains("kustomize: kubectl v") && version.out.contains("helm: helm v4.1.4"), "{version:?}");
    let none = belay(folder.path(), Path::new("/nonexistent"), &["version"]);
    assert!(none.out.contains("kustomize: not found") && none.out.contains("helm: not found"), "{none:?}");
    write(
        folder.path(),
        "belay.toml",
        &format!("[render]\nhelm = \"{}\"\n[[source]]\nrepository = \"/srv/a.git\"\n", tools.join("helm").display()),
    );
    let checked = belay(folder.path(), Path::new("/nonexistent"), &["run", "--check-config", "--config", "belay.toml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.out.contains("kustomize: not found") && checked.out.contains("helm: helm v4.1.4"), "{checked:?}");
}

/// Files that `.belayignore` names are no manifests for the commands either.
#[test]
fn what_the_repository_ignores_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), ".git/HEAD", "ref: refs/heads/main\n");
    write(folder.path(), ".belayignore", "fixtures/\n");
    write(folder.path(), "live/a.yaml", &config_map("a", "1"));
    write(folder.path(), "live/b.yaml", &config_map("b", "1"));
    write(folder.path(), "live/.belayignore", "b.yaml\n");
    write(folder.path(), "live/fixtures/bad.yaml", "kind: [");
    write(folder.path(), "live/fixtures/kustomization.yaml", "resources: [missing.yaml]\n");
    let names = belay(folder.path(), folder.path(), &["render", "live", "-o", "name"]);
    assert_eq!((names.code, names.out.trim()), (0, "ConfigMap default/a"), "{names:?}");
    let check = belay(folder.path(), folder.path(), &["check", "live"]);
    assert_eq!(check.code, 0, "{check:?}");
    write(folder.path(), ".belayignore", "");
    assert_eq!(belay(folder.path(), folder.path(), &["check", "live"]).code, 1);
}

/// Plain files need no tool.
#[test]
fn each_command_reads_what_the_configuration_lets_count() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), ".git/HEAD", "ref: refs/heads/main\n");
    write(folder.path(), "live/web.yaml", &deployment("web", "web:1", ""));
    write(folder.path(), "live/odd.test.yaml", "kind: [\n");
    write(folder.path(), "other/map.yaml", &config_map("map", "1"));
    let source =
        "[[source]]\nname = \"shop\"\nrepository = \"/srv\"\nexclude = [\"*.test.yaml\"]\ninclude = [\"/live/\"]\n";
    write(folder.path(), "belay.toml", source);
    let at = |arguments: &[&str]| belay(folder.path(), folder.path(), arguments);
    for command in ["check", "render"] {
        assert_eq!(at(&[command]).code, 1, "{command}");
        let read = at(&[command, "--config", "belay.toml", "--source", "shop", "-o", "name"]);
        assert_eq!(read.code, 0, "{command}: {read:?}");
        assert!(!read.out.contains("map"), "{command}: {read:?}");
        let only = at(&[command, "--config", "belay.toml", "-o", "name"]);
        assert_eq!((only.code, &only.out), (0, &read.out), "the only source is meant: {only:?}");
        let nothing = at(&[command, "--config", "belay.toml", "--source", "default"]);
        assert!(nothing.code == 1 && nothing.err.contains("has no source \"default\", only \"shop\""), "{nothing:?}");
    }
    assert_eq!(at(&["simulate", "live"]).code, 1);
    let simulated = at(&["simulate", "live", "--image", "web:2", "--config", "belay.toml"]);
    assert_eq!(simulated.code, 0, "{simulated:?}");
    write(folder.path(), "two.toml", &format!("{source}{}", source.replace("shop", "default")));
    for command in ["check", "render", "simulate live --image web:2"] {
        let arguments: Vec<&str> = command.split(' ').chain(["--config", "two.toml"]).collect();
        let several = at(&arguments);
        let names = "two.toml has several sources, \"shop\", \"default\"; say --source NAME";
        assert!(several.code == 1 && several.err.contains(names), "{command}: {several:?}");
    }
    assert_eq!(at(&["check", "--source", "shop"]).code, 2);
}

#[test]
fn a_chart_is_rendered_as_the_configuration_says() {
    let Some((folder, tools)) = folder() else { return };
    write(folder.path(), "charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let map = config_map("map", "1").replace("name: map", "name: '{{ .Release.Name }}-{{ .Values.colour }}'");
    write(folder.path(), "charts/web/templates/map.yaml", &map);
    let source = "[[source]]\nrepository = \"/srv\"\n[[source.helm]]\nchart = \"charts/web\"\nrelease = \"shop\"\nset = { colour = \"blue\" }\n";
    write(folder.path(), "belay.toml", source);
    let read = belay(folder.path(), &tools, &["render", "live", "-o", "name", "--config", "belay.toml"]);
    assert!(read.out.contains("ConfigMap default/shop-blue\n"), "{read:?}");
    let without = belay(folder.path(), &tools, &["render", "live", "-o", "name"]);
    assert!(!without.out.contains("shop-blue"), "{without:?}");
}

/// A template that asks the cluster is named with its line.
#[test]
fn check_warns_of_a_chart_that_asks_the_cluster() {
    let Some((folder, tools)) = folder() else { return };
    write(folder.path(), "chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let template = config_map("map", "{{ lookup \"v1\" \"Secret\" \"a\" \"b\" | len }}");
    write(folder.path(), "chart/templates/map.yaml", &template);
    let checked = belay(folder.path(), &tools, &["check", "chart"]);
    let line = template.lines().position(|line| line.contains("lookup")).unwrap() + 1;
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        checked.out.contains(&format!("warning: chart/templates/map.yaml:{line}:"))
            && checked.out.contains("lookup finds nothing"),
        "{checked:?}"
    );
}
