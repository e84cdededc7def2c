//! What is printed: results on standard output, progress and errors on standard error; aligned tables; colour only on a
//! terminal.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use belay_core::rollout::{ObjectState, Outcome};

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An aligned table, for people.
    #[default]
    #[value(hide = true)]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// Prints a line of the result. A reader that has gone away (`belay history | head`) is not an error.
pub fn say(line: impl AsRef<str>) {
    let mut out = anstream::stdout().lock();
    if let Err(error) = writeln!(out, "{}", line.as_ref())
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// Prints a line about what is going on.
pub fn progress(line: impl AsRef<str>) {
    // Nobody is left to be told if standard error is gone.
    let _ = writeln!(anstream::stderr().lock(), "{}", line.as_ref());
}

/// How many columns the terminal has that results go to; `None` where they go to a file or a pipe, which has room for all.
#[must_use]
pub fn terminal_width() -> Option<usize> {
    const LEAST: usize = 40;
    let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width).max(LEAST))
}

/// How many lines the terminal has that results go to; as many as anybody wants where they go elsewhere.
#[must_use]
pub fn terminal_height() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(usize::MAX, |(_, terminal_size::Height(height))| usize::from(height).max(2))
}

/// How many columns running text may have: the terminal's, else 100.
#[must_use]
pub fn output_width() -> usize {
    terminal_width().unwrap_or(100)
}

/// An error with its causes, each said once: many errors name their cause in their own text.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A text from elsewhere (a log, an event, a message of the cluster) without what could steer a terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if belay_core::manifest::is_hidden(c) && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Prints a value as JSON or YAML.
///
/// # Errors
/// Where the value can't be written so.
pub fn say_value(value: &impl Serialize, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Yaml => serde_yaml::to_string(value)?,
        _ => serde_json::to_string_pretty(value)?,
    };
    say(text.trim_end());
    Ok(())
}

/// How many blanks stand between two columns.
const GAP: usize = 3;

/// Rows that line up.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

/// One field of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A field with a style.
    #[must_use]
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }
}

impl Cell {
    /// The same field with more text.
    #[must_use]
    pub fn and(mut self, more: &str) -> Cell {
        self.text.push_str(more);
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: plain(&text.into()), style: Style::new() }
    }
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|heading| Cell::styled(*heading, Style::new().bold())).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines: columns as wide as their widest field, [`GAP`] blanks between them, nothing after the last.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }

    /// The lines, none of them wider than this as far as that can be: what there is too much of goes from the last column,
    /// then from whichever is widest.
    #[must_use]
    pub fn lines_within(&self, limit: Option<usize>) -> Vec<String> {
        /// How narrow the last column becomes before others have to give way.
        const ENOUGH: usize = 24;
        /// A column narrower than this says nothing any more; rather let the terminal wrap.
        const LEAST: usize = 7;
        let Some(limit) = limit else { return self.lines() };
        let mut widths = self.widths();
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > limit {
            let widest = widths.iter().copied().max().unwrap_or_default();
            let give = |width: &mut usize| *width -= 1;
            match widths.last_mut() {
                Some(last) if *last > ENOUGH => give(last),
                _ if widest <= LEAST => break,
                _ => widths.iter_mut().rfind(|width| **width == widest).into_iter().for_each(give),
            }
        }
        let mut narrow = self.clone();
        for row in &mut narrow.rows {
            row.iter_mut().zip(&widths).for_each(|(cell, width)| cell.text = cut(&cell.text, *width));
        }
        narrow.lines()
    }

    /// Prints it, no wider than the terminal.
    pub fn say(&self) {
        self.lines_within(terminal_width()).iter().for_each(say);
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        (0..columns).map(|column| width(column).unwrap_or_default()).collect()
    }
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    for (column, cell) in row.iter().enumerate().take(last + 1) {
        // Writing to a String can't fail.
        let _ = write!(line, "{}{}{}", cell.style.render(), cell.text, cell.style.render_reset());
        if column < last {
            line.push_str(&" ".repeat(widths[column] - width(&cell.text) + GAP));
        }
    }
    line
}

/// How many columns of a terminal a text takes, near enough: control characters none, everything else one, wide scripts
/// two.
fn width(text: &str) -> usize {
    let wide = |c: char| matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    text.chars().map(|c| if c.is_control() { 0 } else { 1 + usize::from(wide(c)) }).sum()
}

/// An outcome in its colour.
#[must_use]
pub fn outcome(outcome: Outcome) -> Cell {
    state(outcome.state())
}

/// A state in its colour.
#[must_use]
pub fn state(state: ObjectState) -> Cell {
    use ObjectState::{
        Baking, Complete, Failed, Held, Orphaned, Pending, Progressing, Pruned, Rejected, RollbackFailed, RolledBack,
        RollingBack, Superseded, Suspended, Unchanged, Unknown, Waiting,
    };
    let colour = match state {
        Complete => Some(AnsiColor::Green),
        Failed | RolledBack | RollbackFailed | Rejected => Some(AnsiColor::Red),
        Held | Suspended | Waiting | RollingBack | Orphaned => Some(AnsiColor::Yellow),
        Progressing | Pending | Baking => Some(AnsiColor::Cyan),
        Superseded | Unchanged | Pruned | Unknown => None,
    };
    Cell::styled(state.word(), Style::new().fg_color(colour.map(Into::into)))
}

/// A field with its style around it.
#[must_use]
pub fn styled(cell: &Cell) -> String {
    format!("{}{}{}", cell.style.render(), cell.text, cell.style.render_reset())
}

/// How long something took, as kubectl writes ages: `45s`, `12m`, `3h5m`, `2d`.
#[must_use]
pub fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{}m{}s", seconds / 60, seconds % 60),
        120..10_800 => format!("{}m", seconds / 60),
        10_800..28_800 if seconds / 60 % 60 != 0 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        10_800..172_800 => format!("{}h", seconds / 3600),
        172_800..691_200 if seconds / 3600 % 24 != 0 => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
        172_800..63_072_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// How long ago something was.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then))
}

/// `1 file`, `3 files`.
#[must_use]
pub fn counted(count: impl PartialEq + From<u8> + Display, what: &str) -> String {
    if count == 1.into() { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A text that fits in `limit` columns; an ellipsis shows that it was cut.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut room = limit.saturating_sub(1);
    let fits = |c: &char| {
        let left = room.checked_sub(width(c.encode_utf8(&mut [0; 4])));
        room = left.unwrap_or_default();
        left.is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let mut table = Table::new(&["COMMIT", "OUTCOME", "WHY"]);
        table.row(["1a2b3c4".into(), "complete".into(), "".into()]);
        table.row(["5d6e7f8".into(), "rolled back".into(), "crash".into()]);
        let plain: Vec<String> =
            table.lines().iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(plain, ["COMMIT    OUTCOME       WHY", "1a2b3c4   complete", "5d6e7f8   rolled back   crash"]);
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let mut table = Table::new(&["COMMIT", "SUBJECT"]);
        table.row(["1a2b3c4".into(), "A subject that goes on and on and on".into()]);
        table.row([
            "5d6e7f8".into(),
            "\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}".into(),
        ]);
        for line in table.lines_within(Some(30)) {
            assert!(width(&anstream::adapter::strip_str(&line).to_string()) <= 30, "{line}");
        }
        assert_eq!(table.lines_within(None), table.lines());
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed to listen: {source}")]
        struct Listening {
            source: io::Error,
        }
        let error = anyhow::Error::new(Listening { source: io::Error::other("in use") });
        assert_eq!(with_causes(&error), "failed to listen: in use");
        assert_eq!(with_causes(&error.context("no page")), "no page: failed to listen: in use");
    }

    #[test]
    fn nothing_from_elsewhere_steers_the_terminal() {
        let cell: Cell = "red \u{1b}[31m\r\n".into();
        assert_eq!(cell.text, "red \u{fffd}[31m\u{fffd}\u{fffd}");
    }

    #[test]
    fn durations_read_like_kubectls_ages() {
        let text = |seconds| duration(SignedDuration::from_secs(seconds));
        assert_eq!(
            [text(0), text(119), text(150), text(600), text(3 * 3600 + 300), text(3 * 86_400)],
            ["0s", "119s", "2m30s", "10m", "3h5m", "3d"]
        );
    }
}
