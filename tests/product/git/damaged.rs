//! A mirror that is damaged or another's, and repositories that can't be followed.

use std::fs;

use belay::git::{Credentials, Fetched, GitError, Limits, Mirror, Opened};

use crate::mirror::{fetch, id, location, main, open, text};
use crate::support::repository::Repository;

#[test]
fn a_mirror_of_something_else_or_a_broken_one_is_set_aside() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();

    let other = Repository::new();
    let folder = repository.beside("mirror");
    let (moved, opened) =
        Mirror::open(&folder, location(other.path()), Credentials::default(), Limits::default()).unwrap();
    let Opened::OtherRepository { was, set_aside } = opened else { panic!("{opened:?}") };
    assert_eq!(was, repository.path().display().to_string());
    assert!(set_aside.join("HEAD").exists());
    assert!(matches!(fetch(&moved).unwrap_err(), GitError::Empty { .. }));

    let (mirror, opened) = open(&repository);
    assert!(matches!(opened, Opened::OtherRepository { .. }), "{opened:?}");
    assert_eq!(fetch(&mirror).unwrap().head, id(&first));
    for entry in fs::read_dir(mirror.path().join("objects/pack")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let (mirror, opened) = open(&repository);
    assert!(matches!(opened, Opened::Damaged { .. }), "{opened:?}");
    assert_eq!(fetch(&mirror).unwrap().head, id(&first));

    fs::write(mirror.path().join("config"), "[core").unwrap();
    let (mirror, opened) = open(&repository);
    assert!(matches!(opened, Opened::Damaged { .. }), "{opened:?}");
    assert_eq!(fetch(&mirror).unwrap().head, id(&first));
}

#[test]
fn damage_found_while_reading_is_told_and_mended() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let second = repository.commit_file("a.yaml", "two", "Second");
    repository.push();
    fetch(&mirror).unwrap();
    let blob = mirror.files(&id(&second), "").unwrap().files[0].1.blob;
    // It would go on reading the files that are replaced here.
    drop(mirror);
    for entry in fs::read_dir(repository.beside("mirror/repository.git/objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let end = bytes.len() - 20;
            bytes[12..end].fill(0xff);
        }
        fs::write(&path, bytes).unwrap();
    }
    let mirror = match Mirror::read_only(&repository.beside("mirror"), location(repository.path()), Limits::default()) {
        Ok(mirror) => {
            let error = mirror.read(blob, 1000).map(drop).and_then(|()| mirror.files(&id(&first), "").map(drop));
            assert!(error.unwrap_err().wants_a_new_mirror());
            mirror
        }
        Err(error) => {
            assert!(error.wants_a_new_mirror(), "{error}");
            open(&repository).0
        }
    };
    mirror.start_over().unwrap();
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&second), before: None });
    assert_eq!(text(&mirror, &id(&second), "a.yaml"), "two");
}

#[test]
fn a_repository_that_belay_can_not_follow_says_why() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let refused = |setting: &str, value: &str| {
        let config = repository.path().join("config");
        let before = fs::read_to_string(&config).unwrap();
        let version = before.replace("repositoryformatversion = 0", "repositoryformatversion = 1");
        fs::write(&config, format!("{version}\n[extensions]\n\t{setting} = {value}\n")).unwrap();
        let (mirror, _) = open(&repository);
        let said = fetch(&mirror).unwrap_err().to_string();
        fs::write(&config, before).unwrap();
        said
    };
    assert!(refused("partialClone", "origin").contains("partial clone"));
    assert!(refused("refStorage", "reftable").contains("reftable"));
    assert!(refused("objectFormat", "sha256").contains("SHA-256"), "{}", refused("objectFormat", "sha256"));
    assert!(refused("someday", "true").contains("someday"));

    fs::write(repository.path().join("shallow"), format!("{}\n", repository.tip().unwrap())).unwrap();
    let (mirror, _) = open(&repository);
    let said = fetch(&mirror).unwrap_err().to_string();
    assert!(said.contains("git fetch --unshallow"), "{said}");
    fs::remove_file(repository.path().join("shallow")).unwrap();

    let file = repository.beside("file");
    fs::write(&file, "no repository").unwrap();
    for (path, why) in [(&file, "it is not a folder"), (&repository.beside("mirror"), "the folder is not a repository")]
    {
        let folder = repository.beside("other");
        let (mirror, _) = Mirror::open(&folder, location(path), Credentials::default(), Limits::default()).unwrap();
        let said = fetch(&mirror).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_source_with_missing_objects_moves_nothing() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let blob = repository.blob("two");
    repository.commit_file("a.yaml", "two", "Second");
    repository.push();
    // The push made a pack; what is in it becomes loose, and the new file goes missing.
    let source = git2::Repository::open(repository.path()).unwrap();
    let odb = source.odb().unwrap();
    let mut objects = Vec::new();
    odb.foreach(|id| {
        let object = odb.read(*id).unwrap();
        objects.push((*id, object.kind(), object.data().to_vec()));
        true
    })
    .unwrap();
    fs::remove_dir_all(repository.path().join("objects/pack")).unwrap();
    let loose = git2::Repository::open(repository.path()).unwrap();
    for (id, kind, data) in objects {
        if id.to_string() != blob {
            loose.odb().unwrap().write(kind, &data).unwrap();
        }
    }
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(&error, GitError::DamagedSource { .. }), "{error}");
    assert_eq!(mirror.head(&main()).unwrap(), Some(id(&first)));
    // Git marks a remote that is to have what is missing.
    loose.config().unwrap().set_bool("remote.origin.promisor", true).unwrap();
    let said = fetch(&mirror).unwrap_err().to_string();
    assert!(said.contains("it is a partial clone"), "{said}");
}

/// A power cut, a full disk and a hasty hand leave such damage, found at a start and while belay runs.
#[test]
fn any_damage_is_set_aside_and_fetched_anew() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let folder = repository.beside("mirror/repository.git");
    let packs = |extension: &str| -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
    };
    let damages: [(&str, &dyn Fn()); 6] = [
        ("an empty reference", &|| fs::write(folder.join("refs/heads/main"), "").unwrap()),
        ("an empty HEAD", &|| fs::write(folder.join("HEAD"), "").unwrap()),
        ("a pack cut short", &|| {
            let pack = packs("pack").remove(0);
            let bytes = fs::read(&pack).unwrap();
            fs::remove_file(&pack).unwrap();
            fs::write(&pack, &bytes[..bytes.len() - 7]).unwrap();
        }),
        ("no objects", &|| fs::remove_dir_all(folder.join("objects")).unwrap()),
        ("no packs", &|| fs::remove_dir_all(folder.join("objects/pack")).unwrap()),
        ("no mirror", &|| fs::remove_dir_all(folder.parent().unwrap()).unwrap()),
    ];
    for (number, (name, damage)) in damages.iter().enumerate() {
        drop(open(&repository));
        let running = open(&repository).0;
        fetch(&running).unwrap();
        damage();
        // At a start.
        let head = repository.commit_file("a.yaml", &format!("{number}"), "More");
        repository.push();
        let (mirror, _) = open(&repository);
        assert_eq!(fetch(&mirror).unwrap().head, id(&head), "{name}");
        assert_eq!(text(&mirror, &id(&head), "a.yaml"), format!("{number}"), "{name}");
        drop(mirror);
        // While it runs.
        let running = open(&repository).0;
        fetch(&running).unwrap();
        damage();
        let head = repository.commit_file("a.yaml", &format!("{number} again"), "More");
        repository.push();
        let read = || -> Result<(), GitError> {
            let head = fetch(&running)?.head;
            for (_, entry) in running.files(&head, "")?.files {
                running.read(entry.blob, 1000)?;
            }
            Ok(())
        };
        if let Err(error) = read() {
            assert!(error.wants_a_new_mirror(), "{name}: {error}");
            running.start_over().unwrap();
            read().unwrap();
        }
        assert_eq!(running.head(&main()).unwrap(), Some(id(&head)), "{name}");
        drop(running);
    }
}

#[test]
fn what_a_killed_process_left_is_cleared() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let left = ["objects/pack/pack_git2_a1b2c3", "objects/pack/tmp_copy", "refs/heads/main.lock", "HEAD.lock"];
    for name in left {
        fs::write(mirror.path().join(name), "").unwrap();
    }
    let second = repository.commit_file("a.yaml", "two", "Second");
    repository.push();
    assert_eq!(fetch(&mirror).unwrap().head, id(&second));
    for name in left {
        assert!(!mirror.path().join(name).exists(), "{name}");
    }
}

#[test]
fn an_attempt_that_did_not_end_is_counted() {
    let repository = Repository::new();
    let (mirror, _) = open(&repository);
    assert_eq!(mirror.unended_attempts(), 0);
    drop(mirror.attempt());
    assert_eq!(mirror.unended_attempts(), 0);
    for count in 1..4 {
        // A process that is killed drops nothing.
        let (killed, _) = open(&repository);
        std::mem::forget(killed.attempt());
        assert_eq!(mirror.unended_attempts(), count);
    }
    let attempt = mirror.attempt();
    drop(mirror.attempt());
    assert_eq!(mirror.unended_attempts(), 4, "what is part of an attempt does not end it");
    drop(attempt);
    assert_eq!(mirror.unended_attempts(), 0);
    fs::write(repository.beside("mirror/attempt"), "").unwrap();
    assert_eq!(mirror.unended_attempts(), 1);
}

/// A look that finds nothing new writes nothing: a kill in it is not taken for the repository's doing.
#[test]
fn an_idle_look_is_no_attempt() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    let folder = repository.beside("mirror");
    let changed = || fs::metadata(&folder).unwrap().modified().unwrap();
    let empty = changed();
    fetch(&mirror).unwrap();
    let fetched = changed();
    assert!(fetched > empty, "what is new is an attempt");
    fetch(&mirror).unwrap();
    assert_eq!(changed(), fetched);
}

#[test]
fn many_commits_leave_no_descriptor_open() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    let folder = repository.beside("mirror").display().to_string();
    let held = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let open = links.filter(|link| link.to_string_lossy().starts_with(&folder)).count();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        open + maps.lines().filter(|line| line.contains(&folder)).count()
    };
    // The packs that are not joined yet take two descriptors and two mappings each, for three handles at most.
    let mut most = 0;
    for number in 0..150 {
        let head = repository.commit_file("a.yaml", &format!("{number}"), "More");
        repository.push();
        assert_eq!(fetch(&mirror).unwrap().head, id(&head));
        assert_eq!(text(&mirror, &id(&head), "a.yaml"), format!("{number}"));
        most = most.max(held());
    }
    assert!(most < 200, "{most} files of the mirror are open or mapped");
}

/// libgit2 appends to the log of a reference in place, and its other name may be a file of somebody else.
#[test]
fn a_mirror_with_a_file_that_has_another_name_elsewhere_is_set_aside() {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let victim = repository.beside("victim");
    fs::write(&victim, "theirs").unwrap();
    let planted = mirror.path().join("logs/refs/remotes/origin/main");
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    fs::hard_link(&victim, &planted).unwrap();
    // Commands that only read go on.
    Mirror::read_only(&repository.beside("mirror"), location(repository.path()), Limits::default()).unwrap();
    let (mirror, opened) = open(&repository);
    let Opened::Damaged { why, .. } = opened else { panic!("{opened:?}") };
    assert!(why.contains("logs/refs/remotes/origin/main: it is a file with 2 names (hard links)"), "{why}");
    assert_eq!(fetch(&mirror).unwrap().head, id(&first));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
    let (_, opened) = open(&repository);
    assert!(matches!(opened, Opened::Existing), "{opened:?}");
}
