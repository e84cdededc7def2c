//! What the daemon says of itself as Prometheus reads it, <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::daemon::{SourceStatus, Status, UnderWay};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{ObjectState, SourceState};

/// All metrics, in the text format.
pub(super) fn metrics(status: &Status) -> String {
    let mut page = Page::default();
    page.about("belay_build_info", "gauge", "Always 1; the version is in the label.");
    page.line("belay_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let sources = || status.sources.iter();
    page.about(
        "belay_source_info",
        "gauge",
        "Always 1; the commits are in the labels: where the ref is, and what was planned.",
    );
    for (name, source) in sources() {
        let commit = |commit: &Option<belay_core::rollout::CommitId>| {
            commit.as_ref().map(ToString::to_string).unwrap_or_default()
        };
        let labels =
            [("source", name.as_str()), ("head", &commit(&source.head)), ("planned", &commit(&source.planned))];
        page.line("belay_source_info", &labels, 1);
    }
    page.each(status, "belay_source_objects", "Objects in the repository.", |source| Some(count(source.objects)));
    states(&mut page, status);
    page.each(status, "belay_rejected_manifests", "Manifests of the head that are rejected.", |source| {
        Some(count(source.counts().of(ObjectState::Rejected)))
    });
    page.each(status, "belay_source_reached_timestamp_seconds", "When the repository was last reached.", |source| {
        source.looked.map(Timestamp::as_second)
    });
    page.each(status, "belay_rollouts_under_way", "Rollouts and rollbacks under way.", |source| {
        Some(count(source.under_way.len()))
    });
    page.each(status, "belay_holds", "Held manifests: Git and the cluster differ by rollback.", |source| {
        Some(count(source.held.len()))
    });
    page.each(status, "belay_source_waiting", "1 while all of a source waits for another one, or daemon.", |source| {
        Some(i64::from(source.waits.is_some()))
    });
    page.each(status, "belay_troubles", "Things that are in the way of a source.", |source| {
        Some(count(source.trouble.len()))
    });
    holds(&mut page, status);
    ended(&mut page, status);
    rollouts(&mut page, status);
    page.text
}

/// The state of each source, and how many objects are in which: a line for each word, so that none is ever missing.
fn states(page: &mut Page, status: &Status) {
    page.about("belay_source_state", "gauge", "1 for the state that a source is in, 0 for the others.");
    for (name, source) in &status.sources {
        for state in SourceState::ALL {
            let labels = [("source", name.as_str()), ("state", state.word())];
            page.line("belay_source_state", &labels, i64::from(source.state() == state));
        }
    }
    page.about("belay_objects", "gauge", "Objects by state.");
    for (name, source) in &status.sources {
        let counts = source.counts();
        for state in ObjectState::ALL {
            let labels = [("source", name.as_str()), ("state", state.word())];
            page.line("belay_objects", &labels, count(counts.of(state)));
        }
    }
}

fn holds(page: &mut Page, status: &Status) {
    const NAME: &str = "belay_hold_since_timestamp_seconds";
    page.about(NAME, "gauge", "Since when a manifest is held.");
    for (source, of) in &status.sources {
        for (key, held) in &of.held {
            let commit = held.commit.to_string();
            let mut labels = object(source, key);
            labels.push(("commit", &commit));
            page.line(NAME, &labels, held.since.as_second());
        }
    }
}

/// The rollouts that have ended, by what set them off.
fn ended(page: &mut Page, status: &Status) {
    const NAME: &str = "belay_rollouts_total";
    page.about(NAME, "counter", "Rollouts that have ended since belay was started, by what set them off.");
    for (source, of) in &status.sources {
        for (trigger, outcomes) in &of.rollouts {
            for (outcome, number) in outcomes {
                let labels = [("source", source.as_str()), ("trigger", trigger), ("outcome", outcome)];
                page.line(NAME, &labels, i64::try_from(*number).unwrap_or(i64::MAX));
            }
        }
    }
}

fn rollouts(page: &mut Page, status: &Status) {
    type Gauge = (&'static str, &'static str, fn(&UnderWay) -> i64);
    let gauges: [Gauge; 3] = [
        ("belay_rollout_pods_wanted", "Pods that a rollout under way wants.", |way| way.counters.desired),
        ("belay_rollout_pods_updated", "Pods of the new template of a rollout under way.", |way| way.counters.updated),
        ("belay_rollout_pods_available", "Available pods of a rollout under way.", |way| way.counters.available),
    ];
    for (name, help, value) in gauges {
        page.about(name, "gauge", help);
        for (source, of) in &status.sources {
            for (key, way) in &of.under_way {
                let mut labels = object(source, key);
                labels.push(("state", way.outcome.word()));
                page.line(name, &labels, value(way));
            }
        }
    }
}

fn object<'a>(source: &'a str, key: &'a ObjectKey) -> Vec<(&'static str, &'a str)> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    vec![("source", source), ("kind", &key.kind), ("namespace", namespace), ("name", &key.name)]
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: i64) {
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escape(text))).collect();
        let _ = writeln!(self.text, "{name}{{{}}} {value}", labels.join(","));
    }

    fn each(&mut self, status: &Status, name: &str, help: &str, value: impl Fn(&SourceStatus) -> Option<i64>) {
        self.about(name, "gauge", help);
        for (source, of) in &status.sources {
            if let Some(value) = value(of) {
                self.line(name, &[("source", source)], value);
            }
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::HeldStatus;

    #[test]
    fn a_hold_is_a_value() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let commit = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
        let held = HeldStatus {
            commit: commit.parse().unwrap(),
            reason: "crash".to_owned(),
            since: Timestamp::from_second(1_700_000_000).unwrap(),
        };
        let source = SourceStatus { held: [(key, held)].into(), ..SourceStatus::default() };
        let status = Status { sources: [("shop".to_owned(), source)].into() };
        let text = metrics(&status);
        let line = format!(
            "belay_hold_since_timestamp_seconds{{source=\"shop\",kind=\"Deployment\",namespace=\"shop\",name=\"web\",commit=\
             \"{commit}\"}} 1700000000\n"
        );
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("belay_holds{source=\"shop\"} 1\n"), "{text}");
    }

    #[test]
    fn every_line_is_a_comment_or_a_value() {
        let status = Status { sources: [("a\"b\\c\nd".to_owned(), SourceStatus::default())].into() };
        for line in metrics(&status).lines() {
            let value = line.rsplit_once(' ').map(|(_, value)| value.parse::<i64>());
            assert!(
                line.starts_with("# HELP ") || line.starts_with("# TYPE ") || matches!(value, Some(Ok(_))),
                "{line}"
            );
        }
    }
}
