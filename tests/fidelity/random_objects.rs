//! Random objects, sound and broken ones, and what the two servers make of them. `BELAY_CASES=n` runs more of them,
//! `BELAY_SEED=n` the same ones again, `BELAY_KINDS=Pod,Deployment` only some kinds; `BELAY_ALL=1` does not stop at the
//! first difference but tells every sort of difference once.

mod grow;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use proptest::strategy::{BoxedStrategy, Strategy as _};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use serde_json::Value;

use crate::objects::{Case, Step, run};
use crate::world::control_plane::{self, ControlPlane, Controllers};

const CASES: u32 = 250;
/// Differences that are known and explained: a part of what is said, and why.
const KNOWN: &str = "tests/cases/objects/known-random-differences.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_objects_are_what_the_reference_server_makes_of_them() {
    let Some(assets) = control_plane::assets("random objects against the reference server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let number = |name: &str, default: u64| std::env::var(name).ok().map_or(default, |text| text.parse().unwrap());
    let seed = number("BELAY_SEED", 1);
    let cases = u32::try_from(number("BELAY_CASES", u64::from(CASES))).unwrap();
    eprintln!("BELAY_SEED={seed} BELAY_CASES={cases}");
    let known = known();
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let all = std::env::var_os("BELAY_ALL").is_some();
    let sorts: Mutex<BTreeMap<String, (usize, String)>> = Mutex::new(BTreeMap::new());
    let count = std::sync::atomic::AtomicUsize::new(0);
    let result = runner.run(&histories(), |steps| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let case = Case { name: "random".to_owned(), steps };
        let handle = tokio::runtime::Handle::current();
        // One namespace serves several cases; each leaves nothing behind.
        let differences = tokio::task::block_in_place(|| handle.block_on(run(&plane, &case, 10_000 + number % 50)));
        let unexplained: Vec<String> = differences
            .iter()
            .map(ToString::to_string)
            .filter(|text| !known.iter().any(|known| text.contains(known)))
            .collect();
        if all {
            let mut sorts = sorts.lock().unwrap();
            for text in unexplained {
                let steps = || case.steps.iter().map(shown).collect::<Vec<_>>().join("\n");
                sorts.entry(sort_of(&text)).or_insert_with(|| (0, format!("{text}\n{}", steps()))).0 += 1;
            }
            return Ok(());
        }
        if unexplained.is_empty() { Ok(()) } else { Err(TestCaseError::fail(unexplained.join("\n"))) }
    });
    let sorts = sorts.into_inner().unwrap();
    for (count, example) in sorts.values() {
        eprintln!("=== {count} times\n{example}");
    }
    assert!(sorts.is_empty(), "{} sorts of differences", sorts.len());
    if let Err(TestError::Fail(reason, steps)) = result {
        let steps: Vec<String> = steps.iter().map(shown).collect();
        panic!("BELAY_SEED={seed} BELAY_CASES={cases}: after\n{}\n{reason}", steps.join("\n"));
    }
}

/// A difference without the names and numbers in it, and without the way to the field.
fn sort_of(text: &str) -> String {
    let mut sort = String::new();
    for word in text.split_once("): ").map_or(text, |(_, rest)| rest).split_whitespace() {
        let word = word.trim_end_matches(':');
        if word.starts_with("spec.") || word.starts_with("template.") {
            sort.push_str(word.rsplit('.').next().unwrap_or_default());
        } else if !word.contains('"') {
            sort.extend(word.chars().filter(|letter| !letter.is_ascii_digit()));
        }
        sort.push(' ');
    }
    sort.chars().take(200).collect()
}

fn shown(step: &Step) -> String {
    format!("  {:?} as {} {} {}", step.r#do, step.r#as, step.sub.clone().unwrap_or_default(), step.body)
}

fn known() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(KNOWN)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" -- ").expect("a reason").0.to_owned()).collect()
}

/// The smallest object of each kind, from the cases.
fn seeds() -> BTreeMap<String, Value> {
    let only = std::env::var("BELAY_KINDS").unwrap_or_default();
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/objects/least.yaml"));
    let cases: Vec<Case> = serde_yaml::from_str(&text.unwrap()).unwrap();
    let bodies = cases.into_iter().map(|case| case.steps[0].body.clone());
    bodies
        .filter(|body| grow::KINDS.contains(&body["kind"].as_str().unwrap()))
        .filter(|body| only.is_empty() || only.split(',').any(|kind| body["kind"] == kind))
        .map(|body| (format!("{} {}", body["apiVersion"], body["kind"]), body))
        .collect()
}

/// A creation, and a few changes of what was created.
fn histories() -> BoxedStrategy<Vec<Step>> {
    let kinds: Vec<BoxedStrategy<Vec<Step>>> = seeds().into_values().map(|seed| grow::history(&seed)).collect();
    proptest::strategy::Union::new(kinds).boxed()
}
