//! `belay status`

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::exit::Exit;
use super::output::{Cell, Format, Table, age, duration, plain, say, say_value, terminal_width};
use super::progress::Screen;
use super::workload::Named;
use super::{Globals, history, signals};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::Span;
use crate::history::{History, HistoryError, Query};
use crate::manifest::ObjectKey;
use crate::rollout::health::Standing;
use crate::rollout::{Hold, Outcome, Record, health, marks};

/// What `belay status` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this workload: NAME or KIND/NAME
    workload: Option<Named>,
    /// Only what this commit touched
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// Wait until the commit is through: 0 complete, 3 failed or rolled back, 4 timed out
    #[arg(long, requires = "commit")]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: Span,
    /// Go on showing it whenever it changes, until Ctrl-C: in place on a terminal, a line for each change in a pipe
    #[arg(short, long, conflicts_with = "wait")]
    watch: bool,
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only those with these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

/// How often the history is asked while waiting.
const ASK: Duration = Duration::from_millis(500);
/// How often the cluster is asked while watching.
const LOOK: Duration = Duration::from_secs(1);

/// What is looked at.
struct Look {
    cluster: Cluster,
    namespace: Option<String>,
    workload: Option<Named>,
    commit: Option<String>,
    labels: String,
}

/// Where one workload is.
#[derive(Clone, PartialEq)]
struct Row {
    key: ObjectKey,
    source: String,
    commit: String,
    state: &'static str,
    message: String,
    since: Option<Timestamp>,
    updated: i64,
    available: i64,
    desired: i64,
    /// When its rollout has failed unless something moves.
    deadline: Option<Timestamp>,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.wait {
        return wait(globals, &args).await;
    }
    let Args { workload, commit, all_namespaces, selector, watch, output, .. } = args;
    let cluster = globals.cluster("").await?;
    let namespace = match (&globals.namespace, all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.clone()),
        (None, false) => Some(cluster.default_namespace().to_owned()),
    };
    let labels = labels(selector.as_deref());
    let look = Look { cluster, namespace, workload, commit, labels };
    if watch {
        return look.watch(output).await;
    }
    let rows = look.rows().await?;
    match output {
        Format::Json | Format::Yaml => say_value(&json!({ "workloads": as_values(&rows) }), output)?,
        Format::Name => rows.iter().for_each(|row| say(format!("{}/{}", row.key.kind.to_lowercase(), row.key.name))),
        Format::Table | Format::Wide => {
            heads(globals, &rows).iter().for_each(say);
            look.table(&rows, output).iter().for_each(say);
        }
    }
    Ok(if rows.iter().any(|row| row.state == "failed") { Exit::No } else { Exit::Done })
}

/// Those that belay has applied, and of them those that were asked for.
fn labels(selector: Option<&str>) -> String {
    match selector.map(str::trim).filter(|selector| !selector.is_empty()) {
        Some(selector) => format!("{},{selector}", marks::SOURCE),
        None => marks::SOURCE.to_owned(),
    }
}

impl Look {
    async fn rows(&self) -> Result<Vec<Row>, ClusterError> {
        let live = self.cluster.workloads(self.namespace.as_deref(), &self.labels).await?;
        let mut rows: Vec<Row> = live.iter().map(|(key, live)| row(key, live)).collect();
        rows.retain(|row| self.workload.as_ref().is_none_or(|named| named.means(&row.key, None)));
        rows.retain(|row| self.commit.as_ref().is_none_or(|commit| row.commit.starts_with(commit.as_str())));
        Ok(rows)
    }

    /// The table, or one line that says that there is nothing to show.
    fn table(&self, rows: &[Row], format: Format) -> Vec<String> {
        if !rows.is_empty() {
            return table(rows, format).lines_within(if format == Format::Wide { None } else { terminal_width() });
        }
        vec![match &self.namespace {
            Some(namespace) => format!("belay has applied no workload in namespace {namespace} (-A: in all)."),
            None => "belay has applied no workload.".to_owned(),
        }]
    }

    /// Shows what changes until somebody has seen enough.
    async fn watch(&self, format: Format) -> anyhow::Result<Exit> {
        let mut screen = Screen::default();
        let mut before: Vec<Row> = Vec::new();
        let enough = signals::asked_to_stop();
        tokio::pin!(enough);
        loop {
            let rows = self.rows().await?;
            match format {
                Format::Json | Format::Yaml | Format::Name => {
                    let changed: Vec<Row> = rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    for value in as_values(&changed) {
                        say(value.to_string());
                    }
                }
                // The countdown moves every second, which is no change in a pipe.
                Format::Table | Format::Wide if Screen::is_there() => screen.show(&self.table(&rows, format)),
                Format::Table | Format::Wide => {
                    let changed: Vec<Row> = rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    let heading = usize::from(!before.is_empty());
                    if !changed.is_empty() {
                        self.table(&changed, format).iter().skip(heading).for_each(say);
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

/// A line for each source: the head that its daemon was last through with, where its history can be read.
fn heads(globals: &Globals, rows: &[Row]) -> Vec<String> {
    let Ok(history) = history::open(globals) else { return Vec::new() };
    let sources: BTreeSet<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    let mut lines = Vec::new();
    for source in sources {
        let Ok(heads) = history.heads(source) else { continue };
        let Some(head) = heads.recorded else { continue };
        let told = history.commit(&head).ok().flatten();
        let told = told.map(|commit| format!(" {} ({})", commit.subject, commit.author.name)).unwrap_or_default();
        let open = history.open_records(source).map_or(0, |open| open.len());
        let state = match (open, heads.finished.as_ref() == Some(&head)) {
            (0, true) => "all of it is through".to_owned(),
            (0, false) => "being planned".to_owned(),
            (open, _) => format!("{open} under way"),
        };
        lines.push(plain(&format!("{source} is at {}{told}: {state}", head.short())));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn row(key: &ObjectKey, live: &Value) -> Row {
    let hold = Hold::on(live);
    let health = health(key, live);
    let counters = health.as_ref().map(|health| health.counters).unwrap_or_default();
    let observed = health.as_ref().is_none_or(|health| health.observed_generation >= marks::generation(live));
    let standing = health.as_ref().map(|health| health.standing);
    let (state, message) = match (&hold, marks::annotation(live, marks::SUSPEND), standing) {
        (_, Some(why), _) => ("suspended", why.to_owned()),
        (Some(hold), _, Some(Standing::Complete)) => {
            ("held", format!("commit {} is held: {}", hold.commit.short(), hold.reason))
        }
        (Some(_), _, _) => ("rolling back", health.map(|health| health.message).unwrap_or_default()),
        (None, _, Some(Standing::Complete)) if observed => {
            ("complete", health.map(|health| health.message).unwrap_or_default())
        }
        (None, _, Some(Standing::Failed)) if observed => (
            "failed",
            health.and_then(|health| health.failure).map(|failure| failure.reason.message).unwrap_or_default(),
        ),
        (None, _, Some(Standing::Paused)) => ("paused", health.map(|health| health.message).unwrap_or_default()),
        _ => ("under way", health.map(|health| health.message).unwrap_or_default()),
    };
    Row {
        key: key.clone(),
        source: marks::label(live, marks::SOURCE).unwrap_or_default().to_owned(),
        commit: marks::annotation(live, marks::COMMIT).unwrap_or_default().to_owned(),
        state,
        message,
        since: hold.map(|hold| hold.since),
        updated: counters.updated,
        available: counters.available,
        desired: counters.desired,
        deadline: (state == "under way" || state == "rolling back").then(|| deadline(live)).flatten(),
    }
}

/// When a Deployment's rollout has made no progress for too long, as its controller counts.
fn deadline(live: &Value) -> Option<Timestamp> {
    let seconds = live["spec"]["progressDeadlineSeconds"].as_i64().filter(|seconds| *seconds < i64::from(i32::MAX))?;
    let conditions = live["status"]["conditions"].as_array()?;
    let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
    let moved: Timestamp = progressing["lastUpdateTime"].as_str()?.parse().ok()?;
    moved.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn as_values(rows: &[Row]) -> Vec<Value> {
    let value = |row: &Row| {
        json!({"object": row.key, "source": row.source, "commit": row.commit, "state": row.state,
            "message": row.message, "since": row.since, "updated": row.updated, "available": row.available,
            "desired": row.desired, "deadline": row.deadline})
    };
    rows.iter().map(value).collect()
}

fn table(rows: &[Row], format: Format) -> Table {
    let now = Clock::system().now();
    let mut headings = vec!["SOURCE", "OBJECT", "COMMIT", "STATE", "PODS", "SINCE", "MESSAGE"];
    if format == Format::Wide {
        headings.insert(5, "UPDATED");
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut message = row.message.clone();
        if let Some(deadline) = row.deadline {
            message = format!("{message}; fails in {} unless something moves", duration(deadline.duration_since(now)));
        }
        let mut cells: Vec<Cell> = vec![
            row.source.clone().into(),
            row.key.to_string().into(),
            row.commit.chars().take(7).collect::<String>().into(),
            Cell::styled(row.state, super::output::state_style(row.state)),
            format!("{} {}/{}", bar(row), row.available, row.desired).trim_start().into(),
            row.since.map(|since| age(since, now)).unwrap_or_default().into(),
            message.into(),
        ];
        if format == Format::Wide {
            cells.insert(5, row.updated.to_string().into());
        }
        table.row(cells);
    }
    table
}

/// How far a rollout is: a pod that is updated and available, one that is updated, one that is not; at most ten of them.
fn bar(row: &Row) -> String {
    const LONGEST: i64 = 10;
    if row.desired <= 0 || !matches!(row.state, "under way" | "rolling back" | "paused") {
        return String::new();
    }
    let length = row.desired.min(LONGEST);
    let part = |count: i64| usize::try_from((count.clamp(0, row.desired) * length) / row.desired).unwrap_or_default();
    let (done, begun) = (part(row.updated.min(row.available)), part(row.updated));
    let all = usize::try_from(length).unwrap_or_default();
    "●".repeat(done) + &"◐".repeat(begun - done) + &"○".repeat(all - begun)
}

/// Waits until everything that a commit touched is through.
async fn wait(globals: &Globals, args: &Args) -> anyhow::Result<Exit> {
    let commit = args.commit.clone().unwrap_or_default();
    let folder = globals.state_folder(None)?;
    let waiting = async {
        let mut told = false;
        loop {
            match History::read_only(&folder) {
                Ok(history) => {
                    if let Some(exit) = through(&history, &commit)? {
                        return anyhow::Ok(exit);
                    }
                }
                // A daemon that was only just started is making it.
                Err(error @ (HistoryError::Missing { .. } | HistoryError::Older { found: 0, .. })) => {
                    if !std::mem::replace(&mut told, true) {
                        super::output::progress(format!("{error}; waiting for it"));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(ASK).await;
        }
    };
    match tokio::time::timeout(args.timeout.0, waiting).await {
        Ok(exit) => exit,
        Err(_) => {
            super::output::progress(format!("error: commit {commit} is not through after {}", args.timeout));
            Ok(Exit::TimedOut)
        }
    }
}

fn through(history: &History, commit: &str) -> anyhow::Result<Option<Exit>> {
    let records = history.records(&Query { commit: Some(commit.to_owned()), ..Query::default() })?;
    if let Some(other) = records.iter().find(|record| record.commit != records[0].commit) {
        bail!("{commit:?} is the beginning of several commits: {} and {}", records[0].commit, other.commit);
    }
    if records.is_empty() || !records.iter().all(|record| record.outcome.is_final()) {
        return Ok(None);
    }
    let went_wrong = |record: &&Record| {
        !matches!(record.outcome, Outcome::Complete | Outcome::Unchanged | Outcome::Superseded | Outcome::Pruned)
    };
    let mut exit = Exit::Done;
    for record in records.iter().filter(went_wrong) {
        let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        say(format!("{}: {}{reason}", record.object, record.outcome));
        exit = Exit::No;
    }
    if exit == Exit::Done {
        let objects = if records.len() == 1 { "1 object".to_owned() } else { format!("{} objects", records.len()) };
        say(format!("commit {} is complete: {objects}", records[0].commit.short()));
    }
    Ok(Some(exit))
}
