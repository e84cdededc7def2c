//! CounterGrowth, and by how much they have grown between two looks.

use std::collections::BTreeMap;

use super::sample::Sample;

/// The counters of some pods, as they were at the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterGrowth {
    /// By labels; `None` before the first look.
    known: Option<BTreeMap<String, f64>>,
}

impl CounterGrowth {
    /// Returns by how much the counters of each pod have grown since the last look; `None` at the first one. A counter that is
    /// smaller than before began again at zero, and one that was not there is new. One that is missing at a look keeps its value.
    pub fn grow(&mut self, samples: &[Sample]) -> Option<BTreeMap<String, f64>> {
        let is_first = self.known.is_none();
        let known = self.known.get_or_insert_with(BTreeMap::new);
        let mut grown: BTreeMap<String, f64> = BTreeMap::new();
        for Sample { labels, pod, value } in samples.iter().filter(|sample| sample.value.is_finite()) {
            let before = known.insert(labels.clone(), *value).unwrap_or_default();
            let more = if *value < before { *value } else { *value - before };
            *grown.entry(pod.clone()).or_default() += more.max(0.0);
        }
        (!is_first).then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: &[(&str, &str, f64)]) -> Vec<Sample> {
        let one = |(labels, pod, value): &(&str, &str, f64)| Sample {
            labels: (*labels).to_owned(),
            pod: (*pod).to_owned(),
            value: *value,
        };
        of.iter().map(one).collect()
    }

    fn grown(counters: &mut CounterGrowth, of: &[(&str, &str, f64)]) -> Option<Vec<(String, f64)>> {
        counters.grow(&samples(of)).map(|grown| grown.into_iter().collect())
    }

    #[test]
    fn counters_grow_begin_again_are_new_and_are_missing() {
        let mut counters = CounterGrowth::default();
        assert_eq!(grown(&mut counters, &[("a 200", "a", 100.0)]), None, "nothing to compare with");
        let of = |pod: &str, more: f64| (pod.to_owned(), more);
        assert_eq!(grown(&mut counters, &[("a 200", "a", 130.0)]), Some(vec![of("a", 30.0)]));
        assert_eq!(
            grown(&mut counters, &[("a 200", "a", 130.0), ("a 500", "a", 4.0), ("b 200", "b", 7.0)]),
            Some(vec![of("a", 4.0), of("b", 7.0)]),
            "the first bad answer makes its series"
        );
        assert_eq!(grown(&mut counters, &[("a 200", "a", 10.0)]), Some(vec![of("a", 10.0)]), "it was restarted");
        assert_eq!(grown(&mut counters, &[]), Some(vec![]), "a scrape failed");
        assert_eq!(
            grown(&mut counters, &[("a 200", "a", 12.0), ("b 200", "b", 7.0)]),
            Some(vec![of("a", 2.0), of("b", 0.0)])
        );
        assert_eq!(grown(&mut counters, &[("a 200", "a", f64::NAN), ("b 200", "b", -1.0)]), Some(vec![of("b", 0.0)]));
    }
}
