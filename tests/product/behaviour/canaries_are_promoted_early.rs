//! A step of a canary ends before its time once its analyses have proved that the version is not much worse.

use std::time::Duration;

use belay_core::rollout::analysis::{Measurement, Sample, unproved, verify};
use belay_core::rollout::canary::CanaryAnswer;
use belay_core::rollout::{Outcome, Record, StepKind};

use crate::support::canary::{ask, assert_as_the_manifest_says, until_step, web};
use crate::support::daemon::World;
use crate::support::prometheus::{ERRORS, FakePrometheus, LATENCY, analyses, sample};

const WEB: &str = "Deployment default/web";

/// Returns a cluster with the first version live, and these analyses.
async fn world(
    steps: &str,
    config: &str,
    answers: impl FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send + 'static,
) -> World {
    let mut world = World::embedded().await;
    world.config.known_analyses = analyses(config);
    world.config.analysis = world.config.known_analyses.iter().map(|known| known.name.clone()).collect();
    world.prometheus = Some(FakePrometheus::of(&world, answers));
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    world
}

/// Ten requests a second to each of four old pods and one new one; of the old ones' answers one in fifty is bad. A query for the
/// old pods has the new one, too: their names have no pattern of their own.
fn traffic(new_rate: f64, old_rate: f64) -> impl FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send + 'static {
    move |query, seconds| {
        let count = |rate: f64| {
            let total = (1_000.0 + seconds) * 10.0;
            if query.starts_with("bad") { (total * rate).floor() } else { total }
        };
        let mut samples = vec![sample("new", count(new_rate))];
        if query.contains("{6,10}") {
            samples.extend((0..4).map(|pod| sample(&format!("old-{pod}"), count(old_rate))));
        }
        Ok(samples)
    }
}

fn proving() -> String {
    format!("{ERRORS}prove = 2\n")
}

async fn second(world: &mut World, steps: &str) -> Record {
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    world.through(&second).await;
    assert_as_the_manifest_says(world).await;
    world.record(&second, WEB)
}

/// Returns the promotions that the history tells, and what was measured.
fn promotions(world: &World, record: &Record) -> (Vec<String>, Vec<Measurement>) {
    let steps = world.history().steps(record.id).unwrap();
    let notes = steps.into_iter().filter(|step| step.kind == StepKind::Note).map(|step| step.detail).collect();
    (notes, world.history().measurements(record.id).unwrap())
}

fn seconds(record: &Record) -> i64 {
    record.ended.unwrap().duration_since(record.started).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_proved_good_goes_on_before_its_time() {
    let steps = "1 20m, 50% 20m";
    let mut world = world(steps, &proving(), traffic(0.02, 0.02)).await;
    let record = second(&mut world, steps).await;
    let (told, measured) = promotions(&world, &record);
    assert_eq!((record.outcome, told.len()), (Outcome::Complete, 2), "{told:#?} {measured:#?}");
    assert!(seconds(&record) < 600, "{}", seconds(&record));
    for told in &told {
        let (begins, ends) = ("promoted early: analysis \"errors\": the new pods gave ", "2 times worse");
        assert!(told.starts_with(begins) && told.ends_with(ends), "{told}");
    }
    let in_step = |step| measured.iter().filter(|look| look.step == Some(step)).count();
    assert!(in_step(1) >= 4 && in_step(2) >= 4, "{measured:#?}");
    let verified = verify(&measured);
    assert_eq!(verified[0].differs, None);
    assert_eq!(unproved(told.iter().map(String::as_str), &verified), Vec::<&str>::new(), "{verified:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_lasts_its_time_where_nothing_is_proved() {
    let steps = "1 20m";
    let with_latency = format!("{}{LATENCY}on_none = 'pass'\n", proving());
    for (case, config, new_rate, old_rate) in [
        ("no answer is bad", proving(), 0.0, 0.0),
        ("it is not asked for", ERRORS.to_owned(), 0.02, 0.02),
        ("another analysis has no data", with_latency, 0.02, 0.02),
    ] {
        let mut errors = traffic(new_rate, old_rate);
        let no_latency =
            move |query: &str, at: f64| if query.starts_with("latency") { Ok(vec![]) } else { errors(query, at) };
        let mut world = world(steps, &config, no_latency).await;
        let record = second(&mut world, steps).await;
        let (told, measured) = promotions(&world, &record);
        assert_eq!((record.outcome, told), (Outcome::Complete, vec![]), "{case}: {measured:#?}");
        assert!((1_200..1_320).contains(&seconds(&record)), "{case}: {}", seconds(&record));
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_twice_as_bad_goes_back() {
    let steps = "1 20m";
    let mut world = world(steps, &proving(), traffic(0.04, 0.02)).await;
    let record = second(&mut world, steps).await;
    let (told, measured) = promotions(&world, &record);
    assert_eq!((record.outcome, told), (Outcome::RolledBack, vec![]), "{measured:#?}");
    // The answers of the new pod are no answers of the old ones.
    let message = record.reason.unwrap().message;
    let numbers: Vec<f64> = message
        .split("bad answers of ")
        .skip(1)
        .map(|text| text.split(' ').next().unwrap().parse::<f64>().unwrap())
        .collect();
    assert_eq!(numbers[0] * 4.0, numbers[1], "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_for_a_person_is_not_promoted() {
    let steps = "1 0";
    let mut world = world(steps, &proving(), traffic(0.02, 0.02)).await;
    let commit = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &commit, "waits for belay promote").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    until_step(&mut world, &commit, "waits for belay promote").await;
    ask(&world, CanaryAnswer::Promote).await;
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    assert_eq!(promotions(&world, &record).0, ["promoted by ada: looks good"]);
}

#[tokio::test(start_paused = true)]
async fn a_kill_forgets_nothing_that_was_proved() {
    let steps = "1 20m";
    let mut undisturbed = world(steps, &proving(), traffic(0.02, 0.02)).await;
    let record = second(&mut undisturbed, steps).await;
    let looks = promotions(&undisturbed, &record).1.len();
    let mut world = world(steps, &proving(), traffic(0.02, 0.02)).await;
    let commit = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &commit, "watched until").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let before = promotions(&world, &world.record(&commit, WEB)).1.len();
    assert!((4..looks).contains(&before), "{before} of {looks}");
    world.kill().await;
    world.start();
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    let (told, measured) = promotions(&world, &record);
    assert!(told.len() == 1 && told[0].starts_with("promoted early: "), "{told:?}");
    assert!(measured.len() <= looks + 1, "{} instead of {looks}", measured.len());
}
