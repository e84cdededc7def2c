//! Help, versions, wrong usage: the same everywhere.

use crate::program::run;

#[test]
fn version_says_which() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["version"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, concat!("belay ", env!("CARGO_PKG_VERSION"), "\n")));
    let ran = run(home.path(), &["version", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn help_fits_a_screen() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["help"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.lines().count() <= 50, "{}", ran.out);
    for line in ran.out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn wrong_usage_is_2() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["nonsense"][..], &["history", "--nonsense"], &["history", "a/b/c"], &["show"], &[]] {
        let ran = run(home.path(), args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "{args:?}");
    }
}

#[test]
fn without_a_history_it_says_where_it_looked() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["history"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: there is no history at ") && ran.err.contains("--state-dir"), "{}", ran.err);
}

#[test]
fn without_a_cluster_it_says_what_to_say() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["status"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--kubeconfig"), "{}", ran.err);
}

#[test]
fn a_configuration_is_checked() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("belay.toml");
    std::fs::write(&file, "[[source]]\nrepository = \"/srv/shop.git\"\nbrunch = \"main\"\n").unwrap();
    let name = file.display().to_string();
    let ran = run(home.path(), &["run", "--check-config", "--config", &name]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, format!("error: {name}:3:1: unknown key \"brunch\"; did you mean \"branch\"?\n"));
    std::fs::write(&file, "[[source]]\nrepository = \"/srv/shop.git\"\n").unwrap();
    let ran = run(home.path(), &["run", "--check-config", "--config", &name]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
