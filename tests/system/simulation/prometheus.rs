//! A Prometheus that knows which workloads answer with errors. It is away for some minutes, again and again.

use belay::clock::Clock;
use belay::config::{AnalysisConfig, Config};
use belay::prometheus::{Answer, InstantQuery, PrometheusError};
use belay_core::rollout::analysis::Sample;
use jiff::Timestamp;
use serde_json::Value;

use super::scenario::Fate;

/// The seconds of one time away, and of the time from one to the next.
const AWAY: i64 = 70;
const PERIOD: i64 = 240;

/// The Prometheus of a cluster.
pub struct SimulatedPrometheus {
    pub client: kube::Client,
    pub clock: Clock,
    /// True when belay hears of no errors.
    pub hears_nothing: bool,
}

/// Returns the analysis of the source.
pub fn analyses(passes_without_data: bool) -> Vec<AnalysisConfig> {
    let on_none = if passes_without_data { "pass" } else { "wait" };
    let text = format!(
        "[[source]]\nrepository = \"/srv\"\n[[analysis]]\nname = \"errors\"\nprometheus = \"http://prometheus\"\nquery = \
         \"{{{{name}}}}\"\nmax = 0.5\nfailures = 1\ninterval = \"10s\"\non_none = \"{on_none}\"\n"
    );
    Config::parse(&text, "belay.toml").expect("a configuration").analysis
}

impl InstantQuery for SimulatedPrometheus {
    fn query<'a>(&'a self, _: &'a AnalysisConfig, name: String, _: Option<Timestamp>) -> Answer<'a> {
        Box::pin(async move {
            if self.clock.now().as_second().rem_euclid(PERIOD) < AWAY {
                return Err(PrometheusError("Prometheus can't be reached: away".to_owned()));
            }
            let image = self.image(&name).await?;
            let errs = image.as_deref().and_then(Fate::of_image) == Some(Fate::Errs);
            let value = if errs && !self.hears_nothing { 1.0 } else { 0.0 };
            Ok(vec![Sample { labels: String::new(), pod: String::new(), value }])
        })
    }
}

impl SimulatedPrometheus {
    /// Returns the image of a workload; `None` if it is of a kind that answers nobody.
    async fn image(&self, name: &str) -> Result<Option<String>, PrometheusError> {
        for plural in ["deployments", "statefulsets", "daemonsets"] {
            let path = format!("/apis/apps/v1/namespaces/default/{plural}/{name}");
            let request = http::Request::get(path).body(Vec::new()).expect("a request");
            match self.client.request::<Value>(request).await {
                Ok(live) => {
                    let image = live.pointer("/spec/template/spec/containers/0/image");
                    return Ok(image.and_then(Value::as_str).map(str::to_owned));
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(PrometheusError(format!("there is no data: {error}"))),
            }
        }
        Ok(None)
    }
}
