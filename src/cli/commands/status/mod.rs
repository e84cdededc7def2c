//! `belay status`

mod by_state;
mod known_last;
mod other_namespaces;
mod pending_retry;
pub(in crate::cli) mod revision_table;
pub(in crate::cli) mod wait;
mod wait_progress;
mod workload_table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;

use super::history;
use crate::cli::args::nearest::there_is;
use crate::cli::args::target;
use crate::cli::args::workload::Named;
use crate::cli::exit::Exit;
use crate::cli::output::answer::{SourceAnswer, StatusAnswer, TroubleAnswer, WorkloadAnswer};
use crate::cli::output::progress::Screen;
use crate::cli::output::{Format, age, plain, progress, say, say_data, say_value, terminal_width};
use crate::cli::session::signals;
use crate::cli::source_histories::SourceHistories;
use crate::cli::{Globals, source_histories};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::Span;
use crate::daemon::ask_daemon;
use crate::history::History;
use crate::history::query::harm::sort_by_harm;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::yaml::to_text;
use belay_core::rollout::{CommitId, LiveWorkload, ObjectState, SourceState, Workload, marks};

/// The arguments of `belay status`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Show only this workload: NAME or KIND/NAME
    workload: Option<Named>,
    /// Filter by state: held,failed
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = by_state::states(), conflicts_with = "wait")]
    state: Vec<ObjectState>,
    /// Show only the workloads at this commit: the beginning of its id
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// Wait until the commit is through: 0 complete, or it changes nothing here, 3 failed, rolled back, or waiting for
    /// somebody's hand (paused, suspended, a finalizer), 4 timed out, 1 another daemon follows the source
    #[arg(long, requires = "commit")]
    wait: bool,
    /// Stop waiting after this time
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: Span,
    /// Show changes until Ctrl-C: in place on a terminal, a line for each change in a pipe
    #[arg(short, long, conflicts_with = "wait")]
    watch: bool,
    /// Show all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Filter by label: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

/// How often the cluster is asked while watching.
const LOOK: Duration = Duration::from_secs(1);

/// The choice if the pods of each revision of a named workload are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revisions {
    Shown,
    LeftOut,
}

/// The answer to it.
struct StatusFound {
    memory: SourceHistories,
    rows: Vec<WorkloadAnswer>,
    /// The reason for which the API server did not answer, if the rows are what the daemon knew last.
    unanswered: Option<ClusterError>,
}

/// The subject of the command.
struct StatusQuery {
    cluster: Cluster,
    namespace: Option<String>,
    workload: Option<Named>,
    commit: Option<String>,
    labels: String,
    /// The states whose rows are shown; all if it is empty.
    states: Vec<ObjectState>,
    /// The daemon's state folder.
    folder: Option<PathBuf>,
    /// The daemon's history, if it can be read.
    history: Option<History>,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.wait {
        return wait::wait(globals, args.commit.as_deref().unwrap_or_default(), args.timeout, args.output).await;
    }
    let Args { workload, state: states, commit, all_namespaces, selector, watch, output, .. } = args;
    let cluster = globals.cluster("").await?;
    let namespace = match (&globals.namespace, all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.clone()),
        (None, false) => Some(cluster.default_namespace().to_owned()),
    };
    let labels = labels(selector.as_deref());
    let history = history::open(globals).ok();
    let folder = globals.state_to_look_at().ok();
    let look = StatusQuery { cluster, namespace, workload, commit, labels, states, folder, history };
    if watch {
        return look.watch(output).await;
    }
    let StatusFound { memory, mut rows, unanswered } = look.rows(Revisions::Shown).await?;
    if unanswered.is_none() {
        look.check(&rows).await?;
    }
    look.keep_wanted(&mut rows);
    let (sources, lines) = look.heads(&memory, &rows);
    let unanswered = unanswered.as_ref().map(ToString::to_string);
    if let Some(error) = &unanswered {
        progress(plain(&format!("error: {error}")));
    }
    match output {
        Format::Json | Format::Yaml => {
            let (workloads, objects) = rows.iter().cloned().partition(|row| Workload::of(&row.object).is_some());
            let cluster = look.cluster.server().map(str::to_owned);
            say_value(&StatusAnswer { cluster, unanswered: unanswered.clone(), sources, workloads, objects }, output)?;
        }
        Format::Name => rows.iter().for_each(|row| say(name(row))),
        Format::Table | Format::Wide => {
            unanswered.as_ref().map(|error| look.unanswered_line(error)).iter().for_each(say);
            lines.iter().for_each(say);
            look.table(&rows, output, unanswered.is_some()).iter().for_each(say);
            look.elsewhere(&memory, &rows).iter().for_each(say);
            revision_table::lines(&rows, output).iter().for_each(say);
        }
    }
    let is_no = rows.iter().any(|row| is_failed(row.state));
    Ok(match unanswered {
        Some(_) => Exit::Error,
        None if is_no => Exit::No,
        None => Exit::Done,
    })
}

/// Returns the labels of the objects that belay has applied, and of them those that were asked for.
pub(in crate::cli) fn labels(selector: Option<&str>) -> String {
    match selector.map(str::trim).filter(|selector| !selector.is_empty()) {
        Some(selector) => format!("{},{selector}", marks::SOURCE),
        None => marks::SOURCE.to_owned(),
    }
}

impl StatusQuery {
    async fn rows(&self, revisions: Revisions) -> Result<StatusFound, ClusterError> {
        let live = match self.cluster.workloads(self.namespace.as_deref(), &self.labels).await {
            Ok(live) => live,
            Err(error) => return self.known_last(error, revisions).await,
        };
        let memory = self.known_sources().await;
        let mut rows: Vec<WorkloadAnswer> = live.iter().map(|(key, live)| row(key, live, &memory)).collect();
        // The cluster is asked for labels, and does not know those of an object that is not live.
        if self.labels == marks::SOURCE {
            rows.extend(memory.rows_besides(&rows, |key| self.is_here(key)));
        }
        self.refine(&mut rows);
        if revisions == Revisions::Shown && self.workload.is_some() {
            revision_table::add(&self.cluster, &live, &mut rows).await;
        }
        Ok(StatusFound { memory, rows, unanswered: None })
    }

    /// Adds what only the history knows, and leaves out what was not asked for.
    fn refine(&self, rows: &mut Vec<WorkloadAnswer>) {
        if let Some(history) = &self.history {
            source_histories::refine(history, rows);
        }
        rows.retain(|row| self.workload.as_ref().is_none_or(|named| named.means(&row.object, None)));
        let commit = self.commit.as_deref();
        rows.retain(|row| commit.is_none_or(|commit| row.commit.starts_with(commit)));
        sort_by_harm(rows);
    }

    /// Keeps the rows whose states are wanted.
    fn keep_wanted(&self, rows: &mut Vec<WorkloadAnswer>) {
        rows.retain(|row| self.wants(row.state));
    }

    fn wants(&self, state: ObjectState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// Returns true when an object is in the namespace that is asked for, or in none.
    fn is_here(&self, key: &ObjectKey) -> bool {
        self.namespace.is_none() || key.namespace.is_none() || key.namespace == self.namespace
    }

    /// Returns the line about the objects of other namespaces that are not as they should be.
    fn elsewhere(&self, memory: &SourceHistories, rows: &[WorkloadAnswer]) -> Option<String> {
        if self.labels != marks::SOURCE || self.workload.is_some() || self.commit.is_some() {
            return None;
        }
        let others = memory.rows_besides(rows, |key| !self.is_here(key));
        other_namespaces::line(others.iter().map(|row| row.state).filter(|state| self.wants(*state)))
    }

    /// What the daemon publishes of its sources; where none answers, what its history says of them.
    async fn known_sources(&self) -> SourceHistories {
        let now = Clock::system().now();
        let published = match &self.folder {
            Some(folder) => ask_daemon(folder).await,
            None => None,
        };
        match (published, &self.history) {
            (Some(published), history) => SourceHistories::published(published, history.as_ref(), now),
            // A history that can't be read now (its daemon is just making it) adds nothing.
            (None, Some(history)) => SourceHistories::read(history, now).unwrap_or_default(),
            (None, None) => SourceHistories::default(),
        }
    }

    /// Refuses a workload or a commit that there is none of, naming those that there are.
    async fn check(&self, rows: &[WorkloadAnswer]) -> anyhow::Result<()> {
        const ALIKE: u16 = 600;
        if !rows.is_empty() {
            return Ok(());
        }
        let (namespace, labels) = (self.namespace.as_deref(), &self.labels);
        let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace} (-A: in all)"));
        if let Some(named) = &self.workload {
            let there = self.cluster.workloads(namespace, labels).await?;
            let there: Vec<ObjectKey> = there.into_iter().map(|(key, _)| key).collect();
            if !there.iter().any(|key| named.means(key, None)) {
                let hint =
                    there_is(&named.name, there.iter().map(|key| (key.name.as_str(), target::named(key))), ALIKE);
                bail!("belay has applied no workload {:?}{place}{hint}", named.name);
            }
        }
        if let Some(commit) = &self.commit {
            bail!(
                "no workload{place} is at a commit that begins with {commit:?}; belay show {commit} tells what became of it"
            );
        }
        Ok(())
    }

    /// Returns the published state of each source, also as a line or more for people, and which cluster the rows are
    /// of.
    fn heads(&self, memory: &SourceHistories, rows: &[WorkloadAnswer]) -> (Vec<SourceAnswer>, Vec<String>) {
        let (answers, here) = (memory.source_answers(), self.cluster.server());
        let mut lines: Vec<String> =
            answers.iter().flat_map(|answer| lines_of(answer, self.history.as_ref(), here)).collect();
        lines.extend(here.filter(|_| !rows.is_empty()).map(|server| format!("The workloads of {server}:")));
        (answers, lines)
    }

    /// Returns the table, or one line that says that there is nothing to show. A daemon that has not seen the cluster
    /// since its start knows no workloads.
    fn table(&self, rows: &[WorkloadAnswer], format: Format, is_unanswered: bool) -> Vec<String> {
        let has_seen_none = is_unanswered && rows.iter().all(|row| Workload::of(&row.object).is_none());
        let unseen = has_seen_none.then(|| {
            "The daemon here has seen no workload since its start; belay history shows its rollouts.".to_owned()
        });
        if !rows.is_empty() {
            let width = if format == Format::Wide { None } else { terminal_width() };
            return workload_table::of(rows, format).lines_within(width).into_iter().chain(unseen).collect();
        }
        if unseen.is_none() && !self.states.is_empty() {
            return vec![by_state::none(&self.states, self.namespace.as_deref())];
        }
        vec![unseen.unwrap_or_else(|| match &self.namespace {
            Some(namespace) => format!("belay has applied no workload in namespace {namespace} (-A: in all)."),
            None => "belay has applied no workload.".to_owned(),
        })]
    }

    /// Prints changes until the caller has seen enough.
    async fn watch(&self, format: Format) -> anyhow::Result<Exit> {
        let mut screen = Screen::default();
        let mut before: Vec<WorkloadAnswer> = Vec::new();
        // In a pipe each workload is a line.
        let lines_only =
            matches!(format, Format::Table | Format::Wide) && !Screen::is_there() || format == Format::Name;
        let revisions = if lines_only { Revisions::LeftOut } else { Revisions::Shown };
        let enough = signals::asked_to_stop();
        tokio::pin!(enough);
        let is_drawn = matches!(format, Format::Table | Format::Wide) && Screen::is_there();
        let mut was_unanswered = false;
        loop {
            let StatusFound { memory, mut rows, unanswered } = self.rows(revisions).await?;
            if before.is_empty() && unanswered.is_none() {
                self.check(&rows).await?;
            }
            self.keep_wanted(&mut rows);
            let (_, mut lines) = self.heads(&memory, &rows);
            let outage = unanswered.map(|error| self.unanswered_line(&error.to_string()));
            let is_news = !std::mem::replace(&mut was_unanswered, outage.is_some());
            match outage {
                Some(line) if is_drawn => lines.insert(0, line),
                Some(line) if is_news => progress(line),
                _ => {}
            }
            match format {
                Format::Json | Format::Yaml | Format::Name => {
                    let changed: Vec<WorkloadAnswer> =
                        rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    for workload in &changed {
                        match format {
                            Format::Name => say(name(workload)),
                            // A document for each change, of which a reader sees where it ends.
                            Format::Yaml => say_data(&format!("---\n{}", to_text(workload)?.trim_end())),
                            _ => say_data(&serde_json::to_string(workload)?),
                        }
                    }
                }
                // The countdown moves every second, which is no change in a pipe.
                Format::Table | Format::Wide if Screen::is_there() => {
                    lines.extend(self.table(&rows, format, was_unanswered));
                    lines.extend(revision_table::lines(&rows, format));
                    screen.show(&lines);
                }
                Format::Table | Format::Wide => {
                    let changed: Vec<WorkloadAnswer> =
                        rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    let heading = usize::from(!before.is_empty());
                    if !changed.is_empty() {
                        self.table(&changed, format, was_unanswered).iter().skip(heading).for_each(say);
                    }
                }
            }
            before = rows;
            tokio::select! {
                biased;
                () = &mut enough => return Ok(Exit::Done),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

/// Returns true when the answer of the command is no.
fn is_failed(state: ObjectState) -> bool {
    matches!(state, ObjectState::Failed | ObjectState::Rejected | ObjectState::RollbackFailed)
}

/// Returns `deployment/web`
fn name(row: &WorkloadAnswer) -> String {
    format!("{}/{}", row.object.kind.to_lowercase(), row.object.name)
}

/// Returns a line for a source, and its obstacles in the next lines.
fn lines_of(answer: &SourceAnswer, history: Option<&History>, here: Option<&str>) -> Vec<String> {
    let SourceAnswer { source, head, state, summary, waits_for, cluster, trouble, troubles, .. } = answer;
    let is_at = head.as_ref().map_or_else(|| "is at no commit yet".to_owned(), |head| at(history, head));
    let elsewhere = cluster.as_deref().filter(|cluster| here.is_some_and(|here| here != *cluster));
    let elsewhere = elsewhere.map(|cluster| format!("  its cluster is {cluster}, whose workloads are not shown here"));
    // The summary of a source that only waits says for which one.
    let waits_for = waits_for.as_ref().filter(|_| *state != SourceState::Waiting).map(|waits| format!("  {waits}"));
    let troubles = troubles.iter().map(|(place, message)| format!("  {place}: {message}"));
    let warnings = answer.warning_lines().map(|warning| format!("  {warning}"));
    let first = format!("{source} {is_at}: {summary}");
    let lines = std::iter::once(first).chain(elsewhere).chain(waits_for).chain(trouble.as_ref().map(in_the_way));
    lines.chain(troubles).chain(warnings).map(|line| plain(&line)).collect()
}

/// Returns `is at 1a2b3c4 Serve HTTP/2 (Ada)`
fn at(history: Option<&History>, head: &CommitId) -> String {
    let told = history.and_then(|history| history.commit(head).ok().flatten());
    let told = told.map(|commit| format!(" {} ({})", commit.subject, commit.author.name)).unwrap_or_default();
    format!("is at {}{told}", head.short())
}

/// Returns the obstacle, and its age.
fn in_the_way(trouble: &TroubleAnswer) -> String {
    let age = age(trouble.since, Clock::system().now());
    format!("  nothing newer is rolled out ({age}): {}", trouble.message)
}

fn row(key: &ObjectKey, live: &Value, memory: &SourceHistories) -> WorkloadAnswer {
    let source = marks::label(live, marks::SOURCE).unwrap_or_default();
    WorkloadAnswer::of_live(key, source, &LiveWorkload::of(key, live), memory.sources.get(source))
}
