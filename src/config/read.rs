//! Reading a configuration with all of its errors: an entry with an error is taken out, and the rest is read on.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize as _;
use toml::Deserializer;
use toml::de::{DeArray, DeTable, DeValue};

use super::Config;
use super::nearest::{position, with_nearest};

/// The most errors that are told at once.
const MOST: usize = 20;

/// An error in the text.
#[derive(Debug)]
pub(super) struct SyntaxError {
    /// The line and column, if they are known.
    pub at: Option<(usize, usize)>,
    /// The error, with the nearest known word.
    pub message: String,
}

/// The entries that were taken out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenOut {
    /// The numbers of the sources that lack some of what they say.
    pub sources: BTreeSet<usize>,
    /// The numbers of the receivers that lack some of what they say.
    pub receivers: BTreeSet<usize>,
    /// The numbers of the analyses that lack some of what they say.
    pub analyses: BTreeSet<usize>,
    /// True when `[web]` lacks some of what it says.
    pub web: bool,
    /// True when a whole source is missing, the name of one, of a receiver or of an analysis, or a section that is not known.
    pub names: bool,
}

/// The content of a text, and its errors.
#[derive(Debug)]
pub(super) struct ReadConfig {
    /// The configuration without the entries that have errors; `None` if too little is left.
    pub config: Option<Config>,
    pub errors: Vec<SyntaxError>,
    pub taken_out: TakenOut,
}

/// Reads a text.
pub(super) fn read(text: &str) -> ReadConfig {
    let (mut document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        let errors = syntax.iter().take(MOST).map(|error| located(text, error)).collect();
        return ReadConfig { config: None, errors, taken_out: TakenOut::default() };
    }
    let (mut errors, mut taken_out, mut names) = (Vec::new(), TakenOut::default(), BTreeSet::new());
    for _ in 0..MOST {
        let error = match Config::deserialize(Deserializer::from(document.clone())) {
            Ok(config) => return sorted(ReadConfig { config: Some(config), errors, taken_out }),
            Err(error) => error,
        };
        if !follows(error.message(), &names, &errors) {
            errors.push(located(text, &error));
        }
        let span = error.span().unwrap_or_default();
        let Some(name) = taken_out.take(document.get_mut(), &span) else { break };
        names.insert(name);
    }
    sorted(ReadConfig { config: None, errors, taken_out })
}

/// Returns true when an error is there only because an entry was taken out, or is misspelled.
fn follows(message: &str, taken: &BTreeSet<String>, errors: &[SyntaxError]) -> bool {
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    missing.is_some_and(|missing| {
        let meant = format!("did you mean {missing:?}?");
        taken.contains(missing) || errors.iter().any(|error| error.message.ends_with(&meant))
    })
}

fn located(text: &str, error: &toml::de::Error) -> SyntaxError {
    SyntaxError { at: position(text, error), message: with_nearest(error.message()) }
}

fn sorted(mut read: ReadConfig) -> ReadConfig {
    read.errors.sort_by_key(|error| error.at);
    read
}

impl TakenOut {
    /// Takes out the innermost entry that an error is about. Returns its name; `None` if there is no such entry.
    fn take(&mut self, document: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
        for (section, value) in document.iter_mut() {
            let DeValue::Table(table) = value.get_mut() else { continue };
            if let Some(name) = take_from(table, span) {
                self.web |= section.get_ref() == "web";
                return Some(name);
            }
        }
        for (section, taken) in
            [("source", &mut self.sources), ("notify", &mut self.receivers), ("analysis", &mut self.analyses)]
        {
            let Some(DeValue::Array(items)) = document.get_mut(section).map(|value| value.get_mut()) else { continue };
            for (number, item) in items.iter_mut().enumerate() {
                let DeValue::Table(table) = item.get_mut() else { continue };
                if let Some(name) = take_from(table, span) {
                    taken.insert(number);
                    self.names |= name == "name";
                    return Some(name);
                }
            }
        }
        let receivers = receivers(document);
        let taken = take_from(document, span);
        if receivers == self::receivers(document) {
            self.names = true;
        } else {
            // The numbers of those behind it have changed.
            self.receivers.extend(0..receivers);
        }
        taken
    }
}

fn receivers(document: &DeTable<'_>) -> usize {
    document.get("notify").and_then(|value| value.get_ref().as_array()).map_or(0, |items| items.len())
}

/// Takes the innermost entry out of a table, or out of those in it.
fn take_from(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    for (_, value) in table.iter_mut() {
        let taken = match value.get_mut() {
            DeValue::Table(inner) => take_from(inner, span),
            DeValue::Array(items) => take_from_items(items, span),
            _ => None,
        };
        if taken.is_some() {
            return taken;
        }
    }
    let covers = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let (name, _) = table.iter().find(|(key, value)| covers(key.span()) || covers(value.span()))?;
    let name = name.get_ref().to_string();
    table.remove(name.as_str());
    Some(name)
}

/// Takes an entry out of the tables of an array, or a whole table.
fn take_from_items(items: &mut DeArray<'_>, span: &Range<usize>) -> Option<String> {
    for item in items.iter_mut() {
        if let DeValue::Table(table) = item.get_mut()
            && let Some(taken) = take_from(table, span)
        {
            return Some(taken);
        }
    }
    let is_table = |at: usize| items.get(at).is_some_and(|item| item.get_ref().is_table());
    let at = items.iter().position(|item| item.span() == *span).filter(|at| is_table(*at))?;
    let all = std::mem::replace(items, DeArray::new());
    *items = all.into_iter().enumerate().filter(|(number, _)| *number != at).map(|(_, item)| item).collect();
    Some(String::new())
}
