//! The files of a source that do not count: by `path`, `include`, `exclude` and the files `.belayignore`, in
//! gitignore's language.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::patterns::{PatternSize, Patterns, taken};
use super::source_paths::SourcePaths;
use super::tree::{ContentId, Node, Tree, below, folders_above};

/// The name of the files that say it in the repository.
pub const IGNORE_FILE: &str = ".belayignore";
/// The most that the files of one commit say together.
const LIMITS: PatternSize = PatternSize { bytes: 64 << 10, patterns: 10_000, globs: 256, glob_bytes: 4 << 10 };
/// The number of them that are read.
const FILES: usize = 1000;
/// The most memory that the patterns of all remembered commits of all sources take, in bytes.
const TAKEN: usize = 32 << 20;

/// Patterns that were read, by their text: files that say the same are kept once.
static SHARED: Mutex<BTreeMap<ContentId, Weak<Patterns>>> = Mutex::new(BTreeMap::new());

/// Returns true when the patterns of all remembered commits take more memory than they may.
#[must_use]
pub fn are_patterns_too_many() -> bool {
    taken() > TAKEN
}

/// The files of a source that do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    /// The folders that count, if that is not all of one folder.
    paths: Option<SourcePaths>,
    include: Option<SharedPatterns>,
    exclude: Option<SharedPatterns>,
    /// Those of the repository, the deepest last, each with its folder.
    files: Vec<(String, SharedPatterns)>,
    /// The size of those together.
    size: PatternSize,
}

/// Patterns that were read; equal where their texts are.
#[derive(Clone, Debug)]
struct SharedPatterns {
    text: ContentId,
    patterns: Arc<Patterns>,
}

impl PartialEq for SharedPatterns {
    fn eq(&self, other: &SharedPatterns) -> bool {
        self.text == other.text
    }
}

impl Eq for SharedPatterns {}

impl SharedPatterns {
    fn read(text: &str) -> SharedPatterns {
        let id = ContentId::of(text.as_bytes());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(patterns) = shared.get(&id).and_then(Weak::upgrade) {
            return SharedPatterns { text: id, patterns };
        }
        shared.retain(|_, patterns| patterns.strong_count() > 0);
        let patterns = Arc::new(Patterns::read(text));
        shared.insert(id, Arc::downgrade(&patterns));
        SharedPatterns { text: id, patterns }
    }

    fn excludes(&self, path: &str, is_folder: bool) -> Option<bool> {
        self.patterns.excludes(path, is_folder)
    }
}

/// Returns the folders above a source's whose files [`IGNORE_FILE`] count for it too, the outermost first.
pub fn ignoring_above(folder: &str) -> impl Iterator<Item = &str> {
    let folder = folder.trim_matches('/');
    (!folder.is_empty()).then_some("").into_iter().chain(folders_above(folder))
}

impl Excluded {
    /// Returns the exclusions of a configuration.
    #[must_use]
    pub fn of(include: &[String], exclude: &[String]) -> Excluded {
        let lines =
            |patterns: &[String]| patterns.iter().map(|pattern| from_root(pattern)).collect::<Vec<_>>().join("\n");
        let read = |patterns: &[String]| (!patterns.is_empty()).then(|| SharedPatterns::read(&lines(patterns)));
        Excluded { include: read(include), exclude: read(exclude), ..Excluded::default() }
    }

    /// Returns the same restricted to these folders.
    #[must_use]
    pub fn outside_of(self, paths: &SourcePaths) -> Excluded {
        Excluded { paths: (!paths.is_one_folder()).then(|| paths.clone()), ..self }
    }

    /// Returns true when every file counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_none() && self.include.is_none() && self.exclude.is_none() && self.files.is_empty()
    }

    /// Takes up the patterns of a folder. Folders come before those in them. Returns the problem if there are more than
    /// the bound: the exclusions below the folder are not known then.
    pub(super) fn read<T: Tree>(&mut self, tree: &T, folder: &str) -> Result<Option<String>, T::Error> {
        let path = below(folder, IGNORE_FILE);
        if !matches!(tree.node(&path)?, Some(Node::File(_))) {
            return Ok(None);
        }
        if self.files.len() >= FILES {
            return Ok(Some(format!("is one of more than {FILES} such files")));
        }
        let kib = LIMITS.bytes >> 10;
        let too_much = format!("has, with those that are read before it, more than {kib} KiB");
        let left = LIMITS.bytes - self.size.bytes;
        let Some(bytes) = tree.read(&path, left as u64)? else { return Ok(Some(too_much)) };
        let text = String::from_utf8_lossy(&bytes);
        let read = SharedPatterns::read(text.strip_prefix('\u{feff}').unwrap_or(&text));
        let size = self.size.with(read.patterns.size());
        if let Some(what) = size.beyond(LIMITS) {
            return Ok(Some(format!("has, with those that are read before it, more than {what}")));
        }
        self.size = size;
        self.files.push((folder.to_owned(), read));
        Ok(None)
    }

    /// Returns true when a file does not count: it or a folder that it lies in is excluded, or neither is included.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let included = |include: &SharedPatterns| {
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

    /// Returns true when a folder and all in it does not count.
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
            Ok(problem) => assert_eq!(problem, None),
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

    /// Twenty-five commits have four files of 64 KiB, all of them different: none of them is read beyond the limits of
    /// one commit, and equal patterns are there once.
    #[test]
    fn all_files_of_a_commit_share_one_budget() {
        let file = |number: usize| {
            let lines = (0..9000).map(|line| format!("{number}{line:05}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let mut tree = MemoryTree::default();
        for number in 0..4 {
            tree.file(below(&format!("f{number}"), IGNORE_FILE), file(number));
        }
        let read = |tree: &MemoryTree| {
            let mut excluded = Excluded::default();
            let problems: Vec<Option<String>> = (0..4)
                .map(|number| match excluded.read(tree, &format!("f{number}")) {
                    Ok(problem) => problem,
                })
                .collect();
            (excluded, problems)
        };
        let (excluded, problems) = read(&tree);
        assert_eq!(problems[0], None);
        assert!(problems[1..].iter().all(|problem| problem.as_ref().is_some_and(|said| said.contains("64 KiB"))));
        assert!(excluded.size.beyond(LIMITS).is_none() && excluded.has("f0/000017") && !excluded.has("f1/100017"));
        let (again, _) = read(&tree);
        assert!(Arc::ptr_eq(&excluded.files[0].1.patterns, &again.files[0].1.patterns), "kept once");
    }

    #[test]
    fn what_is_beyond_the_limits_is_told() {
        for (text, said) in [
            ("a\n".repeat(10_001), "10000 patterns"),
            ("*a*\n".repeat(257), "256 patterns with several wildcards"),
            ("*a*".repeat(1400) + "\n", "4 KiB of patterns with several wildcards"),
            ("# comment\n".repeat(7000), "64 KiB"),
        ] {
            let mut tree = MemoryTree::default();
            tree.file(IGNORE_FILE, text);
            let Ok(problem) = Excluded::default().read(&tree, "");
            let problem = problem.unwrap();
            assert!(problem.ends_with(said), "{problem}");
        }
        let many = |tree: &mut MemoryTree| (0..=FILES).for_each(|at| tree.file(format!("{at}/{IGNORE_FILE}"), "a"));
        let mut tree = MemoryTree::default();
        many(&mut tree);
        let mut excluded = Excluded::default();
        let problems = (0..=FILES).filter_map(|at| match excluded.read(&tree, &at.to_string()) {
            Ok(problem) => problem,
        });
        assert_eq!(problems.count(), 1);
    }
}
