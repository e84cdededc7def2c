//! A rollout in words: the changes, the events with their times, the end.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::bounds::{Bounds, Extreme};
use super::change::same_pods;
use super::ended::{Back, SimulationEnd};
use super::recording::Recording;
use super::timeline::{RolloutEvent, Side, Step, Timeline};
use crate::cli::output::table::{Cell, Table};
use belay_core::rollout::{ReasonCode, progress_deadline_seconds};

/// Names that a step lists before it counts the others.
const NAMES: usize = 3;
/// Steps that are listed at most: more are counted.
const STEPS: usize = 400;

/// Returns the subject of the rollout, then step after step.
pub(super) fn lines(recording: &Recording, timeline: &Timeline, bounds: &Bounds, assumed: &[String]) -> Vec<String> {
    let bold = Style::new().bold();
    let mut lines = vec![format!("{bold}{}{bold:#}: {}", recording.key, what_changes(recording))];
    lines.push(format!("{}: {}", bounds.why, limits(bounds)));
    if !assumed.is_empty() {
        lines.push(format!("Assumed to be there: {}.", assumed.join(", ")));
    }
    lines.extend(recording.warnings.iter().map(|warning| format!("Warning: {warning}")));
    lines.push(String::new());
    let both =
        timeline.pods.iter().any(|pod| pod.side == Side::Old) && timeline.pods.iter().any(|pod| pod.side == Side::New);
    let headings: &[&str] = if both {
        &["TIME", "WHAT", "WHICH", "OLD", "NEW", "PODS", "AVAILABLE"]
    } else {
        &["TIME", "WHAT", "WHICH", "PODS", "AVAILABLE"]
    };
    let mut table = Table::new(headings);
    for step in timeline.steps.iter().take(STEPS) {
        table.row(row(step, both));
    }
    lines.extend(table.lines());
    if timeline.steps.len() > STEPS {
        lines.push(format!("… and {} steps more; -o json has all of them", timeline.steps.len() - STEPS));
    }
    if timeline.steps.is_empty() {
        lines.push("Nothing happens.".to_owned());
    }
    lines.push(String::new());
    lines
}

/// Returns the end, and a line that says if the bounds held.
pub(super) fn ending(recording: &Recording, timeline: &Timeline, bounds: &Bounds) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut tell = |style: Style, text: String| lines.push(format!("{style}{text}{style:#}"));
    let (green, red, yellow) = (paint(AnsiColor::Green), paint(AnsiColor::Red), paint(AnsiColor::Yellow));
    let deadline = progress_deadline_seconds(&recording.key, &recording.after);
    match &recording.end {
        SimulationEnd::Complete { at } => tell(green, format!("Complete after {}.", moment(*at))),
        SimulationEnd::Failed { at, reason, condition } => {
            tell(red, format!("Failed after {}: {reason}", moment(*at)));
            let deadline = deadline.filter(|_| reason.code != ReasonCode::CanaryFailed);
            tell(Style::new(), when_it_failed(recording, timeline, deadline, condition.as_deref()));
            if let Some(back) = &recording.back {
                let (fine, text) = went_back(timeline, back);
                tell(if fine { green } else { red }, text);
            }
        }
        SimulationEnd::Stuck { at, reason } => {
            tell(yellow, format!("Stuck after {}: {reason}", moment(*at)));
            tell(Style::new(), "belay would wait and say so: that is not the workload's fault.".to_owned());
        }
        SimulationEnd::Unfinished { at } => tell(yellow, format!("Not finished after {}.", moment(*at))),
    }
    if recording.key.kind == "Deployment" && deadline.is_none() {
        tell(yellow, "It has no progressDeadlineSeconds: a rollout that is stuck would stay so unnoticed.".to_owned());
    }
    for (held, text) in verdicts(bounds) {
        tell(if held { green } else { red }, text);
    }
    let after = matches!(recording.end, SimulationEnd::Complete { at } if timeline.steps.iter().any(|step| {
        step.at > at && matches!(step.act, RolloutEvent::Failing | RolloutEvent::NotReady)
    }));
    if after {
        let advice = "Pods fail after it was complete, and nobody takes it back; minReadySeconds makes a rollout wait.";
        tell(yellow, advice.to_owned());
    }
    if timeline.restarts > 0 {
        tell(Style::new(), format!("Containers were restarted {} times.", timeline.restarts));
    }
    lines
}

/// Returns a moment as it is counted from the change: `0s`, `1.5s`, `10m01s`, `2h00m`.
pub(super) fn moment(at: Duration) -> String {
    let tenths = (at.as_millis() + 50) / 100;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    match seconds {
        0..60 if tenth == 0 => format!("{seconds}s"),
        0..60 => format!("{seconds}.{tenth}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn paint(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

fn what_changes(recording: &Recording) -> String {
    let Some(before) = &recording.before else { return "its first deployment".to_owned() };
    let images = |object: &Value| -> Vec<(String, String)> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        containers.iter().map(|container| (text(&container["name"]), text(&container["image"]))).collect()
    };
    let old = images(before);
    let mut parts: Vec<String> = Vec::new();
    for (name, image) in images(&recording.after) {
        if let Some((_, was)) = old.iter().find(|(known, was)| *known == name && *was != image) {
            parts.push(format!("{was} → {image}"));
        }
    }
    let replicas = |object: &Value| object["spec"]["replicas"].as_u64();
    let (had, wants) = (replicas(before), replicas(&recording.after));
    if parts.is_empty() && !same_pods(before, &recording.after) {
        parts.push("a new version of its pods".to_owned());
    }
    if let (Some(had), Some(wants)) = (had, wants)
        && had != wants
    {
        parts.push(format!("from {had} to {wants} replicas"));
    }
    if parts.is_empty() { "nothing that its pods are made of".to_owned() } else { parts.join(", ") }
}

fn limits(bounds: &Bounds) -> String {
    match bounds.at_most {
        Some(at_most) => format!("at most {at_most} pods, at least {} available", bounds.at_least),
        None => "as many pods as nodes".to_owned(),
    }
}

fn row(step: &Step, both: bool) -> Vec<Cell> {
    let (word, colour) = match step.act {
        RolloutEvent::Sized => ("sized", None),
        RolloutEvent::Created => ("created", Some(AnsiColor::Cyan)),
        RolloutEvent::Ready => ("ready", Some(AnsiColor::Green)),
        RolloutEvent::Available => ("available", Some(AnsiColor::Green)),
        RolloutEvent::NotReady => ("not ready", Some(AnsiColor::Red)),
        RolloutEvent::Failing => ("failing", Some(AnsiColor::Red)),
        RolloutEvent::Ended => ("ended", None),
        RolloutEvent::Deleted => ("deleted", Some(AnsiColor::Yellow)),
        RolloutEvent::Gone => ("gone", None),
        RolloutEvent::CanaryStep => ("canary", Some(AnsiColor::Cyan)),
        RolloutEvent::Failed => ("failed", Some(AnsiColor::Red)),
        RolloutEvent::TakenBack => ("taken back", Some(AnsiColor::Yellow)),
    };
    let shown = step.names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(" ");
    let more = step.names.len().saturating_sub(NAMES);
    let mut which = if more > 0 { format!("{shown} +{more}") } else { shown };
    match (&step.detail, step.act) {
        (Some(replicas), RolloutEvent::Sized) => which = format!("{which} to {replicas}"),
        (Some(detail), RolloutEvent::TakenBack) => which = format!("{which} {detail}"),
        (Some(detail), _) => which = format!("{which}: {detail}"),
        (None, _) => {}
    }
    let counts = &step.counts;
    let style = Style::new().fg_color(colour.map(Into::into));
    let mut cells = vec![moment(step.at).into(), Cell::styled(word, style), which.into()];
    if both {
        cells.push(format!("{}/{}", counts.old.ready, counts.old.pods).into());
        cells.push(format!("{}/{}", counts.new.ready, counts.new.pods).into());
    }
    cells.push(counts.pods().to_string().into());
    cells.push(counts.available().to_string().into());
    cells
}

fn when_it_failed(
    recording: &Recording,
    timeline: &Timeline,
    deadline: Option<i64>,
    condition: Option<&str>,
) -> String {
    let failed = timeline.steps.iter().find(|step| step.act == RolloutEvent::Failed);
    let counts = failed.map(|step| step.counts).unwrap_or_default();
    let when = deadline.map_or("Then".to_owned(), |seconds| format!("At the deadline of {seconds} s without progress"));
    let left = format!("{} old and {} new pods are available", counts.old.available, counts.new.available);
    let says = condition.map_or(String::new(), |condition| format!(", and it says {condition}"));
    let next = match (&recording.before, &recording.back) {
        (None, _) => "there is nothing to go back to",
        (Some(_), Some(_)) if deadline.is_none() => "belay takes it back to the version before",
        (Some(_), Some(_)) => "Kubernetes leaves it so; belay takes it back to the version before",
        (Some(_), None) => "Kubernetes leaves it so",
    };
    format!("{when}, {left}{says}; {next}.")
}

/// Returns true when the rollback was completed, with a sentence about it.
fn went_back(timeline: &Timeline, back: &Back) -> (bool, String) {
    let counts = timeline.moments.last().map(|moment| moment.counts).unwrap_or_default();
    let to = back.revision.map_or("the version before".to_owned(), |revision| format!("revision {revision}"));
    let took = moment(back.end.at().saturating_sub(back.began));
    let available = format!("{} old and {} new pods are available", counts.old.available, counts.new.available);
    match &back.end {
        SimulationEnd::Complete { .. } => (true, format!("Back on {to} after {took} more: {available}.")),
        SimulationEnd::Failed { reason, .. } | SimulationEnd::Stuck { reason, .. } => {
            (false, format!("The way back to {to} does not get on after {took}: {reason}; {available}."))
        }
        SimulationEnd::Unfinished { .. } => {
            (false, format!("The way back to {to} is not finished after {took}; {available}."))
        }
    }
}

/// Returns true for each bound that held, and the words for it.
fn verdicts(bounds: &Bounds) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let at = |extreme: Extreme| moment(extreme.at);
    if let Some(at_most) = bounds.at_most {
        let held = bounds.held_at_most();
        let text = if held {
            format!("Never more than {at_most} pods: at most there were {}, at {}.", bounds.most.pods, at(bounds.most))
        } else {
            format!("More than {at_most} pods: {} at {}.", bounds.most.pods, at(bounds.most))
        };
        found.push((held, text));
    }
    if bounds.at_least > 0 {
        let (held, least) = (bounds.held_at_least(), bounds.least);
        let text = if held {
            format!(
                "Never fewer than {} available: at least there were {}, at {}.",
                bounds.at_least,
                least.pods,
                at(least)
            )
        } else {
            format!(
                "Fewer than {} available: {} at {}. That is the pods' own doing, not the rollout's.",
                bounds.at_least,
                least.pods,
                at(least)
            )
        };
        found.push((held, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::moment;
    use std::time::Duration;

    #[test]
    fn moments_are_short() {
        let text = |millis| moment(Duration::from_millis(millis));
        assert_eq!(
            [text(0), text(1500), text(59_940), text(61_000), text(601_020), text(7_260_000)],
            ["0s", "1.5s", "59.9s", "1m01s", "10m01s", "2h01m"]
        );
    }
}
