//! A rollout as a picture: a row for each pod, time from left to right, below it how many are available.

use std::collections::BTreeSet;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::bounds::Bounds;
use super::report::moment;
use super::timeline::{PodLife, Side, State, Timeline};

/// Rows at most; of more pods only some are shown.
const ROWS: usize = 40;
/// Columns of a name at most.
const NAME: usize = 28;
/// The eight heights of the row that counts.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the lines of the picture, at most `width` columns wide; none where nothing happens.
pub(super) fn lines(timeline: &Timeline, bounds: &Bounds, width: usize) -> Vec<String> {
    if timeline.steps.is_empty() || timeline.pods.is_empty() {
        return Vec::new();
    }
    let shown = shown(&timeline.pods);
    let name = shown.iter().map(|pod| pod.name.chars().count()).max().unwrap_or_default();
    let name = name.clamp("available".len(), NAME);
    let columns = width.saturating_sub(name + 2).max(10);
    let axis = Axis::of(timeline, columns);
    let mut lines = Vec::new();
    let mut side = None;
    for pod in shown.iter().copied() {
        if side != Some(pod.side) {
            let hidden = timeline.pods.iter().filter(|other| other.side == pod.side).count()
                - shown.iter().filter(|other| other.side == pod.side).count();
            lines.push(heading(pod.side, hidden));
            side = Some(pod.side);
        }
        lines.push(format!("{:name$}  {}", end_of(&pod.name, name), row(pod, &axis)).trim_end().to_owned());
    }
    lines.push(format!("{:name$}  {}", "available", heights(timeline, bounds, &axis)));
    lines.push(format!("{:name$}  {}", "", axis.labels()));
    lines.push(format!("{:name$}  {}", "", legend(timeline)));
    lines
}

/// Returns all pods, or as many of each side as there is room for, evenly spread.
fn shown(pods: &[PodLife]) -> Vec<&PodLife> {
    if pods.len() <= ROWS {
        return pods.iter().collect();
    }
    let mut shown = Vec::new();
    for side in [Side::Old, Side::New] {
        let all: Vec<&PodLife> = pods.iter().filter(|pod| pod.side == side).collect();
        let room = (ROWS / 2).min(all.len());
        shown.extend((0..room).map(|index| all[index * all.len() / room]));
    }
    shown
}

fn heading(side: Side, hidden: usize) -> String {
    let bold = Style::new().bold();
    let what = if side == Side::Old { "old" } else { "new" };
    match hidden {
        0 => format!("{bold}{what}{bold:#}"),
        hidden => format!("{bold}{what}{bold:#} ({hidden} more are not shown)"),
    }
}

/// Returns the end of a name, by which pods of one set differ.
fn end_of(name: &str, limit: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= limit {
        return name.to_owned();
    }
    ['…'].into_iter().chain(letters[letters.len() - limit + 1..].iter().copied()).collect()
}

fn row(pod: &PodLife, axis: &Axis) -> String {
    let mut row = String::new();
    let mut style = Style::new();
    let is_there = |column: &usize| !matches!(axis.state(pod, *column), None | Some(State::Gone));
    let columns = (0..axis.columns()).rev().find(is_there).map_or(0, |last| last + 1);
    for column in 0..columns {
        let (glyph, wanted) = glyph(axis.state(pod, column));
        if wanted != style {
            row.push_str(&format!("{}{}", style.render_reset(), wanted.render()));
            style = wanted;
        }
        row.push(glyph);
    }
    row.push_str(&style.render_reset().to_string());
    row
}

fn glyph(state: Option<State>) -> (char, Style) {
    let paint = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match state {
        None | Some(State::Gone) => (' ', Style::new()),
        Some(State::Starting) => ('░', paint(AnsiColor::Cyan)),
        Some(State::Failing) => ('x', paint(AnsiColor::Red)),
        Some(State::Ready) => ('▒', paint(AnsiColor::Green)),
        Some(State::Available) => ('█', paint(AnsiColor::Green)),
        Some(State::Stopping) => ('-', paint(AnsiColor::Yellow)),
        Some(State::Ended) => ('.', Style::new()),
    }
}

/// Draws how many are available: a digit if it fits, else a height.
fn heights(timeline: &Timeline, bounds: &Bounds, axis: &Axis) -> String {
    let top = timeline.moments.iter().map(|moment| moment.counts.available()).max().unwrap_or_default();
    let top = top.max(bounds.at_least).max(1);
    let of = |column: usize| {
        let (from, upto) = axis.span(column);
        let within = timeline.moments.iter().filter(|moment| moment.at > from && moment.at < upto);
        let at_start = timeline.moments.iter().take_while(|moment| moment.at <= from).last();
        // The fewest of a column: users notice the minimum.
        at_start.into_iter().chain(within).map(|moment| moment.counts.available()).min().unwrap_or_default()
    };
    let letter = |available: u64| {
        if top < 10 {
            return char::from_digit(u32::try_from(available).unwrap_or(0), 10).unwrap_or('?');
        }
        match available {
            0 => '·',
            some => HEIGHTS[usize::try_from((some * 8).div_ceil(top).clamp(1, 8) - 1).unwrap_or(0)],
        }
    };
    (0..axis.columns()).map(|column| letter(of(column))).collect()
}

fn legend(timeline: &Timeline) -> String {
    let seen = |state: State| timeline.pods.iter().any(|pod| pod.states.iter().any(|(_, seen)| *seen == state));
    let entries = [
        (State::Starting, "starting"),
        (State::Failing, "failing"),
        (State::Ready, "ready"),
        (State::Available, "available"),
        (State::Stopping, "stopping"),
        (State::Ended, "ended"),
    ];
    let shown = entries.iter().filter(|(state, _)| seen(*state)).map(|(state, word)| {
        let (glyph, style) = glyph(Some(*state));
        format!("{style}{glyph}{style:#} {word}")
    });
    shown.collect::<Vec<_>>().join("  ")
}

/// Time from left to right. If most of it passes without any event, the events get room nevertheless: the width of a
/// stretch grows with the logarithm of its length.
struct Axis {
    /// The beginning of each column, and the end of the last.
    edges: Vec<Duration>,
    /// The columns with an event, and the time of the first event in each.
    marks: Vec<(usize, Duration)>,
}

impl Axis {
    fn of(timeline: &Timeline, columns: usize) -> Axis {
        let changes = timeline.pods.iter().flat_map(|pod| pod.states.iter().map(|(at, _)| *at));
        let mut moments: BTreeSet<Duration> = changes.collect();
        moments.extend([Duration::ZERO, timeline.over]);
        let last = moments.last().copied().unwrap_or_default();
        // The last state should be seen to last.
        let end = timeline.length.max(last + (last / 8).max(Duration::from_millis(500)));
        let even = end / u32::try_from(columns).unwrap_or(u32::MAX);
        let moments: Vec<Duration> = moments.into_iter().collect();
        let shortest = moments.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(end);
        let edges: Vec<Duration> = if shortest >= even || moments.len() > columns {
            (0..=columns).map(|column| even * u32::try_from(column).unwrap_or(u32::MAX)).collect()
        } else {
            uneven(&moments, end, columns)
        };
        let mut marks: Vec<(usize, Duration)> = Vec::new();
        for at in moments {
            let column = edges.partition_point(|edge| *edge <= at).saturating_sub(1);
            if column + 1 < edges.len() && marks.last().is_none_or(|(last, _)| *last < column) {
                marks.push((column, at));
            }
        }
        Axis { edges, marks }
    }

    fn columns(&self) -> usize {
        self.edges.len() - 1
    }

    fn span(&self, column: usize) -> (Duration, Duration) {
        (self.edges[column], self.edges[column + 1])
    }

    /// Returns the state of a pod at the end of a column.
    fn state(&self, pod: &PodLife, column: usize) -> Option<State> {
        let (_, upto) = self.span(column);
        pod.states.iter().take_while(|(at, _)| *at < upto).last().map(|(_, state)| *state)
    }

    /// Returns the times of events, if there is room to write them.
    fn labels(&self) -> String {
        let mut line = String::new();
        let mut next = 0;
        for (column, at) in &self.marks {
            let text = format!("╵{}", moment(*at));
            let end = column + text.chars().count();
            if *column >= next && end <= self.columns() {
                line.push_str(&" ".repeat(column - line.chars().count()));
                line.push_str(&text);
                next = end + 1;
            }
        }
        line
    }
}

/// Columns for stretches between moments: one each, the others by the logarithm of their lengths.
fn uneven(moments: &[Duration], end: Duration, columns: usize) -> Vec<Duration> {
    let stretches: Vec<(Duration, Duration)> =
        moments.iter().copied().zip(moments.iter().skip(1).copied().chain([end])).collect();
    let weight = |from: Duration, upto: Duration| (1.0 + (upto - from).as_secs_f64() * 4.0).ln();
    let total: f64 = stretches.iter().map(|(from, upto)| weight(*from, *upto)).sum();
    let spare = columns.saturating_sub(stretches.len());
    let mut edges = Vec::with_capacity(columns + 1);
    let (mut given, mut reached) = (0, 0.0);
    for (from, upto) in stretches {
        reached += weight(from, upto);
        // Rounded so that all spare columns are given in the end.
        let so_far = if total > 0.0 { (reached / total * spare as f64).round() as usize } else { 0 };
        let own = 1 + so_far.saturating_sub(given);
        given = so_far.max(given);
        let step = (upto - from) / u32::try_from(own).unwrap_or(u32::MAX);
        edges.extend((0..own).map(|column| from + step * u32::try_from(column).unwrap_or(u32::MAX)));
    }
    edges.push(end);
    edges
}
