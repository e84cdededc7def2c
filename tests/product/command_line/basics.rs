//! Help, versions, wrong usage: the same everywhere.

use belay::history::{History, Retention};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record};
use jiff::SignedDuration;

use crate::program::{belay, finish, run};

#[test]
fn version_says_which() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["version"]);
    assert_eq!((ran.code, ran.out.lines().next()), (0, Some(concat!("belay ", env!("CARGO_PKG_VERSION")))));
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

/// One commit a day, of which `--since` and `--until` choose some.
#[test]
fn the_history_is_chosen_by_dates() {
    let home = tempfile::tempdir().unwrap();
    let object = ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
    };
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let (history, _) = History::open(&home.path().join("state"), at("2026-11-01T00:00:00Z")).unwrap();
    for (digit, began) in [("a", "2026-11-18T23:59:59Z"), ("b", "2026-11-19T00:00:00Z"), ("c", "2026-11-20T12:00:00Z")]
    {
        let commit = digit.repeat(40).parse().unwrap();
        let record = Record { rolls_out: true, ..Record::planned("shop", &commit, object.clone(), at(began)) };
        let id = history.begin("shop", &commit, &[record], at(began)).unwrap()[0];
        history.finish(id, Outcome::Complete, None, at(began)).unwrap();
    }
    drop(history);
    let ran = |more: &[&str]| {
        let mut command = belay(home.path());
        command.env("TZ", "UTC").args(["--state-dir", "state", "history"]).args(more);
        finish(command, "")
    };
    let commits = |more: &[&str]| -> String {
        let shown = ran(&[more, &["-o", "name"]].concat());
        assert_eq!(shown.code, 0, "{more:?}: {shown:?}");
        shown.out.lines().map(|line| &line[..1]).collect()
    };
    for (more, expected) in [
        (&["--since", "2026-11-19"][..], "cb"),
        (&["--until", "2026-11-19"], "ba"),
        (&["--since", "2026-11-19", "--until", "2026-11-19"], "b"),
        (&["--since", "2026-11-19T00:00:01Z"], "c"),
        (&["--until", "2026-11-19T00:00:00Z"], "a"),
        (&["--since", "2026-11-19T01:00:00+01:00", "--until", "2026-11-20 12:00"], "b"),
        (&["--since", "30000d", "--objects"], "cba"),
    ] {
        assert_eq!(commits(more), expected, "{more:?}");
    }
    let wide = ran(&["--until", "2026-11-18", "-o", "wide"]).out;
    assert!(wide.contains("BEGAN") && wide.contains("   2026-11-18T23:59:59Z"), "{wide}");
    let stats = ran(&["--stats", "--since", "2026-11-19", "--until", "2026-11-19", "-o", "json"]).out;
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["since"], &stats["until"]), (&"2026-11-19T00:00:00Z".into(), &"2026-11-20T00:00:00Z".into()));
    assert_eq!(stats["stats"][0]["rollouts"], 1, "{stats}");
    let turned = ran(&["--since", "2026-11-20", "--until", "2026-11-18"]);
    assert!(turned.code == 1 && turned.err.contains("is not after --since 2026-11-20T00:00:00Z"), "{turned:?}");
    let odd = ran(&["--since", "yesterday"]);
    assert!(odd.code == 2 && odd.err.contains("not a time: write a date (2026-11-19)"), "{odd:?}");
}

#[test]
fn figures_of_what_is_partly_forgotten_say_so() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let now = belay::clock::Clock::system().now();
    let (history, _) = History::open(&state, now).unwrap();
    let object = ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
    };
    for (days, digit) in [(90, "a"), (60, "b"), (2, "c")] {
        let (commit, at) = (digit.repeat(40).parse().unwrap(), now - SignedDuration::from_hours(days * 24));
        let record = Record { rolls_out: true, ..Record::planned("shop", &commit, object.clone(), at) };
        let id = history.begin("shop", &commit, &[record], at).unwrap()[0];
        history.finish(id, Outcome::Complete, None, at).unwrap();
    }
    history.forget(&Retention { age: Some(SignedDuration::from_hours(30 * 24)), records: None }, now).unwrap();
    drop(history);
    let stats = |more: &[&str]| run(home.path(), &[&["--state-dir", "state", "history", "--stats"], more].concat()).out;
    let told = stats(&["--since", "100d"]);
    assert!(told.contains("Not all records from before ") && told.contains(" are kept; what is forgotten"), "{told}");
    assert!(!stats(&["--since", "10d"]).contains("Not all records"), "nothing of that is missing");
    let json: serde_json::Value = serde_json::from_str(&stats(&["--since", "100d", "-o", "json"])).unwrap();
    assert!(json["keptSince"].is_string() && json["stats"][0]["rollouts"] == 1, "{json}");
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
    let ran = run(home.path(), &["run", "--config", &format!("{name}.missing")]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.starts_with(&format!("error: failed to read {name}.missing: ")), "{ran:?}");
    let ran = run(home.path(), &["run", "--check-config", "--config", &name]);
    // The unit keeps systemd from starting it again and again.
    assert_eq!(ran.code, 2);
    assert_eq!(ran.err, format!("error: {name}:3:1: unknown key \"brunch\"; did you mean \"branch\"?\n"));
    // All errors are told at once, each in a line of its own.
    let several =
        "[[source]]\nrepository = \"\"\nprune_limit = \"most\"\n[[notify]]\nname = \"ops\"\nkind = \"pager\"\n";
    std::fs::write(&file, format!("{several}[web]\nlisten = \"9750\"\n")).unwrap();
    let ran = run(home.path(), &["run", "--check-config", "--config", &name]);
    let begins = [
        format!("error: {name}:6:8: "),
        format!("error: {name}:8:10: "),
        format!("error: {name}: source \"default\": repository is empty"),
        format!("error: {name}: source \"default\": prune_limit \"most\""),
    ];
    assert_eq!((ran.code, ran.err.lines().count()), (2, begins.len()), "{ran:?}");
    for (line, begin) in ran.err.lines().zip(&begins) {
        assert!(line.starts_with(begin), "{begin}: {ran:?}");
    }
    std::fs::write(&file, "[[source]]\nrepository = \"/srv/shop.git\"\n").unwrap();
    let ran = run(home.path(), &["run", "--check-config", "--config", &name]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// A named pipe has nothing to read until somebody writes: the check does not wait for that.
#[test]
fn a_configuration_names_regular_files() {
    let home = tempfile::tempdir().unwrap();
    let (file, pipe) = (home.path().join("belay.toml"), home.path().join("pipe"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display();
    let source = "[[source]]\nrepository = \"https://git.example.com/shop.git\"\n";
    let notify = "[[notify]]\nname = \"ops\"\nkind = \"webhook\"\nurl = \"https://example.com\"\n";
    for (key, text) in [
        ("ca_file", format!("{source}[source.credentials]\nca_file = \"{pipe}\"\n")),
        ("known_hosts", format!("{}[source.credentials]\nknown_hosts = \"{pipe}\"\n", source.replace("https", "ssh"))),
        ("ca_file", format!("{source}{notify}ca_file = \"{pipe}\"\n")),
        ("kustomize", format!("{source}[render]\nkustomize = \"{pipe}\"\n")),
        ("helm", format!("{source}[render]\nhelm = \"{pipe}\"\n")),
    ] {
        std::fs::write(&file, &text).unwrap();
        let ran = run(home.path(), &["run", "--check-config", "--config", &file.display().to_string()]);
        assert_eq!(ran.code, 1, "{text}: {ran:?}");
        let told = ran.err.contains(&format!("{key}: failed to read {pipe}: it is not a regular file"));
        assert!(told, "{text}: {ran:?}");
    }
}

/// Every command that can be typed, by its words, out of the command line itself.
fn commands(command: &clap::Command, words: &[String], found: &mut Vec<(Vec<String>, clap::Command)>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let words = [words, &[below.get_name().to_owned()]].concat();
        if below.has_subcommands() {
            commands(below, &words, found);
        } else {
            found.push((words, below.clone()));
        }
    }
}

#[test]
fn every_command_explains_itself_and_refuses_what_it_does_not_know() {
    let home = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    commands(&belay::cli::command(), &[], &mut all);
    assert!(all.len() >= 24, "{all:?}");
    for (words, command) in all {
        let typed = |more: &'static str| words.iter().map(String::as_str).chain([more]).collect::<Vec<_>>();
        let help = run(home.path(), &typed("--help"));
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{words:?}");
        for line in help.out.lines() {
            assert!(line.chars().count() <= 100, "{words:?}: {line:?}");
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if let Some(long) = argument.get_long() {
                assert!(help.out.contains(&format!("--{long}")), "{words:?}: --{long}");
                assert!(argument.get_help().is_some(), "{words:?}: --{long} says nothing");
            }
        }
        let wrong = run(home.path(), &typed("--no-such-option"));
        assert_eq!((wrong.code, wrong.out.as_str()), (2, ""), "{words:?}");
        assert!(
            wrong.err.contains("--no-such-option") && wrong.err.contains("Usage: belay"),
            "{words:?}: {}",
            wrong.err
        );
        if command.get_arguments().any(|argument| argument.get_id() == "output") {
            let odd = run(home.path(), &typed("--output=tabel"));
            assert!(odd.code == 2 && odd.err.contains("tabel") && odd.err.contains("json"), "{words:?}: {odd:?}");
        }
    }
}

/// A file that the daemon would not read is reported before it is committed, and its name is shown in full.
#[test]
fn a_file_with_a_hidden_name_is_complained_about() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("shop");
    std::fs::create_dir(&folder).unwrap();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    std::fs::write(folder.join("a\u{202e}lmay.yaml"), manifest).unwrap();
    std::fs::write(folder.join("b.yaml"), manifest).unwrap();
    for from in ["shop", "."] {
        let ran = run(home.path(), &["check", from]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.contains("shop/a\\u{202e}lmay.yaml:1:1"), "{ran:?}");
        assert!(ran.out.contains("characters that are not shown"), "{ran:?}");
        assert!(!ran.out.contains('\u{202e}') && ran.err.contains("1 complaint"), "{ran:?}");
    }
}
