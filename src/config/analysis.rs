//! `[[analysis]]`: what Prometheus, or a Job, says of a rollout within its canary and its bake time.

use std::path::PathBuf;
use std::time::Duration;

use belay_core::manifest::hex;
use belay_core::rollout::analysis::{AnalysisRule, JobCondition, LookTimes, OnNone, QueryTemplate};
use belay_core::span::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use sha2::Digest as _;

/// An analysis of a workload within its canary and its bake time. Prometheus compares the error rate of the new pods with that
/// of the old ones (`bad` and `total`), or holds a value within bounds (`query` with `min`, `max`, or both). Or a Job decides (`job`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnalysisConfig {
    /// Its name, by which `analysis` of a source and `belay.dev/analysis` of a workload ask for it: letters, digits, `-`, `_`
    /// and `.`.
    pub name: String,
    /// The address of Prometheus, `http://prometheus.monitoring:9090`; also with a path before that of its API. A `job` needs none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prometheus: String,
    /// The path of a file from the root of the repository, with one Job. It is made once for each rollout, in the namespace of the
    /// workload, and a rollout whose Job fails goes back. A source whose `analysis` names it does not apply the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// A query of the counters of bad answers. `{{pods}}` stands for a regular expression of pod names, and is needed here:
    /// `http_requests_total{namespace="{{namespace}}",pod=~"{{pods}}",code=~"5.."}`. `{{source}}`, `{{namespace}}`, `{{name}}`, `{{commit}}` and
    /// `{{revision}}` stand for those of the rollout. The counters are not to be summed up, or only by `pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad: Option<String>,
    /// A query of the counters of all answers. With `query`, the number of requests that its value is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// So many times the old error rate is harmless; only with `bad`. The default is 1.25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerate: Option<Number>,
    /// The probability with which a harmless version may be stopped, over the whole rollout; only with `bad`. The default is
    /// `1%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_alarm: Option<String>,
    /// A step of a canary ends before its time once it is proved that the new error rate is not so many times the old one, wrongly with
    /// the probability of `false_alarm` at most; only with `bad`. Without it each step lasts its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove: Option<Number>,
    /// A query of one value. If it has several, the worst one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The least value; only with `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The largest value; only with `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// The number of looks in a row at which the value must be out of bounds; only with `query`. The default is 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// The requests below which nothing is known: of all new pods with `bad`, or of a value with `query` and `total`. The default
    /// is 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// The time between two looks, from `5s` on. Within a long bake time it is longer: there are at most 2,000 looks.
    #[serde(default = "default_interval")]
    pub interval: Span,
    /// The time after the beginning of the bake time before which nothing is measured.
    #[serde(default = "default_warmup")]
    pub warmup: Span,
    /// The reaction to a look that says nothing: no data, too few requests, or Prometheus is away.
    #[serde(default, alias = "no_data")]
    pub on_none: OnNone,
    /// The user of HTTP basic authentication; needs `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with the password of that user, which is read for each look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A file with a bearer token, which is read for each look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with certificates in PEM, of authorities that are trusted beside those that the machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// The subject of an analysis: its queries, or its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnalysisSubject {
    /// Counters of the new and of the old pods.
    Answers {
        /// The bad answers.
        bad: QueryTemplate,
        /// All answers.
        total: QueryTemplate,
    },
    /// One value.
    Value {
        /// The value.
        query: QueryTemplate,
        /// The requests that it is made of.
        requests: Option<QueryTemplate>,
    },
    /// A Job of the repository.
    Job {
        /// The path of its file.
        file: String,
    },
}

impl AnalysisConfig {
    /// Returns the rule by which it judges.
    #[must_use]
    pub fn rule(&self) -> AnalysisRule {
        let number = |number: &Option<Number>| number.as_ref().and_then(Number::as_f64);
        if self.job.is_some() {
            return AnalysisRule::Job { job: JobCondition::Complete };
        }
        match self.bad {
            Some(_) => AnalysisRule::ErrorRate {
                tolerate: number(&self.tolerate).unwrap_or(1.25),
                false_alarm: self.false_alarm().unwrap_or(0.01),
                at_least: self.at_least(),
                prove: number(&self.prove),
            },
            None => AnalysisRule::Bounds {
                min: number(&self.min),
                max: number(&self.max),
                failures: self.failures.unwrap_or(3),
                at_least: self.at_least(),
            },
        }
    }

    /// Returns its subject.
    ///
    /// # Errors
    ///
    /// Fails with the fault of a query; a configuration that was checked has none.
    pub fn subject(&self) -> Result<AnalysisSubject, String> {
        if let Some(file) = self.job_file() {
            return Ok(AnalysisSubject::Job { file: file.to_owned() });
        }
        let parse = |key: &str, text: &str| QueryTemplate::parse(text).map_err(|fault| format!("{key}: {fault}"));
        match (&self.bad, &self.total, &self.query) {
            (Some(bad), Some(total), None) => {
                let queries = [("bad", parse("bad", bad)?), ("total", parse("total", total)?)];
                if let Some((key, _)) = queries.iter().find(|(_, query)| !query.names_pods()) {
                    return Err(format!("{key} has no {{{{pods}}}}: the new pods could not be told from the old ones"));
                }
                let [(_, bad), (_, total)] = queries;
                Ok(AnalysisSubject::Answers { bad, total })
            }
            (None, total, Some(query)) => {
                let requests = total.as_ref().map(|total| parse("total", total)).transpose()?;
                Ok(AnalysisSubject::Value { query: parse("query", query)?, requests })
            }
            _ => Err("an analysis has bad and total, or query with min or max, or job".to_owned()),
        }
    }

    /// Returns the path of its Job from the root of the repository, without a slash at its beginning.
    fn job_file(&self) -> Option<&str> {
        self.job.as_deref().map(|path| path.trim_start_matches('/'))
    }

    /// Returns the path of its Job as a pattern of gitignore.
    pub(super) fn job_pattern(&self) -> Option<String> {
        let mut pattern = "/".to_owned();
        for c in self.job_file()?.chars() {
            if "\\*?[ ".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        Some(pattern)
    }

    /// Returns the times between its looks.
    #[must_use]
    pub fn look_times(&self) -> LookTimes {
        LookTimes { interval: self.interval.0, warmup: self.warmup.0 }
    }

    fn at_least(&self) -> f64 {
        f64::from(self.at_least.unwrap_or(20))
    }

    /// Returns the hash of its queries, or of the path of its Job: their verdicts say nothing about others.
    #[must_use]
    pub fn subject_hash(&self) -> String {
        let text = match &self.job {
            Some(file) => format!("job {file:?}"),
            None => format!("{:?}", (&self.prometheus, &self.bad, &self.total, &self.query)),
        };
        hex(&sha2::Sha256::digest(text)[..8])
    }

    /// Returns the shortest time from the beginning of the bake time in which it can fail.
    #[must_use]
    pub fn shortest_verdict(&self) -> Duration {
        // Counters are compared from the second look on, and one comparison may have been a burst.
        let looks = match self.rule() {
            AnalysisRule::ErrorRate { .. } => 2,
            AnalysisRule::Bounds { failures, .. } => failures.saturating_sub(1),
            // It is made at the first look, and has not failed then.
            AnalysisRule::Job { .. } => 1,
        };
        self.warmup.0.saturating_add(self.interval.0.saturating_mul(looks))
    }

    fn false_alarm(&self) -> Option<f64> {
        let text = self.false_alarm.as_deref().unwrap_or("1%").trim();
        let percent: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
        (0.000_1..=50.0).contains(&percent).then_some(percent / 100.0)
    }

    /// Returns its faults, beside those that its types rule out.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_word) {
            faults.push("its name is not made of letters, digits, '-', '_' and '.'".to_owned());
        }
        if self.job.is_some() {
            faults.extend(self.check_job());
        } else if !self.prometheus.parse().is_ok_and(|uri| is_address(&uri)) {
            // The address is not shown: it may have a password in it.
            let rule = "is no http or https address without user, password and query";
            faults.push(format!("prometheus {rule}: write http://HOST:PORT, and use username and password_file"));
        }
        faults.extend(self.subject().err().or_else(|| self.check_rule().err()));
        if self.interval.0 < Duration::from_secs(5) {
            faults.push(format!("interval {} is too short: at least 5s", self.interval));
        }
        if self.username.is_some() != self.password_file.is_some() {
            faults.push("username and password_file belong together".to_owned());
        }
        if self.username.is_some() && self.token_file.is_some() {
            faults.push("username and token_file can't both be used: leave one out".to_owned());
        }
        faults
    }

    /// Returns the fault of an analysis with a Job: its path, or a key that is only for Prometheus.
    fn check_job(&self) -> Option<String> {
        let for_prometheus = [
            ("prometheus", !self.prometheus.is_empty()),
            ("bad", self.bad.is_some()),
            ("total", self.total.is_some()),
            ("query", self.query.is_some()),
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("failures", self.failures.is_some()),
            ("at_least", self.at_least.is_some()),
            ("username", self.username.is_some()),
            ("token_file", self.token_file.is_some()),
            ("ca_file", self.ca_file.is_some()),
        ];
        if let Some((key, _)) = for_prometheus.iter().find(|(_, is_set)| *is_set) {
            return Some(format!("{key} is not for an analysis with job"));
        }
        let path = self.job_file().unwrap_or_default();
        let is_plain = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(char::is_control);
        (!path.split('/').all(is_plain)).then(|| "job is no path of a file from the root of the repository".to_owned())
    }

    fn check_rule(&self) -> Result<(), String> {
        let alone = |keys: &[(&str, bool)], with: &str| match keys.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(format!("{key} is only for an analysis with {with}")),
            None => Ok(()),
        };
        if self.bad.is_none() {
            let of_counters = [
                ("tolerate", self.tolerate.is_some()),
                ("false_alarm", self.false_alarm.is_some()),
                ("prove", self.prove.is_some()),
            ];
            alone(&of_counters, "bad")?;
            if self.job.is_some() {
                return Ok(());
            }
            if self.min.is_none() && self.max.is_none() {
                return Err("query needs min, max, or both".to_owned());
            }
            if let AnalysisRule::Bounds { min: Some(min), max: Some(max), .. } = self.rule()
                && min > max
            {
                return Err(format!("min {min} is larger than max {max}"));
            }
            if self.failures == Some(0) {
                return Err("failures is at least 1".to_owned());
            }
            return alone(&[("at_least", self.at_least.is_some() && self.total.is_none())], "total");
        }
        let of_value =
            [("min", self.min.is_some()), ("max", self.max.is_some()), ("failures", self.failures.is_some())];
        alone(&of_value, "query")?;
        if self.false_alarm().is_none() {
            return Err("false_alarm is a percentage from 0.0001% to 50%".to_owned());
        }
        match self.rule() {
            AnalysisRule::ErrorRate { tolerate, .. } if !(1.0..=1000.0).contains(&tolerate) => {
                Err("tolerate is a number from 1 to 1000".to_owned())
            }
            AnalysisRule::ErrorRate { tolerate, prove: Some(prove), .. } if prove <= tolerate || prove > 1000.0 => {
                Err(format!("prove is a number above tolerate, which is {tolerate}, and at most 1000"))
            }
            _ => Ok(()),
        }
    }
}

fn is_address(uri: &http::Uri) -> bool {
    let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none() && !has_user
}

fn default_interval() -> Span {
    Span(Duration::from_secs(15))
}

fn default_warmup() -> Span {
    Span(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(analysis: &str) -> Result<Config, String> {
        let text = format!(
            "[[source]]\nrepository = \"/srv\"\n[[analysis]]\nname = \"errors\"\nprometheus = \"http://prometheus:9090\"\n\
             {analysis}\n"
        );
        Config::parse(&text, "belay.toml").map_err(|error| error.to_string())
    }

    const COUNTERS: &str = "bad = 'bad{pod=~\"{{pods}}\"}'\ntotal = 'all{pod=~\"{{pods}}\"}'";

    #[test]
    fn each_form_has_its_rule() {
        let rule = |analysis: &str| read(analysis).unwrap().analysis[0].rule();
        assert_eq!(
            rule(COUNTERS),
            AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: None }
        );
        let more = format!("{COUNTERS}\ntolerate = 2\nfalse_alarm = '0.1 %'\nno_data = 'fail'");
        assert_eq!(
            rule(&more),
            AnalysisRule::ErrorRate { tolerate: 2.0, false_alarm: 0.001, at_least: 20.0, prove: None }
        );
        assert_eq!(
            rule("query = 'p99'\nmax = 0.5\ntotal = 'sum(n)'\nat_least = 5\nfailures = 1"),
            AnalysisRule::Bounds { min: None, max: Some(0.5), failures: 1, at_least: 5.0 }
        );
    }

    #[test]
    fn a_wrong_analysis_is_an_error_with_its_name() {
        let address = "prometheus = 'http://ada:hunter2@p/'\nquery = 'up'\nmin = 1";
        let text = format!("[[source]]\nrepository = '/srv'\n[[analysis]]\nname = 'a'\n{address}");
        let error = Config::parse(&text, "belay.toml").unwrap_err().to_string();
        assert!(error.contains("use username and password_file") && !error.contains("hunter2"), "{error}");
        for (analysis, fault) in [
            ("", "an analysis has bad and total, or query with min or max, or job"),
            ("query = 'up'", "query needs min, max, or both"),
            ("query = 'up{{pod}}'\nmin = 1", "query: \"{{pod}}\" is none of"),
            ("bad = 'a'\ntotal = 'b{{pods}}'", "bad has no {{pods}}"),
            ("query = 'up'\nmin = 2\nmax = 1", "min 2 is larger than max 1"),
            ("query = 'up'\nmin = 1\ntolerate = 2", "tolerate is only for an analysis with bad"),
            ("query = 'up'\nmin = 1\nat_least = 2", "at_least is only for an analysis with total"),
            ("query = 'up'\nmin = 1\nfailures = 0", "failures is at least 1"),
            ("query = 'up'\nmin = 1\ninterval = '1s'", "interval 1s is too short"),
            ("query = 'up'\nmin = 1\nusername = 'ada'", "username and password_file belong together"),
            ("job = 'smoke.yaml'", "prometheus is not for an analysis with job"),
            (&format!("{COUNTERS}\nmin = 1"), "min is only for an analysis with query"),
            (&format!("{COUNTERS}\ntolerate = 0.5"), "tolerate is a number from 1"),
            (&format!("{COUNTERS}\nprove = 1.25"), "prove is a number above tolerate, which is 1.25"),
            (&format!("{COUNTERS}\nprove = 1001"), "prove is a number above tolerate"),
            ("query = 'up'\nmin = 1\nprove = 2", "prove is only for an analysis with bad"),
            (&format!("{COUNTERS}\nfalse_alarm = '0%'"), "false_alarm is a percentage"),
            (
                &format!("{COUNTERS}\n[[analysis]]\nname = 'errors'\nprometheus = 'http://p'\nquery = 'up'\nmin = 1"),
                "two of that name",
            ),
        ] {
            let error = read(analysis).unwrap_err();
            assert!(error.starts_with("belay.toml: analysis \"errors\": ") && error.contains(fault), "{error}");
        }
    }
}
