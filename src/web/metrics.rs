//! The daemon's metrics for Prometheus: the gauges of its status beside its counters.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::daemon::{SourceStatus, Status, UnderWay};
use crate::telemetry::{Metrics, Process};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, SourceState};

/// The media type of OpenMetrics, which Prometheus asks for.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of the older text format.
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all of them, together.
pub(super) fn registry(status: watch::Receiver<Status>, counted: &Metrics) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Gauges(status)));
    counted.register(&mut registry);
    registry.register_collector(Box::new(Process));
    registry
}

/// Returns the text in the format of OpenMetrics.
pub(super) fn open_metrics(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    Ok(text)
}

/// Returns the same in Prometheus' own text format: a counter is named there as its lines are, and nothing marks the
/// end of the text.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let counters: Vec<&str> =
        open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        let about = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match about.and_then(|about| about.split_once(' ')) {
            Some((name, rest)) if counters.contains(&name) => {
                text.push_str(&line[.."# HELP ".len()]);
                text.push_str(name);
                text.push_str("_total ");
                text.push_str(rest);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The gauges of the daemon's published status.
#[derive(Debug)]
struct Gauges(watch::Receiver<Status>);

impl Collector for Gauges {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage(encoder);
        let status = self.0.borrow();
        page.family(
            "belay_build_info",
            "Always 1; the version is in the label.",
            [(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1)],
        )?;
        sources(&mut page, &status)?;
        states(&mut page, &status)?;
        holds(&mut page, &status)?;
        workloads(&mut page, &status)?;
        rollouts(&mut page, &status)
    }
}

type GaugeLabels = Vec<(&'static str, String)>;

fn sources(page: &mut MetricsPage<'_>, status: &Status) -> fmt::Result {
    let commit = |commit: &Option<CommitId>| commit.as_ref().map(ToString::to_string).unwrap_or_default();
    page.family(
        "belay_source_info",
        "Always 1; the commits are in the labels: where the ref is, and what was planned.",
        status.sources.iter().map(|(name, source)| {
            let labels = [("head", commit(&source.head)), ("planned", commit(&source.planned))];
            (of_source(name).into_iter().chain(labels).collect(), 1)
        }),
    )?;
    page.each(status, "belay_source_objects", "Objects in the repository.", |source| Some(count(source.objects)))?;
    page.each(status, "belay_rejected_manifests", "Manifests of the head that are rejected.", |source| {
        Some(count(source.counts().of(ObjectState::Rejected)))
    })?;
    page.each(status, "belay_source_reached_timestamp_seconds", "When the repository was last reached.", |source| {
        source.looked.map(Timestamp::as_second)
    })?;
    page.each(status, "belay_rollouts_under_way", "Rollouts and rollbacks of workloads under way.", |source| {
        Some(count(source.rollouts().count()))
    })?;
    page.each(status, "belay_holds", "Held manifests: Git and the cluster differ by rollback.", |source| {
        Some(count(source.held.len()))
    })?;
    page.each(status, "belay_source_waiting", "1 while all of a source waits for another one, or daemon.", |source| {
        Some(i64::from(source.obstacles.waits.is_some()))
    })?;
    page.each(status, "belay_disagreements", "Objects that somebody else and belay keep changing.", |source| {
        Some(count(source.disagreements().count()))
    })?;
    page.each(status, "belay_troubles", "Things that are in the way of a source.", |source| {
        Some(count(source.obstacles.trouble.len()))
    })
}

/// Returns the state of each source, and how many objects are in which: a line for each word, so that none is ever
/// missing.
fn states(page: &mut MetricsPage<'_>, status: &Status) -> fmt::Result {
    let each = status.sources.iter().flat_map(|(name, source)| {
        let now = source.state();
        SourceState::ALL.map(|state| (of_state(name, state.word()), i64::from(now == state)))
    });
    page.family("belay_source_state", "1 for the state that a source is in, 0 for the others.", each)?;
    let each = status.sources.iter().flat_map(|(name, source)| {
        let counts = source.counts();
        ObjectState::ALL.map(|state| (of_state(name, state.word()), count(counts.of(state))))
    });
    page.family("belay_objects", "Objects by state.", each)
}

fn holds(page: &mut MetricsPage<'_>, status: &Status) -> fmt::Result {
    let each = status.sources.iter().flat_map(|(source, of)| {
        of.held.iter().map(move |(key, held)| {
            let mut labels = of_object(source, key);
            labels.push(("commit", held.commit.to_string()));
            (labels, held.since.as_second())
        })
    });
    page.family("belay_hold_since_timestamp_seconds", "Since when a manifest is held.", each)
}

fn workloads(page: &mut MetricsPage<'_>, status: &Status) -> fmt::Result {
    let each = status.sources.iter().flat_map(|(source, of)| {
        of.workloads.iter().map(move |(key, live)| {
            let mut labels = of_object(source, key);
            labels.push(("state", of.state_of_workload(key).word().to_owned()));
            labels.push(("commit", live.commit.as_ref().map(ToString::to_string).unwrap_or_default()));
            (labels, 1)
        })
    });
    page.family(
        "belay_workload_info",
        "Always 1; a workload's state and the commit of its pods are in the labels.",
        each,
    )
}

fn rollouts(page: &mut MetricsPage<'_>, status: &Status) -> fmt::Result {
    type Gauge = (&'static str, &'static str, fn(&UnderWay) -> i64);
    let gauges: [Gauge; 3] = [
        ("belay_rollout_pods_wanted", "Pods that a rollout under way wants.", |way| way.counters.desired),
        ("belay_rollout_pods_updated", "Pods of the new template of a rollout under way.", |way| way.counters.updated),
        ("belay_rollout_pods_available", "Available pods of a rollout under way.", |way| way.counters.available),
    ];
    for (name, help, value) in gauges {
        let each = status.sources.iter().flat_map(|(source, of)| {
            of.rollouts().map(move |(key, way)| {
                let mut labels = of_object(source, key);
                labels.push(("state", way.outcome.word().to_owned()));
                (labels, value(way))
            })
        });
        page.family(name, help, each)?;
    }
    Ok(())
}

fn of_source(source: &str) -> GaugeLabels {
    vec![("source", source.to_owned())]
}

fn of_state(source: &str, state: &str) -> GaugeLabels {
    vec![("source", source.to_owned()), ("state", state.to_owned())]
}

fn of_object(source: &str, key: &ObjectKey) -> GaugeLabels {
    let namespace = key.namespace.clone().unwrap_or_default();
    vec![
        ("source", source.to_owned()),
        ("kind", key.kind.clone()),
        ("namespace", namespace),
        ("name", key.name.clone()),
    ]
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The page of metrics.
struct MetricsPage<'a>(DescriptorEncoder<'a>);

impl MetricsPage<'_> {
    /// Returns a gauge with these labels and values.
    fn family(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (GaugeLabels, i64)>) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Returns a gauge with a value for each source.
    fn each(
        &mut self,
        status: &Status,
        name: &str,
        help: &str,
        value: impl Fn(&SourceStatus) -> Option<i64>,
    ) -> fmt::Result {
        let values = status.sources.iter().filter_map(|(source, of)| Some((of_source(source), value(of)?)));
        self.family(name, help, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HeldStatus;
    use crate::telemetry::Took;
    use belay_core::rollout::{Outcome, Trigger};
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn text(status: Status, counted: &Metrics) -> String {
        let (_daemon, status) = watch::channel(status);
        open_metrics(&registry(status, counted)).unwrap()
    }

    fn held() -> Status {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let held = HeldStatus {
            commit: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(),
            reason: "crash".to_owned(),
            since: Timestamp::from_second(1_700_000_000).unwrap(),
        };
        let source = SourceStatus { held: [(key, held)].into(), ..SourceStatus::default() };
        Status { sources: [("shop".to_owned(), source)].into() }
    }

    #[test]
    fn a_hold_is_a_value() {
        let text = text(held(), &Metrics::default());
        let line = "belay_hold_since_timestamp_seconds{source=\"shop\",kind=\"Deployment\",namespace=\"shop\",name=\"web\",\
                    commit=\"1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d\"} 1700000000\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("belay_holds{source=\"shop\"} 1\n"), "{text}");
    }

    #[test]
    fn every_line_is_a_comment_or_a_value() {
        let status = Status { sources: [("a\"b\\c\nd".to_owned(), SourceStatus::default())].into() };
        for line in prometheus(&text(status, &Metrics::default())).lines() {
            let value = line.rsplit_once(' ').map(|(_, value)| value.parse::<f64>());
            assert!(
                line.starts_with("# HELP ") || line.starts_with("# TYPE ") || matches!(value, Some(Ok(_))),
                "{line}"
            );
        }
    }

    /// A rollback between two scrapes leaves its trace: the line is there before, at 0.
    #[test]
    fn counters_begin_at_zero_and_tell_what_was_between_two_scrapes() {
        let counted = Metrics::default();
        counted.source("shop", &Trigger::WORDS);
        let line = |value: u8| {
            format!("belay_rollouts_total{{source=\"shop\",trigger=\"new-image\",outcome=\"rolled-back\"}} {value}\n")
        };
        assert!(text(held(), &counted).contains(&line(0)));
        let took = Took { seconds: 95.0, since_commit: Some(7000.0) };
        counted.rollout_ended("shop", "new-image", Outcome::RolledBack.word(), Some(took));
        let after = text(held(), &counted);
        assert!(after.contains(&line(1)), "{after}");
        for (bound, value) in [("60.0", 0), ("120.0", 1), ("+Inf", 1)] {
            let labels = format!("le=\"{bound}\",source=\"shop\",outcome=\"rolled-back\"");
            let bucket = format!("belay_rollout_duration_seconds_bucket{{{labels}}} {value}\n");
            assert!(after.contains(&bucket), "{bucket}{after}");
        }
        assert!(after.contains("belay_commit_to_complete_seconds_sum{source=\"shop\"} 7000.0\n"), "{after}");
    }

    /// The page of docs names all of them, and the alerts and the dashboard no others.
    #[test]
    fn every_metric_is_documented() {
        let counted = Metrics::default();
        counted.source("shop", &Trigger::WORDS);
        counted.requested("GET", Some(200));
        counted.receiver("ops");
        counted.collector();
        counted.hook("shop");
        let text = prometheus(&text(held(), &counted));
        let told: BTreeSet<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let named = |text: &str| -> BTreeSet<String> {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned);
            let ours = |word: &String| word.starts_with("belay_") || word.starts_with("process_");
            let family = |word: String| match word.strip_suffix("_bucket") {
                Some(family) => family.to_owned(),
                None => word,
            };
            words.filter(ours).map(family).collect()
        };
        let read = |path: &str| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let documented = named(&read("docs/metrics.md"));
        assert_eq!(told, documented.iter().map(String::as_str).collect());
        for path in ["manifests/monitoring/alerts.yaml", "manifests/monitoring/dashboard.json"] {
            let unknown: Vec<String> = named(&read(path)).difference(&documented).cloned().collect();
            assert!(unknown.is_empty(), "{path}: {unknown:?}");
        }
        let of_source = text.lines().filter(|line| line.contains("source=\"shop\"")).count();
        assert!((150..=165).contains(&of_source), "{of_source} lines for one source: docs/metrics.md says about 160");
    }

    /// As Prometheus itself reads it. Skipped where its promtool is not installed (Debian: prometheus).
    #[test]
    fn promtool_has_nothing_to_say() {
        let counted = Metrics::default();
        counted.source("shop", &Trigger::WORDS);
        counted.requested("GET", Some(200));
        counted.requested("PATCH", None);
        counted.receiver("ops");
        counted.hook("shop");
        let text = prometheus(&text(held(), &counted));
        let asked = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut asked) = asked else {
            eprintln!("skipped: promtool is not installed");
            return;
        };
        asked.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let answer = asked.wait_with_output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        assert!(answer.status.success() && said.trim().is_empty(), "{said}\n{text}");
    }
}
