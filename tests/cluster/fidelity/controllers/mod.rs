//! The controllers against the reference: every case is a script, run on every combination; what was seen must be the
//! same. `BELAY_CASES=R01,R02` runs only these, `BELAY_COMBINATIONS=own+real` only this one beside the reference; with
//! `BELAY_NOTES` set, what the scripts noted on the reference is printed.

mod bounds;
mod cases;
mod cluster;
mod deviations;
mod kubelet;
mod observer;
mod seconds;
mod specified;
mod trace;
mod words;
mod workloads;
mod world;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::control_plane;
pub use cluster::Stage;
use cluster::{Cluster, Combination};
use deviations::{DEVIATIONS, Deviations, SOMETIMES};
pub use kubelet::Fate;
use trace::Trace;
use world::World;

/// Cases that run at the same time on one combination.
const AT_ONCE: usize = 12;

/// The number of times that cases that differed are run again.
const AGAIN: usize = 2;

/// The number of times that the reference alone is run once more, if it was not seen to do the same as the others.
const REFERENCES: usize = 4;

/// When no event came for so long, all have come.
const EVENTS_REST: Duration = Duration::from_secs(4);

/// One script.
#[derive(Clone, Copy)]
pub struct Case {
    /// The number in the specification.
    pub id: &'static str,
    /// The subject.
    pub about: &'static str,
    /// The running controllers.
    pub stage: Stage,
    /// The script.
    pub run: fn(World) -> BoxFuture<'static, Result<()>>,
}

/// A script as a case.
macro_rules! case {
    ($id:literal, $about:expr, |$world:ident| $script:block) => {
        $crate::controllers::case!($id, $about, on Whole, |$world| $script)
    };
    ($id:literal, $about:expr, on $stage:ident, |$world:ident| $script:block) => {
        $crate::controllers::Case {
            id: $id,
            about: $about,
            stage: $crate::controllers::Stage::$stage,
            run: |$world| {
                Box::pin(async move {
                    $script
                    Ok(())
                })
            },
        }
    };
}
pub(crate) use case;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_do_what_the_reference_does() {
    let Some(assets) = control_plane::assets("the controllers against the reference") else { return };
    // BELAY_LOG=belay=trace shows what the controllers do.
    let filter = tracing_subscriber::EnvFilter::try_from_env("BELAY_LOG").unwrap_or_default();
    drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init());
    let wanted = std::env::var("BELAY_CASES").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|id| !id.is_empty()).collect();
    let is_wanted = |case: &Case| wanted.is_empty() || wanted.iter().any(|wanted| case.id.starts_with(wanted));
    let cases: Vec<Case> = cases::all().into_iter().filter(is_wanted).collect();
    let mut outcomes = on_every_combination(&assets, &cases).await;
    // These are real processes on a machine that others use too: what differs for want of time does not differ again, with
    // fewer at once. The first observations count all the same, unless the reference was seen to do it, too, or it is
    // known why it comes and goes.
    let mut earlier = Vec::new();
    for round in 0..AGAIN {
        let faulty: Vec<Case> = cases.iter().copied().filter(|case| is_faulty(case.id, &outcomes[case.id])).collect();
        if faulty.is_empty() {
            break;
        }
        let ids: Vec<&str> = faulty.iter().map(|case| case.id).collect();
        eprintln!("round {}: run again, because they differed: {}", round + 2, ids.join(" "));
        for id in ids {
            earlier.extend(outcomes.remove(id).into_iter().map(|outcome| Earlier { id, round: round + 1, outcome }));
        }
        outcomes.extend(on_every_combination(&assets, &faulty).await);
    }
    let faults = report(&cases, &outcomes);
    assert!(faults == 0, "{faults} cases differ; the table above says which");
    let mut references = ReferenceRuns::of(&earlier, &outcomes);
    let mut unexplained = report_earlier(&earlier, &references);
    for _ in 0..REFERENCES {
        if unexplained.is_empty() {
            break;
        }
        let again: Vec<Case> =
            cases.iter().copied().filter(|case| unexplained.iter().any(|(id, _)| *id == case.id)).collect();
        references.extend(run_all(&assets, Combination::REFERENCE, &again).await);
        unexplained = report_earlier(&earlier, &references);
    }
    let lines: Vec<&str> = unexplained.iter().map(|(_, line)| line.as_str()).collect();
    assert!(
        lines.is_empty(),
        "seen once, and neither in any run of the reference nor in {SOMETIMES}:\n{}",
        lines.join("\n")
    );
}

/// The observations of a case in a round after which it was run again.
struct Earlier {
    id: &'static str,
    round: usize,
    outcome: BTreeMap<Combination, Result<Trace>>,
}

/// Everything that the reference was seen to do. It races with itself, too: whatever it did once is right.
struct ReferenceRuns(BTreeMap<&'static str, Vec<Trace>>);

impl ReferenceRuns {
    fn of(earlier: &[Earlier], outcomes: &Outcomes) -> ReferenceRuns {
        let mut references = ReferenceRuns(BTreeMap::new());
        let earlier = earlier.iter().map(|one| (one.id, &one.outcome));
        for (id, outcome) in earlier.chain(outcomes.iter().map(|(id, outcome)| (*id, outcome))) {
            if let Ok(trace) = &outcome[&Combination::REFERENCE] {
                references.0.entry(id).or_default().push(trace.clone());
            }
        }
        references
    }

    fn extend(&mut self, traces: BTreeMap<&'static str, Result<Trace>>) {
        for (id, trace) in traces {
            self.0.entry(id).or_default().extend(trace.ok());
        }
    }

    /// The differences from the run of the reference that is nearest.
    fn differences(&self, id: &str, trace: &Trace, is_accepted: impl Fn(&String) -> bool) -> Vec<String> {
        let runs = self.0.get(id).into_iter().flatten();
        let of_run = |reference: &Trace| {
            let lines = reference.differences(trace).into_iter();
            lines.filter(|line| !is_accepted(line)).collect::<Vec<String>>()
        };
        runs.map(of_run).min_by_key(Vec::len).unwrap_or_default()
    }
}

/// Prints what was seen earlier and differs from all that the reference was seen to do; returns the cases and the lines of
/// which nothing is known.
fn report_earlier(earlier: &[Earlier], references: &ReferenceRuns) -> Vec<(&'static str, String)> {
    let (lasting, passing) = (Deviations::read(), Deviations::sometimes());
    let mut unexplained = Vec::new();
    for Earlier { id, round, outcome } in earlier {
        for (combination, result) in outcome {
            let title = combination.title();
            let is_accepted = |line: &String| lasting.allow(id, title, line);
            let lines = match result {
                // The reference is what the others are compared with: it did not get to it, and did in a later round.
                Err(error) if *combination == Combination::REFERENCE => {
                    eprintln!("    {id} on {title}, round {round}: {error:#}");
                    Vec::new()
                }
                Err(error) => vec![format!("{error:#}")],
                Ok(trace) => references.differences(id, trace, is_accepted),
            };
            for line in lines {
                let told = format!("{id} on {title}, round {round}: {line}");
                let is_explained = passing.allow(id, title, &line);
                eprintln!("    {}{told}", if is_explained { "" } else { "UNEXPLAINED " });
                if !is_explained {
                    unexplained.push((*id, told));
                }
            }
        }
    }
    unexplained
}

type Outcomes = BTreeMap<&'static str, BTreeMap<Combination, Result<Trace>>>;

async fn on_every_combination(assets: &std::path::Path, cases: &[Case]) -> Outcomes {
    let mut outcomes = Outcomes::new();
    // Two at a time: statuses come to rest only if there is time for everybody.
    for pair in Combination::wanted().chunks(2) {
        let runs = pair.iter().map(|combination| run_all(assets, *combination, cases));
        for (combination, results) in pair.iter().zip(futures::future::join_all(runs).await) {
            for (id, result) in results {
                outcomes.entry(id).or_default().insert(*combination, result);
            }
        }
    }
    outcomes
}

fn is_faulty(id: &str, outcome: &BTreeMap<Combination, Result<Trace>>) -> bool {
    let deviations = Deviations::read();
    let reference = &outcome[&Combination::REFERENCE];
    outcome.iter().any(|(combination, result)| {
        let (said, _) = verdict(id, *combination, result, reference, &deviations);
        !matches!(said, Said::Same | Said::Deviates)
    })
}

async fn run_all(
    assets: &std::path::Path,
    combination: Combination,
    cases: &[Case],
) -> BTreeMap<&'static str, Result<Trace>> {
    let mut traces = BTreeMap::new();
    for stage in [Stage::Whole, Stage::DeploymentsAlone] {
        let cases: Vec<Case> = cases.iter().copied().filter(|case| case.stage == stage).collect();
        if !cases.is_empty() {
            traces.extend(run_on(assets, combination, stage, &cases).await);
        }
    }
    traces
}

async fn run_on(
    assets: &std::path::Path,
    combination: Combination,
    stage: Stage,
    cases: &[Case],
) -> BTreeMap<&'static str, Result<Trace>> {
    let cluster = Arc::new(Cluster::start(assets, combination, stage).await);
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut runs = JoinSet::new();
    for case in cases.iter().copied() {
        let (cluster, slots) = (cluster.clone(), slots.clone());
        runs.spawn(async move {
            let _slot = slots.acquire_owned().await.unwrap();
            let outcome = AssertUnwindSafe(run(cluster, case)).catch_unwind().await;
            (case.id, outcome.unwrap_or_else(|_| Err(anyhow!("the script panicked"))))
        });
    }
    let results: Vec<(&str, Result<(Trace, bool)>)> = runs.join_all().await;
    cluster.observer.rest("Event", EVENTS_REST, world::STEP_TIMEOUT).await;
    for complaint in cluster.complaints_about_events() {
        eprintln!("kube-controller-manager of {}: {complaint}", combination.title());
    }
    let mut traces = BTreeMap::new();
    for (id, result) in results {
        let with_events = result.map(|(mut trace, may_steps_differ)| {
            cluster.observer.look(&id.to_lowercase(), |seen| trace.add_events(&id.to_lowercase(), seen));
            if may_steps_differ {
                trace.without_steps();
            }
            trace
        });
        traces.insert(id, with_events);
    }
    if let Ok(cluster) = Arc::try_unwrap(cluster) {
        cluster.stop().await;
    }
    traces
}

async fn run(cluster: Arc<Cluster>, case: Case) -> Result<(Trace, bool)> {
    let world = World::new(cluster, &case.id.to_lowercase()).await?;
    (case.run)(world.clone()).await?;
    world.settle().await?;
    let trace = world.look(|seen| Trace::of(&world.namespace, seen, world.notes()));
    Ok((trace, world.may_steps_differ()))
}

/// Prints a table of the cases that are at fault, and returns how many there are.
fn report(cases: &[Case], outcomes: &Outcomes) -> usize {
    let deviations = Deviations::read();
    let shows_notes = std::env::var_os("BELAY_NOTES").is_some();
    let (mut faults, mut right) = (0, 0);
    let mut details = Vec::new();
    let headings = Combination::ALL.map(Combination::title);
    let row = |case: &str, said: [&str; 4], about: &str| {
        eprintln!("{case:6} {:10} {:10} {:10} {:10} {about}", said[0], said[1], said[2], said[3]);
    };
    for case in cases {
        let outcome = &outcomes[case.id];
        let reference = &outcome[&Combination::REFERENCE];
        let mut all_said = Vec::new();
        if let (true, Ok(trace)) = (shows_notes, reference) {
            let notes = trace.0.iter().filter(|line| line.starts_with("note "));
            details.extend(notes.map(|note| format!("{}: {note}", case.id)));
        }
        for (combination, result) in outcome {
            let (said, told) = verdict(case.id, *combination, result, reference, &deviations);
            all_said.push(said);
            details.extend(told);
        }
        if all_said.iter().all(|said| matches!(said, Said::Same | Said::Deviates)) {
            right += 1;
            continue;
        }
        if faults == 0 {
            row("case", headings, "about");
        }
        faults += 1;
        row(case.id, [0, 1, 2, 3].map(|index| all_said.get(index).map_or("", |said| said.text())), case.about);
    }
    eprintln!("{right} of {} cases are the same everywhere, but for what {DEVIATIONS} lists", cases.len());
    for detail in details {
        eprintln!("\n{detail}");
    }
    faults
}

/// The entry of the table for one case on one combination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Same,
    Deviates,
    Differs,
    Fails,
    /// The reference itself failed.
    Alone,
}

impl Said {
    fn text(self) -> &'static str {
        match self {
            Said::Same => "same",
            Said::Deviates => "deviates",
            Said::Differs => "DIFFERS",
            Said::Fails => "FAILS",
            Said::Alone => "alone",
        }
    }
}

fn verdict(
    id: &str,
    combination: Combination,
    result: &Result<Trace>,
    reference: &Result<Trace>,
    deviations: &Deviations,
) -> (Said, Option<String>) {
    let title = combination.title();
    match (result, reference) {
        (Err(error), _) => (Said::Fails, Some(format!("{id} on {title}: {error:#}"))),
        (Ok(_), Err(_)) => (Said::Alone, None),
        (Ok(trace), Ok(reference)) => {
            let all = reference.differences(trace);
            let left: Vec<&String> = all.iter().filter(|line| !deviations.allow(id, title, line)).collect();
            if all.is_empty() {
                (Said::Same, None)
            } else if left.is_empty() {
                (Said::Deviates, None)
            } else {
                let lines: Vec<&str> = left.iter().map(|line| line.as_str()).collect();
                (Said::Differs, Some(format!("{id} on {title}:\n    {}", lines.join("\n    "))))
            }
        }
    }
}
