//! The verdicts of a rollout's analyses, computed again from what was measured.

use std::collections::{BTreeMap, BTreeSet};

use super::promotion::named_proofs;
use super::{Analysis, Measurement, OnNone, PromotionProof};

/// One analysis of a rollout, computed again.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedAnalysis {
    /// Its name.
    pub name: String,
    /// The number of its looks.
    pub looks: usize,
    /// The first look whose verdict or evidence is not the recorded one.
    pub differs: Option<Measurement>,
    /// The numbers that show that the version is bad, as one sentence.
    pub failure: Option<String>,
    /// The numbers that prove within a step of a canary that it is not much worse, as one sentence for each look that does.
    pub proofs: BTreeSet<String>,
}

/// Returns the proofs that steps of the history name and that their measurements do not give.
#[must_use]
pub fn unproved<'d>(details: impl IntoIterator<Item = &'d str>, verified: &[VerifiedAnalysis]) -> Vec<&'d str> {
    let is_given = |proof: &&str| verified.iter().any(|analysis| analysis.proofs.contains(*proof));
    details.into_iter().flat_map(named_proofs).filter(|proof| !is_given(proof)).collect()
}

/// Computes the verdict of each look again.
#[must_use]
pub fn verify(measurements: &[Measurement]) -> Vec<VerifiedAnalysis> {
    let mut by_name: BTreeMap<(&str, &str), Vec<Measurement>> = BTreeMap::new();
    for measurement in measurements {
        by_name.entry((&measurement.analysis, &measurement.queries)).or_default().push(measurement.clone());
    }
    by_name.into_iter().map(|(name, looks)| verified(name, &looks)).collect()
}

fn verified((name, queries): (&str, &str), looks: &[Measurement]) -> VerifiedAnalysis {
    let mut analysis: Option<(Analysis, _)> = None;
    let (mut differs, mut proofs) = (None, BTreeSet::new());
    for (number, look) in looks.iter().enumerate() {
        let known = analysis.take().filter(|(_, rule)| *rule == look.rule).map(|(analysis, _)| analysis);
        // With another rule, all that was measured before is judged by it.
        let known = known.unwrap_or_else(|| {
            let names = (name.to_owned(), queries.to_owned());
            Analysis::resume(names, look.rule, OnNone::Wait, looks.get(..number).unwrap_or_default())
        });
        let (known, _) = analysis.insert((known, look.rule));
        known.enter(look.step);
        let again = known.measure(look.measured.clone(), look.at);
        if let PromotionProof::Proved(proof) = known.promotion_proof() {
            proofs.insert(proof);
        }
        let is_same = again.verdict == look.verdict
            && is_close(again.evidence, look.evidence)
            && is_close(again.proof, look.proof);
        if !is_same && differs.is_none() {
            differs = Some(again);
        }
    }
    let failure = analysis.and_then(|(analysis, _)| analysis.failure());
    VerifiedAnalysis { name: name.to_owned(), looks: looks.len(), differs, failure, proofs }
}

/// Returns true when two machines may have computed these.
fn is_close(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        (one, other) => one.is_none() && other.is_none(),
    }
}
