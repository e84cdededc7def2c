//! `belay status`

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::answer::{SourceAnswer, State, StatusAnswer, TroubleAnswer, WorkloadAnswer};
use super::exit::Exit;
use super::nearest::there_is;
use super::output::{Cell, Format, Table, age, duration, plain, say, say_value, state, terminal_width};
use super::progress::Screen;
use super::workload::Named;
use super::{Globals, history, remembered, signals, target, wait};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::Span;
use crate::history::{Followed, History, HistoryError, Trouble};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::Standing;
use belay_core::rollout::{CommitId, Hold, health, marks, progress_deadline_seconds, template, template_hash};

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

/// How often the cluster is asked while watching.
const LOOK: Duration = Duration::from_secs(1);

/// What is looked at.
struct Look {
    cluster: Cluster,
    namespace: Option<String>,
    workload: Option<Named>,
    commit: Option<String>,
    labels: String,
    /// What the daemon remembers, where that can be read.
    history: Option<History>,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.wait {
        return wait::wait(globals, args.commit.as_deref().unwrap_or_default(), args.timeout).await;
    }
    let Args { workload, commit, all_namespaces, selector, watch, output, .. } = args;
    let cluster = globals.cluster("").await?;
    let namespace = match (&globals.namespace, all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.clone()),
        (None, false) => Some(cluster.default_namespace().to_owned()),
    };
    let labels = labels(selector.as_deref());
    let history = history::open(globals).ok();
    let look = Look { cluster, namespace, workload, commit, labels, history };
    if watch {
        return look.watch(globals, output).await;
    }
    let mut rows = look.rows().await?;
    look.check(&rows).await?;
    let (sources, lines) = heads(globals, &mut rows);
    match output {
        Format::Json | Format::Yaml => say_value(&StatusAnswer { sources, workloads: rows.clone() }, output)?,
        Format::Name => rows.iter().for_each(|row| say(name(row))),
        Format::Table | Format::Wide => {
            lines.iter().for_each(say);
            look.table(&rows, output).iter().for_each(say);
        }
    }
    Ok(if rows.iter().any(|row| row.state == State::Failed) { Exit::No } else { Exit::Done })
}

/// Those that belay has applied, and of them those that were asked for.
fn labels(selector: Option<&str>) -> String {
    match selector.map(str::trim).filter(|selector| !selector.is_empty()) {
        Some(selector) => format!("{},{selector}", marks::SOURCE),
        None => marks::SOURCE.to_owned(),
    }
}

impl Look {
    async fn rows(&self) -> Result<Vec<WorkloadAnswer>, ClusterError> {
        let live = self.cluster.workloads(self.namespace.as_deref(), &self.labels).await?;
        let mut rows: Vec<WorkloadAnswer> = live.iter().map(|(key, live)| row(key, live)).collect();
        // A history that can't be read now (its daemon is just making it) adds nothing.
        self.history.iter().for_each(|history| drop(self.remember(history, &mut rows)));
        rows.retain(|row| self.workload.as_ref().is_none_or(|named| named.means(&row.object, None)));
        rows.retain(|row| self.commit.as_ref().is_none_or(|commit| row.commit.starts_with(commit.as_str())));
        Ok(rows)
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

    /// Adds what only the history knows: which objects wait for others, and which holds a newer commit has gone back to.
    fn remember(&self, history: &History, rows: &mut Vec<WorkloadAnswer>) -> Result<(), HistoryError> {
        let mut waiting = remembered::waiting(history)?;
        for row in rows.iter_mut() {
            if let Some((record, message)) = waiting.remove(&row.object) {
                row.message = format!("commit {} {message}", record.commit.short());
            } else if row.state == State::Held
                && let Some(message) = remembered::held_again(history, &row.source, &row.object)?
            {
                row.message = message;
            }
        }
        // Labels are asked of the cluster, which does not have these yet.
        let here = |key: &ObjectKey| self.namespace.is_none() || key.namespace == self.namespace;
        let new = waiting.into_iter().filter(|(key, _)| self.labels == marks::SOURCE && here(key));
        rows.extend(new.map(|(object, (record, message))| WorkloadAnswer {
            object,
            source: record.source,
            commit: record.commit.to_string(),
            state: State::Waiting,
            message,
            since: Some(record.started),
            updated: 0,
            ready: 0,
            available: 0,
            desired: 0,
            deadline: None,
        }));
        Ok(())
    }

    /// The table, or one line that says that there is nothing to show.
    fn table(&self, rows: &[WorkloadAnswer], format: Format) -> Vec<String> {
        if !rows.is_empty() {
            return table(rows, format).lines_within(if format == Format::Wide { None } else { terminal_width() });
        }
        vec![match &self.namespace {
            Some(namespace) => format!("belay has applied no workload in namespace {namespace} (-A: in all)."),
            None => "belay has applied no workload.".to_owned(),
        }]
    }

    /// Shows what changes until somebody has seen enough.
    async fn watch(&self, globals: &Globals, format: Format) -> anyhow::Result<Exit> {
        let mut screen = Screen::default();
        let mut before: Vec<WorkloadAnswer> = Vec::new();
        let enough = signals::asked_to_stop();
        tokio::pin!(enough);
        loop {
            let mut rows = self.rows().await?;
            if before.is_empty() {
                self.check(&rows).await?;
            }
            let (_, mut lines) = heads(globals, &mut rows);
            match format {
                Format::Json | Format::Yaml | Format::Name => {
                    let changed: Vec<WorkloadAnswer> =
                        rows.iter().filter(|row| !before.contains(row)).cloned().collect();
                    for workload in &changed {
                        match format {
                            Format::Name => say(name(workload)),
                            // A document for each change, of which a reader sees where it ends.
                            Format::Yaml => say(format!("---\n{}", serde_yaml::to_string(workload)?.trim_end())),
                            _ => say(serde_json::to_string(workload)?),
                        }
                    }
                }
                // The countdown moves every second, which is no change in a pipe.
                Format::Table | Format::Wide if Screen::is_there() => {
                    lines.extend(self.table(&rows, format));
                    screen.show(&lines);
                }
                Format::Table | Format::Wide => {
                    let changed: Vec<WorkloadAnswer> =
                        rows.iter().filter(|row| !before.contains(row)).cloned().collect();
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

/// `deployment/web`
fn name(row: &WorkloadAnswer) -> String {
    format!("{}/{}", row.object.kind.to_lowercase(), row.object.name)
}

/// What the history knows, where it can be read: for each source the head that its daemon was last through with, also as
/// a line for people; and of the workloads, which have drifted.
fn heads(globals: &Globals, rows: &mut [WorkloadAnswer]) -> (Vec<SourceAnswer>, Vec<String>) {
    let Ok(history) = history::open(globals) else { return Default::default() };
    let mut troubles = troubles(history.followed().unwrap_or_default());
    let sources: BTreeSet<String> = rows.iter().map(|row| &row.source).chain(troubles.keys()).cloned().collect();
    let (mut answers, mut lines) = (Vec::new(), Vec::new());
    for source in sources {
        mark_drifted(&history, &source, rows);
        let Ok(heads) = history.heads(&source) else { continue };
        let trouble = troubles.remove(&source);
        if heads.recorded.is_none() && trouble.is_none() {
            continue;
        }
        let under_way = history.open_records(&source).map_or(0, |open| open.len());
        let through = under_way == 0 && heads.recorded.is_some() && heads.finished == heads.recorded;
        let is_at = heads.recorded.as_ref().map(|head| at(&history, head, under_way, through));
        lines.push(plain(&format!("{source} {}", is_at.unwrap_or_else(|| "is at no commit yet".to_owned()))));
        lines.extend(trouble.as_ref().map(|trouble| plain(&in_the_way(trouble))));
        let trouble = trouble.map(|Trouble { message, since }| TroubleAnswer { message, since });
        answers.push(SourceAnswer { source, head: heads.recorded, under_way, through, trouble });
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    (answers, lines)
}

/// What is in the way of each source, by name.
fn troubles(followed: Vec<Followed>) -> BTreeMap<String, Trouble> {
    followed.into_iter().filter_map(|followed| Some((followed.source, followed.trouble?))).collect()
}

/// `is at 1a2b3c4 Serve HTTP/2 (Ada): all of it is through`
fn at(history: &History, head: &CommitId, under_way: usize, through: bool) -> String {
    let told = history.commit(head).ok().flatten();
    let told = told.map(|commit| format!(" {} ({})", commit.subject, commit.author.name)).unwrap_or_default();
    let state = match (under_way, through) {
        (0, true) => "all of it is through".to_owned(),
        (0, false) => "being planned".to_owned(),
        (under_way, _) => format!("{under_way} under way"),
    };
    format!("is at {}{told}: {state}", head.short())
}

/// What is in the way, and for how long.
fn in_the_way(trouble: &Trouble) -> String {
    let age = age(trouble.since, Clock::system().now());
    format!("  nothing newer is rolled out ({age}): {}", trouble.message)
}

/// Marks the workloads that somebody else has changed and that belay leaves so.
fn mark_drifted(history: &History, source: &str, rows: &mut [WorkloadAnswer]) {
    for drifted in history.drifts(source).unwrap_or_default() {
        let row = rows.iter_mut().find(|row| row.source == source && row.object == drifted.object);
        if let Some(row) = row.filter(|row| matches!(row.state, State::Complete | State::UnderWay)) {
            row.state = State::Drifted;
            row.message = format!("changed by {}, and left so, as configured", drifted.by);
            row.since = Some(drifted.since);
        }
    }
}

fn row(key: &ObjectKey, live: &Value) -> WorkloadAnswer {
    // One that an undo brought back, or somebody's hand, is not about the template that is live: it holds nothing.
    let holds = |hold: &Hold| template(live).is_none_or(|template| template_hash(template) == hold.template);
    let hold = Hold::on(live).filter(holds);
    let health = health(key, live);
    let counters = health.as_ref().map(|health| health.counters).unwrap_or_default();
    let observed = health.as_ref().is_none_or(|health| health.observed_generation >= marks::generation(live));
    let standing = health.as_ref().map(|health| health.standing);
    let (state, message) = match (&hold, marks::annotation(live, marks::SUSPEND), standing) {
        (_, Some(why), _) => (State::Suspended, why.to_owned()),
        (Some(hold), _, Some(Standing::Complete)) => {
            (State::Held, format!("commit {} is held: {}", hold.commit.short(), hold.reason))
        }
        (Some(_), _, _) => (State::RollingBack, health.map(|health| health.message).unwrap_or_default()),
        (None, _, Some(Standing::Complete)) if observed => {
            (State::Complete, health.map(|health| health.message).unwrap_or_default())
        }
        (None, _, Some(Standing::Failed)) if observed => (
            State::Failed,
            health.and_then(|health| health.failure).map(|failure| failure.reason.message).unwrap_or_default(),
        ),
        (None, _, Some(Standing::Paused)) => (State::Paused, health.map(|health| health.message).unwrap_or_default()),
        _ => (State::UnderWay, health.map(|health| health.message).unwrap_or_default()),
    };
    WorkloadAnswer {
        object: key.clone(),
        source: marks::label(live, marks::SOURCE).unwrap_or_default().to_owned(),
        commit: marks::annotation(live, marks::COMMIT).unwrap_or_default().to_owned(),
        state,
        message,
        since: hold.map(|hold| hold.since),
        updated: counters.updated,
        ready: counters.ready,
        available: counters.available,
        desired: counters.desired,
        deadline: (state == State::UnderWay || state == State::RollingBack).then(|| deadline(key, live)).flatten(),
    }
}

/// When a Deployment's rollout has made no progress for too long, as its controller counts.
fn deadline(key: &ObjectKey, live: &Value) -> Option<Timestamp> {
    let seconds = progress_deadline_seconds(key, live)?;
    let conditions = live["status"]["conditions"].as_array()?;
    let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
    let moved: Timestamp = progressing["lastUpdateTime"].as_str()?.parse().ok()?;
    moved.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn table(rows: &[WorkloadAnswer], format: Format) -> Table {
    let now = Clock::system().now();
    let mut headings = vec!["SOURCE", "OBJECT", "COMMIT", "STATE", "PODS", "SINCE", "MESSAGE"];
    if format == Format::Wide {
        headings.splice(5..5, ["UPDATED", "READY", "AVAILABLE"]);
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut message = row.message.clone();
        if let Some(deadline) = row.deadline {
            message = format!("{message}; fails in {} unless something moves", duration(deadline.duration_since(now)));
        }
        let mut cells: Vec<Cell> = vec![
            row.source.clone().into(),
            row.object.to_string().into(),
            row.commit.chars().take(7).collect::<String>().into(),
            state(row.state),
            format!("{} {}/{}", bar(row), row.available, row.desired).trim_start().into(),
            row.since.map(|since| age(since, now)).unwrap_or_default().into(),
            message.into(),
        ];
        if format == Format::Wide {
            let counts = [row.updated, row.ready, row.available].map(|count| Cell::from(count.to_string()));
            cells.splice(5..5, counts);
        }
        table.row(cells);
    }
    table
}

/// How far a rollout is: pods that are updated and available, updated and ready, updated, and those that are not; at most
/// ten of them.
fn bar(row: &WorkloadAnswer) -> String {
    const LONGEST: i64 = 10;
    if row.desired <= 0 || !matches!(row.state, State::UnderWay | State::RollingBack | State::Paused) {
        return String::new();
    }
    let length = row.desired.min(LONGEST);
    let part = |count: i64| usize::try_from((count.clamp(0, row.desired) * length) / row.desired).unwrap_or_default();
    let (done, begun) = (part(row.updated.min(row.available)), part(row.updated));
    let ready = part(row.updated.min(row.ready)).clamp(done, begun);
    let all = usize::try_from(length).unwrap_or_default();
    "●".repeat(done) + &"◕".repeat(ready - done) + &"◐".repeat(begun - ready) + &"○".repeat(all - begun)
}
