//! The meaning of objects, compared: the same requests to the real API server and to the embedded one. The cases are
//! data, in `tests/cases/objects`: a new case needs no code.

mod compare;
mod side;
mod step;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kube::Client;
use minicluster::{MiniCluster, Part};
use serde::Deserialize;

use crate::support::control_plane::{self, ControlPlane, Controllers};

pub use compare::{Difference, compare};
pub use side::Side;
pub use step::{Step, Verb};

/// A sequence of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The subject.
    pub name: String,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

const CASES: &str = "tests/cases/objects";
/// Differences that are known and explained: `case name: why`.
const KNOWN: &str = "tests/cases/objects/known-differences.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_what_the_reference_server_makes_of_them() {
    let Some(assets) = control_plane::assets("objects against the reference server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = embedded().await;
    let servers = [plane.client(), cluster.client()];
    let known = known_differences();
    let only = std::env::var("BELAY_CASE").unwrap_or_default();
    let (mut ran, mut failures, mut forgotten) = (0, Vec::new(), Vec::new());
    for (file, case) in cases() {
        if !format!("{file}: {}", case.name).contains(&only) {
            continue;
        }
        ran += 1;
        let differences = run(&servers, &case, &format!("case-{ran}")).await.differences;
        let title = format!("{file}: {}", case.name);
        match (known.get(&title), differences.is_empty()) {
            (None, false) => failures.push((title, differences)),
            (Some(_), true) => forgotten.push(title),
            _ => {}
        }
    }
    for (title, differences) in &failures {
        eprintln!("=== {title}");
        for difference in differences {
            eprintln!("{difference}");
        }
    }
    assert!(failures.is_empty(), "{} of {ran} cases differ", failures.len());
    assert!(forgotten.is_empty(), "no longer different, so no longer in {KNOWN}: {forgotten:?}");
    eprintln!("{ran} cases agree");
}

/// Returns the embedded API server, without anything that changes objects by itself.
pub async fn embedded() -> MiniCluster {
    MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap()
}

/// The result of a case.
pub struct Outcome {
    /// The differences of the two servers.
    pub differences: Vec<Difference>,
    /// The codes of the real server, step by step.
    pub codes: Vec<u16>,
    /// The number of steps to which the real server had no answer, since it panicked.
    pub broken_off: usize,
}

/// Runs a case on both servers, the real one first, in a namespace.
pub async fn run(servers: &[Client; 2], case: &Case, namespace: &str) -> Outcome {
    let [real, embedded] = servers;
    let mut real = Side::new(real.clone(), namespace).await;
    let mut embedded = Side::new(embedded.clone(), namespace).await;
    let mut outcome = Outcome { differences: Vec::new(), codes: Vec::new(), broken_off: 0 };
    for (index, step) in case.steps.iter().enumerate() {
        let expected = real.answer(step).await;
        if expected.code == side::BROKEN_OFF {
            // There is nothing to compare with.
            outcome.broken_off += 1;
            break;
        }
        let got = embedded.answer(step).await;
        outcome.codes.push(expected.code);
        outcome.differences.extend(compare(index, step, &expected, &got));
        // After the first difference the rest is its consequence.
        if !outcome.differences.is_empty() {
            break;
        }
    }
    real.clean_up().await;
    embedded.clean_up().await;
    outcome
}

fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let read: Vec<Case> = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        cases.extend(read.into_iter().map(|case| (file.clone(), case)));
    }
    cases
}

fn known_differences() -> BTreeMap<String, String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(KNOWN)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (title, why) = line.split_once(" -- ").unwrap_or_else(|| panic!("{KNOWN}: no reason: {line}"));
            (title.to_owned(), why.to_owned())
        })
        .collect()
}
