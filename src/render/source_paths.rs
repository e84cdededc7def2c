//! The folders of a repository that a source follows: its `path`.

use super::tree::{Node, Tree, below};

/// The folders that a source follows, each as it is written: from the repository's root, where `*` stands for any
/// characters of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePaths(Vec<String>);

impl Default for SourcePaths {
    fn default() -> SourcePaths {
        SourcePaths(vec![String::new()])
    }
}

impl SourcePaths {
    /// Reads paths as people write them, `./app`, `/app/` or `.`; all of the repository if there is none.
    #[must_use]
    pub fn of<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> SourcePaths {
        let paths: Vec<String> = paths.into_iter().map(|path| plain_path(path.as_ref())).collect();
        if paths.is_empty() { SourcePaths::default() } else { SourcePaths(paths) }
    }

    /// Returns each of them, without empty names and `.`.
    #[must_use]
    pub fn written(&self) -> &[String] {
        &self.0
    }

    /// Returns the deepest folder that all of them lie in, or that is the only one.
    #[must_use]
    pub fn common(&self) -> String {
        let literal =
            |path: &String| path.split('/').take_while(|name| !name.contains('*')).collect::<Vec<_>>().join("/");
        self.0.iter().map(literal).reduce(|one, other| common_folder(&one, &other)).unwrap_or_default()
    }

    /// Returns true when this is one folder with all that is in it.
    #[must_use]
    pub fn is_one_folder(&self) -> bool {
        matches!(&self.0[..], [only] if !only.contains('*'))
    }

    /// Returns true when a file lies in one of the folders.
    #[must_use]
    pub fn has(&self, file: &str) -> bool {
        self.0.iter().any(|path| {
            let mut of_file = file.split('/');
            let inside = names(path).all(|name| of_file.next().is_some_and(|other| matches(name, other)));
            inside && of_file.next().is_some()
        })
    }

    /// Returns true when a folder lies in one of the folders, is one, or may have one in it.
    pub(super) fn leads(&self, folder: &str) -> bool {
        self.0.iter().any(|path| names(path).zip(names(folder)).all(|(name, other)| matches(name, other)))
    }

    /// Returns the first of them that is no folder of a tree, or that no folder matches.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn missing<T: Tree>(&self, tree: &T) -> Result<Option<&str>, T::Error> {
        for path in &self.0 {
            if !is_there(tree, "", &names(path).collect::<Vec<_>>())? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// Returns a path without empty names and `.`: empty for the repository itself.
pub(super) fn plain_path(path: &str) -> String {
    path.split('/').filter(|name| !matches!(*name, "" | ".")).collect::<Vec<_>>().join("/")
}

/// Returns true when a folder below another matches the rest of a path.
fn is_there<T: Tree>(tree: &T, folder: &str, rest: &[&str]) -> Result<bool, T::Error> {
    let Some((first, rest)) = rest.split_first() else { return Ok(true) };
    for (name, node) in tree.list(folder)? {
        if matches!(node, Node::Folder(_)) && matches(first, &name) && is_there(tree, &below(folder, &name), rest)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the folder that two folders lie in.
fn common_folder(one: &str, other: &str) -> String {
    let same = one.split('/').zip(other.split('/')).take_while(|(one, other)| one == other);
    same.map(|(part, _)| part).collect::<Vec<_>>().join("/")
}

/// Returns the names in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Returns true when a name matches a pattern, in which `*` stands for any characters. A name with a dot before it is
/// matched only by a pattern with one, as in a shell.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    if first.is_empty() && name.starts_with('.') {
        return false;
    }
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The leftmost place of each part leaves the most for those behind it.
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        match left.split_once(part) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::*;

    #[test]
    fn a_star_is_any_part_of_one_name() {
        for (pattern, name) in
            [("*", "a"), ("a*", "a"), ("*a", "ba"), ("a*b*c", "axbxbc"), ("eu-*", "eu-1"), ("a**b", "ab")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*", ".git"), ("a*a", "a"), ("a*b*c", "axc"), ("eu-*", "us-1"), ("a", "ab"), ("*b*b", "ab")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn files_count_that_lie_in_one_of_the_folders() {
        let paths = SourcePaths::of(["/apps/*/production/", "infra"]);
        for file in ["apps/web/production/a.yaml", "apps/db/production/x/a.yaml", "infra/a.yaml"] {
            assert!(paths.has(file), "{file}");
        }
        for file in ["apps/web/staging/a.yaml", "apps/production/a.yaml", "infra", "infrastructure/a.yaml", "a.yaml"] {
            assert!(!paths.has(file), "{file}");
        }
        for folder in ["", "apps", "apps/web", "apps/web/production", "apps/web/production/x", "infra/x"] {
            assert!(paths.leads(folder), "{folder}");
        }
        assert!(!paths.leads("apps/web/staging") && !paths.leads("other"));
        assert!(SourcePaths::default().has("a.yaml") && SourcePaths::of(["", "a"]).has("b.yaml"));
    }

    #[test]
    fn the_common_folder_has_no_star_in_it() {
        let common = |paths: &[&str]| SourcePaths::of(paths).common();
        assert_eq!(common(&["apps/*/production"]), "apps");
        assert_eq!(common(&["apps/web", "apps/web-2"]), "apps");
        assert_eq!(common(&["apps/web", "infra"]), "");
        assert_eq!(common(&["apps/web/"]), "apps/web");
        assert!(SourcePaths::of(["apps/web"]).is_one_folder() && !SourcePaths::of(["apps/*"]).is_one_folder());
    }

    #[test]
    fn a_path_with_a_dot_means_the_folder() {
        let written = |path: &str| SourcePaths::of([path]).written().join(", ");
        for (path, folder) in [
            ("./app", "app"),
            ("app/", "app"),
            ("./app/./web//", "app/web"),
            (".", ""),
            ("./", ""),
            ("/", ""),
            ("/./apps/*/", "apps/*"),
            (".app", ".app"),
        ] {
            assert_eq!(written(path), folder, "{path}");
            let list = SourcePaths::of(["./x", path]);
            assert_eq!(list.written(), ["x", folder], "{path}");
        }
        assert_eq!(SourcePaths::of(["./apps/web", "apps/./db/"]).common(), "apps");
        assert!(SourcePaths::of(["./apps/*/"]).has("apps/web/a.yaml") && SourcePaths::of(["."]).has("a.yaml"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut tree = MemoryTree::default();
        tree.file("apps/web/production/a.yaml", "");
        tree.file("file", "");
        let missing = |path: &str| {
            let Ok(missing) = SourcePaths::of(["apps", path]).missing(&tree).map(|missing| missing.map(str::to_owned));
            missing
        };
        assert_eq!(missing("apps/*/production"), None);
        assert_eq!(missing(""), None);
        for path in ["apps/*/staging", "file", "app", "apps/db"] {
            assert_eq!(missing(path).as_deref(), Some(path));
        }
    }
}
