//! Rows that line up, as wide as the terminal.

use anstyle::{AnsiColor, Style};

use super::{cut, plain, say, terminal_width, width};
use belay_core::rollout::{ObjectState, Outcome};

/// The number of blanks between two columns.
const GAP: usize = 3;

/// Rows that line up.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Row>,
    whole: Vec<String>,
    optional: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// The lines below it.
    below: Vec<String>,
}

/// One field of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Returns a field with a style.
    #[must_use]
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }
}

impl Cell {
    /// Returns the same field with more text.
    #[must_use]
    pub fn and(mut self, more: &str) -> Cell {
        self.text.push_str(more);
        self
    }

    /// Returns another text in the same style.
    #[must_use]
    pub fn saying(self, text: &str) -> Cell {
        Cell { text: plain(text), ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: plain(&text.into()), style: Style::new() }
    }
}

impl Table {
    /// Returns a table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Table {
        let cells = headings.iter().map(|heading| Cell::styled(*heading, Style::new().bold())).collect();
        Table { rows: vec![Row { cells, below: Vec::new() }], whole: Vec::new(), optional: Vec::new() }
    }

    /// Sets the columns with these headings that are never cut: people copy their text.
    #[must_use]
    pub fn whole(mut self, headings: &[&str]) -> Table {
        self.whole = headings.iter().map(|heading| (*heading).to_owned()).collect();
        self
    }

    /// Sets the columns with these headings that are left out if there is no room, the first of them first.
    #[must_use]
    pub fn optional(mut self, headings: &[&str]) -> Table {
        self.optional = headings.iter().map(|heading| (*heading).to_owned()).collect();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { cells: cells.into_iter().collect(), below: Vec::new() });
    }

    /// Adds a line below the last row.
    pub fn below(&mut self, line: String) {
        if let Some(row) = self.rows.last_mut() {
            row.below.push(line);
        }
    }

    /// Returns the lines: columns as wide as their widest field, [`GAP`] blanks between them, nothing after the last.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let of_row = |row: &Row| [line(&row.cells, &widths)].into_iter().chain(row.below.clone()).collect::<Vec<_>>();
        self.rows.iter().flat_map(of_row).collect()
    }

    /// Returns the lines, none of them wider than this as far as that can be. A text that is too wide is cut in the
    /// last column; then optional columns are left out; then a cell that must stay whole goes onto a line of its own;
    /// then the widest of the others are cut.
    #[must_use]
    pub fn lines_within(&self, limit: Option<usize>) -> Vec<String> {
        /// The least width of the last column before others have to give way.
        const ENOUGH: usize = 24;
        /// A column narrower than this says nothing any more; rather let the terminal wrap.
        const LEAST: usize = 7;
        let Some(limit) = limit else { return self.lines() };
        let mut table = self.clone();
        for line in table.rows.iter_mut().flat_map(|row| &mut row.below) {
            *line = cut(line, limit);
        }
        table.narrow(limit, ENOUGH, |column, count| column + 1 == count);
        for heading in &self.optional {
            if table.is_wider_than(limit) {
                table.take_column(heading);
            }
        }
        for heading in &self.whole {
            if table.is_wider_than(limit) {
                table.move_below(heading);
            }
        }
        table.narrow(limit, LEAST, |_, _| true);
        table.lines()
    }

    /// Cuts the columns that `may` be cut, given their index and number, the widest first, until all fits or each has
    /// only `least` left.
    fn narrow(&mut self, limit: usize, least: usize, may: impl Fn(usize, usize) -> bool) {
        let mut widths = self.widths();
        let is_whole: Vec<bool> = self.headings().map(|heading| self.whole.iter().any(|one| one == heading)).collect();
        let count = widths.len();
        while total(&widths) > limit {
            let may = |column: usize| !is_whole.get(column).copied().unwrap_or_default() && may(column, count);
            let widest = (0..count).filter(|column| may(*column)).max_by_key(|column| (widths[*column], *column));
            match widest {
                Some(column) if widths[column] > least => widths[column] -= 1,
                _ => break,
            }
        }
        for row in &mut self.rows {
            let cells = row.cells.iter_mut().zip(&widths).zip(&is_whole);
            cells
                .filter(|(_, is_whole)| !**is_whole)
                .for_each(|((cell, width), _)| cell.text = cut(&cell.text, *width));
        }
    }

    fn headings(&self) -> impl Iterator<Item = &str> {
        self.rows.first().into_iter().flat_map(|row| &row.cells).map(|cell| cell.text.as_str())
    }

    fn is_wider_than(&self, limit: usize) -> bool {
        total(&self.widths()) > limit
    }

    /// Takes a column out; returns its cells, row by row.
    fn take_column(&mut self, heading: &str) -> Vec<Option<Cell>> {
        let Some(column) = self.headings().position(|one| one == heading) else { return Vec::new() };
        let take = |row: &mut Row| (column < row.cells.len()).then(|| row.cells.remove(column));
        self.rows.iter_mut().map(take).collect()
    }

    /// Writes the cells of a column below each row.
    fn move_below(&mut self, heading: &str) {
        let cells = self.take_column(heading);
        for (row, cell) in self.rows.iter_mut().zip(cells).skip(1) {
            if let Some(cell) = cell {
                row.below.insert(0, format!("  {}", styled(&cell)));
            }
        }
    }

    /// Prints it, no wider than the terminal.
    pub fn say(&self) {
        self.lines_within(terminal_width()).iter().for_each(say);
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| width(&cell.text)).max()
        };
        (0..columns).map(|column| width(column).unwrap_or_default()).collect()
    }
}

/// Returns the total width of columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    for (column, cell) in row.iter().enumerate().take(last + 1) {
        line.push_str(&styled(cell));
        if column < last {
            line.push_str(&" ".repeat(widths[column] - width(&cell.text) + GAP));
        }
    }
    line
}

/// Returns an outcome in its colour.
#[must_use]
pub fn outcome(outcome: Outcome) -> Cell {
    state(outcome.state())
}

/// Returns a state in its colour.
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

/// Returns a field with its style around it.
#[must_use]
pub fn styled(cell: &Cell) -> String {
    format!("{}{}{}", cell.style.render(), cell.text, cell.style.render_reset())
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
    }

    #[test]
    fn names_are_never_cut() {
        let mut table = Table::new(&["COMMIT", "OBJECT", "OUTCOME", "AUTHOR", "SUBJECT"]);
        table = table.whole(&["OBJECT"]).optional(&["AUTHOR", "SUBJECT"]);
        let name = "Deployment default/a-name-of-thirty";
        table.row([
            "1a2b3c4".into(),
            name.into(),
            "rolled-back".into(),
            "Ada".into(),
            "A subject of some words".into(),
        ]);
        table.below("  └ why it went back, at some length".to_owned());
        let lines = |limit| -> Vec<String> {
            let lines = table.lines_within(Some(limit));
            lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
        };
        assert_eq!(lines(94)[1], format!("1a2b3c4   {name}   rolled-back   Ada      A subject of some words"));
        assert_eq!(lines(88)[1], format!("1a2b3c4   {name}   rolled-back   A subject of some words"));
        assert_eq!(lines(62)[1], format!("1a2b3c4   {name}   rolled-back"));
        let wrapped = [
            "COMMIT    OUTCOME",
            "1a2b3c4   rolled-back",
            &format!("  {name}"),
            "  └ why it went back, at some lengt…",
        ];
        assert_eq!(lines(35), wrapped.map(|line| cut(line, if line.contains('└') { 35 } else { 99 })));
        assert_eq!(lines(12)[2], format!("  {name}"));
    }

    #[test]
    fn nothing_from_elsewhere_steers_the_terminal() {
        let cell: Cell = "red \u{1b}[31m\r\n".into();
        assert_eq!(cell.text, "red \u{fffd}[31m\u{fffd}\u{fffd}");
    }
}
