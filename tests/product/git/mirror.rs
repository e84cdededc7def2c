//! A mirror: made, fetched into, found again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use belay::git::{
    Credentials, Fetched, Follow, GitError, Limits, Location, Mirror, Opened, Relation, ResolvedRevision,
};
use belay_core::rollout::CommitId;
use tokio_util::sync::CancellationToken;

use crate::support::repository::Repository;

pub fn location(path: &Path) -> Location {
    path.display().to_string().parse().unwrap()
}

pub fn open(repository: &Repository) -> (Mirror, Opened) {
    let location = location(repository.path());
    Mirror::open(&repository.beside("mirror"), location, Credentials::default(), Limits::default()).unwrap()
}

pub fn fetch(mirror: &Mirror) -> Result<Fetched, GitError> {
    mirror.fetch(&main(), &CancellationToken::new())
}

pub fn main() -> Follow {
    Follow::Branch("main".to_owned())
}

pub fn id(digits: &str) -> CommitId {
    digits.parse().unwrap()
}

pub fn text(mirror: &Mirror, at: &CommitId, path: &str) -> String {
    let files = mirror.files(at, "").unwrap().files;
    let (_, entry) = files.into_iter().find(|(name, _)| name == path).unwrap();
    String::from_utf8(mirror.read(entry.blob, 1000).unwrap()).unwrap()
}

#[test]
fn a_push_is_seen_and_read() {
    let mut repository = Repository::new();
    let first = repository.commit_file("production/web.yaml", "one", "First");
    repository.push();
    let (mirror, opened) = open(&repository);
    assert_eq!(opened, Opened::Fresh);
    assert_eq!(mirror.head(&main()).unwrap(), None);
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&first), before: None });

    let second = repository.commit_file("production/web.yaml", "two", "Second");
    repository.push();
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&second), before: Some(id(&first)) });
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&second), before: Some(id(&second)) });
    assert_eq!(text(&mirror, &id(&second), "production/web.yaml"), "two");
    assert_eq!(text(&mirror, &id(&first), "production/web.yaml"), "one");
}

#[test]
fn what_was_fetched_outlives_its_repository() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    fs::remove_dir_all(repository.path()).unwrap();
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(&error, GitError::NoRepository { why, .. } if why == "nothing is there"), "{error}");

    let (mirror, opened) = open(&repository);
    assert_eq!(opened, Opened::Existing);
    assert_eq!(mirror.head(&main()).unwrap(), Some(id(&first)));
    assert_eq!(text(&mirror, &id(&first), "a.yaml"), "one");
    let location = location(repository.path());
    let reader = Mirror::read_only(&repository.beside("mirror"), location, Limits::default()).unwrap();
    assert_eq!(text(&reader, &id(&first), "a.yaml"), "one");
}

#[test]
fn what_is_missing_is_said_with_what_is_there() {
    let mut repository = Repository::new();
    let (mirror, _) = open(&repository);
    assert!(matches!(fetch(&mirror).unwrap_err(), GitError::Empty { .. }));

    repository.commit_file("a.yaml", "one", "First");
    repository.branch("trunk").push();
    let said = fetch(&mirror).unwrap_err().to_string();
    assert!(said.ends_with("has no branch main; it has trunk"), "{said}");
    let tag = Follow::Tag("v*".to_owned());
    let said = mirror.fetch(&tag, &CancellationToken::new()).unwrap_err().to_string();
    assert!(said.ends_with("has no tag that matches v*; it has no tags"), "{said}");
    let never = Follow::Commit(id("1234567812345678123456781234567812345678"));
    let error = mirror.fetch(&never, &CancellationToken::new()).unwrap_err();
    assert!(matches!(error, GitError::NoCommit { .. }), "{error}");
    let error = mirror.commit(&id("1234567812345678123456781234567812345678")).unwrap_err();
    assert!(matches!(error, GitError::NoCommit { .. }), "{error}");
}

#[test]
fn tags_commits_and_the_default_branch_can_be_followed() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.tag("v1.9.0", None);
    let second = repository.commit_file("a.yaml", "two", "Second");
    repository.tag("v1.10.0", Some("a note"));
    let third = repository.commit_file("a.yaml", "three", "Third");
    repository.push();
    let (mirror, _) = open(&repository);
    let stop = CancellationToken::new();
    let tag = Follow::Tag("v*".to_owned());
    assert_eq!(mirror.fetch(&tag, &stop).unwrap().head, id(&second));
    assert_eq!(mirror.fetch(&Follow::DefaultBranch, &stop).unwrap().head, id(&third));
    assert_eq!(mirror.fetch(&Follow::Commit(id(&first)), &stop).unwrap().head, id(&first));
    repository.push_refspec(":refs/tags/v1.10.0");
    assert_eq!(mirror.fetch(&tag, &stop).unwrap(), Fetched { head: id(&first), before: Some(id(&second)) });
    assert_eq!(text(&mirror, &id(&second), "a.yaml"), "two");
}

#[test]
fn a_force_push_loses_nothing() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    let lost = repository.commit_file("a.yaml", "two", "To be lost");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    repository.reset(&first);
    let other = repository.commit_file("a.yaml", "other", "Instead");
    repository.force_push();
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&other), before: Some(id(&lost)) });
    assert_eq!(mirror.relation(&id(&lost), &id(&other)).unwrap(), Relation::Rewritten(Some(id(&first))));
    assert_eq!(mirror.relation(&id(&first), &id(&other)).unwrap(), Relation::Forward);
    assert_eq!(mirror.relation(&id(&other), &id(&first)).unwrap(), Relation::Back);
    assert_eq!(mirror.relation(&id(&other), &id(&other)).unwrap(), Relation::Same);
    assert_eq!(mirror.between(Some(&id(&lost)), &id(&other), 10).unwrap(), [id(&other)]);
    assert_eq!(mirror.between(None, &id(&other), 10).unwrap(), [id(&other), id(&first)]);
    assert_eq!(mirror.between(None, &id(&other), 1).unwrap(), [id(&other)], "the newest");

    // Even a clean-up by hand leaves what was once followed.
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("git is not installed: skipped: gc in the mirror");
        return;
    }
    for what in [&["reflog", "expire", "--expire=now", "--all"][..], &["gc", "--quiet", "--prune=now"]] {
        let done = Command::new("git").arg("--git-dir").arg(mirror.path()).args(what).status().unwrap();
        assert!(done.success());
    }
    let (mirror, opened) = open(&repository);
    assert_eq!(opened, Opened::Existing);
    assert_eq!(text(&mirror, &id(&lost), "a.yaml"), "two");
}

#[test]
fn pins_hold_what_no_branch_has() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let unknown = id("1234567812345678123456781234567812345678");
    let set = |commits: &[&CommitId]| commits.iter().map(|commit| (*commit).clone()).collect::<BTreeSet<_>>();
    assert_eq!(mirror.pin(&set(&[&id(&first), &unknown])).unwrap(), std::slice::from_ref(&unknown));
    assert_eq!(mirror.pinned().unwrap(), [], "a branch has it");
    // Some that are here because all branches were once fetched, and that no branch has now.
    let earlier = id(&repository.branch("side").commit_file("a.yaml", "side", "Side"));
    let side = id(&repository.commit_file("a.yaml", "side by side", "Side by side"));
    repository.push();
    mirror.fetch(&Follow::Commit(side.clone()), &CancellationToken::new()).unwrap();
    git2::Repository::open_bare(mirror.path()).unwrap().find_reference("refs/heads/side").unwrap().delete().unwrap();
    assert_eq!(mirror.pin(&set(&[&earlier, &side])).unwrap(), []);
    assert_eq!(mirror.pinned().unwrap(), std::slice::from_ref(&side), "it comes from the earlier one");
    assert_eq!(mirror.pin_only(&set(&[&earlier, &unknown])).unwrap(), [unknown]);
    assert_eq!(mirror.pinned().unwrap(), [earlier]);
    assert_eq!(mirror.pin_only(&BTreeSet::new()).unwrap(), []);
    assert_eq!(mirror.pinned().unwrap(), []);

    // The head that was thrown away is kept until history has no use for it.
    repository.switch("main").reset(&first);
    let thrown = id(&repository.commit_file("a.yaml", "thrown away", "Thrown away"));
    repository.push();
    fetch(&mirror).unwrap();
    repository.reset(&first).commit_file("a.yaml", "instead", "Instead");
    repository.force_push();
    fetch(&mirror).unwrap();
    let kept = || {
        let mirror = git2::Repository::open_bare(mirror.path()).unwrap();
        mirror.find_reference(&format!("refs/belay/kept/{thrown}")).is_ok()
    };
    assert!(kept());
    mirror.pin_only(&set(&[&thrown])).unwrap();
    assert!(!kept());
    assert_eq!(mirror.pinned().unwrap(), [thrown]);
}

#[test]
fn what_nothing_leads_to_is_collected() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let mut thrown = Vec::new();
    for number in 0..120 {
        repository.reset(&first);
        thrown.push(id(&repository.commit_file("a.yaml", &format!("thrown away {number}"), "Thrown away")));
        repository.force_push();
        fetch(&mirror).unwrap();
    }
    let named = BTreeSet::from([thrown[7].clone()]);
    assert_eq!(mirror.pin_only(&named).unwrap(), []);
    let (last, named) = (thrown.pop().unwrap(), thrown.remove(7));
    assert_eq!(text(&mirror, &named, "a.yaml"), "thrown away 7");
    assert_eq!(text(&mirror, &last, "a.yaml"), "thrown away 119");
    assert_eq!(text(&mirror, &id(&first), "a.yaml"), "one");
    for commit in thrown {
        assert!(!mirror.contains(&commit).unwrap(), "nothing names it");
    }
    let next = repository.commit_file("a.yaml", "next", "Next");
    repository.push();
    assert_eq!(fetch(&mirror).unwrap().head, id(&next));
}

#[test]
fn digits_resolve_to_commits() {
    let mut repository = Repository::new();
    let ids: Vec<String> = (0..40).map(|n| repository.commit_file("a.yaml", &n.to_string(), "One more")).collect();
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    for commit in &ids {
        assert_eq!(mirror.resolve(&commit[..12].to_uppercase()).unwrap(), ResolvedRevision::One(id(commit)));
        let alike: Vec<CommitId> =
            ids.iter().filter(|other| other[..1] == commit[..1]).map(|other| id(other)).collect();
        match mirror.resolve(&commit[..1]).unwrap() {
            ResolvedRevision::One(one) => assert_eq!(alike, [one]),
            ResolvedRevision::Several(several) => {
                assert!(several.is_sorted() && several.len() == alike.len());
                assert!(several.iter().all(|one| alike.contains(one)));
            }
            ResolvedRevision::None => panic!("{commit} is there"),
        }
    }
    for nothing in ["", "xyz", "1234567812345678", "-x", "HEAD", "main", "é"] {
        assert_eq!(mirror.resolve(nothing).unwrap(), ResolvedRevision::None, "{nothing}");
    }
}

#[test]
fn a_commit_is_told_without_what_could_mislead() {
    let mut repository = Repository::new();
    repository.author("Ada \u{202e}Lovelace", "ada@example.com").at(1_700_000_000);
    let message = "Cache\theaders \u{1b}[31mfor images\n\nA body.\n\nBelay-Allow-Prune: 3\nCo-authored-by: Bob <b@x>\n";
    let first = repository.commit_file("a.yaml", "one", message);
    let raw = format!(
        "tree {}\nparent {first}\nauthor \u{0}? <> 99999999999999999 +0000\ncommitter X <x@x> -1 +0000\n\n",
        repository.tree()
    );
    let mut raw = raw.replace('\u{0}', "Z").into_bytes();
    raw.extend_from_slice(&[0xff, 0xfe, b'h', b'i']);
    raw.extend_from_slice("x".repeat(100_000).as_bytes());
    let odd = repository.commit_raw(&raw);
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let told = mirror.commit(&id(&first)).unwrap();
    assert_eq!(told.subject, "Cacheheaders [31mfor images");
    assert_eq!((told.author.name.as_str(), told.author.email.as_str()), ("Ada Lovelace", "ada@example.com"));
    assert_eq!(told.authored.as_second(), 1_700_000_000);
    assert_eq!(told.trailers[0], ("Belay-Allow-Prune".to_owned(), "3".to_owned()));
    assert_eq!(told.trailers.len(), 2);
    let told = mirror.commit(&id(&odd)).unwrap();
    assert!(told.subject.starts_with("\u{fffd}\u{fffd}hixxx") && told.subject.chars().count() == 1000);
    assert_eq!(told.parents, [id(&first)]);
}

#[test]
fn a_fetch_can_be_stopped() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(matches!(mirror.fetch(&main(), &stop).unwrap_err(), GitError::Cancelled));
    assert_eq!(mirror.head(&main()).unwrap(), None);
    let limits = Limits { fetch_time: std::time::Duration::ZERO, ..Limits::default() };
    let location = location(repository.path());
    let slow = Mirror::open(&repository.beside("mirror"), location, Credentials::default(), limits).unwrap().0;
    assert!(matches!(fetch(&slow).unwrap_err(), GitError::TooSlow { .. }));
    fetch(&mirror).unwrap();
}

#[test]
fn only_one_process_writes_a_mirror() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    let lock = fs::File::create(repository.beside("mirror").join("lock")).unwrap();
    lock.lock().unwrap();
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(error, GitError::Busy { .. }) && error.may_pass(), "{error}");
    drop(lock);
    fetch(&mirror).unwrap();
}

#[test]
fn branches_that_stand_in_each_others_way_and_odd_names_do_no_harm() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.branch("feature").push();
    let (mirror, _) = open(&repository);
    let stop = CancellationToken::new();
    let follow = |name: &str| Follow::Branch(name.to_owned());
    mirror.fetch(&follow("feature"), &stop).unwrap();
    repository.delete_pushed("feature");
    let tip = repository.tip().unwrap();
    let names: [&[u8]; 3] = [b"feature/web", b"caf\xe9", b"x.lock-"];
    for name in names {
        let name = std::os::unix::ffi::OsStrExt::from_bytes(name);
        let file = repository.path().join("refs/heads").join::<&std::ffi::OsStr>(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{tip}\n")).unwrap();
    }
    assert_eq!(mirror.fetch(&follow("feature/web"), &stop).unwrap().head, id(&tip));
    let said = mirror.fetch(&follow("gone"), &stop).unwrap_err().to_string();
    assert!(said.ends_with("it has feature/web, x.lock-"), "{said}");
    fs::remove_dir_all(repository.path().join("refs/heads/feature")).unwrap();
    fs::write(repository.path().join("refs/heads/feature"), format!("{tip}\n")).unwrap();
    assert_eq!(mirror.fetch(&follow("feature"), &stop).unwrap().head, id(&tip));
    for odd in ["", "..", "a..b", "-x", "refs/heads/feature", "a b", "a\u{0}b", "@{-1}", "HEAD", "feature^"] {
        assert!(matches!(mirror.fetch(&follow(odd), &stop).unwrap_err(), GitError::NoBranch { .. }), "{odd}");
    }
}

#[test]
fn what_is_shared_between_threads_can_be() {
    fn shared<T: Send + Sync>() {}
    shared::<Mirror>();
    shared::<belay::git::Wake>();
    shared::<belay::history::History>();
}
