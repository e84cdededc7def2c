//! Numbers out of the text of the metrics: a page and a scrape say the same.

/// A line of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MetricLine<'t> {
    labels: &'t str,
    /// The number.
    pub value: f64,
}

impl<'t> MetricLine<'t> {
    /// Returns the value of a label, as it is written there.
    pub(super) fn label(self, name: &str) -> Option<&'t str> {
        let value = |pair: &'t str| pair.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"');
        self.labels.split(',').find_map(value)
    }
}

/// Returns the lines of the metric with this name.
pub(super) fn lines_of<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = MetricLine<'t>> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        Some(MetricLine { labels, value: value.parse().ok()? })
    })
}

/// Returns the sum of the lines that have these labels; `None` if there is no such line.
pub(super) fn sum_of(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |line: &MetricLine<'_>| labels.iter().all(|(label, value)| line.label(label) == Some(value));
    lines_of(text, name).filter(fits).map(|line| line.value).reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_name_and_labels() {
        let text = "# HELP a A.\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"4\"} 5\na_total 7\nb 1.5\nb{ 2\nc x\n";
        for (name, labels, sum) in [
            ("a", vec![], Some(8.0)),
            ("a", vec![("y", "4")], Some(5.0)),
            ("a", vec![("y", "5")], None),
            ("b", vec![], Some(1.5)),
            ("c", vec![], None),
            ("a_total", vec![], Some(7.0)),
        ] {
            assert_eq!(sum_of(text, name, &labels), sum, "{name} {labels:?}");
        }
    }
}
