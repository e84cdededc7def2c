//! Patterns in gitignore's language. Nothing is compiled: the memory is a multiple of the text, and a path is tested in
//! a bounded number of steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The size of patterns, of one file or of all files of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PatternSize {
    /// The bytes of the texts.
    pub bytes: usize,
    pub patterns: usize,
    /// The number of patterns that are tested one after the other: those with more than one `*`, with `?`, `[` or `**`.
    pub globs: usize,
    /// The bytes of these.
    pub glob_bytes: usize,
}

impl PatternSize {
    /// Returns both together.
    pub(super) fn with(self, other: PatternSize) -> PatternSize {
        PatternSize {
            bytes: self.bytes + other.bytes,
            patterns: self.patterns + other.patterns,
            globs: self.globs + other.globs,
            glob_bytes: self.glob_bytes + other.glob_bytes,
        }
    }

    /// Returns the limit that is exceeded, for people.
    pub(super) fn beyond(self, limits: PatternSize) -> Option<String> {
        if self.bytes > limits.bytes {
            Some(format!("{} KiB", limits.bytes >> 10))
        } else if self.patterns > limits.patterns {
            Some(format!("{} patterns", limits.patterns))
        } else if self.globs > limits.globs {
            Some(format!("{} patterns with several wildcards", limits.globs))
        } else if self.glob_bytes > limits.glob_bytes {
            Some(format!("{} KiB of patterns with several wildcards", limits.glob_bytes >> 10))
        } else {
            None
        }
    }
}

/// The approximate size of all patterns of this process in memory, in bytes.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the approximate size of all patterns of this process in memory, in bytes.
pub(super) fn taken() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// The approximate size of a pattern beside its text, in bytes.
const OVERHEAD: usize = 96;

/// The patterns of one file. The last that matches decides.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    size: PatternSize,
    taken: usize,
    /// Names without a wildcard, wherever they are.
    names: BTreeMap<String, Decisions>,
    /// Paths without a wildcard.
    paths: BTreeMap<String, Decisions>,
    /// The ends of names: `*.yaml`.
    ends: Affixes,
    /// The beginnings of names: `test-*`.
    begins: Affixes,
    /// The others, the last first.
    globs: Vec<Glob>,
    steps: AtomicU64,
}

impl Drop for Patterns {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// The decisions of the last pattern with one text about everything, and about folders.
#[derive(Clone, Copy, Debug, Default)]
struct Decisions {
    any: Option<Decision>,
    folder: Option<Decision>,
}

/// The decision of a pattern, which excludes or brings back, and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decision {
    line: usize,
    excludes: bool,
}

impl Decisions {
    fn note(&mut self, only_folders: bool, decision: Decision) {
        *(if only_folders { &mut self.folder } else { &mut self.any }) = Some(decision);
    }

    fn of(self, is_folder: bool) -> Option<Decision> {
        self.any.max(self.folder.filter(|_| is_folder))
    }
}

/// Beginnings or ends of names, by their lengths.
#[derive(Debug, Default)]
struct Affixes {
    by_text: BTreeMap<String, Decisions>,
    lengths: BTreeSet<usize>,
}

impl Affixes {
    fn note(&mut self, text: &str, only_folders: bool, decision: Decision) {
        self.by_text.entry(text.to_owned()).or_default().note(only_folders, decision);
        self.lengths.insert(text.len());
    }

    fn find<'n>(
        &self,
        name: &'n str,
        is_folder: bool,
        part: impl Fn(&'n str, usize) -> Option<&'n str>,
    ) -> Option<Decision> {
        let parts = self.lengths.iter().take_while(|length| **length <= name.len());
        parts.filter_map(|length| self.by_text.get(part(name, *length)?)?.of(is_folder)).max()
    }
}

/// A pattern that is tested by itself.
#[derive(Debug)]
struct Glob {
    decision: Decision,
    only_folders: bool,
    /// True when it is of a name, wherever that is; else of a path.
    of_name: bool,
    /// The names of its path; `**` for any number of folders.
    parts: Vec<String>,
}

impl Patterns {
    /// Reads patterns, one a line. One that can't be read matches nothing, as with Git.
    pub(super) fn read(text: &str) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.size.bytes = text.len();
        for (line, pattern) in text.lines().enumerate() {
            patterns.add(line, pattern);
        }
        patterns.globs.reverse();
        patterns.taken = text.len() + patterns.size.patterns * OVERHEAD;
        TAKEN.fetch_add(patterns.taken, Ordering::Relaxed);
        patterns
    }

    /// Returns their size.
    pub(super) fn size(&self) -> PatternSize {
        self.size
    }

    /// Returns the number of steps in which paths were tested so far.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn add(&mut self, line: usize, text: &str) {
        let text = without_end(text);
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        let (excludes, text) = text.strip_prefix('!').map_or((true, text), |text| (false, text));
        let (only_folders, text) = match text.strip_suffix('/') {
            Some(text) if !ends_escaped(text) => (true, text),
            _ => (false, text),
        };
        let of_name = !text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.is_empty() {
            return;
        }
        self.size.patterns += 1;
        let decision = Decision { line, excludes };
        let of_path = |path: String| path.split('/').all(|name| !name.is_empty()).then_some(path);
        match (literal(text), text.strip_prefix('*').and_then(literal), text.strip_suffix('*').and_then(literal)) {
            (Some(name), ..) if of_name => self.names.entry(name).or_default().note(only_folders, decision),
            (Some(path), ..) => {
                if let Some(path) = of_path(path) {
                    self.paths.entry(path).or_default().note(only_folders, decision);
                }
            }
            (_, Some(end), _) if of_name => self.ends.note(&end, only_folders, decision),
            (_, _, Some(begin)) if of_name => self.begins.note(&begin, only_folders, decision),
            _ => {
                self.size.globs += 1;
                self.size.glob_bytes += text.len();
                // More stars are no more than two.
                let part = |part: &str| {
                    if part.len() > 2 && part.bytes().all(|byte| byte == b'*') { "**" } else { part }.to_owned()
                };
                let parts = if of_name { vec![text.to_owned()] } else { text.split('/').map(part).collect() };
                self.globs.push(Glob { decision, only_folders, of_name, parts });
            }
        }
    }

    /// Returns true when the last pattern that matches excludes a path; `None` if none matches.
    pub(super) fn excludes(&self, path: &str, is_folder: bool) -> Option<bool> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = [
            self.names.get(name).and_then(|decisions| decisions.of(is_folder)),
            self.paths.get(path).and_then(|decisions| decisions.of(is_folder)),
            self.ends.find(name, is_folder, |name, length| name.get(name.len() - length..)),
            self.begins.find(name, is_folder, |name, length| name.get(..length)),
        ];
        let found = found.into_iter().max().flatten();
        let mut steps = 4;
        let later = self.globs.iter().take_while(|glob| found.is_none_or(|found| glob.decision > found));
        let mut glob = later.filter(|glob| is_folder || !glob.only_folders);
        let glob = glob.find(|glob| glob.matches(path, name, &mut steps)).map(|glob| glob.decision);
        self.steps.fetch_add(steps, Ordering::Relaxed);
        found.max(glob).map(|decision| decision.excludes)
    }
}

impl Glob {
    fn matches(&self, path: &str, name: &str, steps: &mut u64) -> bool {
        if self.of_name {
            return is_like(&self.parts[0], name, steps);
        }
        let names: Vec<&str> = path.split('/').collect();
        let (mut part, mut at) = (0, 0);
        // The place of the last `**`, and the name behind the folders that it stands for.
        let mut any: Option<(usize, usize)> = None;
        while at < names.len() {
            *steps += 1;
            let fits = match self.parts.get(part) {
                Some(text) if text == "**" => {
                    // At the end of a pattern it stands for all that is in a folder.
                    if part + 1 == self.parts.len() {
                        return true;
                    }
                    any = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(text) => is_like(text, names[at], steps),
                None => false,
            };
            if fits {
                (part, at) = (part + 1, at + 1);
            } else if let Some((star, from)) = any {
                any = Some((star, from + 1));
                (part, at) = (star + 1, from + 1);
            } else {
                return false;
            }
        }
        part == self.parts.len()
    }
}

/// Returns a line without the spaces at its end, unless they are escaped.
fn without_end(line: &str) -> &str {
    let mut line = line.strip_suffix('\r').unwrap_or(line);
    while let Some(shorter) = line.strip_suffix(' ').filter(|shorter| !ends_escaped(shorter)) {
        line = shorter;
    }
    line
}

/// Returns true when the next character is escaped: an odd number of backslashes stands before it.
fn ends_escaped(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// Returns the text that a pattern without wildcards stands for; `None` if it has one, or its last backslash escapes
/// nothing.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '[' => return None,
            '\\' => text.push(chars.next()?),
            c => text.push(c),
        }
    }
    Some(text)
}

/// One element of a pattern.
enum Element {
    Stars,
    One(Match),
    /// It can't be read: the pattern matches nothing.
    Broken,
}

struct Match(bool);

/// Returns true when a name matches a pattern. Only the last `*` is ever tried again: the steps are at most the product
/// of the lengths.
fn is_like(pattern: &str, name: &str, steps: &mut u64) -> bool {
    let (mut at, mut rest) = (pattern, name);
    let mut star: Option<(&str, &str)> = None;
    loop {
        *steps += 1;
        let Some(c) = rest.chars().next() else { return at.trim_start_matches('*').is_empty() };
        let (element, behind) = element(at, c, steps);
        match element {
            Element::Stars => {
                star = Some((behind, rest));
                at = behind;
            }
            Element::One(Match(true)) => (at, rest) = (behind, &rest[c.len_utf8()..]),
            Element::One(Match(false)) => {
                let Some((after, from)) = star else { return false };
                let Some(skipped) = from.chars().next() else { return false };
                let from = &from[skipped.len_utf8()..];
                star = Some((after, from));
                (at, rest) = (after, from);
            }
            Element::Broken => return false,
        }
    }
}

/// Returns the first element of a pattern, against a character, and the rest of the pattern.
fn element<'p>(pattern: &'p str, c: char, steps: &mut u64) -> (Element, &'p str) {
    let mut chars = pattern.chars();
    match chars.next() {
        None => (Element::One(Match(false)), pattern),
        Some('*') => (Element::Stars, pattern.trim_start_matches('*')),
        Some('?') => (Element::One(Match(true)), chars.as_str()),
        Some('[') => match class(chars.as_str(), c, steps) {
            Some((matches, behind)) => (Element::One(Match(matches)), behind),
            None => (Element::Broken, pattern),
        },
        Some('\\') => match chars.next() {
            Some(escaped) => (Element::One(Match(escaped == c)), chars.as_str()),
            None => (Element::Broken, pattern),
        },
        Some(own) => (Element::One(Match(own == c)), chars.as_str()),
    }
}

/// Returns true when a character is one of a class, whose text follows its `[`, and the text behind it. `None` if it
/// has no end.
fn class<'p>(text: &'p str, c: char, steps: &mut u64) -> Option<(bool, &'p str)> {
    let (negated, mut rest) = match text.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mut matches, mut first) = (false, true);
    loop {
        *steps += 1;
        if let Some(behind) = rest.strip_prefix(']').filter(|_| !first) {
            return Some((matches != negated, behind));
        }
        first = false;
        if let Some((name, behind)) = rest.strip_prefix("[:").and_then(|named| named.split_once(":]")) {
            matches |= named_class(name, c)?;
            rest = behind;
            continue;
        }
        let (low, behind) = one_of_class(rest)?;
        match behind.strip_prefix('-').filter(|behind| !behind.starts_with(']')) {
            Some(behind) => {
                let (high, behind) = one_of_class(behind)?;
                matches |= (low..=high).contains(&c);
                rest = behind;
            }
            None => {
                matches |= low == c;
                rest = behind;
            }
        }
    }
}

/// Returns a character of a class, which may be escaped, and the rest.
fn one_of_class(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    let c = match chars.next()? {
        '\\' => chars.next()?,
        c => c,
    };
    Some((c, chars.as_str()))
}

/// Returns true when a character is of a class that POSIX names; `None` for an unknown name.
fn named_class(name: &str, c: char) -> Option<bool> {
    Some(match name {
        "alnum" => c.is_ascii_alphanumeric(),
        "alpha" => c.is_ascii_alphabetic(),
        "blank" => matches!(c, ' ' | '\t'),
        "cntrl" => c.is_ascii_control(),
        "digit" => c.is_ascii_digit(),
        "graph" => c.is_ascii_graphic(),
        "lower" => c.is_ascii_lowercase(),
        "print" => c.is_ascii_graphic() || c == ' ',
        "punct" => c.is_ascii_punctuation(),
        "space" => c.is_ascii_whitespace() || c == '\u{b}',
        "upper" => c.is_ascii_uppercase(),
        "xdigit" => c.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fastrand::Rng;

    use super::*;

    fn excluded(text: &str, path: &str, is_folder: bool) -> Option<bool> {
        Patterns::read(text).excludes(path, is_folder)
    }

    #[test]
    fn patterns_are_gits() {
        for (pattern, yes, no) in [
            ("a", &["a", "x/a"][..], &["ab", "a/b"][..]),
            ("/a", &["a"], &["x/a"]),
            ("x/a", &["x/a"], &["a", "y/x/a"]),
            ("*.yaml", &["a.yaml", "x/.yaml"], &["a.yml", "a.yaml/b"]),
            ("test-*", &["test-", "x/test-a"], &["atest-"]),
            ("a*b*c", &["abc", "axbxc"], &["axc", "a/b/c"]),
            ("a?c", &["abc", "aüc"], &["ac", "a/c"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]x]", &["]", "x"], &["a"]),
            ("[[:digit:]_]", &["1", "_"], &["a"]),
            ("[a", &[], &["[a", "a"]),
            ("\\*a", &["*a"], &["ba"]),
            ("\\#a", &["#a"], &["\\#a"]),
            ("a\\ ", &["a "], &["a"]),
            ("a   ", &["a"], &["a "]),
            ("a\\", &[], &["a", "a\\"]),
            ("**/a", &["a", "x/a", "x/y/a"], &["a/b"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "x/a/b"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/bx"]),
            ("a/*/b", &["a/x/b"], &["a/b", "a/x/y/b"]),
            ("/**", &["a", "a/b"], &[]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("# a", &[], &["# a", "a"]),
        ] {
            yes.iter().for_each(|path| assert_eq!(excluded(pattern, path, false), Some(true), "{pattern} {path}"));
            no.iter().for_each(|path| assert_eq!(excluded(pattern, path, false), None, "{pattern} {path}"));
        }
        assert_eq!(excluded("a/", "a", false), None);
        assert_eq!(excluded("a/", "x/a", true), Some(true));
        assert_eq!(excluded("*.yaml\n!k*\nkeep.yaml\n", "keep.yaml", false), Some(true), "the last decides");
        assert_eq!(excluded("*.yaml\nkeep.yaml\n!k*\n", "keep.yaml", false), Some(false));
        assert_eq!(excluded("[a-z]*\n!keep*/\n", "keep", false), Some(true));
        assert_eq!(excluded("[a-z]*\n!keep*/\n", "keep", true), Some(false));
    }

    /// Ten files of 64 KiB, whatever they are made of, take some times their text, and nothing of it is left.
    #[test]
    fn memory_is_some_times_the_text() {
        for pattern in ["*?*?*?*?\n", "[!a]\n", "a\n", "**/x/**/y\n", "*aaaa\n", "ä*\n", "*?"] {
            let text = pattern.repeat((64 << 10) / pattern.len());
            let files: Vec<Patterns> = (0..10).map(|_| Patterns::read(&text)).collect();
            let most = files.len() * text.len() * (1 + OVERHEAD / 2);
            let taken: usize = files.iter().map(|file| file.taken).sum();
            assert!(taken <= most && super::taken() >= taken, "{pattern}: {taken}");
        }
    }

    #[test]
    fn steps_are_bounded_by_the_lengths() {
        let pattern = "*a".repeat(128);
        let patterns = Patterns::read(&format!("{pattern}b\n"));
        assert_eq!(patterns.excludes(&"a".repeat(255), false), None);
        assert!(patterns.steps() <= 2 * 256 * 255, "{}", patterns.steps());
        // A name is looked up a bounded number of times, however many literals, ends and beginnings there are.
        let text: String = (0..10_000).map(|number| format!("name-{number}\n*-{number}\n{number}-*\n")).collect();
        let patterns = Patterns::read(&text);
        assert_eq!(patterns.excludes("x/name-77", false), Some(true));
        assert!(patterns.steps() < 10, "{}", patterns.steps());
    }

    /// Random patterns and paths: the result is the same as Git's.
    #[test]
    fn git_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.args(arguments).current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
            command
        };
        assert!(git(&["init", "--quiet"]).status().unwrap().success());
        let mut random = Rng::with_seed(17);
        let mut word = |alphabet: &[&str], most: usize| -> String {
            (0..random.usize(1..=most)).map(|_| alphabet[random.usize(..alphabet.len())]).collect()
        };
        let mut compared = 0;
        for _ in 0..60 {
            // Stars beside other characters are not generated: Git's result for `a**` depends on its position in
            // memory.
            let tokens = ["a", "b", "*", "?", "[ab]", "[!a]", "-", "\\b", "]"];
            let mut pattern = || -> String {
                let parts = word(&["p/", "**/", "p/"], 3);
                let parts = parts.split('/').filter(|part| !part.is_empty());
                let parts =
                    parts.map(|part| if part == "p" { word(&tokens, 4).replace("**", "*") } else { part.to_owned() });
                let path = parts.collect::<Vec<_>>().join("/");
                format!("{}{path}{}\n", word(&["", "", "!", "/"], 1), word(&["", "", "/", " "], 1))
            };
            let text: String = (0..4).map(|_| pattern()).collect();
            std::fs::write(folder.path().join(".gitignore"), &text).unwrap();
            let paths: BTreeSet<String> = (0..20)
                .map(|_| {
                    word(&["a", "b", "ab", "/", "-", "/a", "b/"], 5)
                        .trim_matches('/')
                        .replace("//", "/")
                        .replace("//", "/")
                })
                .filter(|path| !path.is_empty())
                .collect();
            let paths: Vec<String> = paths.into_iter().collect();
            let mut asked = git(&["check-ignore", "--no-index", "--verbose", "--non-matching", "--"]);
            let said = String::from_utf8(asked.args(&paths).output().unwrap().stdout).unwrap();
            let patterns = Patterns::read(&text);
            for (path, line) in paths.iter().zip(said.lines()) {
                let (rule, _) = line.rsplit_once('\t').unwrap();
                let git = rule.splitn(3, ':').nth(2).filter(|pattern| !pattern.is_empty());
                // Git goes through the folders above a path as well, the outermost first.
                let folders = path.match_indices('/').map(|(at, _)| (&path[..at], true));
                let own = folders.chain([(path.as_str(), false)]).find_map(|(path, is_folder)| {
                    patterns.excludes(path, is_folder).filter(|excludes| *excludes || !is_folder)
                });
                assert_eq!(own, git.map(|pattern| !pattern.starts_with('!')), "{path} by {text:?}: {line}");
                compared += 1;
            }
        }
        assert!(compared > 500, "{compared}");
    }
}
