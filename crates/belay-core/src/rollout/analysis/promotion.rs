//! The end of a canary's step before its time, once it is proved that the version is not much worse.

use super::{Analysis, AnalysisRule, AnalysisVerdict, rounded};

/// The beginning of the step of the history that says so.
pub const PROMOTED_EARLY: &str = "promoted early: ";

/// The comparisons within a step before which nothing is proved by it.
const COMPARISONS: u32 = 4;

/// The words between the proofs of two analyses.
const AND: &str = ", and ";

/// The proof of one analysis by which a canary's step may end before its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PromotionProof {
    /// It has not proved what it is asked to prove, or its last look has not passed: the step goes on.
    #[default]
    Missing,
    /// It is asked to prove nothing, and its last look has passed.
    NotAsked,
    /// It has proved that the version is not so many times worse, in one sentence with its numbers.
    Proved(String),
}

/// The comparisons of new and old pods within a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepComparisons {
    comparisons: u32,
    /// The answers of the new pods.
    answers: f64,
}

impl StepComparisons {
    pub fn add(&mut self, is_compared: bool, answers: f64) {
        self.comparisons = self.comparisons.saturating_add(u32::from(is_compared));
        self.answers += answers;
    }
}

impl Analysis {
    /// Returns its proof for the end of the step in which it looks.
    #[must_use]
    pub fn promotion_proof(&self) -> PromotionProof {
        let has_looked = |step| self.last.as_ref().is_some_and(|last| last.step == Some(step));
        let has_passed = self.last.as_ref().is_some_and(|last| last.verdict == AnalysisVerdict::Pass);
        let has_looked = self.step.is_some_and(has_looked) || self.has_passed_for_good();
        if !has_looked || !has_passed {
            return PromotionProof::Missing;
        }
        let AnalysisRule::ErrorRate { prove: Some(prove), false_alarm, at_least, .. } = self.rule else {
            return PromotionProof::NotAsked;
        };
        let has_enough = self.in_step.comparisons >= COMPARISONS && self.in_step.answers >= at_least;
        if !has_enough || self.test.proof() < 1.0 / false_alarm {
            return PromotionProof::Missing;
        }
        PromotionProof::Proved(format!(
            "analysis {:?}: {}; that is less than {prove} times the old error rate, which is said of at most {}% of versions that are \
             {prove} times worse",
            self.name,
            self.compared(),
            rounded(false_alarm * 100.0)
        ))
    }
}

/// Returns the proofs by which a step ends early; `None` if it goes on: a proof is missing, or none is asked for.
#[must_use]
pub fn promoted_early<'p>(proofs: impl IntoIterator<Item = &'p PromotionProof>) -> Option<String> {
    let mut proved = Vec::new();
    for proof in proofs {
        match proof {
            PromotionProof::Missing => return None,
            PromotionProof::NotAsked => {}
            PromotionProof::Proved(sentence) => proved.push(sentence.as_str()),
        }
    }
    (!proved.is_empty()).then(|| proved.join(AND))
}

/// Returns the proofs that a step of the history names; none if it says something else.
pub(super) fn named_proofs(detail: &str) -> impl Iterator<Item = &str> {
    detail.strip_prefix(PROMOTED_EARLY).into_iter().flat_map(|proofs| proofs.split(AND))
}

#[cfg(test)]
mod tests {
    use super::super::error_rates::{AnswerSums, Answers};
    use super::super::{Measured, Measurement, OnNone, PodAnswers};
    use super::*;
    use jiff::Timestamp;

    const RULE: AnalysisRule =
        AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: Some(2.0) };

    fn analysis(rule: AnalysisRule) -> Analysis {
        Analysis::new(("errors".to_owned(), String::new()), rule, OnNone::Pass)
    }

    /// Looks so often at answers of new and of old pods, the bad ones and all.
    fn looks(analysis: &mut Analysis, count: usize, new: (f64, f64), old: (f64, f64)) -> Vec<Measurement> {
        let sums = |(bad, total): (f64, f64)| AnswerSums::of([Answers { bad, total }]);
        let measured = Measured::Answers(PodAnswers { new: sums(new), old: sums(old) });
        (0..count).map(|_| analysis.measure(measured.clone(), Timestamp::UNIX_EPOCH)).collect()
    }

    fn has_proved(analysis: &Analysis) -> bool {
        matches!(analysis.promotion_proof(), PromotionProof::Proved(_))
    }

    #[test]
    fn a_version_that_is_not_much_worse_is_proved_in_each_step() {
        let mut analysis = analysis(RULE);
        looks(&mut analysis, 40, (10.0, 1_000.0), (10.0, 1_000.0));
        assert_eq!(analysis.promotion_proof(), PromotionProof::Missing, "it looks in no step");
        analysis.enter(Some(1));
        looks(&mut analysis, 3, (10.0, 1_000.0), (10.0, 1_000.0));
        assert_eq!(analysis.promotion_proof(), PromotionProof::Missing, "three comparisons are too few");
        let last = looks(&mut analysis, 1, (10.0, 1_000.0), (10.0, 1_000.0));
        assert!(last[0].proof.unwrap() >= 100.0 && last[0].step == Some(1), "{last:?}");
        let PromotionProof::Proved(why) = analysis.promotion_proof() else { panic!("{last:?}") };
        assert_eq!(
            why,
            "analysis \"errors\": the new pods gave 440 bad answers of 44000 (1%), the old ones 440 bad answers of 44000 (1%); that is \
             less than 2 times the old error rate, which is said of at most 1% of versions that are 2 times worse"
        );
        analysis.enter(Some(2));
        assert_eq!(analysis.promotion_proof(), PromotionProof::Missing, "the next step has its own answers");
        looks(&mut analysis, 4, (0.0, 4.0), (0.0, 100.0));
        assert_eq!(analysis.promotion_proof(), PromotionProof::Missing, "16 answers are too few");
        looks(&mut analysis, 1, (0.0, 4.0), (0.0, 100.0));
        assert!(has_proved(&analysis));
    }

    #[test]
    fn nothing_is_proved_without_bad_answers_or_by_looks_without_a_verdict() {
        let mut clean = analysis(RULE);
        clean.enter(Some(1));
        looks(&mut clean, 100, (0.0, 1_000.0), (0.0, 1_000.0));
        assert_eq!(clean.promotion_proof(), PromotionProof::Missing, "twice nothing is nothing");
        let mut away = analysis(RULE);
        away.enter(Some(1));
        looks(&mut away, 40, (10.0, 1_000.0), (10.0, 1_000.0));
        assert!(has_proved(&away));
        away.measure(Measured::Nothing { message: "Prometheus did not answer".to_owned() }, Timestamp::UNIX_EPOCH);
        assert_eq!(away.promotion_proof(), PromotionProof::Missing, "on_none = \"pass\" promotes nothing");
    }

    #[test]
    fn an_analysis_that_proves_nothing_has_to_pass() {
        let bounds = AnalysisRule::Bounds { min: None, max: Some(1.0), failures: 3, at_least: 0.0 };
        let mut analysis = analysis(bounds);
        analysis.enter(Some(1));
        for (value, expected) in [
            (None, PromotionProof::Missing),
            (Some(0.5), PromotionProof::NotAsked),
            (Some(2.0), PromotionProof::Missing),
        ] {
            if let Some(value) = value {
                analysis.measure(Measured::Value { value, requests: None }, Timestamp::UNIX_EPOCH);
            }
            assert_eq!(analysis.promotion_proof(), expected, "{value:?}");
        }
    }

    #[test]
    fn all_analyses_have_to_agree() {
        let proved = |text: &str| PromotionProof::Proved(text.to_owned());
        for (votes, expected) in [
            (vec![], None),
            (vec![PromotionProof::NotAsked], None),
            (vec![proved("a"), PromotionProof::Missing], None),
            (vec![proved("a"), PromotionProof::NotAsked], Some("a")),
            (vec![proved("a"), proved("b")], Some("a, and b")),
        ] {
            assert_eq!(promoted_early(&votes).as_deref(), expected, "{votes:?}");
        }
        assert_eq!(named_proofs("promoted early: a, and b").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(named_proofs("promoted by ada").count(), 0);
    }
}
