//! What is printed: results on standard output, progress and errors on standard error; aligned tables; colour only on a
//! terminal.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::rollout::Outcome;

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

/// How many columns results may have: what the terminal has, as far as the environment tells, else 100.
#[must_use]
pub fn output_width() -> usize {
    const OTHERWISE: usize = 100;
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.filter(|columns| *columns >= 40).unwrap_or(OTHERWISE)
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

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), style: Style::new() }
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

    /// The lines: columns as wide as their widest field, three blanks between them, nothing after the last.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }

    /// Prints it.
    pub fn say(&self) {
        self.lines().iter().for_each(say);
    }
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    for (column, cell) in row.iter().enumerate().take(last + 1) {
        // Writing to a String can't fail.
        let _ = write!(line, "{}{}{}", cell.style.render(), cell.text, cell.style.render_reset());
        if column < last {
            line.push_str(&" ".repeat(widths[column] - width(&cell.text) + 3));
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
    let colour = match outcome {
        Outcome::Complete => Some(AnsiColor::Green),
        Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Rejected => Some(AnsiColor::Red),
        Outcome::Held | Outcome::Suspended | Outcome::RollingBack => Some(AnsiColor::Yellow),
        Outcome::UnderWay | Outcome::Planned => Some(AnsiColor::Cyan),
        Outcome::Superseded | Outcome::Unchanged | Outcome::Pruned => None,
    };
    Cell::styled(outcome.word(), Style::new().fg_color(colour.map(Into::into)))
}

/// The style of a workload's state.
#[must_use]
pub fn state_style(state: &str) -> Style {
    let colour = match state {
        "complete" => Some(AnsiColor::Green),
        "failed" => Some(AnsiColor::Red),
        "held" | "rolling back" | "suspended" | "paused" => Some(AnsiColor::Yellow),
        "under way" => Some(AnsiColor::Cyan),
        _ => None,
    };
    Style::new().fg_color(colour.map(Into::into))
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

/// A text that fits in `limit` columns; an ellipsis shows that it was cut.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        text.to_owned()
    } else {
        text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
    }
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
    fn durations_read_like_kubectls_ages() {
        let text = |seconds| duration(SignedDuration::from_secs(seconds));
        assert_eq!(
            [text(0), text(119), text(150), text(600), text(3 * 3600 + 300), text(3 * 86_400)],
            ["0s", "119s", "2m30s", "10m", "3h5m", "3d"]
        );
    }
}
