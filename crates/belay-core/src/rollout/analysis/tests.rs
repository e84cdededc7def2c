//! The verdicts of analyses.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const COMPARES: AnalysisRule =
    AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: None };

fn names(name: &str) -> (String, String) {
    (name.to_owned(), "1a2b".to_owned())
}

fn answered(new: (f64, f64), old: (f64, f64)) -> Measured {
    let sums = |(bad, total): (f64, f64)| AnswerSums::of([Answers { bad, total }]);
    Measured::Answers(PodAnswers { new: sums(new), old: sums(old) })
}

fn value(value: f64, requests: Option<f64>) -> Measured {
    Measured::Value { value, requests }
}

#[test]
fn a_value_is_out_of_bounds_so_often_in_a_row() {
    let bounds = |min, max, failures| AnalysisRule::Bounds { min, max, failures, at_least: 20.0 };
    let nothing = || Measured::Nothing { message: "no data".to_owned() };
    for (what, rule, looks, failure) in [
        ("within", bounds(None, Some(500.0), 1), vec![value(500.0, None)], None),
        (
            "above",
            bounds(None, Some(500.0), 1),
            vec![value(812.5, None)],
            Some("analysis \"a\": the value is 812.5, more than its max of 500"),
        ),
        (
            "below",
            bounds(Some(0.99), None, 1),
            vec![value(0.5, None)],
            Some("analysis \"a\": the value is 0.5, less than its min of 0.99"),
        ),
        ("not in a row", bounds(None, Some(1.0), 2), vec![value(2.0, None), value(1.0, None), value(2.0, None)], None),
        (
            "looks without data are left out",
            bounds(None, Some(1.0), 2),
            vec![value(2.0, None), nothing(), value(3.0, None)],
            Some("analysis \"a\": the value is 3, more than its max of 1, at 2 looks in a row"),
        ),
        ("no verdict at the end", bounds(None, Some(1.0), 1), vec![value(2.0, Some(19.0))], None),
        (
            "enough requests",
            bounds(None, Some(1.0), 1),
            vec![value(2.0, Some(20.0))],
            Some("analysis \"a\": the value is 2, more than its max of 1"),
        ),
    ] {
        let mut analysis = Analysis::new(names("a"), rule, OnNone::Wait);
        let measured: Vec<Measurement> = looks.into_iter().map(|look| analysis.measure(look, at(0))).collect();
        assert_eq!(analysis.failure().as_deref(), failure, "{what}");
        assert_eq!(Analysis::resume(names("a"), rule, OnNone::Wait, &measured), analysis, "{what}");
    }
}

#[test]
fn an_analysis_without_a_verdict_says_why() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    assert_eq!(analysis.undecided().unwrap(), "analysis \"errors\" has measured nothing yet");
    for (measured, why) in [
        (Measured::Nothing { message: "Prometheus did not answer".to_owned() }, "Prometheus did not answer"),
        (answered((0.0, 0.0), (1.0, 100.0)), "the new pods have answered no request"),
        (answered((1.0, 10.0), (1.0, 10.0)), "the new pods have answered too few requests"),
        (answered((1.0, 10.0), (0.0, 0.0)), "the old pods have answered no request"),
        (value(1.0, None), "there were only 0 requests"),
    ] {
        assert_eq!(analysis.measure(measured, at(0)).verdict, AnalysisVerdict::None);
        assert_eq!(analysis.undecided().unwrap(), format!("analysis \"errors\" has no verdict: {why}"));
        assert_eq!(analysis.failure(), None);
    }
    analysis.measure(answered((0.0, 100.0), (0.0, 100.0)), at(0));
    assert_eq!((analysis.undecided(), analysis.last().unwrap().verdict), (None, AnalysisVerdict::Pass));
}

#[test]
fn looks_without_a_verdict_count_as_is_asked_for() {
    let after = |on_none: OnNone, looks: usize| {
        let mut analysis = Analysis::new(names("errors"), COMPARES, on_none);
        for _ in 0..looks {
            analysis.measure(Measured::Nothing { message: "the query has no data".to_owned() }, at(0));
        }
        (analysis.failure(), analysis.undecided().is_some())
    };
    let why = "analysis \"errors\" has no verdict: the query has no data; on_none is fail".to_owned();
    assert_eq!(after(OnNone::Wait, 9), (None, true));
    assert_eq!(after(OnNone::Pass, 9), (None, false));
    assert_eq!(after(OnNone::Fail, 2), (None, true));
    assert_eq!(after(OnNone::Fail, 3), (Some(why), true));
}

#[test]
fn the_error_rates_are_told_with_their_numbers() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    let mut measured = vec![];
    for second in 0..3 {
        measured.push(analysis.measure(answered((20.0, 100.0), (1.0, 200.0)), at(second)));
    }
    assert_eq!(
        analysis.failure().unwrap(),
        "analysis \"errors\": the new pods gave 60 bad answers of 300 (20%), the old ones 3 bad answers of 600 (0.5%); that is \
         more than 1.25 times the old error rate, with a false alarm in at most 1% of harmless versions"
    );
    let kept = serde_json::to_string(&measured).unwrap();
    assert!(kept.contains("\"newBad\":20.0"), "{kept}");
    let read: Vec<Measurement> = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        Analysis::resume(names("errors"), COMPARES, OnNone::Wait, &read),
        analysis,
        "anybody can compute the verdict again"
    );
}

#[test]
fn a_verdict_that_was_not_computed_is_found() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    let mut measured: Vec<Measurement> =
        (0..3).map(|second| analysis.measure(answered((20.0, 100.0), (1.0, 200.0)), at(second))).collect();
    let failure = analysis.failure();
    let found = verify(&measured);
    assert_eq!(
        found,
        [VerifiedAnalysis { name: "errors".to_owned(), looks: 3, differs: None, failure, proofs: BTreeSet::new() }]
    );
    // The tolerated rate was changed meanwhile: all looks are judged by it.
    let stricter = AnalysisRule::ErrorRate { tolerate: 1.0, false_alarm: 0.01, at_least: 20.0, prove: None };
    let mut changed = Analysis::resume(names("errors"), stricter, OnNone::Wait, &measured);
    measured.push(changed.measure(answered((0.0, 100.0), (1.0, 200.0)), at(3)));
    assert_eq!(verify(&measured)[0].differs, None);
    measured[1].verdict = AnalysisVerdict::Pass;
    measured[1].evidence = Some(1.0);
    assert_eq!(verify(&measured)[0].differs.as_ref().unwrap().at, at(1));
}

#[test]
fn one_look_of_one_pod_is_never_enough() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    analysis.measure(answered((10_000.0, 10_000.0), (0.0, 10_000.0)), at(0));
    assert_eq!(analysis.failure(), None, "it may have been one client's burst");
}

#[test]
fn a_promotion_that_was_not_proved_is_found() {
    let prove = AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: Some(2.0) };
    let mut analysis = Analysis::new(names("errors"), prove, OnNone::Wait);
    let mut measured = vec![];
    for look in 0..20 {
        // It is proved in the first step, and its second one has too few looks.
        analysis.enter(Some(if look < 18 { 1 } else { 2 }));
        measured.push(analysis.measure(answered((10.0, 1_000.0), (10.0, 1_000.0)), at(look)));
    }
    assert_eq!(Analysis::resume(names("errors"), prove, OnNone::Wait, &measured), analysis, "a restart goes on");
    let verified = verify(&measured);
    assert_eq!(verified[0].differs, None);
    let proof = verified[0].proofs.iter().next_back().unwrap();
    let (given, others) = (format!("promoted early: {proof}"), "promoted early: analysis \"queue\": it is not worse");
    assert_eq!(unproved([given.as_str(), "promoted by ada: looks good"], &verified), Vec::<&str>::new());
    assert_eq!(unproved([given.as_str(), others], &verified), ["analysis \"queue\": it is not worse"]);
    measured[12].proof = Some(1e6);
    assert_eq!(verify(&measured)[0].differs.as_ref().unwrap().at, at(12));
    let kept = serde_json::to_string(&measured).unwrap();
    assert!(kept.contains("\"prove\":2.0") && kept.contains("\"step\":1"), "{kept}");
    assert_eq!(serde_json::from_str::<Vec<Measurement>>(&kept).unwrap(), measured);
}

#[test]
fn a_job_decides_once() {
    let job = |condition| {
        let (job, message) = ("web-smoke-1".to_owned(), "the Job web-smoke-1 has ended".to_owned());
        Measured::Job { job, condition, message }
    };
    let nothing = || Measured::Nothing { message: "nothing can start".to_owned() };
    let rule = AnalysisRule::Job { job: JobCondition::Complete };
    for (looks, on_none, verdict, failure, passed) in [
        (vec![job(JobCondition::Complete)], OnNone::Wait, AnalysisVerdict::Pass, None, true),
        (vec![nothing(), job(JobCondition::Complete)], OnNone::Fail, AnalysisVerdict::Pass, None, true),
        (
            vec![job(JobCondition::Failed)],
            OnNone::Pass,
            AnalysisVerdict::Fail,
            Some("analysis \"smoke\": the Job web-smoke-1 has ended"),
            false,
        ),
        (vec![nothing(); 9], OnNone::Wait, AnalysisVerdict::None, None, false),
        (
            vec![nothing(); 3],
            OnNone::Fail,
            AnalysisVerdict::None,
            Some("analysis \"smoke\" has no verdict: nothing can start; on_none is fail"),
            false,
        ),
    ] {
        let mut analysis = Analysis::new(names("smoke"), rule, on_none);
        analysis.enter(Some(1));
        let measured: Vec<Measurement> = looks.into_iter().map(|look| analysis.measure(look, at(0))).collect();
        assert_eq!(measured.last().unwrap().verdict, verdict);
        assert_eq!((analysis.failure().as_deref(), analysis.has_passed_for_good()), (failure, passed));
        // It is not made again for the next step, and holds that up no longer.
        analysis.enter(Some(2));
        assert_eq!(analysis.promotion_proof() == PromotionProof::NotAsked, passed);
        let written = serde_json::to_string(&measured).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Measurement>>(&written).unwrap(), measured, "{written}");
        assert!(verify(&measured).iter().all(|verified| verified.differs.is_none()));
    }
}
