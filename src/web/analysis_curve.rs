//! The looks of an analysis as a curve: its values or its evidence over time, with the bound, and a mark at each failed look.

use std::fmt::Write as _;

use belay_core::rollout::analysis::{AnalysisRule, AnalysisVerdict, Measured, Measurement, by_analysis};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 80.0;
/// The space for the numbers of the axis.
const LEFT: f64 = 60.0;

/// The looks of one analysis.
pub(super) struct AnalysisCurve {
    pub(super) name: String,
    /// The verdict of the last look, with its numbers.
    pub(super) last: String,
    /// Empty for the Job of an analysis, which has no numbers.
    pub(super) svg: String,
}

impl AnalysisCurve {
    /// Returns the curves of a record, one for each analysis.
    pub(super) fn of(measurements: &[Measurement]) -> Vec<AnalysisCurve> {
        let curves = by_analysis(measurements).into_iter();
        curves.filter_map(|(name, looks)| AnalysisCurve::of_one(name, &looks)).collect()
    }

    fn of_one(name: &str, looks: &[&Measurement]) -> Option<AnalysisCurve> {
        let (first, last) = (looks.first()?, looks.last()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64().max(1.0);
        let has_numbers = !matches!(last.rule, AnalysisRule::Job { .. });
        Some(AnalysisCurve {
            name: name.to_owned(),
            last: format!("{} ({})", last.verdict.word(), last.numbers()),
            svg: if has_numbers { drawn(name, looks, seconds) } else { String::new() },
        })
    }
}

/// Returns the height of a look on the scale: a value, or the logarithm of the evidence.
fn height(look: &Measurement) -> Option<f64> {
    match (&look.measured, look.evidence) {
        (Measured::Value { value, .. }, _) => Some(*value),
        (Measured::Answers(_), Some(evidence)) => Some(evidence.max(1e-3).log10()),
        _ => None,
    }
}

/// Returns the bounds of a rule on the scale.
fn bounds(rule: AnalysisRule) -> Vec<f64> {
    match rule {
        AnalysisRule::ErrorRate { false_alarm, .. } => vec![(1.0 / false_alarm).log10()],
        AnalysisRule::Bounds { min, max, .. } => min.into_iter().chain(max).collect(),
        AnalysisRule::Job { .. } => Vec::new(),
    }
}

fn drawn(name: &str, looks: &[&Measurement], seconds: f64) -> String {
    let rule = looks.last().map(|look| look.rule);
    let bounds = rule.map(bounds).unwrap_or_default();
    let heights = || looks.iter().filter_map(|look| height(look)).chain(bounds.iter().copied());
    let low = heights().fold(0.0, f64::min);
    let high = heights().fold(f64::MIN_POSITIVE, f64::max);
    let began = looks.first().map(|look| look.at).unwrap_or_default();
    let x = |look: &Measurement| LEFT + WIDTH * look.at.duration_since(began).as_secs_f64() / seconds;
    let y = |value: f64| HEIGHT - (HEIGHT - 10.0) * (value - low) / (high - low);
    let failed = looks.iter().filter(|look| look.verdict == AnalysisVerdict::Fail).count();
    // A name has no such characters; a history that somebody else has written may.
    let name: String = name.chars().filter(|c| !"<>&\"'".contains(*c)).collect();
    let mut svg = format!(
        "<svg class=\"progress\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Analysis {name}: {} looks, {failed} of them failed\">",
        LEFT + WIDTH + 10.0,
        HEIGHT + 20.0,
        looks.len()
    );
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} 5V{HEIGHT}H{}\"/>", LEFT + WIDTH);
    for bound in bounds {
        let _ = write!(svg, "<path class=\"deadline\" d=\"M{LEFT} {:.1}H{}\"/>", y(bound), LEFT + WIDTH);
        let shown =
            if matches!(rule, Some(AnalysisRule::ErrorRate { .. })) { 10_f64.powf(bound).round() } else { bound };
        let _ =
            write!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{shown}</text>", LEFT - 4.0, y(bound) + 4.0);
    }
    // A look without numbers interrupts the curve.
    let mut goes_on = false;
    let mut curve = String::new();
    for look in looks {
        if let Some(value) = height(look) {
            let _ = write!(curve, "{}{:.1} {:.1}", if goes_on { "L" } else { "M" }, x(look), y(value));
        }
        goes_on = height(look).is_some();
    }
    let _ = write!(svg, "<path class=\"curve\" d=\"{curve}\"/>");
    for look in looks.iter().filter(|look| look.verdict == AnalysisVerdict::Fail) {
        let at = height(look).unwrap_or(low);
        let _ = write!(svg, "<circle class=\"failed\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", x(look), y(at));
    }
    let _ = write!(svg, "<text x=\"{LEFT}\" y=\"{}\">0 s</text>", HEIGHT + 15.0);
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{seconds:.0} s</text></svg>",
        LEFT + WIDTH,
        HEIGHT + 15.0
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::analysis::{Analysis, OnNone};
    use jiff::Timestamp;

    #[test]
    fn each_analysis_has_a_curve_with_its_bound_and_failures() {
        let rule = AnalysisRule::Bounds { min: None, max: Some(10.0), failures: 9, at_least: 0.0 };
        let mut analysis = Analysis::new(("latency".to_owned(), String::new()), rule, OnNone::Wait);
        let value = |value| Measured::Value { value, requests: None };
        let nothing = Measured::Nothing { message: "no data".to_owned() };
        let looks: Vec<Measurement> = [value(5.0), nothing, value(0.0), value(20.0)]
            .into_iter()
            .zip([0, 15, 30, 60])
            .map(|(measured, second)| analysis.measure(measured, Timestamp::from_second(second).unwrap()))
            .collect();
        let curves = AnalysisCurve::of(&looks);
        assert_eq!((curves.len(), curves[0].name.as_str(), curves[0].last.as_str()), (1, "latency", "fail (20)"));
        let svg = &curves[0].svg;
        assert!(svg.contains("d=\"M60.0 62.5M360.0 80.0L660.0 10.0\""), "the look without data interrupts it: {svg}");
        assert!(svg.contains("class=\"deadline\" d=\"M60 45.0H660\""), "the bound: {svg}");
        assert!(svg.contains("cx=\"660.0\" cy=\"10.0\"") && svg.matches("<circle").count() == 1, "{svg}");
        assert!(svg.contains("4 looks, 1 of them failed"), "{svg}");
    }
}
