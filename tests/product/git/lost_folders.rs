//! The search for folders in whose place there is something else: what it finds in a long history, and what it reads for that.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use belay::git::{EntryKind, WorkingCopy};

use crate::support::log;
use crate::support::repository::{Kind, Repository};

/// The trees that were read, as the log says.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the lost folders of the newest commit, each with its kind and its files, and the number of trees that were read.
fn search(repository: &Repository) -> (BTreeMap<String, (EntryKind, Vec<String>)>, usize) {
    let folder = repository.clone_to("copy");
    let copy = WorkingCopy::open(&folder).unwrap();
    let log = Log::default();
    let heard = log.clone();
    let guard = log::listen("belay=trace", move || heard.clone());
    let lost = copy.lost_folders(Some("HEAD"), |path| path.ends_with(".yaml")).unwrap();
    drop(guard);
    std::fs::remove_dir_all(folder).unwrap();
    let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    let read = text.lines().filter(|line| line.contains("a tree is read")).count();
    let named = lost.into_iter().map(|(path, lost)| (path, (lost.now, lost.files.into_keys().collect())));
    (named.collect(), read)
}

/// Returns a repository with manifests in several folders, and files for people in two of them.
fn repository() -> Repository {
    let mut repository = Repository::new();
    for folder in ["apps/web/deep", "apps/api", "lost/deep/below", "lost/other"] {
        repository.write(format!("{folder}/a.yaml"), "a: 1");
    }
    repository.write("README.md", "for people").write("apps/api/README.md", "for people");
    repository.commit("First");
    repository
}

/// Commits so many versions of a manifest four folders deep.
fn versions(repository: &mut Repository, count: usize) {
    for number in 0..count {
        repository.commit_file("apps/web/deep/a.yaml", &format!("a: {number}"), "Another version");
    }
}

#[test]
fn a_folder_that_was_lost_long_ago_is_found() {
    for (kind, content, now) in [
        (Kind::Symlink, "elsewhere", EntryKind::Symlink),
        (Kind::Submodule, "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d", EntryKind::Submodule),
        (Kind::File, "text", EntryKind::File),
    ] {
        let mut repository = repository();
        versions(&mut repository, 3);
        repository.remove("lost/deep/below/a.yaml").remove("lost/other/a.yaml").put("lost", kind, content);
        repository.commit("Something else");
        versions(&mut repository, 60);
        repository.push();
        let (lost, _) = search(&repository);
        let files = vec!["lost/deep/below/a.yaml".to_owned(), "lost/other/a.yaml".to_owned()];
        assert_eq!(lost, [("lost".to_owned(), (now, files))].into());
    }
}

#[test]
fn a_folder_below_another_is_found_and_what_was_away_in_between_is_not() {
    let mut repository = repository();
    repository.remove("lost/deep/below/a.yaml").put("lost/deep", Kind::Symlink, "elsewhere");
    repository.commit("Something else");
    repository.remove("apps/api/a.yaml").remove("apps/api/README.md");
    repository.commit("Away with it");
    repository.commit_file("apps/api", "text", "A file of that name");
    versions(&mut repository, 5);
    repository.push();
    let (lost, _) = search(&repository);
    let files = vec!["lost/deep/below/a.yaml".to_owned()];
    assert_eq!(lost, [("lost/deep".to_owned(), (EntryKind::Symlink, files))].into());
}

/// A folder that is read, and whose name is that of a manifest, may be lost as well.
#[test]
fn a_change_that_no_lost_folder_can_come_of_costs_one_tree() {
    const VERSIONS: usize = 200;
    let mut repository = repository();
    versions(&mut repository, VERSIONS);
    repository.push();
    let (lost, read) = search(&repository);
    assert_eq!(lost, BTreeMap::new());
    // The root of each, for a file of it might have been a folder; and those of the newest, and of the two folders above the other.
    assert!((VERSIONS..=VERSIONS * 2 + 20).contains(&read), "{read} trees for {VERSIONS} commits");
}
