//! The objects of a repository, when somebody made them by hand: trees and commits.

use std::cell::RefCell;
use std::collections::BTreeMap;

use belay::git::{Changes, Credentials, EntryKind, Files, Limits, Mirror};
use belay_core::rollout::CommitId;
use git2::{ObjectType, Oid};

use super::text::{sections, steers};

/// After so many runs a mirror has gathered enough files.
const RUNS: u32 = 20_000;

/// A mirror into which objects are written.
struct Stage {
    _folder: tempfile::TempDir,
    mirror: Mirror,
    objects: git2::Repository,
    blob: Oid,
    runs: u32,
}

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().expect("a folder");
        let location = folder.path().join("nowhere").display().to_string().parse().expect("a path");
        let limits = Limits { entries: 150, depth: 8, ..Limits::default() };
        let (mirror, _) =
            Mirror::open(&folder.path().join("mirror"), location, Credentials::default(), limits).expect("a mirror");
        let objects = git2::Repository::open_bare(mirror.path()).expect("its repository");
        let blob = objects.blob(b"a: b\n").expect("a blob");
        Stage { _folder: folder, mirror, objects, blob, runs: 0 }
    }

    fn write(&self, kind: ObjectType, bytes: &[u8]) -> Oid {
        self.objects.odb().and_then(|odb| odb.write(kind, bytes)).expect("objects can be written")
    }

    fn commit(&self, tree: Oid) -> CommitId {
        let text = format!("tree {tree}\nauthor A <a@x> 0 +0000\ncommitter A <a@x> 0 +0000\n\nOne\n");
        id(self.write(ObjectType::Commit, text.as_bytes()))
    }

    /// Returns a tree as lines `mode target name` say it: `b` is a file, `t3` the tree before that was the third, `.`
    /// nothing that is there; or, if the first line is `raw`, as the bytes say.
    fn tree(&self, lines: &[u8], earlier: &[Oid]) -> Oid {
        if let Some(raw) = lines.strip_prefix(b"raw\n") {
            return self.write(ObjectType::Tree, raw);
        }
        let mut bytes = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').take(60) {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (Some(mode), Some(target), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let number = || std::str::from_utf8(target.get(1..)?).ok()?.parse::<usize>().ok();
            let target = match target.first() {
                Some(b'b') => self.blob,
                Some(b't') => number().and_then(|at| earlier.get(at).copied()).unwrap_or(self.blob),
                _ => Oid::from_bytes(&[7; 20]).expect("twenty bytes"),
            };
            bytes.extend_from_slice(mode);
            bytes.push(b' ');
            bytes.extend(name.iter().filter(|byte| **byte != 0));
            bytes.push(0);
            bytes.extend_from_slice(target.as_bytes());
        }
        self.write(ObjectType::Tree, &bytes)
    }
}

fn id(oid: Oid) -> CommitId {
    oid.to_string().parse().expect("forty digits")
}

fn on_stage(run: impl FnOnce(&Stage)) {
    // Whatever happens in the run, the stage stays fit for the next.
    let stage = STAGE.with_borrow_mut(Option::take).filter(|stage| stage.runs < RUNS);
    let mut stage = stage.unwrap_or_else(Stage::new);
    stage.runs += 1;
    run(&stage);
    STAGE.set(Some(stage));
}

/// However wrong the trees are, walking them ends, within the limits; every path is one that a file can have; and what
/// differs between two of them is exactly what is in one and not in the other.
pub fn tree(data: &[u8]) {
    on_stage(|stage| {
        let mut trees = Vec::new();
        for (_, lines) in sections(data).into_iter().take(20) {
            trees.push(stage.tree(&lines, &trees));
        }
        let Some(after) = trees.last().map(|tree| stage.commit(*tree)) else { return };
        let before = trees.iter().rev().nth(1).map_or_else(|| after.clone(), |tree| stage.commit(*tree));
        let (Ok(one), Ok(other)) = (stage.mirror.files(&before, ""), stage.mirror.files(&after, "")) else { return };
        for files in [&one, &other] {
            usable(files);
        }
        match stage.mirror.changes(Some(&before), &after, "") {
            Ok(changes) => leads_from(one, other, changes),
            // Two trees side by side may be more than the limit that each kept.
            Err(error) => assert!(matches!(error, belay::git::GitError::TooMany { .. }), "{error}"),
        }
        for folder in ["a", "a/b", "..", "a//./b/", "\0", "/"] {
            let _ = stage.mirror.files(&after, folder);
        }
    });
}

fn usable(files: &Files) {
    assert!(files.files.is_sorted_by(|one, other| one.0 < other.0), "in order, and each once");
    for (path, _) in &files.files {
        assert!(!steers(path) && !path.contains('\n') && path.len() <= 4096, "{path:?}");
        assert!(path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{path:?}");
    }
    for odd in &files.odd {
        assert!(!steers(&odd.shown) && !odd.why.is_empty(), "{odd:?}");
    }
}

fn leads_from(before: Files, after: Files, changes: Changes) {
    let mut files: BTreeMap<String, _> = before.files.into_iter().collect();
    for change in changes.changes {
        assert_ne!(change.before, change.after, "{}", change.path);
        assert_eq!(files.get(&change.path), change.before.as_ref(), "{}", change.path);
        match change.after {
            Some(entry) => drop(files.insert(change.path, entry)),
            None => drop(files.remove(&change.path)),
        }
    }
    assert!(files.iter().eq(after.files.iter().map(|(path, entry)| (path, entry))));
    assert!(
        files.values().all(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Symlink | EntryKind::Submodule))
    );
}

/// Whatever a commit object says, it is told within bounds, without anything that could steer a terminal; a squash or a
/// merge of it too.
pub fn commit(data: &[u8]) {
    on_stage(|stage| {
        let tree = stage.tree(b"", &[]);
        let whole = stage.write(ObjectType::Commit, data);
        let mut framed = format!("tree {tree}\n").into_bytes();
        framed.extend_from_slice(data);
        let framed = stage.write(ObjectType::Commit, &framed);
        for commit in [whole, framed].map(id) {
            let Ok(told) = stage.mirror.commit(&commit) else { continue };
            let texts = [&told.subject, &told.author.name, &told.author.email];
            let trailers = told.trailers.iter().flat_map(|(key, value)| [key, value]);
            for text in texts.into_iter().chain(trailers) {
                assert!(!steers(text) && !text.contains('\n') && text.chars().count() <= 1000, "{text:?}");
            }
            assert!(told.trailers.len() <= 100);
            assert!(told.change_cause().chars().count() <= 200, "{}", told.change_cause());
            assert_eq!(told.id, commit);
            let _ = belay_core::rollout::allowed_by_trailer(std::slice::from_ref(&told));
            let _ = stage.mirror.files(&commit, "");
            let _ = stage.mirror.between(None, &commit, 10);
            let _ = stage.mirror.relation(&commit, &commit);
        }
    });
}
