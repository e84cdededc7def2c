//! The parameters of a request for a log.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::LogLine;

/// The wanted part of a log, and its form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Also lines that are written later, until the run ends.
    pub follow: bool,
    /// The run before the present one.
    pub previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<Timestamp>,
    bytes: Option<usize>,
}

impl Wanted {
    /// Reads a query.
    ///
    /// # Errors
    /// Fails with the wrong parameter.
    pub fn read(query: &str, now: Timestamp) -> Result<Wanted, String> {
        let mut parameters = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.insert(decode(name), decode(value));
        }
        let flag = |name: &str| match parameters.get(name).map(String::as_str) {
            None | Some("" | "false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(format!("{name}: {other:?} is neither true nor false")),
        };
        let number = |name: &str| match parameters.get(name).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse::<u32>().map(Some).map_err(|_| format!("{name}: {text:?} is not a number from 0")),
        };
        let size = |name: &str| Ok::<_, String>(number(name)?.and_then(|number| usize::try_from(number).ok()));
        let since = match (parameters.get("sinceTime"), number("sinceSeconds")?) {
            (Some(time), None) => Some(time.parse().map_err(|_| format!("sinceTime: {time:?} is not a time"))?),
            (None, Some(seconds)) => now.saturating_sub(SignedDuration::from_secs(seconds.into())).ok(),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("at most one of sinceTime and sinceSeconds may be given".to_owned()),
        };
        Ok(Wanted {
            follow: flag("follow")?,
            previous: flag("previous")?,
            timestamps: flag("timestamps")?,
            tail: size("tailLines")?,
            since,
            bytes: size("limitBytes")?,
        })
    }

    /// Returns the text of the present lines, from the beginning; [`Wanted::is_full`] reports a cut at its end.
    pub fn text(&mut self, lines: &[LogLine]) -> String {
        let recent = lines.iter().filter(|line| self.since.is_none_or(|since| line.at >= since));
        let recent: Vec<&LogLine> = recent.collect();
        // Only the first lines are cut to their tail.
        let tail = self.tail.take().unwrap_or(usize::MAX);
        let mut text = String::new();
        for line in &recent[recent.len().saturating_sub(tail)..] {
            if self.timestamps {
                text.push_str(&line.at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        if let Some(bytes) = &mut self.bytes {
            let mut end = text.len().min(*bytes);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            *bytes -= end;
        }
        text
    }

    /// Returns true when no more is wanted.
    pub fn is_full(&self) -> bool {
        self.bytes == Some(0)
    }
}

/// Returns a part of a URL without its escapes.
pub fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        (rest, _) = match (byte, escaped) {
            (b'%', Some(value)) => (&after[2..], bytes.push(value)),
            (b'+', _) => (after, bytes.push(b' ')),
            _ => (after, bytes.push(*byte)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Wanted, decode};
    use crate::LogLine;
    use jiff::Timestamp;

    fn lines() -> Vec<LogLine> {
        let line = |second, text: &str| LogLine { at: Timestamp::from_second(second).unwrap(), text: text.to_owned() };
        vec![line(10, "one"), line(20, "two"), line(30, "three")]
    }

    fn text(query: &str) -> String {
        Wanted::read(query, Timestamp::from_second(35).unwrap()).unwrap().text(&lines())
    }

    #[test]
    fn what_is_wanted_is_shown() {
        assert_eq!(text(""), "one\ntwo\nthree\n");
        assert_eq!(text("tailLines=1"), "three\n");
        assert_eq!(text("tailLines=0"), "");
        assert_eq!(text("sinceSeconds=15"), "two\nthree\n");
        assert_eq!(text("sinceTime=1970-01-01T00%3A00%3A30Z"), "three\n");
        assert_eq!(text("limitBytes=5"), "one\nt");
        assert_eq!(text("timestamps=true&tailLines=1"), "1970-01-01T00:00:30.000000000Z three\n");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for query in ["follow=maybe", "tailLines=-1", "sinceTime=noon", "sinceSeconds=1&sinceTime=1970-01-01T00:00:30Z"]
        {
            assert!(Wanted::read(query, Timestamp::UNIX_EPOCH).is_err(), "{query}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(decode("a%20b+c%3a%zz%2"), "a b c:%zz%2");
    }
}
