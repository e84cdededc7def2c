//! The samples that Prometheus answers at a look, and the value that they stand for.

use super::AnalysisRule;
use super::measurement::Measured;

/// One sample of Prometheus: the value of a time series at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels of its series, as one text.
    pub labels: String,
    /// The label `pod`; empty if there is none.
    pub pod: String,
    /// Its value.
    pub value: f64,
}

/// Returns the worst value of some samples by a rule, with the requests that it is made of, where they are counted.
#[must_use]
pub fn worst_value(samples: &[Sample], requests: Option<&[Sample]>, rule: AnalysisRule) -> Measured {
    let numbers = samples.iter().map(|sample| sample.value).filter(|value| !value.is_nan());
    let worst = match rule {
        AnalysisRule::Bounds { min: Some(min), max: Some(max), .. } => {
            let excess = |value: &f64| (min - value).max(value - max);
            numbers.max_by(|one, other| excess(one).total_cmp(&excess(other)))
        }
        AnalysisRule::Bounds { min: Some(_), .. } => numbers.min_by(f64::total_cmp),
        _ => numbers.max_by(f64::total_cmp),
    };
    let counted = |requests: &[Sample]| {
        requests.iter().map(|of| of.value).filter(|value| value.is_finite()).fold(0.0, |sum, value| sum + value)
    };
    match worst {
        Some(value) => Measured::Value { value, requests: requests.map(counted) },
        None if samples.is_empty() => Measured::Nothing { message: "the query has no data".to_owned() },
        None => Measured::Nothing { message: "the value is NaN".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Vec<Sample> {
        values.iter().map(|value| Sample { labels: String::new(), pod: String::new(), value: *value }).collect()
    }

    #[test]
    fn the_worst_value_counts() {
        let rule = |min, max| AnalysisRule::Bounds { min, max, failures: 1, at_least: 0.0 };
        let worst = |values: &[f64], rule| match worst_value(&samples(values), None, rule) {
            Measured::Value { value, .. } => Ok(value),
            Measured::Nothing { message } => Err(message),
            other @ (Measured::Answers(_) | Measured::Job { .. }) => Err(format!("{other:?}")),
        };
        let values = [3.0, f64::NAN, 1.0, 2.0];
        assert_eq!(worst(&values, rule(None, Some(2.0))).unwrap(), 3.0);
        assert_eq!(worst(&values, rule(Some(2.0), None)).unwrap(), 1.0);
        assert_eq!(worst(&values, rule(Some(1.5), Some(4.0))).unwrap(), 1.0);
        assert_eq!(worst(&values, rule(Some(0.5), Some(2.5))).unwrap(), 3.0);
        assert_eq!(worst(&[], rule(None, Some(2.0))).unwrap_err(), "the query has no data");
        assert_eq!(worst(&[f64::NAN], rule(None, Some(2.0))).unwrap_err(), "the value is NaN");
        let counted = worst_value(&samples(&[1.0]), Some(&samples(&[4.0, f64::NAN, 3.0])), rule(None, Some(2.0)));
        assert_eq!(counted, Measured::Value { value: 1.0, requests: Some(7.0) });
    }
}
