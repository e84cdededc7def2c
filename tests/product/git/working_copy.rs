//! A person's working copy: edited, committed, pushed; and what is not theirs to lose stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use belay::git::{Credentials, Edit, GitError, Limits, Mirror, Signing, WorkingCopy, create_bare};
use belay_core::rollout::CommitId;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::mirror::{fetch, location, open};
use crate::support::repository::{Kind, Repository};

fn now() -> Timestamp {
    Timestamp::from_second(1_770_000_000).unwrap()
}

fn edit(path: &str, content: &str) -> Edit {
    Edit { path: path.to_owned(), content: Some(content.as_bytes().to_vec()) }
}

fn commit(copy: &WorkingCopy, edits: &[Edit]) -> Result<CommitId, GitError> {
    copy.commit(edits, "Set the image of web\n\nA note.\n", Signing::Never, now())
}

fn push(copy: &WorkingCopy) -> Result<(), GitError> {
    let credentials = Credentials::new(&copy.destination()?);
    copy.push(&credentials, &CancellationToken::new()).map(drop)
}

fn cloned() -> (Repository, WorkingCopy) {
    let mut repository = Repository::new();
    repository.write("production/web.yaml", "image: web:1\n").write("production/api.yaml", "image: api:1\n");
    repository.put("production/link.yaml", Kind::Symlink, "web.yaml").put("run.sh", Kind::Executable, "echo 1\n");
    repository.write(".gitignore", "*.log\n");
    repository.commit("First");
    repository.push();
    let folder = repository.clone_to("work");
    (repository, WorkingCopy::open(&folder).unwrap())
}

/// Returns the output of `git status`: path and state.
fn status(folder: &Path) -> Vec<(String, git2::Status)> {
    let repository = git2::Repository::open(folder).unwrap();
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true);
    let statuses = repository.statuses(Some(&mut options)).unwrap();
    statuses.iter().map(|entry| (entry.path().unwrap().to_owned(), entry.status())).collect()
}

#[test]
fn an_edit_is_committed_pushed_and_seen() {
    let (repository, copy) = cloned();
    let deeper = WorkingCopy::open(&copy.root().join("production")).unwrap();
    assert_eq!(deeper.root(), copy.root());
    assert_eq!(copy.branch().unwrap(), "main");
    let edits = [
        edit("production/web.yaml", "image: web:2\n"),
        edit("new/folder/db.yaml", "image: db:1\n"),
        Edit { path: "production/api.yaml".to_owned(), content: None },
        edit("run.sh", "echo 2\n"),
    ];
    let id = commit(&copy, &edits).unwrap();
    assert_eq!(status(copy.root()), []);
    assert_eq!(fs::read_to_string(copy.root().join("production/web.yaml")).unwrap(), "image: web:2\n");
    assert!(!copy.root().join("production/api.yaml").exists());
    assert_eq!(fs::metadata(copy.root().join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    push(&copy).unwrap();

    let (mirror, _) = open(&repository);
    assert_eq!(fetch(&mirror).unwrap().head, id);
    let told = mirror.commit(&id).unwrap();
    assert_eq!((told.subject.as_str(), told.author.name.as_str()), ("Set the image of web", "Ada"));
    assert_eq!((told.authored, told.committed), (now(), now()));
    let paths: Vec<String> = mirror.files(&id, "").unwrap().files.into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, [".gitignore", "new/folder/db.yaml", "production/link.yaml", "production/web.yaml", "run.sh"]);
}

#[test]
fn what_else_was_changed_stays_as_it_was() {
    let (_repository, copy) = cloned();
    let root = copy.root();
    fs::write(root.join("production/api.yaml"), "image: api:mine\n").unwrap();
    fs::write(root.join("staged.yaml"), "staged\n").unwrap();
    let git = git2::Repository::open(root).unwrap();
    let mut index = git.index().unwrap();
    index.add_path(Path::new("staged.yaml")).unwrap();
    index.write().unwrap();
    fs::write(root.join("untracked.yaml"), "untracked\n").unwrap();
    let before = status(root);
    assert_eq!(before.len(), 3);
    commit(&copy, &[edit("production/web.yaml", "image: web:2\n")]).unwrap();
    assert_eq!(status(root), before);
    let head = git.head().unwrap().peel_to_tree().unwrap();
    assert!(head.get_path(Path::new("staged.yaml")).is_err());
}

#[test]
fn what_can_not_be_edited_is_refused_and_nothing_is_touched() {
    let (_repository, copy) = cloned();
    let root = copy.root();
    fs::write(root.join("production/api.yaml"), "image: api:mine\n").unwrap();
    fs::write(root.join("untracked.yaml"), "untracked\n").unwrap();
    fs::write(root.join("a.log"), "log\n").unwrap();
    std::os::unix::fs::symlink("/tmp", root.join("elsewhere")).unwrap();
    let before = status(root);
    let head = git2::Repository::open(root).unwrap().head().unwrap().target();
    for (path, why) in [
        ("production/api.yaml", "not committed"),
        ("untracked.yaml", "not known to Git"),
        ("a.log", "ignored"),
        ("production/link.yaml", "symbolic link"),
        ("elsewhere/x.yaml", "symbolic link"),
        ("../x.yaml", "not a path inside"),
        ("/etc/passwd", "not a path inside"),
        (".git/config", "not a path inside"),
        ("production/.GIT/config", "not a path inside"),
        ("production", "is a folder"),
        ("", "is a folder"),
    ] {
        let edits = [edit("production/web.yaml", "image: web:2\n"), edit(path, "x")];
        let error = commit(&copy, &edits).unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
    let same = commit(&copy, &[edit("production/web.yaml", "image: web:1\n")]).unwrap_err();
    assert_eq!(same.to_string(), "nothing would change");
    let gone = commit(&copy, &[Edit { path: "never.yaml".to_owned(), content: None }]).unwrap_err();
    assert!(gone.to_string().contains("to be deleted"), "{gone}");
    assert_eq!(status(root), before);
    assert_eq!(git2::Repository::open(root).unwrap().head().unwrap().target(), head);
}

#[test]
fn states_in_which_nothing_is_committed_say_so() {
    let (repository, copy) = cloned();
    let change = [edit("production/web.yaml", "image: web:2\n")];
    let git = git2::Repository::open(copy.root()).unwrap();
    git.config().unwrap().set_str("user.name", "").unwrap();
    assert!(commit(&copy, &change).unwrap_err().to_string().contains("git config --global user.name"));
    git.config().unwrap().set_str("user.name", "Ada").unwrap();
    fs::write(git.path().join("MERGE_HEAD"), format!("{}\n", repository.tip().unwrap())).unwrap();
    assert!(commit(&copy, &change).unwrap_err().to_string().contains("in the middle of"));
    fs::remove_file(git.path().join("MERGE_HEAD")).unwrap();
    git.set_head_detached(git.head().unwrap().target().unwrap()).unwrap();
    assert!(commit(&copy, &change).unwrap_err().to_string().contains("detached HEAD"));
    assert_eq!(status(copy.root()), []);

    let bare = WorkingCopy::open(repository.path()).err().unwrap().to_string();
    assert!(bare.contains("without a working copy"), "{bare}");
    let nowhere = tempfile::tempdir().unwrap();
    let error = WorkingCopy::open(nowhere.path()).err().unwrap().to_string();
    assert!(error.contains("not in a Git working copy"), "{error}");
}

#[test]
fn a_commit_that_fails_at_the_end_leaves_everything_as_it_was() {
    let (_repository, copy) = cloned();
    let lock = copy.root().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let edits = [edit("production/web.yaml", "image: web:2\n"), edit("new/db.yaml", "image: db:1\n")];
    commit(&copy, &edits).unwrap_err();
    assert_eq!(status(copy.root()), []);
    assert_eq!(fs::read_to_string(copy.root().join("production/web.yaml")).unwrap(), "image: web:1\n");
    fs::remove_file(lock).unwrap();
    commit(&copy, &edits).unwrap();
    assert_eq!(status(copy.root()), []);
}

#[test]
fn a_push_does_not_overwrite_what_somebody_else_pushed() {
    let (mut repository, copy) = cloned();
    commit(&copy, &[edit("production/web.yaml", "image: web:2\n")]).unwrap();
    let theirs = repository.commit_file("production/api.yaml", "image: api:2\n", "Somebody else");
    repository.push();
    let error = push(&copy).unwrap_err();
    assert!(matches!(&error, GitError::PushRefused { message, .. } if message.contains("pull --rebase")), "{error:?}");
    let (mirror, _) = open(&repository);
    assert_eq!(fetch(&mirror).unwrap().head.as_str(), theirs);
}

#[test]
fn line_ends_are_committed_as_git_is_set() {
    let (repository, copy) = cloned();
    let git = git2::Repository::open(copy.root()).unwrap();
    git.config().unwrap().set_bool("core.autocrlf", true).unwrap();
    commit(&copy, &[edit("production/web.yaml", "image: web:2\r\nname: web\r\n")]).unwrap();
    assert_eq!(status(copy.root()), []);
    assert_eq!(fs::read_to_string(copy.root().join("production/web.yaml")).unwrap(), "image: web:2\r\nname: web\r\n");
    push(&copy).unwrap();
    let (mirror, _) = open(&repository);
    let head = fetch(&mirror).unwrap().head;
    let files = mirror.files(&head, "production").unwrap().files;
    let web = files.iter().find(|(path, _)| path == "production/web.yaml").unwrap().1;
    assert_eq!(mirror.read(web.blob, 100).unwrap(), b"image: web:2\nname: web\n");
}

#[test]
fn a_repository_can_be_made_from_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (bare, work) = (folder.path().join("deploy.git"), folder.path().join("work"));
    create_bare(&bare, "main").unwrap();
    let copy = WorkingCopy::create(&work, "main", "Ada", "ada@example.com").unwrap();
    copy.set_origin(&location(&bare)).unwrap();
    assert!(push(&copy).is_err());
    assert!(commit(&copy, &[]).is_err());
    let first = commit(&copy, &[edit("web.yaml", "one\n")]).unwrap();
    push(&copy).unwrap();
    let second = commit(&copy, &[edit("web.yaml", "two\n")]).unwrap();
    push(&copy).unwrap();
    let mirror = folder.path().join("mirror");
    let mirror = Mirror::open(&mirror, location(&bare), Credentials::default(), Limits::default()).unwrap().0;
    assert_eq!(fetch(&mirror).unwrap().head, second);
    assert_eq!(mirror.commit(&second).unwrap().parents, [first]);
}

#[test]
fn a_commit_is_signed_as_git_is_set() {
    let (repository, copy) = cloned();
    let git = git2::Repository::open(copy.root()).unwrap();
    let mut config = git.config().unwrap();
    config.set_bool("commit.gpgSign", true).unwrap();
    config.set_str("gpg.format", "ssh").unwrap();
    config.set_str("gpg.ssh.program", "/nowhere/ssh-keygen").unwrap();
    let signed =
        |content: &str| copy.commit(&[edit("production/web.yaml", content)], "Signed", Signing::AsConfigured, now());
    assert!(signed("2").unwrap_err().to_string().contains("user.signingKey"));
    config.set_str("user.signingKey", &repository.beside("key").display().to_string()).unwrap();
    assert!(signed("2").unwrap_err().to_string().contains("failed to sign the commit with /nowhere/ssh-keygen"));
    config.set_str("gpg.format", "x509").unwrap();
    assert!(signed("2").unwrap_err().to_string().contains("x509"));
    config.set_str("gpg.format", "openpgp").unwrap();
    config.set_str("gpg.program", "false").unwrap();
    assert!(signed("2").unwrap_err().to_string().contains("failed to sign"));
    config.set_str("gpg.program", "echo").unwrap();
    // It does not read what it should sign, so that its input is closed sooner or later.
    for _ in 0..20 {
        let refused = signed("2").unwrap_err().to_string();
        assert!(refused.contains("with echo: it answered with something else than a signature"), "{refused}");
    }
    assert_eq!(status(copy.root()), []);
    commit(&copy, &[edit("production/web.yaml", "not signed")]).unwrap();

    let key = repository.beside("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("ssh-keygen is not installed: skipped: a signed commit");
        return;
    }
    config.set_str("gpg.format", "ssh").unwrap();
    config.set_str("gpg.ssh.program", "ssh-keygen").unwrap();
    let id = signed("signed").unwrap();
    let (signature, _) = git.extract_signature(&git2::Oid::from_str(id.as_str()).unwrap(), None).unwrap();
    assert!(signature.starts_with(b"-----BEGIN SSH SIGNATURE-----"));
    let signers = repository.beside("signers");
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(&signers, format!("ada@example.com {public}")).unwrap();
    config.set_str("gpg.ssh.allowedSignersFile", &signers.display().to_string()).unwrap();
    if let Ok(verified) = Command::new("git").arg("-C").arg(copy.root()).args(["verify-commit", id.as_str()]).output() {
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
}

#[test]
fn a_revision_is_read_as_a_person_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let copy = WorkingCopy::create(&folder.path().join("copy"), "main", "Ada", "ada@example.com").unwrap();
    let commit = |path: &str, content: &str| copy.commit(&[edit(path, content)], "A change", Signing::Never, now());
    let first = commit("production/web.yaml", "one").unwrap();
    commit("other.yaml", "two").unwrap();
    let read = |name: &str, folder: &str| copy.revision(name, folder, |path| path.ends_with(".yaml"));
    let names = |revision: belay::git::Revision| revision.files.into_keys().collect::<Vec<_>>();
    assert_eq!(names(read("HEAD", "").unwrap()), ["other.yaml", "production/web.yaml"]);
    assert_eq!(names(read("main", "production/").unwrap()), ["production/web.yaml"]);
    let before = read("HEAD~1", ".").unwrap();
    assert_eq!(before.commit.id, first);
    assert_eq!(names(before), ["production/web.yaml"]);
    assert_eq!(read(&first.as_str()[..8], "").unwrap().files["production/web.yaml"], b"one");
    let refused = |name: &str, folder: &str| read(name, folder).unwrap_err().to_string();
    assert!(refused("nonsense", "").contains("has no revision \"nonsense\""), "{}", refused("nonsense", ""));
    assert!(refused("HEAD", "staging").contains("has no folder staging"), "{}", refused("HEAD", "staging"));
}
