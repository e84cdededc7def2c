//! Which files of a source do not count: what `path`, `include`, `exclude` and the files `.belayignore` say, in gitignore's language.

use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::source_paths::SourcePaths;
use super::tree::{Tree, below, folders_above};

/// The name of the files that say it in the repository.
pub const IGNORE_FILE: &str = ".belayignore";
/// The most that is read of one of them, in bytes: a larger one says nothing.
const SIZE: u64 = 64 << 10;
/// How many of them are read.
const FILES: usize = 1000;

/// Which files of a source do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    /// The folders that count, where that is not all of one folder.
    paths: Option<SourcePaths>,
    include: Option<Patterns>,
    exclude: Option<Patterns>,
    /// Those of the repository, the deepest last, each with its folder.
    files: Vec<(String, Patterns)>,
}

/// Patterns that were read; equal where their texts are.
#[derive(Clone, Debug)]
struct Patterns {
    text: String,
    matcher: Arc<Gitignore>,
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Patterns) -> bool {
        self.text == other.text
    }
}

impl Eq for Patterns {}

impl Patterns {
    /// Reads patterns, one a line. One that can't be read matches nothing, as with Git.
    fn read(text: String) -> Patterns {
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            // What is wrong with it was said where it is checked; Git says nothing of it.
            let _ = builder.add_line(None, line);
        }
        let matcher = builder.build().unwrap_or_else(|_| Gitignore::empty());
        Patterns { text, matcher: Arc::new(matcher) }
    }

    /// Whether the last pattern that matches excludes a path; `None` where none matches.
    fn excludes(&self, path: &str, is_folder: bool) -> Option<bool> {
        match self.matcher.matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// The folders above a source's whose files [`IGNORE_FILE`] count for it too, the outermost first.
pub fn ignoring_above(folder: &str) -> impl Iterator<Item = &str> {
    let folder = folder.trim_matches('/');
    (!folder.is_empty()).then_some("").into_iter().chain(folders_above(folder))
}

impl Excluded {
    /// What a configuration says.
    #[must_use]
    pub fn of(include: &[String], exclude: &[String]) -> Excluded {
        let lines =
            |patterns: &[String]| patterns.iter().map(|pattern| from_root(pattern)).collect::<Vec<_>>().join("\n");
        let read = |patterns: &[String]| (!patterns.is_empty()).then(|| Patterns::read(lines(patterns)));
        Excluded { include: read(include), exclude: read(exclude), ..Excluded::default() }
    }

    /// The same where only what lies in these folders counts.
    #[must_use]
    pub fn outside_of(self, paths: &SourcePaths) -> Excluded {
        Excluded { paths: (!paths.is_one_folder()).then(|| paths.clone()), ..self }
    }

    /// Whether every file counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_none() && self.include.is_none() && self.exclude.is_none() && self.files.is_empty()
    }

    /// Takes up what a folder says. Folders come before those in them.
    pub(super) fn read<T: Tree>(&mut self, tree: &T, folder: &str) -> Result<(), T::Error> {
        if self.files.len() < FILES
            && let Some(bytes) = tree.read(&below(folder, IGNORE_FILE), SIZE)?
        {
            let text = String::from_utf8_lossy(&bytes);
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
            self.files.push((folder.to_owned(), Patterns::read(text)));
        }
        Ok(())
    }

    /// Whether a file does not count: it or a folder that it lies in is excluded, or neither is included.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let included = |include: &Patterns| {
            let matches = |path, is_folder| include.excludes(path, is_folder) == Some(true);
            match include.excludes(path, false) {
                Some(said) => said,
                None => folders_above(path).any(|folder| matches(folder, true)),
            }
        };
        // Within a folder that is excluded no pattern brings a file back, as with Git.
        folders_above(path).any(|folder| self.excludes(folder, true))
            || self.excludes(path, false)
            || self.include.as_ref().is_some_and(|include| !included(include))
            || self.paths.as_ref().is_some_and(|paths| !paths.has(path))
    }

    /// Whether a folder and all in it does not count.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.excludes(folder, true) || self.paths.as_ref().is_some_and(|paths| !paths.leads(folder))
    }

    fn excludes(&self, path: &str, is_folder: bool) -> bool {
        let of_files = || {
            self.files.iter().rev().find_map(|(folder, patterns)| {
                let inside = match folder.as_str() {
                    "" => Some(path),
                    folder => path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')),
                };
                inside.and_then(|path| patterns.excludes(path, is_folder))
            })
        };
        let configured = self.exclude.as_ref().and_then(|exclude| exclude.excludes(path, is_folder));
        configured.or_else(of_files).unwrap_or(false)
    }
}

/// Returns a pattern of a configuration as gitignore's language has it: `./app` is `/app` there, and `.` everything. Files
/// `.belayignore` are read as Git would read them.
fn from_root(pattern: &str) -> String {
    let (not, path) = pattern.strip_prefix('!').map_or(("", pattern), |path| ("!", path));
    let Some(mut rest) = path.strip_prefix('.').filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return pattern.to_owned();
    };
    while let Some(inner) = rest.trim_start_matches('/').strip_prefix("./") {
        rest = inner;
    }
    match rest.trim_start_matches('/') {
        "" | "." => format!("{not}/*"),
        rest => format!("{not}/{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_tree::MemoryTree;
    use super::*;

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    fn of(files: &[(&str, &str)]) -> Excluded {
        let mut tree = MemoryTree::default();
        let mut excluded = Excluded::default();
        files.iter().for_each(|(folder, text)| tree.file(below(folder, IGNORE_FILE), *text));
        files.iter().for_each(|(folder, _)| match excluded.read(&tree, folder) {
            Ok(()) => {}
        });
        excluded
    }

    #[test]
    fn a_file_works_as_gitignore_does() {
        let excluded =
            of(&[("", "# comment\n\n*.bak.yaml\n!kept.bak.yaml\n/top.yaml\nold/\na/**/z.yaml\n\\#odd.yaml\n")]);
        for path in
            ["x/a.bak.yaml", "top.yaml", "old/a.yaml", "x/old/y/a.yaml", "a/z.yaml", "a/b/c/z.yaml", "#odd.yaml"]
        {
            assert!(excluded.has(path), "{path}");
        }
        for path in ["x/kept.bak.yaml", "x/top.yaml", "old", "b/z.yaml", "a.yaml"] {
            assert!(!excluded.has(path), "{path}");
        }
        assert!(!of(&[("", "[\n")]).has("a.yaml"), "a pattern that can't be read matches nothing");
        assert!(!Excluded::default().has("a.yaml"));
    }

    #[test]
    fn the_file_that_is_nearer_has_the_word() {
        let excluded = of(&[("", "*.txt.yaml\ngone/\n"), ("a", "!*.txt.yaml\n/b.yaml\n"), ("gone", "!*\n")]);
        assert!(excluded.has("x.txt.yaml") && !excluded.has("a/x.txt.yaml") && !excluded.has("a/c/x.txt.yaml"));
        assert!(excluded.has("a/b.yaml") && !excluded.has("a/c/b.yaml") && !excluded.has("b.yaml"));
        assert!(excluded.has("gone/a.yaml"), "an excluded folder is not looked into");
        assert!(!excluded.has("ab/b.yaml"));
    }

    #[test]
    fn a_pattern_of_a_configuration_may_begin_with_a_dot() {
        for (pattern, meant) in [
            ("./app/", "/app/"),
            ("././app/*.yaml", "/app/*.yaml"),
            (".", "/*"),
            ("./", "/*"),
            ("!./app", "!/app"),
            (".app", ".app"),
            ("app/", "app/"),
            ("../x", "../x"),
        ] {
            assert_eq!(from_root(pattern), meant, "{pattern}");
        }
        let excluded = Excluded::of(&list(&["./apps"]), &list(&["./apps/old/"]));
        assert!(!excluded.has("apps/a.yaml") && excluded.has("apps/old/a.yaml") && excluded.has("x/apps/a.yaml"));
        assert!(!Excluded::of(&list(&["."]), &[]).has("a/b.yaml"));
        assert!(!of(&[("", "./a.yaml\n")]).has("a.yaml"), "Git matches nothing by it");
    }

    #[test]
    fn a_configuration_has_the_last_word() {
        let mut excluded =
            Excluded::of(&list(&["apps/", "*.json", "!secret.json"]), &list(&["*.test.yaml", "!b.yaml"]));
        excluded.files = of(&[("", "b.yaml\nc.yaml\n")]).files;
        assert!(excluded.has("other/a.yaml") && !excluded.has("apps/a.yaml") && !excluded.has("x/apps/y/a.yaml"));
        assert!(!excluded.has("x/a.json") && excluded.has("x/secret.json"));
        assert!(excluded.has("apps/a.test.yaml") && !excluded.has("apps/b.yaml") && excluded.has("apps/c.yaml"));
    }
}
