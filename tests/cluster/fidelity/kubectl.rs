//! Everyday commands of kubectl against the real API server and the embedded one: the same output, ages and the like
//! aside, and the same exit code.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use minicluster::{MiniCluster, Part, Transport};

use crate::support::control_plane::{self, ControlPlane, Controllers};
use crate::token_volumes::{make_default_account, without_names};

/// `tests/cases/kubectl.txt`: a command a line, in order; `<` and a file's name feed it `tests/cases/kubectl/…`.
const COMMANDS: &str = "tests/cases/kubectl.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_sees_no_difference() {
    let Some(assets) = control_plane::assets("kubectl against the reference API server") else { return };
    compare(&assets, &assets.join("kubectl")).await;
}

/// Perhaps of another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_the_machines_own() {
    let Some(assets) = control_plane::assets("the machine's own kubectl against the reference API server") else {
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file()) {
        Some(own) => compare(&assets, &own).await,
        None => eprintln!("this machine has no kubectl: skipped"),
    }
}

async fn compare(assets: &Path, kubectl: &Path) {
    let plane = ControlPlane::start(assets, Controllers::None).await;
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let server = cluster.listen("127.0.0.1:0".parse().unwrap(), Transport::Plain).await.unwrap();
    for client in [plane.client(), cluster.client()] {
        make_default_account(&client, "default").await;
    }
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig(None)).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut report = Vec::new();
    for line in fs::read_to_string(root.join(COMMANDS)).unwrap().lines().filter(|line| !line.is_empty()) {
        let Some(line) = line.strip_prefix("$ ") else { continue };
        let [real, ours] = [&plane.kubeconfig(), &kubeconfig].map(|kubeconfig| {
            let mut command = Command::new(kubectl);
            command.arg("--kubeconfig").arg(kubeconfig).env("HOME", folder.path());
            run(command, line, root)
        });
        if real != ours {
            report.push(format!("$ kubectl {line}\n--- real\n{real}\n--- embedded\n{ours}"));
        }
    }
    server.close().await;
    assert!(report.is_empty(), "{} commands differ:\n{}", report.len(), report.join("\n\n"));
}

fn run(mut kubectl: Command, line: &str, root: &Path) -> String {
    let (line, input) = line.split_once(" < ").map_or((line, None), |(line, file)| (line, Some(file)));
    let input = input.map(|file| fs::read(root.join("tests/cases/kubectl").join(file)).unwrap());
    kubectl.args(words(line)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = kubectl.spawn().expect("kubectl runs");
    child.stdin.take().unwrap().write_all(&input.unwrap_or_default()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| {
        let lines = String::from_utf8_lossy(bytes).lines().map(normal).collect::<Vec<_>>();
        without_own_warnings(without_repairs(lines)).join("\n")
    };
    format!("{}\n{}\nexit {:?}", text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The real API server tells of an address that it "repairs" whenever its watch of Services is ahead of its watch of
/// addresses: an event that depends on nothing but time.
fn without_repairs(mut lines: Vec<String>) -> Vec<String> {
    let all = lines.len();
    lines.retain(|line| !line.contains(" ipallocator-repair-controller "));
    let nothing_else = ["Events:", "Type Reason Age From Message", "---- ------ ---- ---- -------"];
    if lines.len() < all && lines.ends_with(&nothing_else.map(str::to_owned)) {
        lines.truncate(lines.len() - nothing_else.len());
        lines.push("Events: <none>".to_owned());
    }
    lines
}

/// Returns the embedded server warns of a field that it stores without an effect; the reference has no such warning.
fn without_own_warnings(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !(line.starts_with("Warning: ") && line.ends_with(" by this server")));
    lines
}

#[test]
fn an_event_of_a_repaired_address_is_no_difference() {
    let row = "Warning ClusterIPNotAllocated (age) ipallocator-repair-controller Cluster IP [IPv4]: (address) is not \
               allocated; repairing";
    let head = ["Name: app", "Events:", "Type Reason Age From Message", "---- ------ ---- ---- -------"];
    let other = "Normal Other (age) somebody said so";
    let lines = |more: &[&str]| head.iter().chain(more).map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(without_repairs(lines(&[row])), ["Name: app", "Events: <none>"]);
    assert_eq!(without_repairs(lines(&[row, other])), lines(&[other]));
    assert_eq!(without_repairs(lines(&[])), lines(&[]), "an empty table where nothing was left out stays a difference");
}

/// Words, with `'…'` kept together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// `5s`, `2m3s`, `1h`: the script takes minutes on a busy machine.
fn is_age(word: &str) -> bool {
    let mut parts = word.split_inclusive(|c: char| !c.is_ascii_digit());
    !word.is_empty() && parts.all(|part| part.len() > 1 && part.ends_with(['s', 'm', 'h', 'd']))
}

#[test]
fn ages_are_told_from_other_words() {
    assert!(["5s", "59s", "2m", "2m3s", "118m", "1h", "2d3h"].into_iter().all(is_age));
    assert!(["", "s", "5", "web-5s", "5m3", "80/TCP", "1.5s", "ms", "100Mi"].into_iter().all(|word| !is_age(word)));
}

/// Without ages, times, uids, revisions and addresses.
fn normal(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| "\",()".contains(c));
        let age = is_age(bare);
        let time = bare.parse::<jiff::Timestamp>().is_ok();
        let uid = bare.len() == 36 && bare.matches('-').count() == 4;
        let address = bare.starts_with("10.0.") && bare.parse::<std::net::Ipv4Addr>().is_ok();
        match (age, time, uid, address) {
            (true, ..) => "(age)".to_owned(),
            (_, true, ..) => "(time)".to_owned(),
            (.., true, _) => "(uid)".to_owned(),
            (.., true) => "(address)".to_owned(),
            _ => word.to_owned(),
        }
    };
    let line = without_names(&line.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
    let time = ["CreationTimestamp:", "Start Time:"].iter().find(|label| line.starts_with(**label));
    if let Some(label) = time {
        return format!("{label} (time)");
    }
    let compared = std::env::temp_dir();
    if ["diff -u -N ", "--- ", "+++ "]
        .iter()
        .any(|start| line.strip_prefix(start).is_some_and(|file| Path::new(file).starts_with(&compared)))
    {
        return "(a file of the comparison)".to_owned();
    }
    if line.starts_with("kubectl.kubernetes.io/restartedAt:") {
        return "kubectl.kubernetes.io/restartedAt: (time)".to_owned();
    }
    let revision = line.trim_start().starts_with("resourceVersion:") || line.contains("\"resourceVersion\":");
    if revision { "resourceVersion: (revision)".to_owned() } else { line }
}
