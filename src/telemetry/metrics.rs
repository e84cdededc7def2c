//! The counters and histograms since the start of the process. They begin at 0 with it and never go back.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The upper ends of the buckets of a rollout's duration, in seconds: from immediate ones to those of hours.
const ROLLOUT_BUCKETS: [f64; 13] =
    [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0];
/// The same of the time from a commit to its completion: a review may lie between, so up to a week.
const LEAD_BUCKETS: [f64; 12] =
    [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 28_800.0, 86_400.0, 604_800.0];

/// The outcomes of a rollout that are counted.
const ENDS: [&str; 4] = ["complete", "failed", "rolled-back", "rollback-failed"];
/// The results of a fetch.
const FETCHES: [&str; 2] = ["ok", "error"];

/// Labels are known words, and names from the configuration.
type MetricLabels<const N: usize> = [(&'static str, String); N];
type Counters<const N: usize> = Family<MetricLabels<N>, Counter>;
type Histograms<const N: usize> = Family<MetricLabels<N>, Histogram, Buckets>;

/// The counters and histograms of this process. Cheap to clone: all clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    rollouts: Counters<3>,
    durations: Histograms<2>,
    lead_times: Histograms<1>,
    corrections: Counters<1>,
    fetches: Counters<2>,
    requests: Counters<2>,
    notices: Counters<2>,
    traces: Counters<1>,
    hooks: Counters<2>,
    configuration: Gauge,
}

impl Default for Families {
    fn default() -> Families {
        let configuration = Gauge::default();
        configuration.set(1);
        Families {
            rollouts: Family::default(),
            durations: Family::new_with_constructor(Buckets(&ROLLOUT_BUCKETS)),
            lead_times: Family::new_with_constructor(Buckets(&LEAD_BUCKETS)),
            corrections: Family::default(),
            fetches: Family::default(),
            requests: Family::default(),
            notices: Family::default(),
            traces: Family::default(),
            hooks: Family::default(),
            configuration,
        }
    }
}

/// A histogram's buckets.
#[derive(Clone, Copy, Debug)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// The result of a message to a receiver, or of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLabels {
    /// The receiver has taken it.
    Sent,
    /// An attempt was in vain.
    Failed,
    /// It is not tried any more.
    GivenUp,
}

impl NoticeLabels {
    const ALL: [NoticeLabels; 3] = [NoticeLabels::Sent, NoticeLabels::Failed, NoticeLabels::GivenUp];

    fn word(self) -> &'static str {
        match self {
            NoticeLabels::Sent => "sent",
            NoticeLabels::Failed => "failed",
            NoticeLabels::GivenUp => "given-up",
        }
    }
}

/// The result of a hook, by which others request a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
    /// The source is fetched.
    Accepted,
    /// The signature was wrong, or there was none.
    Refused,
    /// The body was too large, or did not come.
    Invalid,
    /// The secret could not be read.
    Error,
}

impl Hooked {
    const ALL: [Hooked; 4] = [Hooked::Accepted, Hooked::Refused, Hooked::Invalid, Hooked::Error];

    fn word(self) -> &'static str {
        match self {
            Hooked::Accepted => "accepted",
            Hooked::Refused => "refused",
            Hooked::Invalid => "invalid",
            Hooked::Error => "error",
        }
    }
}

/// The duration of a rollout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Took {
    /// Seconds from its beginning to its end.
    pub seconds: f64,
    /// Seconds from the writing of the commit until it was complete; `None` if no commit set it off, or it failed.
    pub since_commit: Option<f64>,
}

impl Metrics {
    /// Notes if the configuration file could be used when it was read last.
    pub fn configuration_read(&self, is_usable: bool) {
        self.0.configuration.set(i64::from(is_usable));
    }

    /// Begins the counters of a source at 0, so that the first rollback is an increase and no new line. `triggers` are
    /// the words for the possible triggers of a rollout.
    pub fn source(&self, source: &str, triggers: &[&'static str]) {
        for outcome in ENDS {
            for trigger in triggers {
                drop(self.0.rollouts.get_or_create(&rollout(source, trigger, outcome)));
            }
            drop(self.0.durations.get_or_create(&[("source", source.to_owned()), ("outcome", outcome.to_owned())]));
        }
        drop(self.0.lead_times.get_or_create(&of_source(source)));
        drop(self.0.corrections.get_or_create(&of_source(source)));
        for result in FETCHES {
            drop(self.0.fetches.get_or_create(&[("source", source.to_owned()), ("result", result.to_owned())]));
        }
    }

    /// Counts the end of a rollout, or an action of a person in its place; `took` if belay judged it.
    pub fn rollout_ended(&self, source: &str, trigger: &'static str, outcome: &'static str, took: Option<Took>) {
        self.0.rollouts.get_or_create(&rollout(source, trigger, outcome)).inc();
        let Some(Took { seconds, since_commit }) = took else { return };
        let labels = [("source", source.to_owned()), ("outcome", outcome.to_owned())];
        // Another machine's clock may be ahead.
        self.0.durations.get_or_create(&labels).observe(seconds.max(0.0));
        if let Some(seconds) = since_commit {
            self.0.lead_times.get_or_create(&of_source(source)).observe(seconds.max(0.0));
        }
    }

    /// Returns how many rollouts have ended so.
    #[must_use]
    pub fn rollouts(&self, source: &str, trigger: &'static str, outcome: &'static str) -> u64 {
        self.0.rollouts.get(&rollout(source, trigger, outcome)).map_or(0, |counter| counter.get())
    }

    /// Counts a corrected change by others.
    pub fn drift_corrected(&self, source: &str) {
        self.0.corrections.get_or_create(&of_source(source)).inc();
    }

    /// Returns how many objects of a source were corrected.
    #[must_use]
    pub fn drift_corrections(&self, source: &str) -> u64 {
        self.0.corrections.get(&of_source(source)).map_or(0, |counter| counter.get())
    }

    /// Counts a fetch: with `ok`, or the repository could not be reached.
    pub fn fetched(&self, source: &str, reached: bool) {
        let result = if reached { "ok" } else { "error" };
        self.0.fetches.get_or_create(&[("source", source.to_owned()), ("result", result.to_owned())]).inc();
    }

    /// Counts an answered request to the API server; without a code if there was no answer.
    pub fn requested(&self, verb: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.0.requests.get_or_create(&[("verb", verb.to_ascii_lowercase()), ("code", code)]).inc();
    }

    /// Begins the counters of a receiver of notices at 0.
    pub fn receiver(&self, receiver: &str) {
        for noticed in NoticeLabels::ALL {
            drop(self.0.notices.get_or_create(&notice(receiver, noticed)));
        }
    }

    /// Counts the result of a message to a receiver.
    pub fn noticed(&self, receiver: &str, noticed: NoticeLabels) {
        self.0.notices.get_or_create(&notice(receiver, noticed)).inc();
    }

    /// Returns how many messages to a receiver, or attempts, ended so.
    #[must_use]
    pub fn notices(&self, receiver: &str, noticed: NoticeLabels) -> u64 {
        self.0.notices.get(&notice(receiver, noticed)).map_or(0, |counter| counter.get())
    }

    /// Begins the counters of traces at 0.
    pub fn collector(&self) {
        NoticeLabels::ALL.into_iter().for_each(|result| drop(self.0.traces.get_or_create(&trace(result))));
    }

    /// Counts the result of a trace, or of an attempt to send one.
    pub fn traced(&self, result: NoticeLabels) {
        self.0.traces.get_or_create(&trace(result)).inc();
    }

    /// Returns how many traces, or attempts, ended so.
    #[must_use]
    pub fn traces(&self, result: NoticeLabels) -> u64 {
        self.0.traces.get(&trace(result)).map_or(0, |counter| counter.get())
    }

    /// Begins the counters of a source's hooks at 0.
    pub fn hook(&self, source: &str) {
        for hooked in Hooked::ALL {
            drop(self.0.hooks.get_or_create(&hook(source, hooked)));
        }
    }

    /// Counts a request for a fetch.
    pub fn hooked(&self, source: &str, hooked: Hooked) {
        self.0.hooks.get_or_create(&hook(source, hooked)).inc();
    }

    /// Returns how many hooks of a source ended so.
    #[must_use]
    pub fn hooks(&self, source: &str, hooked: Hooked) -> u64 {
        self.0.hooks.get(&hook(source, hooked)).map_or(0, |counter| counter.get())
    }

    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        let Families {
            rollouts,
            durations,
            lead_times,
            corrections,
            fetches,
            requests,
            notices,
            traces,
            hooks,
            configuration,
        } = &*self.0;
        registry.register(
            "belay_rollouts",
            "Rollouts that have ended since belay was started, by what set them off",
            rollouts.clone(),
        );
        registry.register("belay_rollout_duration_seconds", "The duration of rollouts, in seconds", durations.clone());
        registry.register(
            "belay_commit_to_complete_seconds",
            "Seconds from the writing of a commit until a workload was complete with it",
            lead_times.clone(),
        );
        registry.register(
            "belay_drift_corrections",
            "Objects that somebody else had changed and that belay put right",
            corrections.clone(),
        );
        registry.register("belay_fetches", "Looks at the repository, by how they ended", fetches.clone());
        registry.register("belay_api_requests", "Requests to the API server, by their answers", requests.clone());
        registry.register("belay_notices", "Messages to receivers of notices, by what became of them", notices.clone());
        registry.register("belay_traces", "Traces of commits, by what became of them", traces.clone());
        registry.register("belay_hooks", "Requests to look at a source, by how they ended", hooks.clone());
        registry.register(
            "belay_config_last_reload_successful",
            "1 if the configuration file could be used when it was read last, else 0",
            configuration.clone(),
        );
    }
}

fn of_source(source: &str) -> MetricLabels<1> {
    [("source", source.to_owned())]
}

fn notice(receiver: &str, noticed: NoticeLabels) -> MetricLabels<2> {
    [("receiver", receiver.to_owned()), ("result", noticed.word().to_owned())]
}

fn trace(result: NoticeLabels) -> MetricLabels<1> {
    [("result", result.word().to_owned())]
}

fn hook(source: &str, hooked: Hooked) -> MetricLabels<2> {
    [("source", source.to_owned()), ("result", hooked.word().to_owned())]
}

fn rollout(source: &str, trigger: &str, outcome: &str) -> MetricLabels<3> {
    [("source", source.to_owned()), ("trigger", trigger.to_owned()), ("outcome", outcome.to_owned())]
}
