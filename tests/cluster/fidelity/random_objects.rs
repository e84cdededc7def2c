//! Random objects of every kind, sound and broken ones, and what the two servers make of them. `BELAY_CASES=n` runs more
//! of them, `BELAY_SEED=n` the same ones again, `BELAY_KINDS=Pod,Deployment` only some kinds; `BELAY_ALL=1` does not stop
//! at the first difference but tells every sort of difference once.

mod grow;
mod histories;
mod schemas;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use proptest::strategy::{BoxedStrategy, Strategy as _};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use serde_json::Value;

use crate::objects::{Case, Outcome, Step, Verb, embedded, run};
use crate::support::control_plane::{self, ControlPlane, Controllers};

const CASES: u32 = 400;
/// Differences that are known and explained: a part of what is said, and why.
const KNOWN: &str = "tests/cases/objects/known-random-differences.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_objects_are_what_the_reference_server_makes_of_them() {
    let Some(assets) = control_plane::assets("random objects against the reference server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = embedded().await;
    let servers = [plane.client(), cluster.client()];
    let number = |name: &str, default: u64| std::env::var(name).ok().map_or(default, |text| text.parse().unwrap());
    let seed = number("BELAY_SEED", 1);
    let cases = u32::try_from(number("BELAY_CASES", u64::from(CASES))).unwrap();
    let name = format!("BELAY_SEED={seed} BELAY_CASES={cases}");
    eprintln!("{name}");
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let all = std::env::var_os("BELAY_ALL").is_some();
    let findings = Mutex::new(Findings { known: known(), ..Findings::default() });
    let result = TestRunner::new(config).run(&histories(), |steps| {
        let case = Case { name: "random".to_owned(), steps };
        let namespace = findings.lock().unwrap().namespace(&case);
        let handle = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| handle.block_on(run(&servers, &case, &namespace)));
        let unexplained = findings.lock().unwrap().add(&case, &outcome);
        if all || unexplained.is_empty() { Ok(()) } else { Err(TestCaseError::fail(unexplained.join("\n"))) }
    });
    let findings = findings.into_inner().unwrap();
    eprintln!("{}", findings.summary());
    if let Err(TestError::Fail(reason, steps)) = result {
        panic!("{name}: after\n{}\n{reason}", shown(&steps));
    }
    for (count, example) in findings.sorts.values() {
        eprintln!("=== {count} times\n{example}");
    }
    assert!(findings.sorts.is_empty(), "{name}: {} sorts of differences", findings.sorts.len());
}

/// The results of all cases so far.
#[derive(Default)]
struct Findings {
    known: Vec<String>,
    cases: usize,
    /// The numbers by kind: creations accepted and refused, changes accepted and refused.
    kinds: BTreeMap<String, [usize; 4]>,
    /// The number of times that a listed difference was met.
    excused: usize,
    /// The number of times that the real server broke off.
    broken_off: usize,
    /// The number of differences of each sort, and the first of it.
    sorts: BTreeMap<String, (usize, String)>,
}

impl Findings {
    /// Returns one namespace serves several cases, since each leaves nothing behind; but servers remember quotas and
    /// limits for a while.
    fn namespace(&mut self, case: &Case) -> String {
        self.cases += 1;
        match case.steps[0].resource().kind.as_str() {
            kind @ ("ResourceQuota" | "LimitRange") => format!("random-{}", kind.to_lowercase()),
            _ => format!("random-{}", self.cases % 50),
        }
    }

    /// Counts a case; what differs and is not listed comes back.
    fn add(&mut self, case: &Case, outcome: &Outcome) -> Vec<String> {
        let counts = self.kinds.entry(case.steps[0].kind.clone().unwrap_or_default()).or_default();
        for (index, code) in outcome.codes.iter().enumerate() {
            counts[usize::from(index > 0) * 2 + usize::from(*code >= 300)] += 1;
        }
        let said = outcome.differences.iter().map(ToString::to_string);
        let (excused, unexplained): (Vec<_>, Vec<_>) =
            said.partition(|text| self.known.iter().any(|known| text.contains(known)));
        self.excused += usize::from(!excused.is_empty());
        self.broken_off += outcome.broken_off;
        for text in &unexplained {
            let sort = format!("{} {}", case.steps[0].resource().kind, sort_of(text));
            self.sorts.entry(sort).or_insert_with(|| (0, format!("{text}\n{}", shown(&case.steps)))).0 += 1;
        }
        unexplained
    }

    fn summary(&self) -> String {
        let mut out = format!("{:50} made refused changed refused\n", "kind");
        let mut sums = [0; 4];
        for (kind, counts) in &self.kinds {
            let [made, refused, changed, unchanged] = counts;
            writeln!(out, "{kind:50} {made:4} {refused:7} {changed:7} {unchanged:7}").unwrap();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [made, refused, changed, unchanged] = sums;
        writeln!(out, "{:50} {made:4} {refused:7} {changed:7} {unchanged:7}", "all").unwrap();
        let writes: usize = sums.iter().sum();
        let Findings { cases, excused, broken_off, .. } = self;
        write!(out, "{cases} cases, {writes} writes, {excused} of them with a listed difference; ").unwrap();
        write!(out, "{broken_off} that the reference had no answer to").unwrap();
        out
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
    sort.chars().take(120).collect()
}

fn shown(steps: &[Step]) -> String {
    let line = |step: &Step| {
        let sub = step.sub.clone().unwrap_or_default();
        let body = if step.r#do == Verb::Put { step.change.clone().unwrap_or_default() } else { step.body.clone() };
        format!("  {:?} {sub} as {} ({}) {body}", step.r#do, step.r#as, step.validation)
    };
    steps.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn known() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(KNOWN)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|line| line.split_once(" -- ").expect("a reason").0.replace("\\n", "\n"));
    lines.collect()
}

/// Kinds that the list leaves out: `kind X`.
fn left_out() -> Vec<String> {
    known().iter().filter_map(|line| line.strip_prefix("kind ")).map(str::to_owned).collect()
}

/// Returns the smallest object of each kind, from the cases.
fn seeds() -> BTreeMap<String, Value> {
    let only = std::env::var("BELAY_KINDS").unwrap_or_default();
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/objects/least.yaml"));
    let cases: Vec<Case> = serde_yaml::from_str(&text.unwrap()).unwrap();
    let bodies = cases.into_iter().map(|case| case.steps[0].body.clone());
    let left_out = left_out();
    bodies
        .filter(|body| !left_out.iter().any(|kind| body["kind"] == *kind))
        .filter(|body| only.is_empty() || only.split(',').any(|kind| body["kind"] == kind))
        .map(|body| (format!("{} {}", body["apiVersion"], body["kind"]), body))
        .collect()
}

/// Returns a creation, and a few changes of what was created.
fn histories() -> BoxedStrategy<Vec<Step>> {
    let kinds: Vec<BoxedStrategy<Vec<Step>>> = seeds().into_values().map(|seed| histories::history(&seed)).collect();
    proptest::strategy::Union::new(kinds).boxed()
}
