//! Instant queries of Prometheus' HTTP API.

mod answer;
mod client;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use belay_core::rollout::analysis::Sample;
use jiff::Timestamp;

use crate::config::AnalysisConfig;
pub use client::PrometheusClient;

/// The reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrometheusError(pub String);

/// An answer that is still to come.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Sample>, PrometheusError>> + Send + 'a>>;

/// Asks Prometheus.
pub trait InstantQuery: Send + Sync {
    /// Returns the samples of a query at a moment; at the present one, by Prometheus' own clock, if there is none.
    fn query<'a>(&'a self, analysis: &'a AnalysisConfig, query: String, at: Option<Timestamp>) -> Answer<'a>;
}
