//! What an object means, compared: the same requests to the real API server and to the embedded one's pure functions.
//! The cases are data, in `tests/cases/objects`: a new case needs no code.

mod compare;
mod model;
mod real;
mod step;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::world::control_plane::{self, ControlPlane, Controllers};

pub use compare::{Difference, compare};
pub use model::Model;
pub use real::Real;
pub use step::Step;

/// A sequence of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows.
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
    let known = known_differences();
    let only = std::env::var("BELAY_CASE").unwrap_or_default();
    let (mut ran, mut failures, mut forgotten) = (0, Vec::new(), Vec::new());
    for (file, case) in cases() {
        if !format!("{file}: {}", case.name).contains(&only) {
            continue;
        }
        ran += 1;
        let differences = run(&plane, &case, ran).await;
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

/// Runs a case on both sides in a namespace of its own.
pub async fn run(plane: &ControlPlane, case: &Case, number: usize) -> Vec<Difference> {
    let mut real = Real::new(plane, &format!("case-{number}")).await;
    let mut model = Model::new(real.namespace());
    let mut differences = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let before = real.stored(step).await;
        let expected = real.answer(step).await;
        let got = model.answer(step, &expected, before.as_ref());
        differences.extend(compare(index, step, &expected, &got));
        // What both think is stored must stay the same, or one difference would be told over and over.
        model.adopt(step, &expected);
    }
    real.clean_up().await;
    differences
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
