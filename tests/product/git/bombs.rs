//! Repositories that are small and take much memory to read. Each is followed by a process of its own, whose peak is
//! measured: whatever the repository holds, it is read within bounds, or refused with what to do.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use belay::git::{Credentials, Follow, GitError, Limits, Mirror};
use belay_core::manifest::{Scopes, is_manifest, read_file};
use tokio_util::sync::CancellationToken;

use crate::support::git_server::{self, GitServer, Temper};
use crate::support::repository::{Kind, Repository};

/// Names the repository, the mirror's folder and what to follow to the process that is measured.
const WHERE: &str = "BELAY_TEST_MEASURED";
/// The most that a process may take at its peak.
const PEAK: u64 = 256 << 20;

/// Returns the report of a process that follows a repository: it read all, or why not.
fn follow(repository: &str, mirror: &Path, follow: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bombs::follows_a_repository_and_is_measured", "--nocapture", "--test-threads", "1"])
        .env(WHERE, format!("{repository} {} {follow}", mirror.display()))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout).into_owned();
    let told = |what: &str| out.lines().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
    let said = told("said: ").unwrap_or_else(|| panic!("{}: {out}", child.status));
    let peak: u64 = told("peak: ").unwrap().parse().unwrap();
    eprintln!("{repository}: peak {} MiB: {said}", peak >> 20);
    assert!(peak < PEAK, "{repository}: {} MiB: {said}", peak >> 20);
    said
}

/// Not a test by itself: the process that is measured.
#[test]
fn follows_a_repository_and_is_measured() {
    let Ok(told) = std::env::var(WHERE) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [repository, mirror, branch] = told[..] else { panic!("{told:?}") };
    let said = match read_all(repository, Path::new(mirror), branch) {
        Ok(files) => format!("read {files} manifests"),
        Err(error) => error.to_string(),
    };
    println!("\nsaid: {said}");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    println!("peak: {}", high_water(&status).unwrap());
}

/// Fetches a repository and reads all that the daemon would: trees, commits, who changed what, manifests.
fn read_all(repository: &str, folder: &Path, follow: &str) -> Result<usize, GitError> {
    let location = repository.parse().unwrap();
    let (mirror, _) = Mirror::open(folder, location, Credentials::default(), Limits::default())?;
    let follow = match follow.strip_prefix("tag=") {
        Some(tag) => Follow::Tag(tag.to_owned()),
        None => Follow::Branch(follow.to_owned()),
    };
    let head = mirror.fetch(&follow, &CancellationToken::new())?.head;
    for commit in mirror.between(None, &head, 10_000)? {
        mirror.commit(&commit)?;
    }
    let files: Vec<_> = mirror.files(&head, "")?.files.into_iter().filter(|(path, _)| is_manifest(path)).collect();
    let paths: Vec<String> = files.iter().map(|(path, _)| path.clone()).take(1000).collect();
    mirror.attribution(None, &head, "", &paths, 1000)?;
    let mut read = 0;
    for (path, entry) in files.into_iter().take(5_000) {
        match mirror.read(entry.blob, 8 << 20) {
            Ok(bytes) => read += read_file(&path, &bytes, &Scopes::new("default")).manifests.len(),
            Err(GitError::TooLarge { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn of(repository: &Repository) -> String {
    run(repository);
    follow(&repository.path().display().to_string(), &repository.beside("mirror"), "main")
}

/// Follows it with the whole program, the embedded cluster and all, until the head is through or refused. Its peak is
/// bounded, too.
#[expect(clippy::disallowed_methods, reason = "a real process, which is looked at while it runs")]
fn run(repository: &Repository) {
    let state = repository.beside("state");
    let mut child = Command::new(env!("CARGO_BIN_EXE_belay"))
        .args(["run", "--once", "--embedded", "--timeout", "90s", "--repository"])
        .arg(repository.path())
        .arg("--state-dir")
        .arg(&state)
        .stdout(Stdio::null())
        .stderr(fs::File::create(repository.beside("log")).unwrap())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        // A process that has ended can't be read any more.
        let now = fs::read_to_string(&status).ok().and_then(|text| high_water(&text));
        peak = now.unwrap_or_default().max(peak);
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let log = fs::read_to_string(repository.beside("log")).unwrap();
    let last = log.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    eprintln!("{}: the program: peak {} MiB, {ended}: {last}", repository.path().display(), peak >> 20);
    assert!((1..PEAK).contains(&peak), "{} MiB: {log}", peak >> 20);
    assert!(ended.code().is_some(), "{ended}: {log}");
}

/// The most memory that a process has taken, in bytes, as its `status` says.
pub fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// Returns the same over HTTP.
fn over_http(repository: &Repository) -> Option<String> {
    if !git_server::is_there("a repository over HTTP that takes much memory") {
        return None;
    }
    let server = GitServer::start(repository.path().parent().unwrap(), Temper::default());
    Some(follow(&server.url("deploy.git"), &repository.beside("mirror-http"), "main"))
}

/// Runs the git program in the bare repository; `false` if there is none.
fn git(repository: &Repository, args: &[&str]) -> bool {
    let ran = Command::new("git").arg("-C").arg(repository.path()).args(args).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

#[test]
fn a_huge_file_that_is_stored_as_a_difference() {
    let mut repository = Repository::new();
    let mut zeros = vec![0_u8; 200_000_000];
    repository.write("a.yaml", CONFIG_MAP).write("image.bin", &zeros);
    repository.commit("Large");
    zeros.push(0);
    repository.write("image.bin", &zeros);
    repository.commit("Larger");
    drop(zeros);
    // Not by libgit2: other tests of this program have set what it may inflate.
    let work = repository.beside("work.git").display().to_string();
    if !git(&repository, &["fetch", "-q", &work, "+main:main"])
        || !git(&repository, &["repack", "-q", "-a", "-d", "-F", "--window=2", "--depth=2"])
    {
        return eprintln!("there is no git program: skipped");
    }
    // Its packs are taken over as they are, and the large file is never inflated.
    assert_eq!(of(&repository), "read 1 manifests");
    let Some(said) = over_http(&repository) else { return };
    assert!(said.contains("takes more memory") && said.contains("core.bigFileThreshold"), "{said}");
    // The advice helps.
    assert!(git(&repository, &["-c", "core.bigFileThreshold=16m", "repack", "-q", "-a", "-d", "-F"]));
    assert_eq!(over_http(&repository).unwrap(), "read 1 manifests");
}

#[test]
fn a_huge_file_that_is_not_packed() {
    let mut repository = Repository::new();
    repository.write("a.yaml", CONFIG_MAP);
    let first = repository.commit("First");
    repository.push();
    assert_eq!(of(&repository), "read 1 manifests");
    repository.write("b.yaml", vec![b' '; 300_000_000]);
    repository.commit("A manifest of 300 MB");
    repository.push();
    let said = of(&repository);
    assert!(said.contains("takes more memory") || said == "read 1 manifests", "{said}");
    drop(first);
}

#[test]
fn a_folder_with_very_many_files() {
    let mut repository = Repository::new();
    let blob = repository.blob(CONFIG_MAP);
    let names: Vec<String> = (0..330_000).map(|number| format!("{number:08}.yaml")).collect();
    let entries: Vec<(&str, &[u8], &str)> =
        names.iter().map(|name| ("100644", name.as_bytes(), blob.as_str())).collect();
    let tree = repository.raw_tree(&entries);
    repository.commit_tree(tree, &[], "Wide");
    repository.push();
    of(&repository);
    over_http(&repository);
}

#[test]
fn folders_inside_folders() {
    // Ten folders in each of ten folders, and so on: 10^12 files of one content.
    let mut repository = Repository::new();
    let blob = repository.blob(CONFIG_MAP);
    let mut tree = repository.raw_tree(&[("100644", b"a.yaml", &blob)]).to_string();
    for _ in 0..12 {
        let names: Vec<String> = (0..10).map(|number| format!("folder-{number}")).collect();
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = repository.raw_tree(&entries).to_string();
    }
    repository.commit_tree(tree.parse().unwrap(), &[], "Many");
    repository.push();
    let said = of(&repository);
    assert!(said.contains("more than") && said.contains("path"), "{said}");
    // One folder in one folder, 20,000 times.
    let mut repository = Repository::new();
    let mut tree = repository.raw_tree(&[("100644", b"a.yaml", &blob)]).to_string();
    repository.blob(CONFIG_MAP);
    for _ in 0..20_000 {
        tree = repository.raw_tree(&[("40000", b"folder", &tree)]).to_string();
    }
    repository.commit_tree(tree.parse().unwrap(), &[], "Deep");
    repository.push();
    let said = of(&repository);
    assert!(said.contains("too deep"), "{said}");
}

#[test]
fn a_long_chain_of_differences() {
    let mut repository = Repository::new();
    let mut content = format!("{CONFIG_MAP}data:\n");
    for number in 0..1200 {
        content.push_str(&format!("  key-{number}: \"{}\"\n", "x".repeat(400)));
        repository.commit_file("a.yaml", &content, "More");
    }
    repository.push();
    if !git(&repository, &["repack", "-q", "-a", "-d", "-F", "--depth=4000", "--window=3"]) {
        return eprintln!("there is no git program: skipped");
    }
    assert_eq!(of(&repository), "read 1 manifests");
    over_http(&repository).inspect(|said| assert_eq!(said, "read 1 manifests"));
}

#[test]
fn a_commit_and_a_tag_with_huge_messages() {
    let mut repository = Repository::new();
    repository.write("a.yaml", CONFIG_MAP);
    let first = repository.commit("First");
    repository.push();
    // Straight into the repository: a push would pack them, which takes longer than all the rest.
    let bare = git2::Repository::open_bare(repository.path()).unwrap();
    let put = |kind, head: String, name: &str| {
        let message = vec![b'a'; 200_000_000];
        let id = bare.odb().unwrap().write(kind, &[head.into_bytes(), message].concat()).unwrap();
        bare.reference(name, id, true, "made by a test").unwrap();
    };
    let who = "Ada <ada@example.com> 1760000000 +0000";
    let tag = format!("object {first}\ntype commit\ntag v1\ntagger {who}\n\n");
    put(git2::ObjectType::Tag, tag, "refs/tags/v1");
    let said = follow(&repository.path().display().to_string(), &repository.beside("mirror"), "tag=v*");
    assert!(said.contains("takes more memory"), "{said}");
    assert_eq!(of(&repository), "read 1 manifests", "a tag that is not followed harms nothing");
    let commit = format!("tree {}\nparent {first}\nauthor {who}\ncommitter {who}\n\n", repository.tree());
    put(git2::ObjectType::Commit, commit, "refs/heads/main");
    let said = of(&repository);
    assert!(said.contains("takes more memory"), "{said}");
}

#[test]
fn very_many_branches() {
    let mut repository = Repository::new();
    let head = repository.commit_file("a.yaml", CONFIG_MAP, "First");
    repository.push();
    let lines: Vec<String> = (0..1_000_000).map(|number| format!("{head} refs/heads/b-{number:08}\n")).collect();
    let packed = format!("# pack-refs with: peeled fully-peeled sorted \n{}", lines.concat());
    fs::write(repository.path().join("packed-refs"), packed).unwrap();
    assert_eq!(of(&repository), "read 1 manifests");
    let said = over_http(&repository);
    said.inspect(|said| assert!(said.contains("too many branches") || said.contains("more memory"), "{said}"));
}

#[test]
fn manifests_that_grow_when_they_are_read() {
    let mut repository = Repository::new();
    let level = |number: usize| {
        let of = if number == 0 { "\"lol\"".to_owned() } else { format!("*l{}", number - 1) };
        format!("l{number}: &l{number} [{}]\n", vec![of; 10].join(","))
    };
    let aliases = (0..12).map(level).collect::<String>();
    repository.write("aliases.yaml", format!("{CONFIG_MAP}{aliases}"));
    let large = format!("{CONFIG_MAP}data:\n  a: \"{}\"\n", "a".repeat(2_500_000));
    for number in 0..30 {
        repository.write(format!("{number}.yaml"), &large);
    }
    let many = format!("{CONFIG_MAP}data:\n{}", (0..95_000).map(|key| format!("  k{key}: a\n")).collect::<String>());
    repository.write("many.yaml", many.replace("name: a", "name: b"));
    repository.write("link", "").put("link.yaml", Kind::Symlink, "a".repeat(1_000_000));
    repository.commit("Growing");
    repository.push();
    assert_eq!(of(&repository), "read 31 manifests");
}
