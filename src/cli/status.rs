//! `belay status`

use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::exit::Exit;
use super::output::{Cell, Format, Table, age, say, say_value};
use super::workload::{self, Named};
use super::{Globals, history};
use crate::clock::Clock;
use crate::config::Span;
use crate::history::{History, Query};
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
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

/// How often the history is asked while waiting.
const ASK: Duration = Duration::from_millis(500);

/// Where one workload is.
struct Row {
    key: ObjectKey,
    source: String,
    commit: String,
    state: &'static str,
    message: String,
    since: Option<Timestamp>,
    available: i64,
    desired: i64,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.wait {
        return wait(globals, &args).await;
    }
    let Args { workload, commit, all_namespaces, output, .. } = args;
    let cluster = globals.cluster("").await?;
    let namespace = match (&globals.namespace, all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.clone()),
        (None, false) => Some(cluster.default_namespace().to_owned()),
    };
    let live = workload::live(&cluster, namespace.as_deref(), marks::SOURCE).await?;
    let mut rows: Vec<Row> = live.iter().map(|(key, live)| row(key, live)).collect();
    rows.retain(|row| workload.as_ref().is_none_or(|named| named.means(&row.key, None)));
    rows.retain(|row| commit.as_ref().is_none_or(|commit| row.commit.starts_with(commit.as_str())));
    print(&rows, output, namespace.as_deref())?;
    Ok(if rows.iter().any(|row| row.state == "failed") { Exit::No } else { Exit::Done })
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
        available: counters.available,
        desired: counters.desired,
    }
}

fn print(rows: &[Row], format: Format, namespace: Option<&str>) -> anyhow::Result<()> {
    let now = Clock::system().now();
    match format {
        Format::Json | Format::Yaml => {
            let all: Vec<Value> = rows
                .iter()
                .map(|row| {
                    json!({"object": row.key, "source": row.source, "commit": row.commit, "state": row.state,
                        "message": row.message, "since": row.since, "available": row.available, "desired": row.desired})
                })
                .collect();
            say_value(&json!({ "workloads": all }), format)?;
        }
        Format::Name => rows.iter().for_each(|row| say(format!("{}/{}", row.key.kind.to_lowercase(), row.key.name))),
        Format::Table | Format::Wide if rows.is_empty() => match namespace {
            Some(namespace) => say(format!("belay has applied no workload in namespace {namespace} (-A: in all).")),
            None => say("belay has applied no workload."),
        },
        Format::Table | Format::Wide => {
            let mut table = Table::new(&["SOURCE", "OBJECT", "COMMIT", "STATE", "PODS", "SINCE", "MESSAGE"]);
            for row in rows {
                let state = Cell::styled(row.state, super::output::state_style(row.state));
                table.row([
                    row.source.clone().into(),
                    row.key.to_string().into(),
                    row.commit.chars().take(7).collect::<String>().into(),
                    state,
                    format!("{}/{}", row.available, row.desired).into(),
                    row.since.map(|since| age(since, now)).unwrap_or_default().into(),
                    row.message.clone().into(),
                ]);
            }
            table.say();
        }
    }
    Ok(())
}

/// Waits until everything that a commit touched is through.
async fn wait(globals: &Globals, args: &Args) -> anyhow::Result<Exit> {
    let commit = args.commit.clone().unwrap_or_default();
    let waiting = async {
        loop {
            if let Some(exit) = through(&history::open(globals)?, &commit)? {
                return anyhow::Ok(exit);
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
