//! Random histories with merges, and what a naive reader of them would say.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use belay::git::{Entry, EntryKind, Relation};
use proptest::prelude::*;

use super::mirror::{fetch, id, open};
use crate::support::repository::{Kind, Repository};

const PATHS: [&str; 6] = ["p/a.yaml", "p/b.yaml", "p/q/c.yaml", "p/q/d.yaml", "p/q", "other/e.yaml"];

#[derive(Clone, Debug)]
enum Act {
    Commit { edits: Vec<(usize, usize)>, clock: i64 },
    Branch(usize),
    Switch(usize),
    Merge { with: Vec<usize>, take: Take, clock: i64 },
}

#[derive(Clone, Copy, Debug)]
enum Take {
    Both,
    Ours,
    Theirs,
    Neither(usize, usize),
}

fn act() -> impl Strategy<Value = Act> {
    let edits = proptest::collection::vec((0..PATHS.len(), 0..4_usize), 0..3);
    let take = prop_oneof![
        4 => Just(Take::Both),
        1 => Just(Take::Ours),
        1 => Just(Take::Theirs),
        1 => (0..PATHS.len(), 0..4_usize).prop_map(|(path, content)| Take::Neither(path, content)),
    ];
    let with = proptest::collection::vec(0..4_usize, 1..4);
    prop_oneof![
        5 => (edits, -5000..5000_i64).prop_map(|(edits, clock)| Act::Commit { edits, clock }),
        1 => (0..4_usize).prop_map(Act::Branch),
        2 => (0..4_usize).prop_map(Act::Switch),
        3 => (with, take, -5000..5000_i64).prop_map(|(with, take, clock)| Act::Merge { with, take, clock }),
    ]
}

/// A history: its commits in the order in which they were made, each with its parents.
struct Made {
    repository: Repository,
    commits: Vec<String>,
    parents: BTreeMap<String, Vec<String>>,
}

fn edit(repository: &mut Repository, path: usize, content: usize) {
    let path = PATHS[path];
    match content {
        0 => {
            repository.remove(path);
        }
        // p/q is a folder with files in it, or a file.
        _ if path == "p/q" => {
            repository.remove("p/q").put(path, Kind::Symlink, content.to_string());
        }
        _ => {
            if path.starts_with("p/q/") && repository.files().contains_key(b"p/q".as_slice()) {
                repository.remove("p/q");
            }
            repository.write(path, content.to_string());
        }
    }
}

fn make(acts: &[Act]) -> Made {
    let mut repository = Repository::new();
    repository.write("p/a.yaml", "1").write("p/q/c.yaml", "1");
    let first = repository.commit("First");
    let mut made = Made { repository, commits: vec![first.clone()], parents: BTreeMap::from([(first, Vec::new())]) };
    let name = |number: usize| if number == 0 { "main".to_owned() } else { format!("side-{number}") };
    for act in acts {
        let repository = &mut made.repository;
        match act {
            Act::Branch(number) if repository.tip_of(&name(*number)).is_none() => {
                repository.branch(&name(*number));
            }
            Act::Switch(number) if repository.tip_of(&name(*number)).is_some() => {
                repository.switch(&name(*number));
            }
            Act::Branch(_) | Act::Switch(_) => {}
            Act::Commit { edits, clock } => {
                let parents: Vec<String> = repository.tip().into_iter().collect();
                edits.iter().for_each(|(path, content)| edit(repository, *path, *content));
                let commit = repository.at(1_700_000_000 + clock * 100).commit("Edit");
                made.note(commit, parents);
            }
            Act::Merge { with, take, clock } => {
                made.merge(&with.iter().map(|number| name(*number)).collect(), *take, *clock);
            }
        }
    }
    made
}

impl Made {
    fn note(&mut self, commit: String, parents: Vec<String>) {
        // Two commits with the same content, parents, author and clock are one.
        if self.parents.insert(commit.clone(), parents).is_none() {
            self.commits.push(commit);
        }
    }

    fn merge(&mut self, with: &BTreeSet<String>, take: Take, clock: i64) {
        let tips: Vec<String> = with.iter().filter_map(|branch| self.repository.tip_of(branch)).collect();
        let ours = self.repository.tip().unwrap();
        let mut parents = vec![ours];
        parents.extend(tips.into_iter().filter(|tip| *tip != parents[0]).collect::<BTreeSet<_>>());
        if parents.len() < 2 {
            return;
        }
        let theirs = self.repository.files_at(&parents[1]).clone();
        match take {
            Take::Ours => {}
            Take::Neither(path, content) => edit(&mut self.repository, path, content),
            Take::Both | Take::Theirs => {
                let everything = matches!(take, Take::Theirs);
                for path in PATHS {
                    let Some((kind, blob)) = theirs.get(path.as_bytes()) else { continue };
                    if everything || !self.repository.files().contains_key(path.as_bytes()) || blob.as_str() < "8" {
                        let number = (1..4).find(|number| self.repository.blob(number.to_string()) == *blob).unwrap();
                        let path = PATHS.iter().position(|other| *other == path).unwrap();
                        assert_eq!(*kind == Kind::Symlink, PATHS[path] == "p/q");
                        edit(&mut self.repository, path, number);
                    }
                }
            }
        }
        let commit = self.repository.at(1_700_000_000 + clock * 100).commit_with(&parents, "Merge");
        self.note(commit, parents);
    }

    fn push(&mut self) {
        for branch in ["main", "side-1", "side-2", "side-3"] {
            if self.repository.tip_of(branch).is_some() {
                self.repository.switch(branch).force_push();
            }
        }
    }

    /// Returns a commit and everything that it comes from.
    fn ancestors(&self, of: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut left = vec![of.to_owned()];
        while let Some(next) = left.pop() {
            let (next, parents) = self.parents.get_key_value(&next).unwrap();
            if found.insert(next.as_str()) {
                left.extend(parents.iter().cloned());
            }
        }
        found
    }

    fn content(&self, at: &str, path: &str) -> Option<&(Kind, String)> {
        self.repository.files_at(at).get(path.as_bytes())
    }

    /// Returns the commit that is charged with a file's content at `to`: straight from the rule.
    fn charged(&self, from: Option<&str>, to: &str, path: &str) -> Option<String> {
        let old = from.map(|from| self.ancestors(from)).unwrap_or_default();
        let now = self.content(to, path);
        if from.map_or(now.is_none(), |from| self.content(from, path) == now) {
            return None;
        }
        let mut at = to;
        let mut choice = None;
        while !old.contains(at) {
            let parents = &self.parents[at];
            let same = parents.iter().position(|parent| self.content(parent, path) == now);
            let Some(same) = same.filter(|_| !(parents.is_empty())) else { return Some(at.to_owned()) };
            if choice.is_none() && parents.iter().any(|parent| self.content(parent, path) != now) {
                choice = Some(at.to_owned());
            }
            at = &parents[same];
        }
        choice.or_else(|| self.charged(None, to, path).or_else(|| self.deleted(to, path)))
    }

    /// Returns the commit that deleted a missing file: for a branch that was moved back to a commit before the file,
    /// nobody did.
    fn deleted(&self, to: &str, path: &str) -> Option<String> {
        let mut at = to;
        loop {
            let parents = &self.parents[at];
            let same = parents.iter().position(|parent| self.content(parent, path).is_none());
            match same {
                Some(same) => at = &parents[same],
                None => return Some(at.to_owned()),
            }
        }
    }
}

fn same(entry: Option<&Entry>, file: Option<&(Kind, String)>) -> bool {
    match (entry, file) {
        (None, None) => true,
        (Some(entry), Some((kind, blob))) => {
            entry.blob.to_string() == *blob && (entry.kind == EntryKind::Symlink) == (*kind == Kind::Symlink)
        }
        _ => false,
    }
}

fn check(made: &mut Made) {
    made.push();
    let tip = made.commits.last().unwrap().clone();
    made.repository.switch("main");
    let (mirror, _) = open(&made.repository);
    fetch(&mirror).unwrap();
    let everything = belay::git::Follow::Commit(id(&tip));
    if mirror.fetch(&everything, &tokio_util::sync::CancellationToken::new()).is_err() {
        return;
    }
    let known: Vec<&String> = made.commits.iter().filter(|commit| mirror.commit(&id(commit)).is_ok()).collect();
    let paths: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    let p: Vec<String> = paths[..5].to_vec();
    let mut pairs: Vec<(Option<&String>, &String)> = Vec::new();
    for (index, to) in known.iter().enumerate() {
        pairs.push((None, to));
        // Near ones, far ones, and the wrong way round.
        for other in [index.saturating_sub(1), index / 2, known.len() - 1] {
            pairs.push((Some(known[other]), to));
        }
    }
    for (from, to) in pairs {
        let from_id = from.map(|from| id(from));
        for (folder, paths) in [("", &paths), ("p", &p)] {
            let chains = mirror.attribution(from_id.as_ref(), &id(to), folder, paths, 50).unwrap();
            for path in paths {
                let chain = &chains[path];
                let charged = chain.links.first().and_then(|first| {
                    let version =
                        |entry: Option<&Entry>| Ok::<_, ()>(entry.map(|entry| ((), *entry)).into_iter().collect());
                    chain.charged([((), first.after)].into(), version).unwrap().remove(&()).map(ToString::to_string)
                });
                let expected = made.charged(from.map(String::as_str), to, path);
                assert_eq!(charged, expected, "{path} from {from:?} to {to}");
                for link in &chain.links {
                    let commit = link.commit.to_string();
                    assert!(same(link.after.as_ref(), made.content(&commit, path)));
                    for (before, parent) in link.before.iter().zip(&made.parents[&commit]) {
                        assert!(same(before.content.as_ref(), made.content(parent, path)));
                    }
                }
                let one =
                    &mirror.attribution(from_id.as_ref(), &id(to), folder, std::slice::from_ref(path), 1).unwrap();
                assert_eq!(one[path].links.first().map(cut), chain.links.first().map(cut), "{path}");
            }
        }
        if let Some(from) = from {
            compare_trees(made, &mirror, from, to);
            compare_graph(made, &mirror, from, to);
        }
    }
}

/// Returns the link without what came before it.
fn cut(link: &belay::git::ChainLink) -> belay::git::ChainLink {
    let mut link = link.clone();
    for before in &mut link.before {
        before.next = if before.content.is_none() { belay::git::Next::Nobody } else { belay::git::Next::Unknown };
    }
    link
}

fn compare_trees(made: &Made, mirror: &belay::git::Mirror, from: &str, to: &str) {
    let (before, after) = (made.repository.files_at(from), made.repository.files_at(to));
    let mut expected: Vec<&Vec<u8>> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    expected.sort();
    expected.dedup();
    let changes = mirror.changes(Some(&id(from)), &id(to), "").unwrap().changes;
    assert_eq!(changes.iter().map(|change| change.path.as_bytes()).collect::<Vec<_>>(), expected);
    for change in &changes {
        assert!(same(change.before.as_ref(), before.get(change.path.as_bytes())));
        assert!(same(change.after.as_ref(), after.get(change.path.as_bytes())));
    }
}

fn compare_graph(made: &Made, mirror: &belay::git::Mirror, from: &str, to: &str) {
    let (of_from, of_to) = (made.ancestors(from), made.ancestors(to));
    let between = mirror.between(Some(&id(from)), &id(to), 1000).unwrap();
    let found: BTreeSet<&str> = between.iter().map(|commit| commit.as_str()).collect();
    assert_eq!(found, of_to.difference(&of_from).copied().collect());
    for (index, commit) in between.iter().enumerate() {
        let later = between[index + 1..].iter().all(|later| !made.ancestors(later.as_str()).contains(commit.as_str()));
        assert!(later, "{commit} stands before something that comes from it");
    }
    match mirror.relation(&id(from), &id(to)).unwrap() {
        Relation::Same => assert_eq!(from, to),
        Relation::Forward => assert!(from != to && of_to.contains(from)),
        Relation::Back => assert!(from != to && of_from.contains(to)),
        Relation::Rewritten(common) => {
            assert!(!of_to.contains(from) && !of_from.contains(to));
            let common = common.unwrap();
            let both: BTreeSet<&str> = of_from.intersection(&of_to).copied().collect();
            assert!(both.contains(common.as_str()));
            assert!(
                both.iter().all(|other| *other == common.as_str() || !made.ancestors(other).contains(common.as_str()))
            );
        }
    }
}

/// Git itself on the same question, if it is installed.
fn compare_with_git(made: &mut Made) {
    made.push();
    made.repository.switch("main");
    let (mirror, _) = open(&made.repository);
    fetch(&mirror).unwrap();
    let tip = made.repository.tip().unwrap();
    let known: Vec<String> = made.ancestors(&tip).into_iter().map(str::to_owned).collect();
    for from in std::iter::once(None).chain(known.iter().step_by(3).map(Some)) {
        for path in PATHS.iter().filter(|path| **path != "p/q") {
            let range = from.map_or_else(|| tip.clone(), |from| format!("{from}..{tip}"));
            let told = Command::new("git")
                .arg("--git-dir")
                .arg(made.repository.path())
                .args(["log", "-1", "--topo-order", "--format=%H", &range, "--", path])
                .output()
                .unwrap();
            assert!(told.status.success());
            let told = String::from_utf8(told.stdout).unwrap().trim().to_owned();
            let from_id = from.map(|from| id(from));
            let paths = [(*path).to_owned()];
            let chains = mirror.attribution(from_id.as_ref(), &id(&tip), "", &paths, 1).unwrap();
            // Git also tells of a file that was changed and changed back, and does not tell of a merge that took the
            // older of two; and it may go another way round where two parents are the same.
            let Some(link) = chains[*path].links.first() else { continue };
            let merged = made.ancestors(&tip).iter().any(|commit| made.parents[*commit].len() > 1);
            if !told.is_empty() && !merged {
                assert_eq!(link.commit.as_str(), told, "{path} in {range}");
            }
            if from.is_none() && link.after.is_some() {
                assert_eq!(link.commit.as_str(), told, "{path} in {range}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn changes_and_who_made_them_are_what_a_naive_reader_finds(acts in proptest::collection::vec(act(), 1..25)) {
        check(&mut make(&acts));
    }

    #[test]
    fn git_says_the_same(acts in proptest::collection::vec(act(), 1..15)) {
        if Command::new("git").arg("--version").output().is_ok() {
            compare_with_git(&mut make(&acts));
        } else {
            eprintln!("git is not installed: skipped: comparison with git log");
        }
    }
}
