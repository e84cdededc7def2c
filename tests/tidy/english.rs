//! Plain English: few sentences of comments and documentation begin with a question word.
//!
//! "What was applied is recorded" makes a reader wait for its subject. "The daemon records the applied object" doesn't.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const QUESTION_WORDS: &[&str] =
    &["what", "of", "who", "whoever", "whom", "whose", "that", "where", "whether", "how", "which", "why"];

/// The share of such sentences that an area may have.
const AT_MOST_IN_100: usize = 2;

/// The areas that are counted. Each begins at a file or folder; a file belongs to the longest beginning that fits.
const AREAS: &[&str] = &[
    "src",
    "crates/belay-core",
    "crates/kube-facts",
    "crates/kube-rules",
    "crates/minicluster",
    "tests",
    "tests/support",
    "tests/product",
    "tests/cluster",
    "tests/system",
    "benches",
    "examples",
    "fuzz",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "manifests",
    "systemd",
    "Cargo.toml",
    ".ci",
    "build.rs",
];

/// Folders of inputs, not of texts for readers.
const NOT_READ: &[&str] = &["tests/cases", "fuzz/corpus", "target"];

/// One sentence and the line at which its paragraph begins.
#[derive(Debug, PartialEq)]
struct Sentence {
    line: usize,
    text: String,
}

/// Lines that belong together, in comments or in prose.
#[derive(Default)]
struct Paragraphs {
    done: Vec<Sentence>,
    open: Option<Sentence>,
    in_fence: bool,
}

impl Paragraphs {
    /// Adds one line of prose. Blank lines, headings, list items and table cells begin a paragraph; fenced code is skipped.
    fn add(&mut self, line: usize, text: &str) {
        let text = text.trim().trim_start_matches('>').trim_start();
        if text.starts_with("```") {
            self.in_fence = !self.in_fence;
            return self.close();
        }
        if self.in_fence {
            return;
        }
        if text.starts_with('|') {
            self.close();
            for cell in text.split('|').filter(|cell| cell.contains(char::is_alphabetic)) {
                self.add(line, cell);
                self.close();
            }
            return;
        }
        let item = list_item(text);
        let heading = text.starts_with('#');
        if text.is_empty() || heading || item.is_some() {
            self.close();
        }
        let text = item.unwrap_or(text).trim_start_matches('#').trim();
        if text.is_empty() {
            return;
        }
        let open = self.open.get_or_insert_with(|| Sentence { line, text: String::new() });
        open.text.push_str(text);
        open.text.push(' ');
        if heading {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(Sentence { line, text }) = self.open.take() {
            self.done.extend(split(&text).into_iter().map(|text| Sentence { line, text }));
        }
    }

    fn finish(mut self) -> Vec<Sentence> {
        self.close();
        self.done
    }
}

/// Returns the text of a list item, bulleted or numbered.
fn list_item(text: &str) -> Option<&str> {
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_number.len() < text.len() {
        return after_number.strip_prefix(". ").or_else(|| after_number.strip_prefix(") "));
    }
    ["- ", "* ", "+ "].iter().find_map(|bullet| text.strip_prefix(bullet))
}

/// Splits a paragraph after each full stop, question or exclamation mark that is followed by a space and no small letter.
fn split(paragraph: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in paragraph.match_indices(' ') {
        let ends = paragraph[start..at].trim_end_matches([')', '"', '*', '_', '”', '`']).ends_with(['.', '!', '?']);
        if ends && !paragraph[at..].trim_start().starts_with(char::is_lowercase) {
            sentences.push(paragraph[start..at].trim().to_owned());
            start = at;
        }
    }
    sentences.push(paragraph[start..].trim().to_owned());
    sentences.retain(|sentence| sentence.contains(char::is_alphabetic));
    sentences
}

fn begins_with_question_word(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(|c: char| "*_(\"'“[<! ".contains(c));
    let word: String = sentence.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '-').collect();
    QUESTION_WORDS.contains(&word.to_lowercase().as_str())
}

/// Returns the sentences in the comments of a Rust file.
fn of_rust(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    let mut kind = "";
    let mut string = None;
    for (number, line) in text.lines().enumerate() {
        let (comment, own_line) = match rust_comment(line, &mut string) {
            Some(at) => (&line[at..], line[..at].trim().is_empty()),
            None => ("", false),
        };
        let this = ["///", "//!", "//", ""].into_iter().find(|kind| comment.starts_with(kind)).unwrap_or_default();
        if this != kind || !own_line {
            paragraphs.close();
            paragraphs.in_fence = false;
        }
        kind = if own_line { this } else { "" };
        if !this.is_empty() {
            paragraphs.add(number + 1, &comment[this.len()..]);
        }
    }
    paragraphs.finish()
}

/// Returns the column at which a line's `//` comment begins. `string` is the end of the literal that the line begins in.
fn rust_comment(line: &str, string: &mut Option<String>) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &line[at..];
        if let Some(end) = string {
            let next = if end == "\"" { rest.find(['"', '\\'])? } else { rest.find(end.as_str())? };
            if rest[next..].starts_with('\\') {
                at += next + 1 + rest[next + 1..].chars().next()?.len_utf8();
            } else {
                at += next + end.len();
                *string = None;
            }
            continue;
        }
        at += rest.find(['"', '\'', '/', 'r'])?;
        let rest = &line[at..];
        if rest.starts_with("//") {
            return Some(at);
        }
        if let Some((length, end)) = string_opening(rest, &line[..at]) {
            at += length;
            *string = Some(end);
        } else {
            at += char_literal(rest).unwrap_or(1);
        }
    }
}

/// Returns the length of a string's opening and the text that closes it.
fn string_opening(rest: &str, before: &str) -> Option<(usize, String)> {
    if rest.starts_with('"') {
        return Some((1, "\"".to_owned()));
    }
    let in_word = before.ends_with(|c: char| (c.is_alphanumeric() && c != 'b' && c != 'c') || c == '_');
    let hashes = rest.strip_prefix('r').filter(|_| !in_word)?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    hashes[count..].starts_with('"').then(|| (2 + count, format!("\"{}", "#".repeat(count))))
}

/// Returns the length of a character literal; `None` for lifetimes.
fn char_literal(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let length = match inner.strip_prefix('\\') {
        Some(escaped) => {
            1 + escaped.chars().next()?.len_utf8() + escaped.chars().skip(1).take_while(|c| *c != '\'').count()
        }
        None => inner.chars().next()?.len_utf8(),
    };
    inner.get(length..)?.starts_with('\'').then_some(length + 2)
}

/// Returns the sentences in the `#` comments of a shell, YAML or TOML file: those on lines of their own.
fn of_hash_comments(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    for (number, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix('#') {
            Some(comment) if !comment.starts_with('!') => paragraphs.add(number + 1, comment.trim_start_matches('#')),
            _ => paragraphs.close(),
        }
    }
    paragraphs.finish()
}

fn of_markdown(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    for (number, line) in text.lines().enumerate() {
        paragraphs.add(number + 1, line);
    }
    paragraphs.finish()
}

fn of_file(path: &Path) -> Vec<Sentence> {
    let of_kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => of_rust,
        Some("md") => of_markdown,
        Some("toml" | "yaml" | "yml" | "sh" | "service") => of_hash_comments,
        None if path.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".ci") => of_hash_comments,
        _ => return Vec::new(),
    };
    fs::read_to_string(path).map(|text| of_kind(&text)).unwrap_or_default()
}

fn files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut next): (Vec<PathBuf>, _) =
        (Vec::new(), AREAS.iter().map(|area| root.join(area)).collect::<Vec<_>>());
    while let Some(path) = next.pop() {
        if NOT_READ.iter().any(|folder| path == root.join(folder)) {
            continue;
        }
        if path.is_dir() {
            next.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files.dedup();
    files
}

fn area(path: &Path) -> &'static str {
    AREAS.iter().filter(|area| path.starts_with(area)).max_by_key(|area| area.len()).copied().unwrap()
}

#[test]
fn few_sentences_begin_with_a_question_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = String::new();
    let files: Vec<PathBuf> = files(root).into_iter().map(|file| file.strip_prefix(root).unwrap().to_owned()).collect();
    for name in AREAS {
        let (mut sentences, mut list) = (0, Vec::new());
        for file in files.iter().filter(|file| area(file) == *name) {
            let all = of_file(&root.join(file));
            sentences += all.len();
            let bad = all.into_iter().filter(|sentence| begins_with_question_word(&sentence.text));
            list.extend(bad.map(|Sentence { line, text }| format!("{}:{line}: {text}", file.display())));
        }
        println!("{name}: {} of {sentences}", list.len());
        if list.len() * 100 > sentences * AT_MOST_IN_100 {
            let _ = writeln!(wrong, "{}\n{name}: {} of {sentences} sentences\n", list.join("\n"), list.len());
        }
    }
    assert!(wrong.is_empty(), "more than {AT_MOST_IN_100} in 100 sentences begin with a question word:\n{wrong}");
}

#[test]
fn sentences_are_found() {
    let texts = |sentences: Vec<Sentence>| sentences.into_iter().map(|one| one.text).collect::<Vec<_>>();
    let rust = "/// One. Two\n/// goes on. What is\n///\n/// - three, e.g. this\n/// ```\n/// Not this.\n/// ```\nlet a = \"// no\"; // Four.\nlet b = '\"'; // Five.\n\
        let c = r#\"\n// Not in a string.\n\"#;\n// Six.\n/// Seven.\n";
    let expected = ["One.", "Two goes on.", "What is", "three, e.g. this", "Four.", "Five.", "Six.", "Seven."];
    assert_eq!(texts(of_rust(rust)), expected);
    let markdown =
        "# Which title\nText. (More.) See `a.b`. `code` begins.\n\n| one | *two* |\n|---|---|\n1. three\n\n> four\n";
    let expected = ["Which title", "Text.", "(More.)", "See `a.b`.", "`code` begins.", "one", "*two*", "three", "four"];
    assert_eq!(texts(of_markdown(markdown)), expected);
    assert_eq!(
        texts(of_hash_comments("#!/bin/sh\n# One.\n# Two\n# ends.\nset -e\n# Three\n")),
        ["One.", "Two ends.", "Three"]
    );
}

#[test]
fn question_words_are_found() {
    for (sentence, expected) in [
        ("What is left", true),
        ("**Why** not?", true),
        ("(Of these", true),
        ("What's more", true),
        ("Whatever is left", false),
        ("Often", false),
        ("`what` is a flag", false),
        ("The rest, of which", false),
    ] {
        assert_eq!(begins_with_question_word(sentence), expected, "{sentence}");
    }
}
