//! How long it takes with 10,000 files in 1,000 folders and 5,000 commits. Run by hand, in release:
//! `cargo test --release --test git size -- --ignored --nocapture`

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use belay::git::{Credentials, Follow, Limits, Mirror};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::mirror::location;

/// Makes the repository with `git fast-import`.
fn large(path: &Path) {
    assert!(Command::new("git").args(["init", "-q", "--bare", "-b", "main"]).arg(path).status().unwrap().success());
    let mut import = Command::new("git")
        .arg("--git-dir")
        .arg(path)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufWriter::new(import.stdin.take().unwrap());
    let file = |number: u64, version: u64| {
        let padding = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(60);
        (
            format!("production/app-{:04}/file-{:02}.yaml", number / 10, number % 10),
            format!("version: {version}\n# {padding}\n"),
        )
    };
    for commit in 0..5000_u64 {
        write!(
            out,
            "commit refs/heads/main\ncommitter Ada <ada@example.com> {} +0000\ndata 6\nChange\n",
            1_700_000_000 + commit
        )
        .unwrap();
        let numbers: Vec<u64> = if commit == 0 {
            (0..10_000).collect()
        } else {
            (0..4).map(|n| (commit * 7919 + n * 104_729) % 10_000).collect()
        };
        for number in numbers {
            let (path, text) = file(number, commit);
            write!(out, "M 100644 inline {path}\ndata {}\n{text}\n", text.len()).unwrap();
        }
    }
    drop(out);
    assert!(import.wait().unwrap().success());
}

/// How long this thread has had a processor.
fn busy_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

#[test]
#[ignore = "takes a minute, and git; prints how long each part takes"]
fn measured() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.git");
    large(&source);
    let main = Follow::Branch("main".to_owned());
    let stop = CancellationToken::new();
    let timed = |what: &str, work: &mut dyn FnMut()| {
        let (begun, busy) = (Instant::now(), busy_ms());
        work();
        println!("{what:60} {:9.1} ms, {:9.1} ms of CPU", begun.elapsed().as_secs_f64() * 1000.0, busy_ms() - busy);
    };
    let open = |name: &str| {
        let folder = folder.path().join(name);
        Mirror::open(&folder, location(&source), Credentials::default(), Limits::default()).unwrap().0
    };
    let mirror = open("mirror");
    timed("first fetch", &mut || drop(mirror.fetch(&main, &stop).unwrap()));
    timed("fetch when nothing has moved", &mut || drop(mirror.fetch(&main, &stop).unwrap()));
    timed("fetch when nothing has moved, again", &mut || drop(mirror.fetch(&main, &stop).unwrap()));
    let head = mirror.head(&main).unwrap().unwrap();
    timed("list 10,000 files", &mut || assert_eq!(mirror.files(&head, "production").unwrap().files.len(), 10_000));
    let files = mirror.files(&head, "production").unwrap().files;
    timed("read 10,000 files", &mut || {
        for (_, entry) in &files {
            mirror.read(entry.blob, 100_000).unwrap();
        }
    });
    let paths: Vec<String> = files.into_iter().map(|(path, _)| path).collect();
    timed("who changed each of 10,000 files last, whole history", &mut || {
        let chains = mirror.attribution(None, &head, "production", &paths, 1).unwrap();
        assert!(chains.values().all(|chain| chain.links.len() == 1));
    });
    let commits = mirror.between(None, &head, 10_000).unwrap();
    timed("what changed in the last commit", &mut || {
        assert_eq!(mirror.changes(Some(&commits[1]), &head, "production").unwrap().changes.len(), 4);
    });
    timed("what changed in the last 100 commits", &mut || {
        assert!(mirror.changes(Some(&commits[100]), &head, "production").unwrap().changes.len() > 300);
    });
    let fresh = open("mirror");
    let changed: Vec<String> =
        fresh.changes(Some(&commits[1]), &head, "production").unwrap().changes.into_iter().map(|c| c.path).collect();
    timed("who changed 4 files in the last commit, first question", &mut || {
        drop(fresh.attribution(Some(&commits[1]), &head, "production", &changed, 1).unwrap());
    });
    timed("the same, second question", &mut || {
        drop(fresh.attribution(Some(&commits[1]), &head, "production", &changed, 1).unwrap());
    });
    timed("digits of a commit", &mut || drop(fresh.resolve(&head.as_str()[..7]).unwrap()));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());

    // One commit more, then one that has only loose objects.
    let work = folder.path().join("work");
    let git = |arguments: &[&str]| {
        let done = Command::new("git").arg("-C").arg(&work).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    assert!(Command::new("git").args(["clone", "-q"]).arg(&source).arg(&work).status().unwrap().success());
    for number in 0..3 {
        std::fs::write(work.join("production/app-0000/file-00.yaml"), format!("changed: {number}\n")).unwrap();
        git(&["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qam", "One more"]);
        git(&["push", "-q"]);
        timed("fetch one commit", &mut || drop(mirror.fetch(&main, &stop).unwrap()));
    }
    assert!(Command::new("git").arg("--git-dir").arg(&source).args(["gc", "-q"]).status().unwrap().success());
    timed("fetch after gc in the source", &mut || drop(mirror.fetch(&main, &stop).unwrap()));
    let again = open("second");
    timed("first fetch of a packed repository", &mut || drop(again.fetch(&main, &stop).unwrap()));
    assert!(Command::new("sh")
        .arg("-c")
        .arg("cd \"$0\" && mkdir loose && mv objects/pack/*.pack loose && rm objects/pack/* && for p in loose/*.pack; do git --git-dir=. unpack-objects -q < $p; done")
        .arg(&source)
        .status()
        .unwrap()
        .success());
    let loose = open("third");
    timed("first fetch when all objects are loose", &mut || drop(loose.fetch(&main, &stop).unwrap()));
}
