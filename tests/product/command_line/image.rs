//! The program in the image, in which there is no shell, and little else: in the root that `.ci/image-root` fills, and in the
//! image that `.ci/image` makes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use belay::config::Config;

use crate::fixture::Fixture;
use crate::program::{Ran, can_try, does, finish};
use crate::support::daemon::config_map;

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Runs a script of `.ci/`.
fn script(name: &str, args: &[&Path]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci").join(name);
    does("bash", &[&[script.as_path()], args].concat());
}

/// Returns true where containers can be made: root of a container itself may often not; else says so.
fn can_contain(what: &str) -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--uts", "--ipc", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"]);
    let unshares = command.output().is_ok_and(|output| output.status.success());
    let is_free = |root: &&str| {
        let group = Path::new(root).join(format!("belay-probe-{}", std::process::id()));
        fs::create_dir(&group).and_then(|()| fs::remove_dir(&group)).is_ok()
    };
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].iter().any(is_free);
    if !unshares || !groups {
        eprintln!("not tried: {what}: namespaces and control groups can't be made here");
    }
    unshares && groups
}

/// Returns the root of the image. `None` if it can't be made, or nobody may run in it.
fn root() -> Option<tempfile::TempDir> {
    if !can_try("belay in the image's root", &["chroot", "ldd", "dpkg", "update-ca-certificates"]) {
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    script("image-root", &[root.path(), Path::new(env!("CARGO_BIN_EXE_belay"))]);
    // These tests run it as root.
    does("chown", &[Path::new("root:root"), &root.path().join("var/lib/belay")]);
    Some(root)
}

fn run_in(root: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new("/usr/sbin/chroot");
    command.arg(root).arg("/usr/local/bin/belay").args(args);
    command.env_clear().env("HOME", "/root").env("NO_COLOR", "1");
    finish(command, "")
}

#[test]
fn it_runs_in_a_root_that_has_nothing_else() {
    let Some(root) = root() else { return };
    let ran = run_in(root.path(), &["version"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, concat!("belay ", env!("CARGO_PKG_VERSION"), "\nkustomize: not found\nhelm: not found\n")),
        "{ran:?}"
    );
    let programs: Vec<_> = ["usr/bin", "usr/local/bin"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.path().join(folder)).unwrap())
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(programs, ["belay"]);
    assert!(root.path().join("usr/share/doc/libc6/copyright").exists(), "the licences are there");
    fs::create_dir_all(root.path().join("shop")).unwrap();
    fs::write(root.path().join("etc/belay/belay.toml"), configuration()).unwrap();
    fs::write(root.path().join("shop/web.yaml"), file("manifests/sample/web.yaml")).unwrap();
    let ran = run_in(root.path(), &["run", "--check-config"]);
    assert!(ran.code == 1 && ran.err.contains("failed to read /etc/belay-repository/token"), "{ran:?}");
    fs::create_dir_all(root.path().join("etc/belay-repository")).unwrap();
    fs::write(root.path().join("etc/belay-repository/token"), "a-token").unwrap();
    let ran = run_in(root.path(), &["run", "--check-config"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let ran = run_in(root.path(), &["check", "/shop"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // An administrator of a machine with the service on it finds its state and its kubeconfig.
    drop(belay::history::History::open(&root.path().join("var/lib/belay"), jiff::Timestamp::UNIX_EPOCH).unwrap());
    let ran = run_in(root.path(), &["history"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Nothing was rolled out.\n"), "{ran:?}");
    fs::write(root.path().join("etc/belay/kubeconfig"), "current-context: nowhere\n").unwrap();
    let ran = run_in(root.path(), &["status"]);
    assert!(ran.code == 1 && ran.err.contains("failed to use /etc/belay/kubeconfig"), "{ran:?}");
}

/// Returns the configuration that `manifests/belay/` has for the daemon in a cluster.
fn configuration() -> String {
    let text = file("manifests/belay/3-configuration.yaml");
    let map: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    map["data"]["belay.toml"].as_str().unwrap().to_owned()
}

#[test]
fn the_manifests_and_the_image_fit() {
    let config = Config::parse(&configuration(), "belay.toml").unwrap();
    let deployment: serde_json::Value = serde_yaml::from_str(&file("manifests/belay/4-deployment.yaml")).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let port = &container["ports"][0];
    assert_eq!(port["containerPort"], config.web.listen.unwrap().port());
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let asked = &container[probe]["httpGet"];
        assert_eq!((asked["path"].as_str(), &asked["port"]), (Some(path), &port["name"]), "{probe}");
    }
    let memory: u64 =
        container["resources"]["limits"]["memory"].as_str().unwrap().trim_end_matches("Mi").parse().unwrap();
    let tool = belay::render::ChildLimits::default().memory >> 20;
    assert!(memory >= 256 + tool, "there is no room for one tool");
    let image = concat!("belay:", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], image);
    let dockerfile = file("Dockerfile");
    let user = format!("USER {}:{}", pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]);
    for line in [format!("--tag {image} ."), user.clone(), ".ci/image-root /image".to_owned()] {
        assert!(dockerfile.contains(&line), "{line}");
    }
    assert!(file(".ci/image").contains(&user.replace("USER ", "--config.user ")), "{user}");
    assert!(file("README.md").contains(&format!("docker build --tag {image} .")));
}

/// Returns how the image runs, as `umoci unpack` says, in the network of this machine and with a root that can't be written.
fn bundle(folder: &Path, args: &[&str]) {
    let path = folder.join("bundle/config.json");
    let mut spec: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(spec["process"]["user"], serde_json::json!({"uid": 65532, "gid": 65532}));
    assert_eq!(spec["process"]["args"], serde_json::json!(["/usr/local/bin/belay"]));
    spec["process"]["args"].as_array_mut().unwrap().extend(args.iter().map(|arg| serde_json::Value::from(*arg)));
    spec["process"]["terminal"] = false.into();
    spec["process"]["noNewPrivileges"] = true.into();
    spec["process"]["capabilities"] = serde_json::json!({});
    spec["root"]["readonly"] = true.into();
    spec["linux"]["namespaces"].as_array_mut().unwrap().retain(|namespace| namespace["type"] != "network");
    spec["linux"]["resources"] = serde_json::json!({});
    let writable = |at: &str| serde_json::json!({"destination": at, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "uid=65532", "gid=65532"]});
    let mounts = spec["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| mount["type"] != "cgroup");
    mounts.extend([writable("/tmp"), writable("/var/lib/belay")]);
    mounts.push(serde_json::json!({
        "destination": "/fixture", "type": "bind", "source": folder.join("fixture"), "options": ["rbind", "ro"],
    }));
    fs::write(path, spec.to_string()).unwrap();
}

/// Unpacks the archive of an image into a bundle.
fn unpack(folder: &Path, archive: &Path) {
    let image = folder.join("image");
    fs::create_dir(&image).unwrap();
    does("tar", &[Path::new("xf"), archive, Path::new("-C"), &image]);
    let tagged = format!("{}:{}", image.display(), env!("CARGO_PKG_VERSION"));
    does("umoci", &[Path::new("unpack"), Path::new("--image"), Path::new(&tagged), &folder.join("bundle")]);
}

/// Runs the bundle with these arguments.
fn run_image(folder: &Path, args: &[&str]) -> Ran {
    bundle(folder, args);
    let mut command = Command::new("runc");
    command.arg("--root").arg(folder.join("runc")).args(["run", "--bundle"]).arg(folder.join("bundle"));
    command.arg(format!("belay-{}", std::process::id()));
    finish(command, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_rolls_out_in_a_container_with_a_read_only_root() {
    let what = "the image in a container";
    if !can_try(what, &["runc", "umoci", "ldd", "dpkg", "update-ca-certificates"]) || !can_contain(what) {
        return;
    }
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("settings.yaml", &config_map("settings", "1"), "First version");
    stage.repository.push();
    let folder = tempfile::tempdir().unwrap();
    let belay = Path::new(env!("CARGO_BIN_EXE_belay"));
    let name = concat!("belay-", env!("CARGO_PKG_VERSION"), ".tar");
    let [first, second] = ["first", "second"].map(|made| folder.path().join(made));
    for made in [&first, &second] {
        script("image", &[made, belay]);
    }
    let image = fs::read(first.join(name)).unwrap();
    assert!(image == fs::read(second.join(name)).unwrap(), "the same program gives the same bytes");
    unpack(folder.path(), &first.join(name));
    let fixture = folder.path().join("fixture");
    fs::create_dir(&fixture).unwrap();
    does("cp", &[&stage.home.path().join("kubeconfig"), &fixture.join("kubeconfig")]);
    does("cp", &[Path::new("-r"), stage.repository.path(), &fixture.join("shop.git")]);
    // The user of the image.
    does("chown", &[Path::new("-R"), Path::new("65532:65532"), &fixture]);
    let ran = run_image(
        folder.path(),
        &["run", "--once", "--repository", "/fixture/shop.git", "--kubeconfig", "/fixture/kubeconfig"],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains(&commit[..7]), "{ran:?}");
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::all(stage.cluster.client());
    let maps = maps.list(&kube::api::ListParams::default()).await.unwrap();
    assert!(maps.iter().any(|map| map.metadata.name.as_deref() == Some("settings")), "{ran:?}");
}
