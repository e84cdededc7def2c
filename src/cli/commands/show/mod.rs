//! `belay show COMMIT`

mod analyses;
mod of_server;
pub(in crate::cli) mod why;

use std::collections::BTreeSet;

use anyhow::anyhow;
use jiff::Timestamp;

use super::history;
use super::plan;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::answer::{RecordAnswer, ShowAnswer};
use crate::cli::output::table::{outcome, styled};
use crate::cli::output::{Format, age, duration, plain, say, say_value};
use crate::cli::session::history_access::HistoryAccess;
use crate::cli::session::history_view::HistoryView;
use crate::cli::session::repositories::{Repositories, ambiguous};
use crate::cli::session::server::ServerArgs;
use crate::clock::Clock;
use crate::history::query::answers::ShownRecord;
use crate::history::{Query, Resolved};
use belay_core::rollout::{Commit, CommitId, EventSeen, Evidence, PodSeen, Step, StepKind, Trigger, Unnoticed};

/// The number of commits that are named if the requested one is not known.
const CANDIDATES: u32 = 5;

/// The arguments of `belay show`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The commit: its id, or the beginning of it
    commit: String,
    /// Show every step, with its time
    #[arg(long)]
    steps: bool,
    /// Compute the verdicts of the analyses again from their measurements, and exit with 3 if one differs
    #[arg(long, conflicts_with_all = ["output", "steps", "server"])]
    verify: bool,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
    #[command(flatten)]
    server: ServerArgs,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { commit, steps, verify, output, server } = args;
    let (id, answer) = match HistoryAccess::open(globals, &server).await? {
        HistoryAccess::Server(api) => of_server::shown(&api, &commit).await?,
        HistoryAccess::Here(view) => {
            let (id, answer) = shown(globals, &view, &commit).await?;
            if verify && answer.why.is_none() {
                let records = answer.records.iter().map(|shown| &shown.answer.record);
                return analyses::verify(&view.history, records);
            }
            (id, answer)
        }
    };
    print(&id, &answer, steps || output == Format::Wide, output)?;
    Ok(Exit::Done)
}

/// Returns a commit of the history here.
async fn shown(globals: &Globals, view: &HistoryView, digits: &str) -> anyhow::Result<(CommitId, ShowAnswer)> {
    let folder = globals.state_to_look_at()?;
    let git = Repositories::at_hand(&folder);
    let (id, commit) = meant(view, &git, digits)?;
    let mut records = view.answers(&Query { commit: Some(id.to_string()), ..Query::default() })?;
    records.reverse();
    let why = match records.is_empty() {
        true => Some(why::nothing(&view.history, &git, &id, &why::blocked(&folder, &view.history).await)?),
        false => None,
    };
    let records = records.into_iter().map(|answer| ShownRecord::of(&view.history, answer, u32::MAX));
    let records = records.collect::<Result<_, _>>()?;
    let arrived = view.history.arrived(&id)?;
    Ok((id, ShowAnswer { commit, records, arrived, why, missing: view.missing.clone() }))
}

fn print(id: &CommitId, answer: &ShowAnswer, steps: bool, output: Format) -> anyhow::Result<()> {
    match output {
        Format::Json | Format::Yaml => say_value(answer, output)?,
        Format::Name => answer.records.iter().for_each(|shown| say(shown.answer.record.object.to_string())),
        Format::Table | Format::Wide => {
            head(id, answer);
            answer.why.iter().for_each(|why| {
                say("");
                say(plain(why));
            });
            for record in &answer.records {
                say("");
                object(record, steps);
            }
        }
    }
    Ok(())
}

/// Returns the named commit and the facts that are known of it.
fn meant(view: &HistoryView, git: &Repositories, digits: &str) -> anyhow::Result<(CommitId, Option<Commit>)> {
    let history = &view.history;
    match history.resolve(digits)? {
        Resolved::One(id) => {
            let known = history.commit(&id)?.or_else(|| git.commit(&id));
            return Ok((id, known));
        }
        Resolved::Several(ids) => {
            return Err(ambiguous(digits, &ids, |id| history.commit(id).ok().flatten()));
        }
        Resolved::None => {}
    }
    // A record may name a commit that no repository here has.
    let named = view.records(&Query { commit: Some(digits.to_owned()), ..Query::default() })?;
    let ids: BTreeSet<CommitId> = named.into_iter().map(|record| record.commit).collect();
    let ids: Vec<CommitId> = ids.into_iter().collect();
    match ids.as_slice() {
        [] => {}
        [id] => return Ok((id.clone(), None)),
        several => return Err(ambiguous(digits, several, |_| None)),
    }
    match git.look_up(digits)? {
        Some(commit) => Ok((commit.id.clone(), Some(commit))),
        None => Err(unknown(view, digits)),
    }
}

/// Returns the error for an unknown commit, which names the known ones.
fn unknown(view: &HistoryView, digits: &str) -> anyhow::Error {
    let newest = view.records(&Query { limit: Some(CANDIDATES * 4), ..Query::default() }).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for record in newest {
        let told = view.told(&record.commit).map(|told| format!("  {} ({})", told.subject, told.author));
        let line = plain(&format!("  {}{}", record.commit.short(), told.unwrap_or_default()));
        if !lines.contains(&line) && lines.len() < CANDIDATES as usize {
            lines.push(line);
        }
    }
    let known = if lines.is_empty() { String::new() } else { format!("; the newest are\n{}", lines.join("\n")) };
    anyhow!(
        "there is no commit that begins with {digits:?}: belay has seen none, and no repository here has one{known}\n\
         (`belay history` lists those that were rolled out, `belay status` says where it is)"
    )
}

fn head(id: &CommitId, answer: &ShowAnswer) {
    say(format!("commit {id}"));
    if let Some(known) = &answer.commit {
        say(plain(&format!("Author:  {} <{}>", known.author.name, known.author.email)));
        say(format!("Date:    {}", known.authored));
        say(plain(&format!("Subject: {}", known.subject)));
    } else if let Some(RecordAnswer { author: Some(author), subject: Some(subject), .. }) =
        answer.records.first().map(|shown| &shown.answer)
    {
        say(plain(&format!("Author:  {}", author.name)));
        say(plain(&format!("Subject: {subject}")));
    }
}

fn object(shown: &ShownRecord, steps: bool) {
    let ShownRecord { answer, steps: taken, measurements } = shown;
    let record = &answer.record;
    let took = record.ended.map(|ended| format!(" after {}", duration(ended.duration_since(record.started))));
    say(format!("{}: {}{}", record.object, styled(&outcome(record.outcome)), took.unwrap_or_default()));
    details(answer);
    match (&record.back_to, record.back_to_revision) {
        (Some(commit), Some(revision)) => say(format!("  back to:  {} (revision {revision})", commit.short())),
        (Some(commit), None) => say(format!("  back to:  {}", commit.short())),
        (None, Some(revision)) => say(format!("  back to:  revision {revision}")),
        (None, None) => {}
    }
    record.complaints.iter().for_each(plan::complain);
    if let Some(evidence) = &record.evidence {
        show_evidence(evidence, record.ended.unwrap_or_else(|| Clock::system().now()));
    }
    analyses::last_verdicts(measurements);
    if steps {
        say("  steps:");
        for step in taken {
            let detail = plain(&told(step));
            say(format!("    {}  {:16}  {detail}", step.at, step.kind.word()).trim_end());
        }
        analyses::looks(measurements);
    }
}

/// Prints the facts about a record that have a line each.
fn details(answer: &RecordAnswer) {
    let RecordAnswer { record, waits_for, progress, unnoticed, note, .. } = answer;
    if record.trigger != Trigger::Commit {
        let rebuilt =
            if record.trigger == Trigger::Rebuilt { ": the history was lost; this is what is left" } else { "" };
        say(format!("  trigger:  {}{rebuilt}", plain(&history::triggered(&record.trigger))));
    }
    if let Some(note) = note {
        say(format!("  note:     {}", plain(note)));
    }
    if let Some(place) = record.written_at() {
        say(format!("  place:    {place}"));
    }
    if let Some(revision) = record.revision {
        say(format!("  revision: {revision}"));
    }
    if let Some(waits_for) = waits_for.as_ref().filter(|_| !record.outcome.is_final()) {
        say(format!("  waiting:  {}", plain(waits_for)));
    }
    if let Some(progress) = progress {
        say(format!("  progress: {}", plain(progress)));
    }
    if let Some(reason) = &record.reason {
        say(format!("  reason:   {}", plain(&reason.to_string())));
    }
    for stale in unnoticed {
        say(format!("  note:     {}", plain(&stale.to_string())));
    }
}

/// Returns the text of a step, for people.
fn told(step: &Step) -> String {
    if step.kind == StepKind::Unnoticed {
        let readers: Vec<Unnoticed> = serde_json::from_str(&step.detail).unwrap_or_default();
        return readers.iter().map(|one| one.workload.to_string()).collect::<Vec<_>>().join(", ");
    }
    step.detail.clone()
}

/// Prints the observations at its failure.
fn show_evidence(evidence: &Evidence, end: Timestamp) {
    evidence_lines(evidence, end).iter().for_each(say);
}

/// Returns the evidence, line by line; events with how old they were at the end of the rollout, the newest first.
pub(in crate::cli) fn evidence_lines(evidence: &Evidence, end: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if !evidence.pods.is_empty() {
        lines.push("  pods:".to_owned());
        evidence.pods.iter().for_each(|pod| pod_lines(pod, &mut lines));
    }
    if !evidence.conditions.is_empty() {
        lines.push("  conditions:".to_owned());
        lines.extend(evidence.conditions.iter().map(|condition| format!("    {condition}")));
    }
    if !evidence.events.is_empty() {
        lines.push("  events:".to_owned());
        let mut events: Vec<&EventSeen> = evidence.events.iter().collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        lines.extend(events.into_iter().map(|event| {
            let EventSeen { at, kind, reason, message, object } = event;
            format!("    {} before: {kind} {reason}: {message} ({object})", age((*at).min(end), end))
        }));
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
