//! `belay status`

mod by_state;
mod known_last;
mod of_server;
mod other_namespaces;
mod pending_retry;
pub(in crate::cli) mod revision_table;
mod row_filter;
mod source_lines;
pub(in crate::cli) mod wait;
mod wait_on_server;
mod wait_progress;
mod workload_table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;

use self::row_filter::RowFilter;
use super::history;
use crate::cli::args::nearest::there_is;
use crate::cli::args::target;
use crate::cli::args::workload::Named;
use crate::cli::exit::Exit;
use crate::cli::output::answer::{SourceAnswer, StatusAnswer, WorkloadAnswer};
use crate::cli::output::progress::Screen;
use crate::cli::output::{Format, plain, progress, say, say_data, say_value};
use crate::cli::session::server::ServerArgs;
use crate::cli::session::signals;
use crate::cli::source_histories::SourceHistories;
use crate::cli::{Globals, source_histories};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::Span;
use crate::daemon::ask_daemon;
use crate::history::History;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::yaml::to_text;
use belay_core::rollout::{CommitId, LiveWorkload, ObjectState, Workload, marks};

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
    #[arg(short, long, conflicts_with_all = ["wait", "server"])]
    watch: bool,
    /// Show all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Filter by label: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "server")]
    selector: Option<String>,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
    #[command(flatten)]
    server: ServerArgs,
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
    filter: RowFilter,
    labels: String,
    /// The daemon's state folder.
    folder: Option<PathBuf>,
    /// The daemon's history, if it can be read.
    history: Option<History>,
}

/// The status that is printed.
struct ShownStatus {
    /// The API server that the rows are of, if that is known.
    cluster: Option<String>,
    sources: Vec<SourceAnswer>,
    /// The lines about them.
    lines: Vec<String>,
    rows: Vec<WorkloadAnswer>,
    /// The line about the objects of other namespaces.
    elsewhere: Option<String>,
    /// The reason for which the API server did not answer, and the line about that.
    unanswered: Option<(String, String)>,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { workload, state: states, commit, wait, timeout, all_namespaces, selector, watch, output, server } = args;
    let api = server.api(globals)?;
    if wait {
        let commit = commit.as_deref().unwrap_or_default();
        return match api {
            Some(api) => wait_on_server::wait(&api, commit, timeout, output).await,
            None => wait::wait(globals, commit, timeout, output).await,
        };
    }
    let named = globals.namespace.clone().filter(|_| !all_namespaces);
    let filter = RowFilter { namespace: named, workload, commit, states };
    if let Some(api) = api {
        return filter.say(of_server::shown(&api, &filter).await?, output);
    }
    let cluster = globals.cluster("").await?;
    let default = (!all_namespaces).then(|| cluster.default_namespace().to_owned());
    let filter = RowFilter { namespace: filter.namespace.or(default), ..filter };
    let labels = labels(selector.as_deref());
    let history = history::open(globals).ok();
    let folder = globals.state_to_look_at().ok();
    let look = StatusQuery { cluster, filter, labels, folder, history };
    if watch {
        return look.watch(output).await;
    }
    let shown = look.shown().await?;
    if let Some((error, _)) = &shown.unanswered {
        progress(plain(&format!("error: {error}")));
    }
    look.filter.say(shown, output)
}

impl RowFilter {
    /// Prints what was found.
    fn say(&self, shown: ShownStatus, output: Format) -> anyhow::Result<Exit> {
        let ShownStatus { cluster, sources, lines, rows, elsewhere, unanswered } = shown;
        let is_no = rows.iter().any(|row| is_failed(row.state));
        match output {
            Format::Json | Format::Yaml => {
                let (workloads, objects) = rows.into_iter().partition(|row| Workload::of(&row.object).is_some());
                let unanswered = unanswered.as_ref().map(|(error, _)| error.clone());
                say_value(&StatusAnswer { cluster, unanswered, sources, workloads, objects }, output)?;
            }
            Format::Name => rows.iter().for_each(|row| say(name(row))),
            Format::Table | Format::Wide => {
                unanswered.iter().for_each(|(_, line)| say(line));
                lines.iter().for_each(say);
                self.table(&rows, output, unanswered.is_some()).iter().for_each(say);
                elsewhere.iter().for_each(say);
                revision_table::lines(&rows, output).iter().for_each(say);
            }
        }
        Ok(match unanswered {
            Some(_) => Exit::Error,
            None if is_no => Exit::No,
            None => Exit::Done,
        })
    }
}

/// Returns the labels of the objects that belay has applied, and of them those that were asked for.
pub(in crate::cli) fn labels(selector: Option<&str>) -> String {
    match selector.map(str::trim).filter(|selector| !selector.is_empty()) {
        Some(selector) => format!("{},{selector}", marks::SOURCE),
        None => marks::SOURCE.to_owned(),
    }
}

impl StatusQuery {
    async fn shown(&self) -> anyhow::Result<ShownStatus> {
        let StatusFound { memory, mut rows, unanswered } = self.rows(Revisions::Shown).await?;
        if unanswered.is_none() {
            self.check(&rows).await?;
        }
        self.filter.keep_wanted(&mut rows);
        let (sources, lines) = self.heads(&memory, &rows);
        let unanswered = unanswered.map(|error| error.to_string());
        let unanswered = unanswered.map(|error| (error.clone(), self.unanswered_line(&error)));
        let elsewhere = self.elsewhere(&memory, &rows);
        Ok(ShownStatus {
            cluster: self.cluster.server().map(str::to_owned),
            sources,
            lines,
            rows,
            elsewhere,
            unanswered,
        })
    }

    async fn rows(&self, revisions: Revisions) -> Result<StatusFound, ClusterError> {
        let live = match self.cluster.workloads(self.filter.namespace.as_deref(), &self.labels).await {
            Ok(live) => live,
            Err(error) => return self.known_last(error, revisions).await,
        };
        let memory = self.known_sources().await;
        let mut rows: Vec<WorkloadAnswer> = live.iter().map(|(key, live)| row(key, live, &memory)).collect();
        // The cluster is asked for labels, and does not know those of an object that is not live.
        if self.labels == marks::SOURCE {
            rows.extend(memory.rows_besides(&rows, |key| self.filter.is_here(key)));
        }
        self.refine(&mut rows);
        if revisions == Revisions::Shown && self.filter.workload.is_some() {
            revision_table::add(&self.cluster, &live, &mut rows).await;
        }
        Ok(StatusFound { memory, rows, unanswered: None })
    }

    /// Adds what only the history knows, and leaves out what was not asked for.
    fn refine(&self, rows: &mut Vec<WorkloadAnswer>) {
        if let Some(history) = &self.history {
            source_histories::refine(history, rows);
        }
        self.filter.keep_asked(rows);
    }

    /// Returns the line about the objects of other namespaces that are not as they should be.
    fn elsewhere(&self, memory: &SourceHistories, rows: &[WorkloadAnswer]) -> Option<String> {
        if self.labels != marks::SOURCE || self.filter.workload.is_some() || self.filter.commit.is_some() {
            return None;
        }
        let others = memory.rows_besides(rows, |key| !self.filter.is_here(key));
        other_namespaces::line(others.iter().map(|row| row.state).filter(|state| self.filter.wants(*state)))
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
        let (namespace, labels) = (self.filter.namespace.as_deref(), &self.labels);
        if let Some(named) = &self.filter.workload {
            let there = self.cluster.workloads(namespace, labels).await?;
            let there: Vec<ObjectKey> = there.into_iter().map(|(key, _)| key).collect();
            if !there.iter().any(|key| named.means(key, None)) {
                let hint =
                    there_is(&named.name, there.iter().map(|key| (key.name.as_str(), target::named(key))), ALIKE);
                bail!("belay has applied no workload {:?}{}{hint}", named.name, self.filter.place());
            }
        }
        self.filter.commit.as_ref().map_or(Ok(()), |commit| Err(self.filter.no_such_commit(commit)))
    }

    /// Returns the published state of each source, also as a line or more for people, and which cluster the rows are
    /// of.
    fn heads(&self, memory: &SourceHistories, rows: &[WorkloadAnswer]) -> (Vec<SourceAnswer>, Vec<String>) {
        let told = |head: &CommitId| {
            let commit = self.history.as_ref()?.commit(head).ok().flatten()?;
            Some((commit.author.name, commit.subject))
        };
        let answers = memory.source_answers();
        let lines = source_lines::lines(&answers, told, self.cluster.server(), !rows.is_empty());
        (answers, lines)
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
            self.filter.keep_wanted(&mut rows);
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
                    lines.extend(self.filter.table(&rows, format, was_unanswered));
                    lines.extend(revision_table::lines(&rows, format));
                    screen.show(&lines);
                }
                Format::Table | Format::Wide => {
                    let changed: Vec<WorkloadAnswer> =
                        rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    let heading = usize::from(!before.is_empty());
                    if !changed.is_empty() {
                        self.filter.table(&changed, format, was_unanswered).iter().skip(heading).for_each(say);
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

fn row(key: &ObjectKey, live: &Value, memory: &SourceHistories) -> WorkloadAnswer {
    let source = marks::label(live, marks::SOURCE).unwrap_or_default();
    WorkloadAnswer::of_live(key, source, &LiveWorkload::of(key, live), memory.sources.get(source))
}
