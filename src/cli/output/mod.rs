//! The output: results on standard output, progress and errors on standard error; aligned tables; colour only on a
//! terminal.

pub(in crate::cli) mod activity;
pub(in crate::cli) mod answer;
pub(in crate::cli) mod diff;
pub(in crate::cli) mod progress;
pub(in crate::cli) mod table;
pub(in crate::cli) mod unified;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::telemetry::clear_line;
use belay_core::manifest::is_hidden;
use belay_core::manifest::yaml::to_text;

/// The format of a result.
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
    clear_line();
    let line = for_output(line.as_ref(), io::stdout().is_terminal());
    let mut out = anstream::stdout().lock();
    if let Err(error) = writeln!(out, "{line}")
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// Prints a line of progress.
pub fn progress(line: impl AsRef<str>) {
    clear_line();
    let line = for_output(line.as_ref(), io::stderr().is_terminal());
    // Nobody is left to be told if standard error is gone.
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Returns a text as it is printed: on a terminal without characters that could steer it or hide text, apart from colours.
fn for_output(text: &str, on_terminal: bool) -> Cow<'_, str> {
    let is_written = |c: char| !is_hidden(c) || c == '\n' || c == '\t';
    if !on_terminal || text.chars().all(is_written) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = colour(rest).unwrap_or(c.len_utf8());
        let (one, behind) = rest.split_at(taken);
        shown.push_str(if taken > 1 && c == '\x1b' || is_written(c) { one } else { "\u{fffd}" });
        rest = behind;
    }
    shown.into()
}

/// Returns the length of the sequence that sets a colour at the beginning of a text.
fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// Returns how many columns the terminal has that results go to; `None` if they go to a file or a pipe, which has room
/// for all.
#[must_use]
pub fn terminal_width() -> Option<usize> {
    const LEAST: usize = 40;
    let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width).max(LEAST))
}

/// Returns how many lines the terminal has that results go to; as many as anybody wants if they go elsewhere.
#[must_use]
pub fn terminal_height() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(usize::MAX, |(_, terminal_size::Height(height))| usize::from(height).max(2))
}

/// Returns how many columns running text may have: the terminal's, else 100.
#[must_use]
pub fn output_width() -> usize {
    terminal_width().unwrap_or(100)
}

/// Returns an error with its causes, each said once: many errors name their cause in their own text.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) && !text.contains(&format!(": {cause};")) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns a text from elsewhere (a log, an event, a message of the cluster) without control characters that could
/// steer a terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Prints data: as it is for programs, and on a terminal without characters that could steer it or hide text.
pub fn say_data(text: &str) {
    // Colours of its own it has none.
    let shown = || text.split('\n').map(plain).collect::<Vec<_>>().join("\n");
    if io::stdout().is_terminal() { say(shown()) } else { say(text) }
}

/// Prints a value as JSON or YAML.
///
/// # Errors
/// Fails when the value has no such form.
pub fn say_value(value: &impl Serialize, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Yaml => to_text(value)?,
        _ => serde_json::to_string_pretty(value)?,
    };
    say_data(text.trim_end());
    Ok(())
}

/// Returns the approximate number of columns of a terminal that a text takes: control characters none, everything else
/// one, wide scripts two.
pub(super) fn width(text: &str) -> usize {
    let wide = |c: char| matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    text.chars().map(|c| if c.is_control() { 0 } else { 1 + usize::from(wide(c)) }).sum()
}

/// Formats a duration as kubectl writes ages: `45s`, `12m`, `3h5m`, `2d`.
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

/// Formats an age.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then))
}

/// Returns `1 file`, `3 files`.
#[must_use]
pub fn counted(count: impl PartialEq + From<u8> + Display, what: &str) -> String {
    if count == 1.into() { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Returns a text that fits in `limit` columns; an ellipsis shows that it was cut.
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
    fn what_is_too_long_is_cut() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn a_terminal_is_steered_by_colours_alone() {
        let coloured = "\x1b[1;32mweb\x1b[0m\tis\nnew";
        assert_eq!(for_output(coloured, true), coloured);
        let hostile = "a\u{202e}b\x1b[2Jc\x1b]0;d\x07e\x1b[31mf\u{200b}\rg\x1b[1";
        assert_eq!(for_output(hostile, false), hostile, "data for programs is as it is");
        let shown = "a\u{fffd}b\u{fffd}[2Jc\u{fffd}]0;d\u{fffd}e\x1b[31mf\u{fffd}\u{fffd}g\u{fffd}[1";
        assert_eq!(for_output(hostile, true), shown);
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
        // Advice may stand behind the cause.
        let advised =
            anyhow::Error::new(io::Error::other("in use")).context("failed to listen: in use; take another port");
        assert_eq!(with_causes(&advised), "failed to listen: in use; take another port");
        let other = anyhow::Error::new(io::Error::other("page")).context("no page; try again");
        assert_eq!(with_causes(&other), "no page; try again: page");
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
