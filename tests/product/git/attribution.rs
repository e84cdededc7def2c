//! The commit that is charged with a change.

use std::collections::BTreeMap;

use belay::git::{Chain, Entry, Limits, Mirror};
use belay::rollout::CommitId;

use super::mirror::{fetch, id, location, open};
use crate::support::repository::Repository;

/// Pushes, fetches and asks about every path that differs.
fn chains(repository: &Repository, from: Option<&str>, to: &str) -> (Mirror, BTreeMap<String, Chain>) {
    repository.force_push();
    let (mirror, _) = open(repository);
    fetch(&mirror).unwrap();
    let from = from.map(id);
    let changes = mirror.changes(from.as_ref(), &id(to), "").unwrap().changes;
    let paths: Vec<String> = changes.into_iter().map(|change| change.path).collect();
    let chains = mirror.attribution(from.as_ref(), &id(to), "", &paths, 20).unwrap();
    (mirror, chains)
}

/// Path by path, the commit that is charged with the file as one thing.
fn charged(repository: &Repository, from: Option<&str>, to: &str) -> Vec<(String, String)> {
    let (_, chains) = chains(repository, from, to);
    chains.iter().map(|(path, chain)| (path.clone(), whole(chain).unwrap().to_string())).collect()
}

/// Returns the commit that is charged with a file as one thing.
fn whole(chain: &Chain) -> Option<&CommitId> {
    let now = BTreeMap::from([((), chain.links.first()?.after)]);
    let version = |entry: Option<&Entry>| Ok::<_, ()>(entry.map(|entry| ((), *entry)).into_iter().collect());
    chain.charged(now, version).unwrap().remove(&())
}

/// Returns the commit that is charged with one line of a file.
fn charged_with(mirror: &Mirror, chain: &Chain, key: &str) -> String {
    let line = |entry: Option<&Entry>| {
        let Some(entry) = entry else { return Ok(BTreeMap::new()) };
        let text = String::from_utf8(mirror.read(entry.blob, 10_000)?).unwrap();
        let line = text.lines().find(|line| line.starts_with(key)).map(|line| ((), line.to_owned()));
        Ok::<_, belay::git::GitError>(line.into_iter().collect::<BTreeMap<_, _>>())
    };
    let now = line(chain.links[0].after.as_ref()).unwrap().remove(&());
    chain.charged([((), now)].into(), line).unwrap()[&()].to_string()
}

fn pairs(expected: &[(&str, &String)]) -> Vec<(String, String)> {
    expected.iter().map(|(path, commit)| ((*path).to_owned(), (*commit).clone())).collect()
}

#[test]
fn each_file_is_charged_to_the_newest_commit_that_changed_it() {
    let mut repository = Repository::new();
    repository.write("a.yaml", "1").write("b.yaml", "1").write("c.yaml", "1").write("d.yaml", "1");
    let first = repository.commit("First");
    // The clock runs backwards.
    let a = repository.at(1_500_000_000).commit_file("a.yaml", "2", "Change a");
    let b = repository.at(1_400_000_000).write("a.yaml", "3").commit_file("b.yaml", "2", "Change a and b");
    let there = repository.at(1_300_000_000).commit_file("c.yaml", "2", "Change c");
    let back = repository.at(1_200_000_000).commit_file("c.yaml", "1", "Change c back");
    let gone = repository.remove("d.yaml").commit("Delete d");
    let empty = repository.commit("Nothing");
    assert_eq!(charged(&repository, Some(&first), &empty), pairs(&[("a.yaml", &b), ("b.yaml", &b), ("d.yaml", &gone)]));
    assert_eq!(charged(&repository, Some(&first), &a), pairs(&[("a.yaml", &a)]));
    assert_eq!(charged(&repository, Some(&there), &empty), pairs(&[("c.yaml", &back), ("d.yaml", &gone)]));
    let whole = charged(&repository, None, &empty);
    assert_eq!(whole, pairs(&[("a.yaml", &b), ("b.yaml", &b), ("c.yaml", &back)]));
}

#[test]
fn a_merged_change_is_charged_to_the_commit_on_the_side() {
    let mut repository = Repository::new();
    let first = repository.write("a.yaml", "1").write("b.yaml", "1").commit_file("c.yaml", "1", "First");
    let side = repository.branch("side").commit_file("a.yaml", "2", "On the side");
    let other = repository.switch("main").branch("other").commit_file("c.yaml", "2", "On the other side");
    let main = repository.switch("main").commit_file("b.yaml", "2", "On main");
    let octopus = repository.merge(&["side", "other"], "Merge both");
    let expected = [("a.yaml", &side), ("b.yaml", &main), ("c.yaml", &other)];
    assert_eq!(charged(&repository, Some(&first), &octopus), pairs(&expected));
    // Already there before the merge: only what the merge brought.
    assert_eq!(charged(&repository, Some(&main), &octopus), pairs(&[("a.yaml", &side), ("c.yaml", &other)]));
    assert_eq!(charged(&repository, Some(&side), &octopus), pairs(&[("b.yaml", &main), ("c.yaml", &other)]));
}

#[test]
fn a_merge_that_changes_something_itself_is_charged() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "1", "First");
    repository.branch("side").commit_file("a.yaml", "2", "On the side");
    repository.switch("main").commit_file("a.yaml", "3", "On main");
    let parents = [repository.tip().unwrap(), repository.tip_of("side").unwrap()];
    let merge = repository.write("a.yaml", "4").commit_with(&parents, "Resolve by hand");
    assert_eq!(charged(&repository, Some(&first), &merge), pairs(&[("a.yaml", &merge)]));
}

#[test]
fn a_merge_that_takes_the_older_of_two_is_charged() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.branch("side").commit_file("b.yaml", "1", "On the side");
    let main = repository.switch("main").commit_file("a.yaml", "2", "On main");
    let parents = [main.clone(), repository.tip_of("side").unwrap()];
    let merge = repository.write("a.yaml", "1").write("b.yaml", "1").commit_with(&parents, "Theirs");
    let side = parents[1].clone();
    assert_eq!(charged(&repository, Some(&main), &merge), pairs(&[("a.yaml", &merge), ("b.yaml", &side)]));
}

#[test]
fn things_in_one_file_are_charged_one_by_one() {
    let mut repository = Repository::new();
    let first = repository.commit_file("all.yaml", "web 1\n\napi 1\n\ndb 1\n", "First");
    let side = repository.branch("side").commit_file("all.yaml", "web 1\n\napi 2\n\ndb 1\n", "Api on the side");
    let web = repository.switch("main").commit_file("all.yaml", "web 2\n\napi 1\n\ndb 1\n", "Web on main");
    let parents = [web.clone(), side.clone()];
    let merge = repository.write("all.yaml", "web 2\n\napi 2\n\ndb 2\n").commit_with(&parents, "Both, and db");
    let squashed = repository.commit_file("all.yaml", "web 2\n\napi 2\n\ndb 2\n\nqueue 1\n", "Queue");
    let (mirror, chains) = chains(&repository, Some(&first), &squashed);
    let chain = &chains["all.yaml"];
    assert_eq!(chain.links.len(), 4);
    for (key, commit) in [("web", &web), ("api", &side), ("db", &merge), ("queue", &squashed)] {
        assert_eq!(charged_with(&mirror, chain, key), *commit, "{key}");
    }
}

#[test]
fn a_rewritten_branch_charges_its_own_commits() {
    let mut repository = Repository::new();
    let first = repository.write("a.yaml", "1").commit_file("b.yaml", "1", "First");
    let a = repository.commit_file("a.yaml", "2", "Change a");
    let b = repository.commit_file("b.yaml", "2", "Change b");
    let (_, _) = chains(&repository, None, &b);
    // Moved back: nothing is new, and the commit that had made it so is charged.
    repository.reset(&first);
    assert_eq!(charged(&repository, Some(&b), &first), pairs(&[("a.yaml", &first), ("b.yaml", &first)]));
    // Rewritten, with one change dropped: that of b goes back to the first.
    let other = repository.commit_file("a.yaml", "2", "Change a, better said");
    assert_eq!(charged(&repository, Some(&b), &other), pairs(&[("b.yaml", &first)]));
    assert_ne!(a, other);
    // And to a history that has nothing in common.
    let alone = repository.orphan("alone").commit_file("a.yaml", "9", "Alone");
    repository.push_refspec("+refs/heads/alone:refs/heads/main");
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let paths = ["a.yaml".to_owned(), "b.yaml".to_owned()];
    let chains = mirror.attribution(Some(&id(&other)), &id(&alone), "", &paths, 5).unwrap();
    assert!(chains.values().all(|chain| chain.links[0].commit == id(&alone)), "{chains:?}");
}

#[test]
fn the_walk_is_bounded() {
    let mut repository = Repository::new();
    let first = repository.write("deep.yaml", "1").commit_file("a.yaml", "0", "First");
    let tips: Vec<String> = (1..40).map(|n| repository.commit_file("a.yaml", &n.to_string(), "More")).collect();
    let last = tips.last().unwrap();
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let paths = ["a.yaml".to_owned(), "deep.yaml".to_owned(), "never.yaml".to_owned()];
    let chains = mirror.attribution(None, &id(last), "", &paths, 5).unwrap();
    assert_eq!(chains["a.yaml"].links.len(), 5);
    assert_eq!(chains["deep.yaml"].links[0].commit, id(&first));
    assert!(chains["never.yaml"].links.is_empty());

    let with = |limits: Limits| {
        let location = location(repository.path());
        let mirror = Mirror::read_only(&repository.beside("mirror"), location, limits).unwrap();
        mirror.attribution(None, &id(last), "", &paths, 5).unwrap()
    };
    for limits in [Limits { walk: 10, ..Limits::default() }, Limits { history: 10, ..Limits::default() }] {
        let guess = with(limits);
        assert_eq!(guess["deep.yaml"].links[0].commit, id(last));
        assert!(guess["deep.yaml"].links[0].before.is_empty());
    }
}

/// A commit beyond the limits, of which nothing is left, keeps nobody from following what came after it.
#[test]
fn after_a_commit_that_is_beyond_the_limits() {
    let mut repository = Repository::new();
    let blob = repository.blob("1");
    let mut tree = repository.raw_tree(&[("100644", b"a.yaml", &blob)]).to_string();
    for _ in 0..12 {
        let names: Vec<String> = (0..10).map(|number| format!("folder-{number}")).collect();
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = repository.raw_tree(&entries).to_string();
    }
    let first = repository.commit_file("old.yaml", "1", "First");
    repository.commit_tree(tree.parse().unwrap(), std::slice::from_ref(&first), "10^12 files");
    let mended = repository.commit_file("new.yaml", "1", "Mended");
    let newer = repository.commit_file("newer.yaml", "1", "It goes on");
    let expected = pairs(&[("new.yaml", &mended), ("newer.yaml", &newer), ("old.yaml", &mended)]);
    assert_eq!(charged(&repository, None, &newer), expected);
}
