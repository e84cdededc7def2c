//! A disk on which nothing can be written any more, as far as belay's history is concerned.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

/// Fills the disk: from here on the history in a folder takes nothing. If it `lies`, writes are lost instead.
pub fn fill(state: &Path, lies: bool) {
    let raise = if lies { "RAISE(IGNORE)" } else { "RAISE(ABORT, 'database or disk is full')" };
    change(state, |table, verb| {
        format!(
            "CREATE TRIGGER IF NOT EXISTS full_{verb}_{table} BEFORE {verb} ON \"{table}\" BEGIN SELECT {raise}; END;"
        )
    });
}

/// Makes room again.
pub fn empty(state: &Path) {
    change(state, |table, verb| format!("DROP TRIGGER IF EXISTS full_{verb}_{table};"));
}

fn change(state: &Path, sql: impl Fn(&str, &str) -> String) {
    let file = state.join("history.db");
    if !file.exists() {
        return;
    }
    let disk = Connection::open(file).expect("the books");
    disk.busy_timeout(Duration::from_secs(5)).expect("a limit");
    let mut tables = disk.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").expect("the tables");
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).expect("names").map(Result::unwrap).collect();
    for name in names.iter().filter(|name| !name.starts_with("sqlite_")) {
        for verb in ["INSERT", "UPDATE"] {
            disk.execute_batch(&sql(name, verb)).expect("a trigger");
        }
    }
}
