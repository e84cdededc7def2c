//! The history that a command reads: the file, or, with `--server`, that of a daemon elsewhere.

use super::history_view::HistoryView;
use super::server::{ServerApi, ServerArgs};
use crate::cli::Globals;
use crate::history::query::answers::{LineAnswer, RecordAnswer, StatsAnswer};
use crate::history::{Query, StatsQuery};
use belay_core::rollout::Record;

/// A readable history, here or elsewhere.
pub(in crate::cli) enum HistoryAccess {
    /// The file, or what the cluster and Git hold of it.
    Here(HistoryView),
    /// The history of a daemon elsewhere.
    Server(Box<ServerApi>),
}

impl HistoryAccess {
    /// Opens the history; with `--server` nothing is asked yet.
    pub(in crate::cli) async fn open(globals: &Globals, server: &ServerArgs) -> anyhow::Result<HistoryAccess> {
        match server.api(globals)? {
            Some(api) => Ok(HistoryAccess::Server(Box::new(api))),
            None => Ok(HistoryAccess::Here(HistoryView::open(globals).await?)),
        }
    }

    /// Returns the records that fit, newest first.
    pub(in crate::cli) async fn records(&self, query: &Query) -> anyhow::Result<Vec<Record>> {
        match self {
            HistoryAccess::Here(view) => view.records(query),
            HistoryAccess::Server(api) => Ok(api.records(query).await?.into_iter().map(|of| of.record).collect()),
        }
    }

    /// Returns the same as programs read them: with the facts about their commits.
    pub(in crate::cli) async fn answers(&self, query: &Query) -> anyhow::Result<Vec<RecordAnswer>> {
        match self {
            HistoryAccess::Here(view) => view.answers(query),
            HistoryAccess::Server(api) => Ok(api.records(query).await?),
        }
    }

    /// Returns the figures of a period.
    pub(in crate::cli) async fn stats(&self, query: &StatsQuery) -> anyhow::Result<StatsAnswer> {
        let view = match self {
            HistoryAccess::Here(view) => view,
            HistoryAccess::Server(api) => return Ok(api.stats(query).await?),
        };
        let StatsQuery { since, until, .. } = *query;
        let time = until.duration_since(since);
        let stats = view.history.stats(query)?.iter().map(|line| LineAnswer::of(line, time)).collect();
        Ok(StatsAnswer { since, until, kept_since: view.history.kept_since(since)?, stats })
    }

    /// Returns the parts of it that are not known here.
    pub(in crate::cli) fn missing(&self) -> &[String] {
        match self {
            HistoryAccess::Here(view) => &view.missing,
            HistoryAccess::Server(_) => &[],
        }
    }
}

impl From<HistoryView> for HistoryAccess {
    fn from(view: HistoryView) -> HistoryAccess {
        HistoryAccess::Here(view)
    }
}
