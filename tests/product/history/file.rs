//! The file: found, made, damaged, too new.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use belay::history::{History, HistoryError, JudgedWrite, OpenedHistory, Query};
use belay_core::rollout::Outcome;

use super::{at, recorded};

fn open(folder: &Path) -> (History, OpenedHistory) {
    History::open(folder, at(0)).unwrap()
}

fn pragma(folder: &Path, text: &str) {
    rusqlite::Connection::open(folder.join("history.db")).unwrap().execute_batch(text).unwrap();
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let (history, opened) = open(folder.path());
    assert_eq!(opened, OpenedHistory::Fresh);
    let id = recorded(&history, 1, "web", Outcome::Complete, 10);
    drop(history);
    let (history, opened) = open(folder.path());
    assert_eq!(opened, OpenedHistory::Existing);
    assert_eq!(history.record(id).unwrap().unwrap().outcome, Outcome::Complete);
    let mode = fs::metadata(history.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "others may read what applications log");
}

#[test]
fn others_read_while_the_daemon_writes() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(History::read_only(folder.path()).err().unwrap(), HistoryError::Missing { .. }));
    let (history, _) = open(folder.path());
    let reader = History::read_only(folder.path()).unwrap();
    for number in 1..20 {
        recorded(&history, number, "web", Outcome::Complete, i64::try_from(number).unwrap() * 100);
        assert_eq!(reader.records(&Query::default()).unwrap().len(), usize::try_from(number).unwrap());
    }
    let refused = reader.finish(belay_core::rollout::RecordId(1), Outcome::Failed, None, at(0)).unwrap_err();
    assert!(matches!(refused, HistoryError::ReadOnly), "{refused}");
    // Without the daemon too, and where nothing may be written.
    drop(reader);
    drop(history);
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(folder.path().join("history.db"), copy.join("history.db")).unwrap();
    fs::set_permissions(copy.join("history.db"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(History::read_only(&copy).unwrap().records(&Query::default()).unwrap().len(), 19);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn people_can_read_it_with_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = open(folder.path());
    recorded(&history, 1, "web", Outcome::RolledBack, 10);
    let connection = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
    let row: (String, String, String, i64) = connection
        .query_row("SELECT started, object, outcome, seconds FROM history", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    let expected = ("2025-10-09T08:53:30.000Z", "Deployment shop/web", "rolled-back", 30);
    assert_eq!((row.0.as_str(), row.1.as_str(), row.2.as_str(), row.3), expected);
    let steps: i64 = connection.query_row("SELECT count(*) FROM story", [], |row| row.get(0)).unwrap();
    let under_way: i64 = connection.query_row("SELECT count(*) FROM under_way", [], |row| row.get(0)).unwrap();
    assert_eq!((steps, under_way), (1, 0));
}

#[test]
fn a_damaged_file_is_set_aside_and_a_fresh_one_begun() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("no database", |file| fs::write(file, "this is a text, longer than a header of SQLite has to be").unwrap()),
        ("zeroes", |file| fs::write(file, vec![0; 100_000]).unwrap()),
        ("cut short", |file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..bytes.len() / 2 + 100]).unwrap();
        }),
        ("scribbled over", |file| {
            let mut bytes = fs::read(file).unwrap();
            for page in 2..bytes.len() / 4096 {
                bytes[page * 4096..page * 4096 + 500].fill(0x5a);
            }
            fs::write(file, bytes).unwrap();
        }),
        ("a folder", |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("another program's", |file| {
            fs::remove_file(file).unwrap();
            rusqlite::Connection::open(file).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let (history, _) = open(folder.path());
        for number in 1..200 {
            recorded(&history, number, "web", Outcome::Complete, i64::try_from(number).unwrap());
        }
        drop(history);
        damage(&folder.path().join("history.db"));
        let (history, opened) = open(folder.path());
        let OpenedHistory::SetAside { to, .. } = opened else { panic!("{what}: {opened:?}") };
        assert!(to.exists(), "{what}");
        assert!(to.to_string_lossy().ends_with("history.db.damaged-20251009T085320Z"), "{what}: {}", to.display());
        assert_eq!(history.records(&Query::default()).unwrap(), [], "{what}");
        recorded(&history, 1, "web", Outcome::Complete, 10);
    }
}

/// A file that SQLite can't open, as with too few descriptors, wrong rights or a read-only disk, is not damaged for
/// that.
#[test]
fn a_good_file_that_can_not_be_opened_is_left_alone() {
    for beside in ["history.db-wal", "history.db-shm"] {
        let folder = tempfile::tempdir().unwrap();
        let (history, _) = open(folder.path());
        recorded(&history, 1, "web", Outcome::Complete, 10);
        drop(history);
        let (file, beside) = (folder.path().join("history.db"), folder.path().join(beside));
        let before = fs::read(&file).unwrap();
        // SQLite wants to make a file there: it says "unable to open database file", as when descriptors are short.
        fs::create_dir(&beside).unwrap();
        let error = History::open(folder.path(), at(0)).err().unwrap();
        assert!(matches!(error, HistoryError::Closed { .. }), "{error:?}");
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        assert_eq!(fs::read(&file).unwrap(), before);
        fs::remove_dir(&beside).unwrap();
        let (history, opened) = open(folder.path());
        assert_eq!((opened, history.records(&Query::default()).unwrap().len()), (OpenedHistory::Existing, 1));
        // Nor is it while it is in use.
        let moved = folder.path().join("moved");
        fs::rename(&file, &moved).unwrap();
        assert_eq!(history.mend(at(1)).unwrap(), None);
        fs::rename(&moved, &file).unwrap();
    }
}

#[test]
fn only_so_many_damaged_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    for second in 0..6 {
        fs::write(folder.path().join("history.db"), "this is no database at all, not even a bit of one").unwrap();
        let (_, opened) = History::open(folder.path(), at(second / 2)).unwrap();
        assert!(matches!(opened, OpenedHistory::SetAside { .. }));
    }
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut old: Vec<String> = names.filter(|name| name.contains("damaged")).collect();
    old.sort();
    let newest = ["20251009T085321Z-2", "20251009T085322Z", "20251009T085322Z-2"];
    assert_eq!(old, newest.map(|name| format!("history.db.damaged-{name}")));
}

#[test]
fn damage_that_shows_while_in_use_can_be_mended() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = open(folder.path());
    let other = history.clone();
    for number in 1..200 {
        recorded(&history, number, "web", Outcome::Complete, i64::try_from(number).unwrap());
    }
    pragma(folder.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let file = folder.path().join("history.db");
    let length = usize::try_from(fs::metadata(&file).unwrap().len()).unwrap();
    // In place, as a failing disk does it.
    let mut opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    for page in 1..length / 4096 {
        std::io::Seek::seek(&mut opened, std::io::SeekFrom::Start(page as u64 * 4096)).unwrap();
        std::io::Write::write_all(&mut opened, &[0x5a; 600]).unwrap();
    }
    let reader = History::read_only(folder.path()).unwrap();
    let error = reader.records(&Query::default()).unwrap_err();
    assert!(error.wants_a_new_file(), "{error}");
    let old = history.mend(at(5)).unwrap().expect("it is damaged");
    assert!(old.exists());
    assert_eq!((history.begun(), history.mend(at(6)).unwrap()), (1, None), "a fresh one is sound");
    recorded(&other, 1, "web", Outcome::Complete, 10);
    assert_eq!(history.records(&Query::default()).unwrap().len(), 1);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    pragma(folder.path(), "PRAGMA user_version = 99");
    let before = fs::read(folder.path().join("history.db")).unwrap();
    for error in [History::open(folder.path(), at(0)).err(), History::read_only(folder.path()).err()] {
        let error = error.unwrap();
        assert!(matches!(error, HistoryError::Newer { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("newer belay"), "{error}");
    }
    assert_eq!(fs::read(folder.path().join("history.db")).unwrap(), before);
}

#[test]
fn a_writer_waits_for_another_process_and_then_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = open(folder.path());
    let other = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Reading does not wait.
    assert_eq!(history.records(&Query::default()).unwrap(), []);
    let writer = history.clone();
    let waiting = std::thread::spawn(move || recorded(&writer, 1, "web", Outcome::Complete, 10));
    other.execute_batch("COMMIT").unwrap();
    waiting.join().unwrap();
    assert_eq!(history.records(&Query::default()).unwrap().len(), 1);
}

#[test]
fn a_file_of_the_first_format_is_read_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("history.db")).unwrap();
    connection.execute_batch(include_str!("version_1.sql")).unwrap();
    drop(connection);
    let (history, opened) = open(folder.path());
    assert!(matches!(opened, OpenedHistory::Migrated { from: 1, .. }), "{opened:?}");
    a_copy_of_the_first_format_is_kept(folder.path());
    let records = history.records(&Query::default()).unwrap();
    let told: Vec<String> = records
        .iter()
        .map(|record| format!("{} {} {}", record.commit.short(), record.object, record.outcome))
        .collect();
    assert_eq!(told, ["2b2b2b2 Deployment shop/web rolled-back", "1a1a1a1 Deployment shop/web complete"]);
    assert_eq!(records[0].reason.as_ref().unwrap().code.as_str(), "ProgressDeadlineExceeded");
    assert_eq!(records[0].evidence.as_ref().unwrap().pods[0].state, "ImagePullBackOff");
    assert_eq!(history.steps(records[0].id).unwrap().len(), 1);
    assert_eq!(history.baseline(records[0].id, JudgedWrite::WentBack).unwrap().unwrap().generation, 4);
    let good = history.last_good("shop", &super::deployment("web")).unwrap().unwrap();
    assert_eq!(good.template, Some(serde_json::json!({"spec": {"containers": []}})));
    recorded(&history, 1, "web", Outcome::Complete, 10);
}

fn a_copy_of_the_first_format_is_kept(folder: &Path) {
    let path = folder.join("history.db.format-1");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let copy = rusqlite::Connection::open(&path).unwrap();
    let format: i32 = copy.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    let records: i64 = copy.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!((format, records), (1, 2));
}

#[test]
fn a_history_that_cannot_be_copied_keeps_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("version_1.sql")).unwrap();
    // A folder is where the copy belongs.
    fs::create_dir_all(folder.path().join("history.db.format-1/taken")).unwrap();
    let refused = History::open(folder.path(), at(0)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("history.db.format-1"), "{refused}");
    let format: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(format, 1);
}

/// A disk of its own, unmounted when this is dropped.
struct SmallTmpfs(tempfile::TempDir);

impl SmallTmpfs {
    /// Returns a disk of 64 KiB; `None` where the user may not mount one.
    fn mounted() -> Option<SmallTmpfs> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(SmallTmpfs(folder))
    }

    fn fill(&self, but: u64) {
        let free = rustix::fs::statvfs(self.0.path()).unwrap();
        let bytes = usize::try_from((free.f_bavail * free.f_frsize).saturating_sub(but)).unwrap();
        fs::write(self.0.path().join("others"), vec![1; bytes]).unwrap();
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// SQLite itself says "disk I/O error" about it.
#[test]
fn a_full_disk_is_called_so() {
    for (state, left) in
        [("state", 0), ("state", 4 << 10), ("state", 12 << 10), ("state", 36 << 10), ("", 0), ("", 4 << 10)]
    {
        let Some(disk) = SmallTmpfs::mounted() else {
            eprintln!("nothing can be mounted here");
            return;
        };
        let folder = if state.is_empty() { disk.0.path().to_owned() } else { disk.0.path().join(state) };
        fs::create_dir_all(&folder).unwrap();
        disk.fill(left);
        let error = History::open(&folder, at(0)).err().map(|error| error.to_string()).unwrap_or_default();
        let words = format!("the disk of the state folder {} is full (", folder.display());
        assert!(error.contains(&words) && error.contains("make room there, or name a folder"), "{left}: {error:?}");
    }
}

/// Somebody who could write the folder before belay came chose what belay would write into.
#[test]
fn a_file_with_another_name_is_refused_and_not_written() {
    let at_each = |plant: &dyn Fn(&Path, &Path)| {
        for name in ["history.db", "history.db-wal", "history.db-shm", "history.db-journal"] {
            let (outer, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let victim = outer.path().join("victim");
            fs::write(&victim, "theirs").unwrap();
            fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
            plant(&victim, &state.path().join(name));
            let error = History::open(state.path(), at(0)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("what belay writes would be written elsewhere too"), "{name}: {error}");
            if victim.exists() {
                let mode = fs::metadata(&victim).unwrap().permissions().mode() & 0o777;
                assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), mode), ("theirs", 0o644), "{name}");
            }
            assert!(fs::symlink_metadata(state.path().join(name)).is_ok(), "{name} is left as it is");
        }
    };
    at_each(&|victim, planted| fs::hard_link(victim, planted).unwrap());
    at_each(&|victim, planted| std::os::unix::fs::symlink(victim, planted).unwrap());
    at_each(&|victim, planted| {
        fs::remove_file(victim).unwrap();
        std::os::unix::fs::symlink(victim, planted).unwrap();
    });
}
