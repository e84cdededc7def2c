//! The program in the image: `distroless/cc-debian12`, in which there is no shell, no libz, and little else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use belay::config::Config;

use crate::program::{Ran, finish};

/// The shared libraries of `distroless/cc-debian12`: those of libc6, libssl3, libgcc-s1, libgomp1 and libstdc++6.
const LIBRARIES: [&str; 13] = [
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libresolv.so.2",
    "libssl.so.3",
    "libcrypto.so.3",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libstdc++.so.6",
];

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the output of a program, or nothing if it is missing.
fn asked(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn it_needs_no_library_that_the_image_lacks() {
    let Some(told) = asked("readelf", &["--dynamic", env!("CARGO_BIN_EXE_belay")]) else {
        eprintln!("not looked at: there is no readelf");
        return;
    };
    let needed: BTreeSet<&str> = told
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split_once(']'))
        .map(|(name, _)| name)
        .collect();
    assert!(needed.contains("libc.so.6"), "{told}");
    let lacking: Vec<&&str> = needed.iter().filter(|name| !LIBRARIES.contains(*name)).collect();
    assert!(lacking.is_empty(), "distroless/cc-debian12 has no {lacking:?}");
}

/// Returns a folder with nothing but the program and the libraries that it and the image have. `None` if it can't be
/// made, or nobody may run in it.
fn root() -> Option<tempfile::TempDir> {
    let libraries = asked("ldd", &[env!("CARGO_BIN_EXE_belay")]);
    if libraries.is_none() || fs::metadata("/proc/self").unwrap().uid() != 0 || !Path::new("/usr/sbin/chroot").exists()
    {
        eprintln!("not tried in the image's root: it needs root, chroot and ldd");
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &str, to: &str| {
        let to = root.path().join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    for line in libraries.unwrap_or_default().lines() {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim().split(" (").next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if path.starts_with('/') && LIBRARIES.contains(&name) {
            copy(path, path);
        }
    }
    copy(env!("CARGO_BIN_EXE_belay"), "/usr/local/bin/belay");
    fs::create_dir(root.path().join("tmp")).unwrap();
    fs::set_permissions(root.path().join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
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
    fs::create_dir_all(root.path().join("etc/belay")).unwrap();
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
    for line in [format!("--tag {image} ."), "FROM gcr.io/distroless/cc-debian12".to_owned(), user] {
        assert!(dockerfile.contains(&line), "{line}");
    }
    assert!(file("README.md").contains(&format!("docker build --tag {image} .")));
}
