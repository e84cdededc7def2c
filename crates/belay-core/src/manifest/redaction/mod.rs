//! Takes values that may be secret out of a program's message about them.
//!
//! The text that is shown is bounded, the files that values come from are not known beforehand. So the pieces of the
//! text are looked up, and values stream past: the memory is a multiple of the text's, and the time that of reading the
//! values.

mod chart;
#[cfg(test)]
mod file_tests;
mod files;
mod kustomization;
mod named_templates;
mod secret_values;
mod secrets;
mod template;
#[cfg(test)]
mod tests;
mod tool_words;

use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use files::FileContent;
pub use kustomization::{NamedFiles, files_of_kustomization};
pub use named_templates::ChartTemplates;
pub use secret_values::may_be_secret;
pub use secrets::{short_keys, without_values};
use tool_words::TOOL_WORDS;

/// The replacement for a value.
const MASK: &str = "***";
/// The length of a piece of a value that gives it away, in bytes.
const PIECE: usize = 8;
/// The shortest value that is hidden also if it is a part of a word, in bytes.
const WITHIN_WORDS: usize = 5;
/// The shortest beginning of a value that is hidden before `...`: programs cut their quotes.
const BEGINNING: usize = 3;
/// The most of a text that is kept, in bytes: its beginning and its end.
const KEPT: usize = 16 << 10;
/// The number of lines of one value that are hidden by themselves.
const LINES: usize = 100_000;
/// The longest number that is looked for in other forms, in bytes.
const LONGEST_NUMBER: usize = 40;
/// The fewest numbers in a row that are taken for the bytes of a text.
const FEWEST_BYTES: usize = 4;

/// How certain it is that a value is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It may be: a short one is hidden only as a word of its own, and a number of few digits or a word of the tools not at all.
    Possible,
    /// It is likely: hidden however short it is, but for words of the tools, and names of charts where they stand by themselves.
    Likely,
    /// It is a Secret's: hidden however short it is.
    Certain,
}

/// The places at which a piece of the text is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PiecePlace {
    Anywhere,
    /// As a word, or as several.
    Word,
    /// Before `...`.
    BeforeDots,
}

type Piece = (PiecePlace, u8, u64);

/// The places of a piece.
#[derive(Debug, Default)]
struct Found {
    at: Vec<u32>,
    /// The certainty with which it is part of a value, as far as it is known.
    hidden: Option<Certainty>,
}

/// A text from which values are taken out.
#[derive(Debug)]
pub struct Redaction {
    text: String,
    /// The certainty, of each byte, that it is part of a value.
    hidden: Vec<Option<Certainty>>,
    /// The beginnings of the pieces of the text that have not been hidden yet, or that only may be part of a value.
    pieces: HashMap<Piece, Found>,
    /// Names that are no values, as a chart's.
    names: BTreeSet<String>,
    /// Bits of the hashes of the pieces: most values have no piece in common with the text.
    filter: Vec<u64>,
    /// The number of pieces of values that were looked up.
    steps: u64,
}

impl Redaction {
    /// Returns a text from which nothing is taken out yet. A long text is shortened to its beginning and its end.
    #[must_use]
    pub fn of(text: &str) -> Redaction {
        let (text, gap) = bounded(text);
        let mut redaction = Redaction {
            hidden: vec![None; text.len()],
            text,
            pieces: HashMap::new(),
            names: BTreeSet::new(),
            filter: vec![0; 1024],
            steps: 0,
        };
        if let Some(at) = gap {
            // A value that was cut there is none that could be found.
            let (from, to) = (at.saturating_sub(KEPT / 8), (at + KEPT / 8).min(redaction.hidden.len()));
            redaction.hidden[from..to].fill(Some(Certainty::Certain));
        }
        redaction.hide_bytes_as_numbers();
        redaction.note_pieces();
        redaction
    }

    /// Returns the number of pieces of values that were looked up.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Hides lists of numbers, as `[112 119 61]`: programs written in Go print bytes so that are no text.
    fn hide_bytes_as_numbers(&mut self) {
        let mut run: Option<(usize, usize)> = None;
        let mut at = 0;
        for word in self.text.split(' ') {
            let (from, to) = (at, at + word.len());
            at = to + 1;
            let begins = word
                .rfind(|c: char| !c.is_ascii_digit())
                .map_or(0, |other| other + word[other..].chars().next().map_or(1, char::len_utf8));
            let ends = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
            let is_byte = |digits: &str| digits.parse::<u8>().is_ok();
            let (opens, goes_on) = (is_byte(&word[begins..]), is_byte(&word[..ends]));
            if let Some((first, count)) = run.filter(|_| goes_on) {
                if count + 1 >= FEWEST_BYTES {
                    self.hidden[first..from + ends].fill(Some(Certainty::Certain));
                }
                run = (ends == word.len()).then_some((first, count + 1));
            } else {
                run = None;
            }
            if run.is_none() && opens {
                run = Some((from + begins, 1));
            }
        }
    }

    fn note_pieces(&mut self) {
        let text = std::mem::take(&mut self.text);
        let bytes = text.as_bytes();
        for at in 0..bytes.len() {
            for length in 1..=PIECE.min(bytes.len() - at) {
                let key = key(&bytes[at..at + length]);
                let mut note = |standing| self.note((standing, narrow(length), key), at);
                if length >= WITHIN_WORDS {
                    note(PiecePlace::Anywhere);
                }
                if length < PIECE && is_word(bytes, at, length) {
                    note(PiecePlace::Word);
                }
                if (BEGINNING..PIECE).contains(&length) && is_cut(&bytes[at + length..]) {
                    note(PiecePlace::BeforeDots);
                }
            }
        }
        self.text = text;
    }

    fn note(&mut self, piece: Piece, at: usize) {
        let (word, bit) = filter_bit(piece);
        self.filter[word] |= bit;
        self.pieces.entry(piece).or_default().at.push(u32::try_from(at).unwrap_or(u32::MAX));
    }

    /// Hides a value, and forms of it that programs print: its lines, escaped, in base64.
    pub fn hide(&mut self, value: &str, certainty: Certainty) {
        let value = value.trim();
        if certainty < Certainty::Certain && TOOL_WORDS.contains(&value.to_ascii_lowercase().as_str()) {
            return;
        }
        self.hide_form(value.as_bytes(), certainty);
        if value.contains(char::REPLACEMENT_CHARACTER) {
            // Programs write a byte that is no text in another way.
            let parts = value.split(char::REPLACEMENT_CHARACTER).take(LINES);
            parts.filter(|part| !part.is_empty()).for_each(|part| self.hide_form(part.as_bytes(), certainty));
        }
        if value.len() < WITHIN_WORDS {
            return;
        }
        if value.len() <= LONGEST_NUMBER && value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        {
            forms_of_number(value).into_iter().for_each(|form| self.hide_form(form.as_bytes(), certainty));
        }
        if value.contains('\n') {
            value.lines().take(LINES).for_each(|line| self.hide_form(line.trim().as_bytes(), certainty));
        }
        if value.contains(|c: char| c.is_control() || matches!(c, '"' | '\\' | '<' | '>' | '&')) {
            let escaped = serde_json::Value::from(value).to_string();
            let escaped = &escaped[1..escaped.len() - 1];
            self.hide_form(escaped.as_bytes(), certainty);
            let of_html = escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            self.hide_form(of_html.as_bytes(), certainty);
        }
        self.hide_base64(value.as_bytes(), certainty);
    }

    /// Hides a value in base64, also as a part of a longer text.
    fn hide_base64(&mut self, value: &[u8], certainty: Certainty) {
        for before in 0..3_usize {
            let mut padded = vec![0; before];
            padded.extend_from_slice(value);
            let encoded = STANDARD.encode(&padded);
            // Characters that bytes beside the value have a part in.
            let begin = (before * 8).div_ceil(6);
            let end = padded.len() * 8 / 6;
            self.hide_form(encoded.as_bytes().get(begin..end).unwrap_or_default(), certainty);
            if before == 0 {
                self.hide_form(encoded.as_bytes(), certainty);
            }
        }
    }

    fn hide_form(&mut self, value: &[u8], certainty: Certainty) {
        let length = value.len();
        if length >= PIECE {
            value.windows(PIECE).for_each(|piece| self.hide_piece(PiecePlace::Anywhere, piece, certainty));
        } else if length >= WITHIN_WORDS && certainty > Certainty::Possible {
            self.hide_piece(PiecePlace::Anywhere, value, certainty);
        } else if length > 0 {
            let few_digits = length < WITHIN_WORDS && value.iter().all(u8::is_ascii_digit);
            if certainty > Certainty::Possible || !few_digits {
                self.hide_piece(PiecePlace::Word, value, certainty);
            }
        }
        for beginning in BEGINNING..PIECE.min(length) {
            self.hide_piece(PiecePlace::BeforeDots, &value[..beginning], certainty);
        }
    }

    fn hide_piece(&mut self, standing: PiecePlace, piece: &[u8], certainty: Certainty) {
        self.steps += 1;
        let wanted = (standing, narrow(piece.len()), key(piece));
        let (word, bit) = filter_bit(wanted);
        if self.filter[word] & bit == 0 {
            return;
        }
        // Each is found once for each certainty: the time does not grow with what is repeated.
        let hide = |hidden: &mut [Option<Certainty>], found: &Found| {
            for at in found.at.iter().map(|at| *at as usize) {
                hidden[at..at + piece.len()].iter_mut().for_each(|byte| *byte = (*byte).max(Some(certainty)));
            }
        };
        if certainty == Certainty::Certain {
            if let Some(found) = self.pieces.remove(&wanted) {
                hide(&mut self.hidden, &found);
            }
        } else if let Some(found) = self.pieces.get_mut(&wanted).filter(|found| found.hidden < Some(certainty)) {
            found.hidden = Some(certainty);
            hide(&mut self.hidden, found);
        }
    }

    /// Shows a name that everybody may read, as a word of its own, but where it is certainly a value.
    pub fn show_name(&mut self, name: &str) {
        if !name.is_empty() && self.text.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    fn show_names(&mut self) {
        let joins = |byte: &u8| joins(*byte) || matches!(byte, b'-' | b'_');
        for name in std::mem::take(&mut self.names) {
            for (at, _) in self.text.match_indices(&name) {
                let end = at + name.len();
                let (before, after) = (&self.text.as_bytes()[..at], &self.text.as_bytes()[end..]);
                let alone = !before.last().is_some_and(joins) && !after.first().is_some_and(joins);
                let hidden = &mut self.hidden[at..end];
                if alone && !hidden.contains(&Some(Certainty::Certain)) {
                    hidden.fill(None);
                }
            }
        }
    }

    /// Returns the words of the text that may be paths, without their surroundings, the longest first.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let parts = self.text.split(|c: char| c.is_whitespace() || "\"'`()[]<>,:=".contains(c));
        let mut words: Vec<String> = parts.filter(|word| word.contains(['/', '.'])).map(str::to_owned).collect();
        words.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        words.dedup();
        words
    }

    /// Returns the text without the values. Words that `is_place` holds to be a place of the repository are shown all
    /// the same.
    #[must_use]
    pub fn finish(mut self, mut is_place: impl FnMut(&str) -> bool) -> String {
        self.show_names();
        for word in self.words() {
            let hidden = |(at, _): &(usize, &str)| self.hidden[*at..*at + word.len()].iter().any(Option::is_some);
            let found: Vec<usize> = self.text.match_indices(&word).filter(hidden).map(|(at, _)| at).collect();
            if !found.is_empty() && is_place(&word) {
                found.into_iter().for_each(|at| self.hidden[at..at + word.len()].fill(None));
            }
        }
        let mut shown = String::with_capacity(self.text.len());
        let mut before = false;
        for (at, c) in self.text.char_indices() {
            let now = self.hidden[at..at + c.len_utf8()].iter().any(Option::is_some);
            match (before, now) {
                (_, false) => shown.push(c),
                (false, true) => shown.push_str(MASK),
                (true, true) => {}
            }
            before = now;
        }
        shown
    }
}

/// Returns the forms in which programs print a number that they take for a float: its digits before an exponent, and in groups.
fn forms_of_number(value: &str) -> Vec<String> {
    let Some(number) = value.parse::<f64>().ok().filter(|number| number.is_finite()) else { return Vec::new() };
    let digits = format!("{:e}", number.abs());
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let mut forms = Vec::new();
    if let Ok(exponent) = exponent.parse::<i32>() {
        let sign = if exponent < 0 { '-' } else { '+' };
        forms.push(format!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
    if mantissa.len() >= WITHIN_WORDS {
        forms.push(mantissa.to_owned());
    }
    let whole = value.trim_start_matches(['+', '-']).split('.').next().unwrap_or_default();
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        forms.push(grouped);
    }
    forms
}

/// Returns the beginning and the end of a text, and the place of the cut.
fn bounded(text: &str) -> (String, Option<usize>) {
    if text.len() <= KEPT {
        return (text.to_owned(), None);
    }
    let from = text.floor_char_boundary(KEPT / 2);
    let to = text.ceil_char_boundary(text.len() - KEPT / 2);
    (format!("{}{}", &text[..from], &text[to..]), Some(from))
}

fn narrow(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

fn key(piece: &[u8]) -> u64 {
    piece.iter().fold(0, |key, byte| key << 8 | u64::from(*byte))
}

fn filter_bit((standing, length, key): Piece) -> (usize, u64) {
    let mixed = (key ^ u64::from(length) << 59 ^ (standing as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    (usize::try_from(mixed >> 6).unwrap_or(0) & 1023, 1 << (mixed & 63))
}

fn joins(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Returns true when a part of a text stands by itself. The number of a line or of a column is none that is a value.
fn is_word(bytes: &[u8], at: usize, length: usize) -> bool {
    let (before, after) = (&bytes[..at], &bytes[at + length..]);
    let alone = before.last().is_none_or(|byte| !joins(*byte)) && after.first().is_none_or(|byte| !joins(*byte));
    let is_number = bytes[at..at + length].iter().all(u8::is_ascii_digit);
    let in_a_place = match before {
        [.., before, b':'] => joins(*before),
        before => before.ends_with(b"line ") || before.ends_with(b"column "),
    };
    alone && !(is_number && in_a_place)
}

fn is_cut(behind: &[u8]) -> bool {
    behind.starts_with(b"...") || behind.starts_with("…".as_bytes())
}
