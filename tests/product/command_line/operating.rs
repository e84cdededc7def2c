//! The situations of an administrator: the journal, a unit that allows few threads or descriptors, a folder that the
//! unit hides.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixture::Fixture;
use crate::program::{Ran, Running, belay, finish, is_root};
use crate::support::daemon::config_map;
use crate::support::programs::copy_program;

const CONFIG: &str = "[[source]]\nrepository = \"/tmp/nothing/shop.git\"\n";

/// Runs it as a service of systemd does whose standard error goes to the journal; what the journal reads.
fn in_the_journal(home: &Path, args: &[&str]) -> (i32, String) {
    let log = File::create(home.join("journal")).unwrap();
    let file = log.metadata().unwrap();
    let mut command = belay(home);
    command.args(args).env("JOURNAL_STREAM", format!("{}:{}", file.dev(), file.ino())).env("INVOCATION_ID", "1");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).status().unwrap();
    (status.code().unwrap_or(-1), fs::read_to_string(home.join("journal")).unwrap())
}

#[test]
fn a_typing_error_in_the_configuration_is_an_error_in_the_journal_and_not_started_again() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("belay.toml"), "[[source]]\nrepositry = \"/srv/shop.git\"\n").unwrap();
    let (code, journal) = in_the_journal(home.path(), &["run", "--config", "belay.toml"]);
    assert!(journal.starts_with("<3>error: belay.toml:2:1: unknown key"), "{journal}");
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/belay.service")).unwrap();
    assert!(unit.contains(&format!("\nRestartPreventExitStatus={code}\n")), "{code}");
    fs::write(home.path().join("belay.toml"), "[[source]]\nrepository = \"ftp://git/shop.git\"\n").unwrap();
    let (again, journal) = in_the_journal(home.path(), &["run", "--config", "belay.toml"]);
    assert_eq!(again, code, "{journal}");
}

#[test]
fn what_is_said_elsewhere_has_no_priorities() {
    let home = tempfile::tempdir().unwrap();
    let mut command = belay(home.path());
    // systemd's stream, but not where this program's standard error goes.
    command.args(["run", "--config", "nowhere.toml"]).env("JOURNAL_STREAM", "8:12345");
    let ran = finish(command, "");
    assert!(ran.code == 2 && ran.err.starts_with("error: "), "{ran:?}");
}

/// Needs root, to become a user of its own, whom nobody else's processes count for: one for each test and run.
fn as_a_user_with(limit: &str, number: u32, home: &Path, args: &[&str]) -> Option<Ran> {
    let user = 1_000_000 + 2 * std::process::id() + number;
    let known = ["/usr/bin/prlimit", "/usr/bin/setpriv"].iter().all(|program| Path::new(program).exists());
    if !known || !is_root() {
        eprintln!("not tried with {limit}: it needs root, prlimit and setpriv");
        return None;
    }
    fs::set_permissions(home, fs::Permissions::from_mode(0o777)).unwrap();
    let program = home.join("belay");
    if !program.exists() {
        copy_program(Path::new(env!("CARGO_BIN_EXE_belay")), &program);
    }
    let mut command = Command::new("/usr/bin/setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}"));
    command.args(["--clear-groups", "/usr/bin/prlimit", limit]).arg(&program).args(args);
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").current_dir(home);
    Some(finish(command, ""))
}

#[test]
fn with_few_threads_it_begins_or_says_why_not() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("belay.toml"), CONFIG).unwrap();
    for (limit, begins) in [("--nproc=1", false), ("--nproc=2", false), ("--nproc=5", true), ("--nproc=64", true)] {
        let Some(ran) = as_a_user_with(limit, 0, home.path(), &["run", "--config", "belay.toml", "--check-config"])
        else {
            return;
        };
        assert!(!ran.err.contains("panicked"), "{limit}: {ran:?}");
        match begins {
            true => assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{limit}"),
            false => assert!(ran.code == 1 && ran.err.contains("threads") && ran.err.contains("TasksMax="), "{ran:?}"),
        }
    }
}

/// A thread that ends leaves memory in the arena that it used, and no thread of another arena uses that again.
#[tokio::test(flavor = "multi_thread")]
async fn all_threads_share_few_arenas_of_the_c_library() {
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("settings.yaml", &config_map("settings", "1"), "First version");
    stage.repository.push();
    let running = Running(stage.command().spawn().unwrap());
    stage.until(&commit, "complete").await;
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.0.id())).unwrap();
    assert!(arenas(&maps) <= 2, "{} arenas:\n{maps}", arenas(&maps));
}

/// Returns how many arenas glibc has mapped. An arena begins at a multiple of its size; the unused part is reserved behind it.
fn arenas(maps: &str) -> usize {
    const ARENA: usize = 64 << 20;
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?, rest[..4].to_owned()))
    };
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let is_arena = |used: &(usize, usize, String), unused: &(usize, usize, String)| {
        let together = used.1 == unused.0 && unused.1.checked_sub(used.0) == Some(ARENA);
        together && used.0.is_multiple_of(ARENA) && used.2 == "rw-p" && unused.2 == "---p"
    };
    mappings.windows(2).filter(|pair| is_arena(&pair[0], &pair[1])).count()
}

#[test]
fn a_good_history_that_can_not_be_opened_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    fs::write(home.path().join("belay.toml"), CONFIG).unwrap();
    fs::create_dir(&state).unwrap();
    let history = state.join("history.db");
    drop(belay::history::History::open(&state, jiff::Timestamp::UNIX_EPOCH).unwrap());
    let before = fs::read(&history).unwrap();
    let line = ["run", "--config", "belay.toml", "--state-dir", "state"];
    // It is root's, and the folder is another's.
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&history, fs::Permissions::from_mode(0o600)).unwrap();
    let Some(ran) = as_a_user_with("--nofile=64", 1, home.path(), &line) else { return };
    assert!(ran.code == 1 && ran.err.contains("state/history.db: Permission denied"), "{ran:?}");
    assert!(ran.err.contains("let belay's user read and write it"), "{ran:?}");
    let mut names: Vec<String> =
        fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.contains("damaged"));
    assert_eq!((names, fs::read(&history).unwrap() == before), (vec![], true));
}

/// Folders and files of root, asked for by somebody who may not: each is named with what to do, and none is called missing.
#[test]
fn what_belongs_to_another_user_is_named_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let close = |name: &str, mode: u32| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    drop(belay::history::History::open(&at("state"), jiff::Timestamp::UNIX_EPOCH).unwrap());
    fs::create_dir_all(at("theirs/below")).unwrap();
    close("theirs", 0o755);
    fs::write(at("token"), "hunter2\n").unwrap();
    close("token", 0o600);
    let token = "[[source]]\nname = \"shop\"\nrepository = \"https://127.0.0.1:1/shop.git\"\ncredentials = { token_file = \
                 \"token\" }\n";
    fs::write(at("token.toml"), token).unwrap();
    fs::write(at("belay.toml"), CONFIG).unwrap();
    let run = ["run", "--config", "belay.toml", "--state-dir"];
    let table: [(&[&str], &str, &str); 6] = [
        // Also where it is only to be looked at: without its history an undo would not be held.
        (&["history", "--state-dir", "state"], "state/history.db: Permission denied", "ask as that user or as root"),
        (
            &["status", "--commit", "1a2b3c4", "--wait", "--timeout", "5s", "--state-dir", "state"],
            "Permission denied",
            "as root",
        ),
        (&[&run[..], &["state"]].concat(), "state: Permission denied", "say --state-dir DIR"),
        (&[&run[..], &["theirs/below"]].concat(), "theirs/below/identity", "say --state-dir DIR"),
        (&[&run[..], &["theirs/new"]].concat(), "theirs/new: Permission denied", "say --state-dir DIR"),
        (&["run", "--check-config", "--config", "token.toml"], "token: Permission denied", "credentials.token_file"),
    ];
    for (args, what, advice) in table {
        let Some(ran) = as_a_user_with("--nofile=64", 3, home.path(), args) else { return };
        assert!(ran.code != 0 && ran.err.contains(what) && ran.err.contains(advice), "{args:?}: {ran:?}");
        assert!(!ran.err.contains("hunter2") && !ran.err.contains("no daemon has run"), "{ran:?}");
    }
}
