//! CounterIncreases, and by how much they have grown between two looks.

use std::collections::{BTreeMap, BTreeSet};

use super::error_rates::Answers;
use super::sample::Sample;

/// The most series that are remembered of a query.
const SERIES: usize = 10_000;
/// The largest value of a counter: up to it, a number is counted exactly.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// The counters of some pods, as they were at the last look: of the bad answers, and of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterIncreases {
    bad: BTreeMap<String, f64>,
    total: BTreeMap<String, f64>,
    /// The pods that were seen before. Only what they count from then on is of this time.
    pods: BTreeSet<String>,
}

impl CounterIncreases {
    /// Returns the answers of each pod since the last look: the bad ones, and all. A pod that was not seen before counts from now
    /// on; a series that a known pod did not have counts from zero. A counter that has lost more than half of its value began
    /// again at zero; one that has lost less, or is missing, keeps its value: another replica of Prometheus knows less, or a
    /// scrape has failed.
    pub fn increase(&mut self, bad: &[Sample], total: &[Sample]) -> BTreeMap<String, Answers> {
        let mut grown: BTreeMap<String, Answers> = BTreeMap::new();
        for sample in bad {
            let more = more(&mut self.bad, sample, &self.pods);
            grown.entry(sample.pod.clone()).or_default().bad += more;
        }
        for sample in total {
            let more = more(&mut self.total, sample, &self.pods);
            grown.entry(sample.pod.clone()).or_default().total += more;
        }
        if self.pods.len() < SERIES {
            self.pods.extend(total.iter().map(|sample| sample.pod.clone()));
        }
        grown
    }
}

/// Returns by how much a counter has grown since the last look.
fn more(known: &mut BTreeMap<String, f64>, sample: &Sample, pods: &BTreeSet<String>) -> f64 {
    let Sample { labels, pod, value } = sample;
    if !(0.0..=LARGEST).contains(value) {
        return 0.0;
    }
    let is_full = known.len() >= SERIES;
    match known.get_mut(labels) {
        Some(before) if *value >= *before / 2.0 => {
            let more = (*value - *before).max(0.0);
            *before = value.max(*before);
            more
        }
        Some(before) => {
            *before = *value;
            *value
        }
        None if is_full => 0.0,
        None => {
            known.insert(labels.clone(), *value);
            if pods.contains(pod) { *value } else { 0.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the samples of `pod code value`.
    fn samples(text: &str) -> Vec<Sample> {
        let one = |text: &str| {
            let (labels, value) = text.rsplit_once(' ').unwrap();
            let (pod, _) = labels.split_once(' ').unwrap();
            Sample { labels: labels.to_owned(), pod: pod.to_owned(), value: value.parse().unwrap() }
        };
        text.split(", ").filter(|text| !text.is_empty()).map(one).collect()
    }

    #[test]
    fn counters_grow_begin_again_are_new_and_are_missing() {
        let mut counters = CounterIncreases::default();
        let mut grown = |bad: &str, total: &str| {
            let grown = counters.increase(&samples(bad), &samples(total));
            grown.iter().map(|(pod, of)| format!("{pod} {}/{}", of.bad, of.total)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(grown("", "a 200 100"), "a 0/0", "what was before counts not");
        assert_eq!(grown("", "a 200 130"), "a 0/30");
        assert_eq!(
            grown("a 500 4", "a 200 130, a 500 4, b 200 7"),
            "a 4/4, b 0/0",
            "the first bad answer makes its series"
        );
        assert_eq!(grown("a 500 4", "a 200 10, a 500 4, b 200 9"), "a 0/10, b 0/2", "it was restarted");
        assert_eq!(grown("", ""), "", "a scrape failed");
        assert_eq!(grown("a 500 5", "a 200 12, a 500 5, b 200 8"), "a 1/3, b 0/0", "another replica knows less");
        assert_eq!(grown("b 500 1", "a 200 NaN, b 200 -1, b 500 1"), "a 0/0, b 1/1");
        assert_eq!(grown("a 500 1e300", "a 200 inf"), "a 0/0", "no number of answers");
        assert_eq!(grown("c 500 90", "c 200 1000"), "c 0/0", "the start of a pod is part of its rollout");
        assert_eq!(grown("c 500 91", "c 200 1010"), "c 1/10");
    }
}
