//! `belay check` and `belay render` of folders as people write them, without a cluster.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::program::{self, Ran};
use crate::support::daemon::{config_map, deployment, tools_folder};

/// Returns a folder that is a repository.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), ".git/HEAD", "ref: refs/heads/main\n");
    folder
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Runs the program in a folder, with the real tools if there are any.
fn belay(at: &Path, line: &str) -> Ran {
    let mut command = program::belay(at);
    command.args(line.split(' ')).env("PATH", tools_folder().unwrap_or_else(|| "/nonexistent".into()));
    program::finish(command, "")
}

#[test]
fn a_link_is_complained_about_as_the_daemon_does() {
    let folder = repository();
    write(folder.path(), "shared/cm.yaml", &config_map("shared", "1"));
    write(folder.path(), "deploy/own.yaml", &config_map("own", "1"));
    assert_eq!(belay(folder.path(), "check deploy").code, 0);
    symlink("../shared/cm.yaml", folder.path().join("deploy/cm.yaml")).unwrap();
    let link = belay(folder.path(), "check deploy");
    assert_eq!(link.code, 1, "{link:?}");
    assert!(link.out.contains("the file is a symbolic link, and belay does not follow links"), "{link:?}");
    assert!(link.out.contains("--> deploy/cm.yaml:1:1"), "{link:?}");
    symlink("../shared", folder.path().join("deploy/all")).unwrap();
    let linked = belay(folder.path(), "check deploy");
    assert!(
        linked.out.contains("the folder is a symbolic link") && linked.out.contains("--> deploy/all:1:1"),
        "{linked:?}"
    );
    std::fs::remove_file(folder.path().join("deploy/all")).unwrap();
    // An excluded file is no matter.
    write(folder.path(), ".belayignore", "cm.yaml\n");
    assert_eq!(belay(folder.path(), "check deploy").code, 0);
}

#[test]
fn warnings_about_rendered_objects_name_object_and_folder() {
    if tools_folder().is_none() {
        return;
    }
    let folder = repository();
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  serviceAccountName: builder\n  containers: [{{name: \
             app, image: 'app:1'}}]\n"
        )
    };
    write(folder.path(), "base/pods.yaml", &format!("{}---\n{}", pod("one"), pod("two")));
    write(folder.path(), "base/kustomization.yaml", "resources: [pods.yaml]\n");
    write(folder.path(), "over/kustomization.yaml", "resources: [../base]\n");
    let checked = belay(folder.path(), "check over");
    assert_eq!(checked.code, 0, "{checked:?}");
    for name in ["one", "two"] {
        let told = format!(
            "warning: base/pods.yaml:1:1: names ServiceAccount default/builder, which no manifest here makes (Pod default/{name}, as \
             rendered from over)"
        );
        assert!(checked.out.contains(&told), "{told}: {checked:?}");
    }
}

#[test]
fn a_configuration_says_which_folders_are_read() {
    let folder = repository();
    write(folder.path(), "app/web.yaml", &config_map("web", "1"));
    write(folder.path(), "app/deep/db.yaml", &config_map("db", "1"));
    write(folder.path(), "other/bad.yaml", "kind: [\n");
    for path in ["\"app\"", "\"./app\"", "\"app/\"", "[\"./app\"]", "\"./a*\""] {
        let source = format!("[[source]]\nrepository = \"/srv\"\npath = {path}\n");
        write(folder.path(), "belay.toml", &source);
        let read = belay(folder.path(), "render --config belay.toml -o name");
        let names = read.out.lines().collect::<Vec<_>>();
        assert_eq!((read.code, names), (0, vec!["ConfigMap default/db", "ConfigMap default/web"]), "{path}: {read:?}");
        assert_eq!(belay(folder.path(), "check --config belay.toml").code, 0, "{path}");
        // From a folder in it, all that is followed is read as well; a folder that is named leaves out what is not below it.
        let inside = belay(&folder.path().join("other"), "render --config ../belay.toml -o name");
        assert_eq!(inside.out, read.out, "{path}");
        let below = belay(folder.path(), "render app/deep --config belay.toml -o name");
        assert_eq!(below.out, "ConfigMap default/db\n", "{path}");
        let beside = belay(folder.path(), "check other --config belay.toml");
        assert_eq!((beside.code, beside.err.trim()), (0, "0 objects in 0 files, and nothing wrong."), "{path}");
    }
    for all in ["\".\"", "\"./\"", "\"\""] {
        write(folder.path(), "belay.toml", &format!("[[source]]\nrepository = \"/srv\"\npath = {all}\n"));
        assert_eq!(belay(folder.path(), "check --config belay.toml").code, 1, "{all}");
    }
    write(folder.path(), "belay.toml", "[[source]]\nrepository = \"/srv\"\npath = \"apps\"\n");
    let missing = belay(folder.path(), "check --config belay.toml");
    assert!(missing.code == 1 && missing.err.contains("follows apps, and there is no such folder"), "{missing:?}");
    write(folder.path(), "belay.toml", "[[source]]\nrepository = \"/srv\"\nexclude = [\"./other/\"]\n");
    assert_eq!(belay(folder.path(), "check --config belay.toml").code, 0);
}

#[test]
fn a_chart_that_nothing_is_read_of_is_told() {
    let folder = repository();
    write(folder.path(), "web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    write(folder.path(), "app/web.yaml", &config_map("web", "1"));
    write(folder.path(), "belay.toml", "[[source]]\nrepository = \"/srv\"\npath = \"app\"\n");
    let beside = belay(folder.path(), "check web --config belay.toml");
    assert_eq!(beside.code, 0, "{beside:?}");
    let hint = "hint: web holds a Helm chart (Chart.yaml), which the source does not follow: name its folder in `path`";
    assert!(beside.err.contains("0 objects in 0 files") && beside.err.contains(hint), "{beside:?}");
    write(folder.path(), "web/Chart.yaml", "apiVersion: v2\nname: web\ntype: library\nversion: 1.0.0\n");
    let library = belay(folder.path(), "check web");
    assert!(library.err.contains("is a library and renders no objects"), "{library:?}");
}

#[test]
fn what_is_rendered_is_read_again_as_the_same() {
    let folder = repository();
    let odd = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: switches\n  labels: {managed: \"yes\"}\ndata: {save: \"no\", log: \
               \"on\", \"y\": \"N\", size: \"1_000\", when: \"2026-11-26\", at: \"1:30\", mode: \"0o17\", text: \"a: b\\n#c\\n\"}\n";
    write(folder.path(), "odd.yaml", odd);
    let rendered = belay(folder.path(), "render");
    assert_eq!(rendered.code, 0, "{rendered:?}");
    assert!(rendered.out.contains("save: \"no\"\n") && rendered.out.contains("\"y\": \"N\"\n"), "{}", rendered.out);
    let json = |ran: &Ran| serde_json::from_str::<Value>(&ran.out).unwrap();
    let before = json(&belay(folder.path(), "render -o json"));
    write(folder.path(), "odd.yaml", &rendered.out);
    assert_eq!(belay(folder.path(), "check").code, 0);
    assert_eq!(json(&belay(folder.path(), "render -o json")), before);
}

#[test]
fn what_is_doubtful_is_a_warning() {
    let folder = repository();
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader, namespace: shop}\nrules: []\n";
    write(folder.path(), "role.yaml", role);
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: shop, namespace: flux-system}\n";
    write(folder.path(), "flux.yaml", flux);
    write(folder.path(), "web.yaml", &deployment("web", "web:${TAG}", ""));
    let checked = belay(folder.path(), "check");
    assert_eq!(checked.code, 0, "{checked:?}");
    for warning in [
        "role.yaml:3:37: a ClusterRole lives in no namespace, and this one is ignored (leave metadata.namespace out)",
        "flux.yaml:2:7: this Kustomization is Flux's, and belay does not act on it (`belay import` writes",
        "belay puts nothing in the place of ${TAG} (write the value",
    ] {
        assert!(checked.out.contains(&format!("warning: {warning}")) || checked.out.contains(warning), "{checked:?}");
    }
    let rendered = belay(folder.path(), "render");
    assert!(!rendered.out.contains("namespace: shop\n"), "{rendered:?}");
}

/// A repository that is on its way from Flux has dozens of them.
#[test]
fn what_another_tool_acts_on_is_told_once_for_each_kind() {
    let folder = repository();
    let object = |group: &str, kind: &str, name: &str| {
        format!("apiVersion: {group}\nkind: {kind}\nmetadata: {{name: {name}, namespace: flux-system}}\n")
    };
    for name in ["c", "a", "b", "e", "d"] {
        let kustomization = object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name);
        write(folder.path(), &format!("flux/{name}.yaml"), &kustomization);
    }
    write(folder.path(), "flux/a-release.yaml", &object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "web"));
    let argo = ["one", "two"].map(|name| object("argoproj.io/v1alpha1", "Application", name)).join("---\n");
    write(folder.path(), "argo.yaml", &argo);
    let checked = belay(folder.path(), "check");
    assert_eq!(checked.code, 0, "{checked:?}");
    let told: Vec<&str> = checked.out.lines().filter(|line| line.contains("belay does not act on")).collect();
    assert_eq!(
        told,
        [
            "warning: argo.yaml:2:7: these 2 objects of the kind Application are Argo CD's, and belay does not act on them \
             (`belay import` writes the sources that do the same as flux-system/one, flux-system/two)",
            "warning: flux/a-release.yaml:2:7: this HelmRelease is Flux's, and belay does not act on it (`belay import` \
             writes the source that does the same as flux-system/web)",
            "warning: flux/a.yaml:2:7: these 5 objects of the kind Kustomization are Flux's, and belay does not act on them \
             (`belay import` writes the sources that do the same as flux-system/a, flux-system/b, flux-system/c and 2 more)",
        ],
        "{checked:?}"
    );
    assert!(checked.err.contains("and 3 warnings."), "{checked:?}");
    let json: Value = serde_json::from_str(&belay(folder.path(), "check -o json").out).unwrap();
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(3), "{json:#}");
}

#[test]
fn two_units_that_render_one_object_are_both_named() {
    let Some(_) = tools_folder() else { return };
    let folder = repository();
    for unit in ["one", "two"] {
        write(folder.path(), &format!("{unit}/kustomization.yaml"), "resources: [../base]\n");
    }
    write(folder.path(), "base/kustomization.yaml", "resources: [cm.yaml]\n");
    write(folder.path(), "base/cm.yaml", &config_map("shared", "1"));
    write(folder.path(), "belay.toml", "[[source]]\nrepository = \"/srv\"\npath = [\"one\", \"two\"]\n");
    let checked = belay(folder.path(), "check --config belay.toml");
    assert_eq!(checked.code, 1, "{checked:?}");
    let text: String = checked.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("in more than one place (rendered by two/kustomization.yaml)"), "{text}");
    assert!(text.contains("first written here (rendered by one/kustomization.yaml)"), "{text}");
}

/// A chart that asks for a newer Kubernetes than Helm's own is rendered for the one that manifests are checked against.
#[test]
fn a_chart_is_rendered_for_the_version_that_is_checked_against() {
    let Some(_) = tools_folder() else { return };
    let folder = repository();
    write(folder.path(), "web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let map = config_map("map", "1").replace("name: map", "name: 'v{{ .Capabilities.KubeVersion.Version }}'");
    write(folder.path(), "web/templates/map.yaml", &map);
    let version = &kube_facts::facts().kubernetes;
    let rendered = belay(folder.path(), "render -o name");
    assert_eq!(rendered.out.trim(), format!("ConfigMap default/v{version}"), "{rendered:?}");
}
