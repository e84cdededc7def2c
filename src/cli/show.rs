//! `belay show COMMIT`

use anyhow::bail;
use serde_json::json;

use super::exit::Exit;
use super::output::{Format, duration, outcome, plain, say, say_value, styled};
use super::{Globals, history, plan};
use crate::history::{History, Query, Resolved};
use crate::rollout::{Evidence, PodSeen, Record};

/// What `belay show` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The commit: an id, or how it begins
    commit: String,
    /// Also every step, with its time
    #[arg(long)]
    steps: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { commit, steps, output } = args;
    let history = history::open(globals)?;
    let id = match history.resolve(&commit)? {
        Resolved::One(id) => id,
        Resolved::Several(ids) => {
            let ids: Vec<&str> = ids.iter().map(|id| &id.as_str()[..12]).collect();
            bail!("{commit:?} is the beginning of several commits: {}", ids.join(", "));
        }
        Resolved::None => {
            bail!("belay has seen no commit that begins with {commit:?}; `belay history` lists those it has")
        }
    };
    let query = Query { commit: Some(id.to_string()), ..Query::default() };
    let mut records = history.records(&query)?;
    records.reverse();
    if matches!(output, Format::Json | Format::Yaml) {
        let all: Vec<_> = records.iter().map(|record| history::with_commit(&history, record)).collect();
        say_value(&json!({"commit": history.commit(&id)?, "records": all}), output)?;
        return Ok(Exit::Done);
    }
    if let Some(known) = history.commit(&id)? {
        say(format!("commit {}", known.id));
        say(format!("Author:  {} <{}>", known.author.name, known.author.email));
        say(format!("Date:    {}", known.authored));
        say(format!("Subject: {}", known.subject));
    }
    if records.is_empty() {
        say("");
        say("It changed no manifest that belay follows, or a newer commit was planned in its place.");
    }
    for record in &records {
        say("");
        object(&history, record, steps)?;
    }
    Ok(Exit::Done)
}

fn object(history: &History, record: &Record, steps: bool) -> anyhow::Result<()> {
    let took = record.ended.map(|ended| format!(" after {}", duration(ended.duration_since(record.started))));
    say(format!("{}: {}{}", record.object, styled(&outcome(record.outcome)), took.unwrap_or_default()));
    if let Some(place) = &record.place {
        say(format!("  place:    {place}"));
    }
    if let Some(revision) = record.revision {
        say(format!("  revision: {revision}"));
    }
    if let Some(reason) = &record.reason {
        say(format!("  reason:   {}", plain(&reason.to_string())));
    }
    match (&record.back_to, record.back_to_revision) {
        (Some(commit), Some(revision)) => say(format!("  back to:  {} (revision {revision})", commit.short())),
        (Some(commit), None) => say(format!("  back to:  {}", commit.short())),
        (None, Some(revision)) => say(format!("  back to:  revision {revision}")),
        (None, None) => {}
    }
    record.complaints.iter().for_each(plan::complain);
    if let Some(evidence) = &record.evidence {
        show_evidence(evidence);
    }
    if steps {
        say("  steps:");
        for step in history.steps(record.id)? {
            say(format!("    {}  {:?} {}", step.at, step.kind, step.detail));
        }
    }
    Ok(())
}

/// What was seen when it failed.
pub(super) fn show_evidence(evidence: &Evidence) {
    evidence_lines(evidence).iter().for_each(say);
}

/// The evidence, line by line.
pub(super) fn evidence_lines(evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    if !evidence.pods.is_empty() {
        lines.push("  pods:".to_owned());
        evidence.pods.iter().for_each(|pod| pod_lines(pod, &mut lines));
    }
    if !evidence.events.is_empty() {
        lines.push("  events:".to_owned());
        lines.extend(
            evidence
                .events
                .iter()
                .map(|event| format!("    {} {}: {} ({})", event.kind, event.reason, event.message, event.object)),
        );
    }
    lines.extend(evidence.missing.iter().map(|missing| format!("  could not be read: {missing}")));
    lines.iter().map(|line| plain(line)).collect()
}

fn pod_lines(pod: &PodSeen, lines: &mut Vec<String>) {
    let mut line = format!("    {} {}", pod.name, pod.state);
    if let Some(container) = &pod.container {
        line.push_str(&format!(", container {container}"));
    }
    if let Some(code) = pod.exit_code {
        line.push_str(&format!(", exit code {code}"));
    }
    if pod.restarts > 0 {
        line.push_str(&format!(", {} restarts", pod.restarts));
    }
    if !pod.message.is_empty() {
        line.push_str(&format!(": {}", pod.message));
    }
    lines.push(line);
    lines.extend(pod.log.iter().map(|written| format!("      | {written}")));
}
