//! The verdicts of a rollout's analyses, computed again from what was measured.

use std::collections::BTreeMap;

use super::{Analysis, Measurement, OnNone};

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
    let mut differs = None;
    for (number, look) in looks.iter().enumerate() {
        let known = analysis.take().filter(|(_, rule)| *rule == look.rule).map(|(analysis, _)| analysis);
        // With another rule, all that was measured before is judged by it.
        let known = known.unwrap_or_else(|| {
            let names = (name.to_owned(), queries.to_owned());
            Analysis::resume(names, look.rule, OnNone::Wait, looks.get(..number).unwrap_or_default())
        });
        let (known, _) = analysis.insert((known, look.rule));
        let again = known.measure(look.measured.clone(), look.at);
        let is_same = again.verdict == look.verdict && is_close(again.evidence, look.evidence);
        if !is_same && differs.is_none() {
            differs = Some(again);
        }
    }
    let failure = analysis.and_then(|(analysis, _)| analysis.failure());
    VerifiedAnalysis { name: name.to_owned(), looks: looks.len(), differs, failure }
}

/// Returns true when two machines may have computed these.
fn is_close(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        (one, other) => one.is_none() && other.is_none(),
    }
}
