//! Analyses: what Prometheus measures within the bake time judges the version.

use std::time::Duration;

use belay_core::rollout::analysis::{AnalysisVerdict, Measured, Measurement, Sample};
use belay_core::rollout::{FailureCause, Outcome, ReasonCode, Record, StepKind};

use crate::support::daemon::{World, deployment, image, path_of};
use crate::support::prometheus::{ERRORS, FakePrometheus, LATENCY, analyses, before_analyses, measured, sample};

const WEB: &str = "Deployment default/web";

fn value(value: f64) -> Result<Vec<Sample>, String> {
    Ok(vec![sample("", value)])
}

/// Returns a cluster with a bake time of two minutes and these analyses, and the first version live for ten minutes.
async fn world(config: &str, answers: impl FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send + 'static) -> World {
    let (mut world, first) = before_analyses(config, Duration::from_mins(10)).await;
    world.prometheus = Some(FakePrometheus::of(&world, answers));
    world.start();
    world.through(&first).await;
    world
}

/// Pushes the second version, and returns its record when it has ended.
async fn second(world: &mut World) -> Record {
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    world.record(&second, WEB)
}

/// Returns the seconds from the beginning of the bake time to the end.
fn bake_seconds(world: &World, record: &Record) -> i64 {
    let steps = world.history().steps(record.id).unwrap();
    let at = |kind: StepKind| steps.iter().find(|step| step.kind == kind).unwrap_or_else(|| panic!("{steps:#?}")).at;
    at(StepKind::Ended).duration_since(at(StepKind::Baking)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_out_of_bounds_takes_the_version_back() {
    let mut world = world(LATENCY, |query, _| {
        assert_eq!(query, "latencyweb");
        value(0.75)
    })
    .await;
    let record = second(&mut world).await;
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &ReasonCode::AnalysisFailed), "{record:#?}");
    assert_eq!(
        reason.message,
        "analysis \"latency\": the value is 0.75, more than its max of 0.5, at 3 looks in a row"
    );
    assert_eq!(FailureCause::of(&reason.code), FailureCause::Analysis);
    assert!(record.evidence.is_some(), "{record:#?}");
    let found = measured(&world, &record);
    assert_eq!(found.len(), 3, "the way back is not measured: {found:#?}");
    let expected = Measured::Value { value: 0.75, requests: None };
    assert!(found.iter().all(|look| look.verdict == AnalysisVerdict::Fail && look.measured == expected), "{found:#?}");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_stays_within_bounds_is_complete() {
    let mut looks = 0;
    let mut world = world(LATENCY, move |_, _| {
        looks += 1;
        // Two looks in a row are not three.
        value(if looks % 3 == 0 { 0.5 } else { 0.75 })
    })
    .await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert!((120..=145).contains(&bake_seconds(&world, &record)), "{record:#?}");
    assert!((8..=10).contains(&measured(&world, &record).len()));
}

#[tokio::test(start_paused = true)]
async fn the_way_back_is_not_measured() {
    let queue = LATENCY.replace("'latency'", "'queue'").replace("latency{{name}}", "queue");
    let mut world =
        world(&format!("{LATENCY}{queue}"), |query, _| value(if query == "queue" { 0.1 } else { 0.75 })).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    let found = measured(&world, &record);
    let failed = found.iter().rposition(|look| look.verdict == AnalysisVerdict::Fail).unwrap();
    assert!((5..=6).contains(&found.len()) && failed >= found.len() - 2, "{found:#?}");
}

/// Ten requests a second to each of the old pods and to each of the new ones; of the new ones' so many are bad, of the old ones'
/// one in two hundred.
fn traffic(new_rate: f64) -> impl FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send + 'static {
    move |query, seconds| {
        // The pods of the new revision are known by their hash.
        let is_new = !query.contains("{6,10}");
        let rate = if is_new { new_rate } else { 0.005 };
        let total = (1_000.0 + seconds) * 10.0;
        let count = if query.starts_with("bad") { (total * rate).floor() } else { total };
        Ok((0..3).map(|pod| sample(&format!("{is_new}-{pod}"), count)).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_higher_error_rate_takes_the_version_back_and_a_harmless_one_stays() {
    for (rate, outcome) in [(0.2, Outcome::RolledBack), (0.05, Outcome::RolledBack), (0.006, Outcome::Complete)] {
        let mut world = world(ERRORS, traffic(rate)).await;
        let record = second(&mut world).await;
        assert_eq!(record.outcome, outcome, "{rate}: {record:#?} {:#?}", measured(&world, &record));
        assert!(bake_seconds(&world, &record) <= 135, "{rate}: {}", bake_seconds(&world, &record));
        if outcome == Outcome::RolledBack {
            let message = record.reason.clone().unwrap().message;
            assert!(
                message.contains("bad answers of") && message.contains("1.25 times the old error rate"),
                "{message}"
            );
            assert!(bake_seconds(&world, &record) < 120, "{rate}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_version_has_nothing_to_be_compared_with() {
    let mut world = World::embedded().await;
    world.config.bake = "2m".parse().unwrap();
    world.config.known_analyses = analyses(ERRORS);
    world.config.analysis = vec!["errors".to_owned()];
    world.prometheus = Some(FakePrometheus::of(&world, |_, _| panic!("nothing is asked")));
    let first = world.with_first_version().await;
    let record = world.record(&first, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert!(bake_seconds(&world, &record) <= 135, "{}", bake_seconds(&world, &record));
}

#[tokio::test(start_paused = true)]
async fn series_without_pods_say_nothing() {
    let summed = |_: &str, seconds: f64| value(seconds + 1_000.0);
    let mut world = world(ERRORS, summed).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let found = measured(&world, &record);
    let why = |look: &Measurement| matches!(&look.measured, Measured::Nothing { message } if message.contains("sum by (pod)"));
    assert!(!found.is_empty() && found.iter().all(why), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_when_the_bake_time_ends_is_watched_on() {
    let mut world = world(LATENCY, |_, seconds| value(if seconds > 100.0 { 0.75 } else { 0.1 })).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?} {:#?}", measured(&world, &record));
    assert!(bake_seconds(&world, &record) > 120, "{}", bake_seconds(&world, &record));
}

#[tokio::test(start_paused = true)]
async fn no_data_is_waited_for_and_then_ends_with_a_warning() {
    let away = |_: &str, _: f64| Err("Prometheus can't be reached: connection refused".to_owned());
    let mut world = world(LATENCY, away).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert!((720..=750).contains(&bake_seconds(&world, &record)), "{}", bake_seconds(&world, &record));
    let steps = world.history().steps(record.id).unwrap();
    let warning = steps.iter().find(|step| step.kind == StepKind::Waiting).unwrap();
    assert_eq!(
        warning.detail,
        "its bake time is over without a verdict: analysis \"latency\" has no verdict: Prometheus can't be reached: connection \
         refused"
    );
    assert!(measured(&world, &record).iter().all(|look| look.verdict == AnalysisVerdict::None));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_bake_time_ends_it() {
    let mut world = world(LATENCY, |_, seconds| if seconds < 300.0 { Ok(vec![]) } else { value(0.1) }).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert!((270..=330).contains(&bake_seconds(&world, &record)), "{}", bake_seconds(&world, &record));
}

#[tokio::test(start_paused = true)]
async fn no_data_counts_as_is_asked_for() {
    for (on_none, outcome) in [("pass", Outcome::Complete), ("fail", Outcome::RolledBack)] {
        let mut world = world(&format!("{LATENCY}on_none = '{on_none}'\n"), |_, _| Ok(vec![])).await;
        let record = second(&mut world).await;
        assert_eq!(record.outcome, outcome, "{on_none}: {record:#?}");
        assert!(bake_seconds(&world, &record) < 150, "{on_none}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_within_the_bake_time_forgets_no_look() {
    let mut world = world(&format!("{LATENCY}failures = 5\n"), |_, _| value(0.75)).await;
    let commit = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    let id = commit.clone();
    world
        .until("it bakes", move |source| {
            source.under_way.values().any(|way| way.outcome == Outcome::Baking && way.commit.as_str() == id)
        })
        .await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let before = measured(&world, &world.record(&commit, WEB)).len();
    assert!((2..=3).contains(&before), "{before}");
    world.kill().await;
    world.start();
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(measured(&world, &record).len(), 5, "those before the kill count");
}

#[tokio::test(start_paused = true)]
async fn a_workload_asks_for_its_own_analyses() {
    let annotated = |names: &str| {
        deployment("web", "web:2", "")
            .replace("name: web\nspec", &format!("name: web\n  annotations: {{belay.dev/analysis: \"{names}\"}}\nspec"))
    };
    for (names, outcome, seconds) in [
        ("", Outcome::Complete, 120..=130),
        ("latency", Outcome::RolledBack, 30..=60),
        // It is waited for, for outage_timeout, for it may be configured soon.
        ("queue", Outcome::Complete, 720..=750),
    ] {
        let mut world = world(LATENCY, |_, _| value(0.75)).await;
        let commit = world.push("web.yaml", &annotated(names), "Second version");
        world.through(&commit).await;
        let record = world.record(&commit, WEB);
        assert_eq!(record.outcome, outcome, "{names}: {record:#?}");
        assert!(seconds.contains(&bake_seconds(&world, &record)), "{names}: {}", bake_seconds(&world, &record));
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_that_comes_back_is_not_measured_again() {
    let mut world = world(LATENCY, |_, _| value(0.1)).await;
    let second = second(&mut world).await;
    assert_eq!(second.outcome, Outcome::Complete);
    let back = world.push("web.yaml", &deployment("web", "web:1", ""), "Revert");
    world.through(&back).await;
    let record = world.record(&back, WEB);
    assert_eq!((record.outcome, measured(&world, &record).len()), (Outcome::Complete, 0), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_configuration_does_not_have_is_told_at_once() {
    let mut world = world(&format!("{LATENCY}{ERRORS}"), |_, _| value(0.1)).await;
    let named = |names: &str| {
        let annotated = format!("name: web\n  annotations:\n    belay.dev/analysis: {names}\nspec");
        deployment("web", "web:2", "").replace("name: web\nspec", &annotated)
    };
    world.push("web.yaml", &named("queue,latency"), "Second version");
    world.until("it is planned", |source| !source.under_way.is_empty()).await;
    let warnings = world.status().warnings();
    let told = "analysis \"queue\": the configuration has no [[analysis]] of that name (it has latency, errors)";
    assert_eq!(warnings.get("web.yaml:6:5").map(String::as_str), Some(told), "{warnings:?}");
    world.push("web.yaml", &named("latency"), "Name one that there is");
    world.until("it is withdrawn", |source| source.warnings().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn looks_before_its_warmup_do_not_count() {
    let answers = |_: &str, seconds: f64| value(if seconds < 60.0 { 0.75 } else { 0.1 });
    let mut world = world(&format!("{LATENCY}warmup = '60s'\nfailures = 1\n"), answers).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let steps = world.history().steps(record.id).unwrap();
    let began = steps.iter().find(|step| step.kind == StepKind::Baking).unwrap().at;
    let found = measured(&world, &record);
    let first = found[0].at.duration_since(began).as_secs();
    assert!((59..=76).contains(&first) && found.len() <= 5, "{first} s: {found:#?}");
}

#[tokio::test(start_paused = true)]
async fn too_few_requests_are_no_verdict() {
    let few = |query: &str, _: f64| value(if query == "all" { 19.0 } else { 0.75 });
    let mut world = world(&format!("{LATENCY}total = 'all'\nat_least = 20\n"), few).await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let found = measured(&world, &record);
    assert!(!found.is_empty() && found.iter().all(|look| look.verdict == AnalysisVerdict::None), "{found:#?}");
    assert!(bake_seconds(&world, &record) >= 720, "it is waited for: {}", bake_seconds(&world, &record));
}
