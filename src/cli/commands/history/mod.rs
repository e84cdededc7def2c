//! `belay history`

pub(in crate::cli) mod by_commit;
pub(in crate::cli) mod stats;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::by_commit::is_explained;
use self::stats::Each;
use crate::cli::Globals;
use crate::cli::args::nearest::there_is;
use crate::cli::args::target;
use crate::cli::args::workload::Named;
use crate::cli::exit::Exit;
use crate::cli::output::answer::{HistoryAnswer, RecordAnswer};
use crate::cli::output::table::{Cell, Table, outcome};
use crate::cli::output::{Format, age, cut, duration, plain, say, say_value, terminal_width};
use crate::cli::session::history_access::HistoryAccess;
use crate::cli::session::server::ServerArgs;
use crate::cli::session::service::Service;
use crate::clock::Clock;
use crate::history::query::time_given::{TimeGiven, period};
use crate::history::{FAILED, History, HistoryError, Query, StatsQuery};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Trigger};

/// The arguments of `belay history`.
#[derive(clap::Args, Debug, Default)]
pub struct Args {
    /// Show only this object: NAME or KIND/NAME
    workload: Option<Named>,
    /// Filter by the beginning of the commit's id
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// Filter by author: a part of the name or address
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// Show rollouts that began at this time or later: 2h, 7d, 2026-11-19, 2026-11-19T08:00:00Z; a date is one of the
    /// time zone of this machine
    #[arg(long, value_name = "TIME")]
    since: Option<TimeGiven>,
    /// Show rollouts that began before this time, or on this day or earlier; written as for --since
    #[arg(long, value_name = "TIME")]
    until: Option<TimeGiven>,
    /// Show only failures
    #[arg(long)]
    failed: bool,
    /// Show objects that did not change, too
    #[arg(long)]
    all: bool,
    /// Show a line for each object, not for each commit; WORKLOAD and --commit imply it
    #[arg(long)]
    objects: bool,
    /// Show all namespaces, even if -n names one
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Filter by source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Show at most this number of lines; with -o json and -o yaml, of objects
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Show figures instead: how often is deployed, the lead time, the share of failures, the time to restore; of the
    /// last 30 days, or since --since
    #[arg(long, conflicts_with_all = ["workload", "commit", "author", "failed", "all", "objects"])]
    stats: bool,
    /// Group the figures
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, requires = "stats")]
    by: Each,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
    #[command(flatten)]
    server: ServerArgs,
}

/// The default period of the numbers.
const STATS: Duration = Duration::from_secs(30 * 86_400);

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let now = Clock::system().now();
    let view = HistoryAccess::open(globals, &args.server).await?;
    let Args {
        workload,
        commit,
        author,
        since,
        until,
        failed,
        all,
        objects,
        all_namespaces,
        source,
        limit,
        stats,
        by,
        output,
        server: _,
    } = args;
    let by_object = objects || workload.is_some() || commit.is_some() || matches!(output, Format::Json | Format::Yaml);
    let (since, until) = period(("--since", "--until"), (since, until), now, &TimeZone::system())?;
    if stats {
        let until = until.unwrap_or(now);
        let since = since.map_or_else(|| until.checked_sub(STATS), Ok).context("the clock is before 1970")?;
        let query = StatsQuery { source, since, until, by: by.into() };
        stats::print(&view.stats(&query).await?, by, output)?;
        return Ok(Exit::Done);
    }
    let kind = workload.as_ref().and_then(|named| named.kind.clone());
    let query = Query {
        source,
        name: workload.map(|named| named.name),
        kind: kind.map(|(_, kind)| kind),
        namespace: globals.namespace.clone().filter(|_| !all_namespaces),
        commit,
        author,
        since,
        until,
        outcomes: match (failed, all) {
            (true, _) => FAILED.into_iter().collect(),
            (false, true) => Default::default(),
            (false, false) => every_outcome_but_unchanged(),
        },
        limit: Some(limit),
        ..Query::default()
    };
    if !by_object {
        let commits = by_commit::newest(&view, &query, limit).await?;
        if commits.is_empty() {
            check(&view, &query).await?;
        }
        by_commit::print(&commits, output, now);
        return Ok(Exit::Done);
    }
    let records = view.answers(&query).await?;
    if records.is_empty() {
        check(&view, &query).await?;
    }
    print(&HistoryAnswer { records, missing: view.missing().to_vec() }, output, now)?;
    Ok(Exit::Done)
}

/// Refuses a workload, source or commit of which there is nothing at all, naming those that there are. An author, a
/// time or an outcome without records is no error.
async fn check(view: &HistoryAccess, query: &Query) -> anyhow::Result<()> {
    /// The number of newest records that are searched for a name like the typed one.
    const NEWEST: u32 = 2000;
    const ALIKE: u16 = 600;
    let Query { source, name, kind, namespace, commit, .. } = query.clone();
    let any = async |query: Query| anyhow::Ok(!view.records(&Query { limit: Some(1), ..query }).await?.is_empty());
    let newest = async || view.records(&Query { limit: Some(NEWEST), ..Query::default() }).await;
    if let Some(source) = source
        && !any(Query { source: Some(source.clone()), ..Query::default() }).await?
    {
        let there: BTreeSet<String> = newest().await?.into_iter().map(|record| record.source).collect();
        let hint = there_is(&source, there.iter().map(|name| (name.as_str(), name.clone())), 0);
        bail!("nothing was rolled out of a source {source:?}{hint}");
    }
    if let Some(name) = name
        && !any(Query { name: Some(name.clone()), kind, namespace: namespace.clone(), ..Query::default() }).await?
    {
        let there: BTreeSet<ObjectKey> = newest().await?.into_iter().map(|record| record.object).collect();
        let hint = there_is(&name, there.iter().map(|key| (key.name.as_str(), target::named(key))), ALIKE);
        let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        bail!("nothing was rolled out that is called {name:?}{place}{hint}");
    }
    if let Some(commit) = commit
        && !any(Query { commit: Some(commit.clone()), ..Query::default() }).await?
    {
        bail!("nothing was rolled out by a commit that begins with {commit:?}; belay show {commit} tells why");
    }
    Ok(())
}

fn every_outcome_but_unchanged() -> BTreeSet<Outcome> {
    Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Unchanged).collect()
}

/// Returns the history file, for reading.
pub(in crate::cli) fn open(globals: &Globals) -> anyhow::Result<History> {
    globals.history_to_look_at()?.read().map_err(|error| match error {
        HistoryError::Missing { .. } => {
            let hint = Service::of_this_machine().hint();
            anyhow::anyhow!("{error}; say --state-dir DIR if the daemon keeps its state elsewhere{hint}")
        }
        error => error.into(),
    })
}

/// Prints records, the newest first.
pub(in crate::cli) fn print(answer: &HistoryAnswer, format: Format, now: Timestamp) -> anyhow::Result<()> {
    let records = &answer.records;
    match format {
        Format::Json | Format::Yaml => say_value(answer, format)?,
        Format::Name => records.iter().for_each(|of| say(of.record.commit.as_str())),
        Format::Table | Format::Wide => {
            if records.is_empty() {
                say("Nothing was rolled out.");
            } else {
                table(records, format, now).lines_within(terminal_width()).iter().for_each(say);
            }
        }
    }
    Ok(())
}

/// Returns the table, with the reason of each failure below its line.
fn table(records: &[RecordAnswer], format: Format, now: Timestamp) -> Table {
    let mut headings = vec!["COMMIT", "AGE", "OBJECT", "OUTCOME", "TOOK", "AUTHOR", "SUBJECT"];
    if format == Format::Wide {
        headings.extend(["BEGAN", "REVISION", "TRIGGER", "PLACE", "SOURCE"]);
    }
    let mut table = Table::new(&headings).whole(&["OBJECT"]).optional(&["AUTHOR", "TOOK", "SUBJECT"]);
    for RecordAnswer { record, author, subject, .. } in records {
        let took = record.ended.map(|ended| duration(ended.duration_since(record.started))).unwrap_or_default();
        let author = author.as_ref().map(|author| cut(&author.name, 20)).unwrap_or_default();
        let subject = subject.as_ref().map(|subject| cut(subject, 60)).unwrap_or_default();
        let mut row: Vec<Cell> = vec![
            record.commit.short().into(),
            age(record.started, now).into(),
            record.object.to_string().into(),
            outcome(record.outcome).and(&not_of_the_commit(&record.trigger)),
            took.into(),
            author.into(),
            subject.into(),
        ];
        if format == Format::Wide {
            let text = |value: Option<String>| Cell::from(value.unwrap_or_else(|| "-".to_owned()));
            row.push(format!("{:.0}", record.started).into());
            row.push(text(record.revision.map(|revision| revision.to_string())));
            row.push(triggered(&record.trigger).into());
            row.push(text(record.place.as_ref().map(ToString::to_string)));
            row.push(record.source.clone().into());
        }
        table.row(row);
        if let Some(reason) = record.reason.as_ref().filter(|_| is_explained(record)) {
            table.below(format!("          └ {}", plain(&reason.message)));
        }
    }
    table
}

/// Says that a record is no rollout of its commit, if it is none: another change was corrected, for one.
fn not_of_the_commit(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Drift(who) => format!(" (drift by {})", plain(who)),
        Trigger::Autoscaler(_) | Trigger::Rebuilt => format!(" ({})", trigger.word()),
        _ => String::new(),
    }
}

/// Returns the trigger of a record, and the person: `undo-by-hand (ada)`.
pub(in crate::cli) fn triggered(trigger: &Trigger) -> String {
    match trigger.who() {
        Some(who) => format!("{} ({who})", trigger.word()),
        None => trigger.word().to_owned(),
    }
}
