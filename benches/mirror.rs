//! The time of the mirror for a repository of 10,000 files in 1,000 folders and 5,000 commits, beside that of `git` for
//! the same in the same run: `cargo bench --bench mirror`. Needs `git`. `-- --quick` makes a tenth of it, for a look.
//!
//! Seen on two shared cores, as a part of what `git` takes: a first fetch 1.35, one when nothing has moved 0.04, one of a
//! commit 0.11 to 0.19; all files listed 1.4 and read 0.6; what changed in a commit 0.5, in a hundred 0.6. The last
//! author of each file, asked of the whole history, takes 5.5 (2.8 s): asked once, when a repository is new; later only
//! of new commits.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program for developers")]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belay::git::{Credentials, Follow, Limits, Location, Mirror};
use belay_core::rollout::CommitId;
use tokio_util::sync::CancellationToken;

const FOLDER: &str = "production";

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let size = if quick { Size { files: 1000, commits: 500 } } else { Size { files: 10_000, commits: 5000 } };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.git");
    make(&source, size);
    println!("{} files, {} commits", size.files, size.commits);
    println!("{:<56} {:>10} {:>10} {:>6}", "", "belay", "git", "ratio");
    let mirror = Bench { folder: folder.path().to_owned(), source, main: Follow::Branch("main".to_owned()) };
    let copy = mirror.fetches();
    mirror.reads(&copy, size);
    mirror.commits_more(&copy);
}

#[derive(Clone, Copy)]
struct Size {
    files: u64,
    commits: u64,
}

/// Makes the repository; each commit after the first changes four files.
fn make(path: &Path, size: Size) {
    run(Path::new("."), &["init", "-q", "--bare", "-b", "main", &path.display().to_string()]);
    let mut import = Command::new("git");
    import.arg("--git-dir").arg(path).args(["fast-import", "--quiet"]);
    let mut import = import.stdin(Stdio::piped()).spawn().unwrap();
    let mut out = BufWriter::new(import.stdin.take().unwrap());
    for commit in 0..size.commits {
        let at = 1_700_000_000 + commit;
        write!(out, "commit refs/heads/main\ncommitter Ada <ada@example.com> {at} +0000\ndata 6\nChange\n").unwrap();
        let changed = if commit == 0 { size.files } else { 4 };
        for nth in 0..changed {
            let number = if commit == 0 { nth } else { (commit * 7919 + nth * 104_729) % size.files };
            let padding = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(60);
            let text = format!("version: {commit}\n# {padding}\n");
            let path = format!("{FOLDER}/app-{:04}/file-{:02}.yaml", number / 10, number % 10);
            write!(out, "M 100644 inline {path}\ndata {}\n{text}\n", text.len()).unwrap();
        }
    }
    drop(out);
    assert!(import.wait().unwrap().success());
}

fn run(folder: &Path, arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let done = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    begun.elapsed()
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = work();
    (begun.elapsed(), result)
}

fn print(what: &str, belay: Duration, git: Duration) {
    let [belay, git] = [belay, git].map(|took| took.as_secs_f64() * 1000.0);
    println!("{what:<56} {belay:>7.1} ms {git:>7.1} ms {:>6.2}", belay / git);
}

struct Bench {
    folder: PathBuf,
    source: PathBuf,
    main: Follow,
}

/// The same repository, mirrored by belay and by Git.
struct Copies {
    mirror: Mirror,
    git: PathBuf,
}

impl Bench {
    fn open(&self, name: &str) -> Mirror {
        let location: Location = self.source.display().to_string().parse().unwrap();
        Mirror::open(&self.folder.join(name), location, Credentials::default(), Limits::default()).unwrap().0
    }

    fn fetch(&self, mirror: &Mirror) -> Duration {
        let stop = CancellationToken::new();
        timed(|| drop(mirror.fetch(&self.main, &stop).unwrap())).0
    }

    fn fetches(&self) -> Copies {
        let copies = Copies { mirror: self.open("mirror"), git: self.folder.join("mirror-of-git") };
        let belay = self.fetch(&copies.mirror);
        let [source, target] = [&self.source, &copies.git].map(|path| path.display().to_string());
        // A clone of a folder would only link the files.
        let git = run(&self.folder, &["clone", "-q", "--mirror", "--no-local", &source, &target]);
        print("first fetch", belay, git);
        print("fetch when nothing has moved", self.fetch(&copies.mirror), run(&copies.git, &["fetch", "-q"]));
        copies
    }

    fn reads(&self, copies: &Copies, size: Size) {
        let (mirror, git) = (&copies.mirror, |arguments: &[&str]| run(&copies.git, arguments));
        let head = mirror.head(&self.main).unwrap().unwrap();
        let (took, files) = timed(|| mirror.files(&head, FOLDER).unwrap().files);
        assert_eq!(files.len() as u64, size.files);
        print("list all files", took, git(&["ls-tree", "-r", "--name-only", "main"]));
        let read = || files.iter().for_each(|(_, entry)| drop(mirror.read(entry.blob, 100_000).unwrap()));
        print("read all files", timed(read).0, git(&["archive", "--format=tar", "main"]));
        let paths: Vec<String> = files.into_iter().map(|(path, _)| path).collect();
        let (took, chains) = timed(|| mirror.attribution(None, &head, FOLDER, &paths, 1).unwrap());
        assert!(chains.values().all(|chain| chain.links.len() == 1));
        print("who changed each file last", took, git(&["log", "--format=%H", "--name-only", "main"]));
        let commits = mirror.between(None, &head, 10_000).unwrap();
        self.changes(copies, &head, &commits);
    }

    fn changes(&self, copies: &Copies, head: &CommitId, commits: &[CommitId]) {
        for back in [1, 100] {
            let (took, found) = timed(|| copies.mirror.changes(Some(&commits[back]), head, FOLDER).unwrap().changes);
            assert!(found.len() >= 4);
            let git = run(&copies.git, &["diff", "--name-only", commits[back].as_str(), "main"]);
            print(&format!("what changed in {back} commits"), took, git);
        }
        let last = copies.mirror.changes(Some(&commits[1]), head, FOLDER).unwrap().changes;
        let paths: Vec<String> = last.into_iter().map(|change| change.path).collect();
        let range = format!("{}..main", commits[1].as_str());
        // A mirror that was opened anew has nothing in memory.
        let fresh = self.open("mirror");
        let (took, _) = timed(|| fresh.attribution(Some(&commits[1]), head, FOLDER, &paths, 1).unwrap());
        print("who changed the files of the last commit", took, run(&copies.git, &["log", "--name-only", &range]));
    }

    fn commits_more(&self, copies: &Copies) {
        let work = self.folder.join("work");
        let [source, target] = [&self.source, &work].map(|path| path.display().to_string());
        run(&self.folder, &["clone", "-q", &source, &target]);
        for number in 0..3 {
            let file = work.join(FOLDER).join("app-0000/file-00.yaml");
            std::fs::write(file, format!("changed: {number}\n")).unwrap();
            run(&work, &["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qam", "One more"]);
            run(&work, &["push", "-q"]);
            print("fetch one commit", self.fetch(&copies.mirror), run(&copies.git, &["fetch", "-q"]));
        }
        run(&self.source, &["gc", "-q"]);
        print("fetch after gc in the source", self.fetch(&copies.mirror), run(&copies.git, &["fetch", "-q"]));
    }
}
