//! A small mutator, for a machine without a fuzzer: seeded, so that a run can be had again.

use fastrand::Rng;

/// Bytes and words that change what a text means.
const WORDS: [&str; 44] = [
    "\n",
    "\r\n",
    "\t",
    " ",
    ": ",
    "- ",
    "---\n",
    "...\n",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "&a ",
    "*a",
    "!!binary ",
    "!!str ",
    "<<: ",
    "|\n  ",
    ">-\n  ",
    "~",
    "null",
    "yes",
    "0755",
    "1e400",
    ".inf",
    "18446744073709551616",
    "-1",
    "\u{FEFF}",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\0",
    "\u{1b}[31m",
    "..",
    "/",
    "%",
    "=== a\n",
    "apiVersion: v1",
    "kind: List",
    "é",
    "#",
];

/// The longest that an input grows.
const LONGEST: usize = 64 << 10;

/// Returns one of the corpus, changed in some places.
pub fn mutated(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut bytes = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..=random.usize(..6) {
        let at = random.usize(..=bytes.len());
        let end = (at + 1 + random.usize(..32)).min(bytes.len());
        match random.u8(..9) {
            0 if at < bytes.len() => bytes[at] = random.u8(..),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.usize(..=bytes.len());
                bytes.splice(to..to, part);
            }
            4 => {
                let part = bytes[at..end].repeat(1 << random.u8(..10));
                bytes.splice(at..at, part);
            }
            5 => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => swap_lines(&mut bytes, random),
            _ => drop(bytes.splice(at..at, WORDS[random.usize(..WORDS.len())].bytes())),
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

fn swap_lines(bytes: &mut Vec<u8>, random: &mut Rng) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() > 1 {
        let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
        lines.swap(one, other);
        *bytes = lines.concat();
    }
}
