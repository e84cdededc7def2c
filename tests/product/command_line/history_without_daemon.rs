//! `history` and `show` where the daemon's history is not: what the cluster and Git hold, and what is missing.

use serde_json::Value;

use crate::fixture::Fixture;
use crate::program::{Ran, belay, run};
use crate::reading::told;

fn value(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// As on another machine: the same cluster, and a state folder in which nothing is.
fn elsewhere(stage: &Fixture, args: &[&str]) -> Ran {
    let home = stage.home.path();
    let (kubeconfig, state) = (home.join("kubeconfig"), home.join("nothing"));
    let mut all = args.to_vec();
    let (kubeconfig, state) = (kubeconfig.display().to_string(), state.display().to_string());
    all.extend(["--kubeconfig", &kubeconfig, "--state-dir", &state]);
    run(home, &all)
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_its_mirror_the_commits_are_known() {
    let (stage, good, bad) = told().await;
    let file = stage.home.path().join("state/history.db");
    for damage in [None, Some("no database".repeat(1000))] {
        match damage {
            None => std::fs::remove_file(&file).unwrap(),
            Some(text) => std::fs::write(&file, text).unwrap(),
        }
        let table = stage.run(&["history"]);
        assert_eq!(table.code, 0, "{table:?}");
        let lines: Vec<&str> = table.out.lines().collect();
        assert_eq!(lines.len(), 4, "{}", table.out);
        assert!(lines[1].starts_with(&bad[..7]) && lines[1].contains("rolled-back (rebuilt)"), "{}", table.out);
        assert!(lines[1].ends_with("Grace    Broken"), "{}", table.out);
        assert!(lines[2].contains("└ the rollout exceeded its progress deadline"), "{}", table.out);
        assert!(lines[3].starts_with(&good[..7]) && lines[3].contains("complete (rebuilt)"), "{}", table.out);
        assert!(table.err.starts_with("note: the") && table.err.contains("history"), "{}", table.err);
        assert!(table.err.contains("this is what the cluster and Git hold. Missing:\n  - "), "{}", table.err);
        assert!(!table.err.contains("addresses"), "{}", table.err);
        let history = value(&stage.run(&["history", "-o", "json"]));
        let record = &history["records"][0];
        assert_eq!((&record["trigger"]["by"], &record["outcome"]), (&"rebuilt".into(), &"rolled-back".into()));
        assert_eq!(record["author"]["email"], "grace@example.com");
        assert_eq!((&record["place"], &record["evidence"]), (&Value::Null, &Value::Null), "not invented");
        assert_eq!(history["missing"].as_array().unwrap().len(), 3, "{history:#}");
    }
    // The daemon sets the damaged one aside, and rebuilds it.
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(3), "it is held still: {}", stage.log());
    assert!(
        stage.log().contains("was set aside") && stage.log().contains("rebuilt from the cluster"),
        "{}",
        stage.log()
    );
    let after = stage.run(&["history", "--commit", &good]);
    assert!(after.out.contains("complete (rebuilt)") && after.err.is_empty(), "{after:?}");
    let shown = stage.run(&["show", &bad]);
    assert!(shown.out.contains("  trigger:  rebuilt: the history was lost; this is what is left\n"), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn elsewhere_the_change_causes_tell() {
    let (mut stage, good, bad) = told().await;
    let history = value(&elsewhere(&stage, &["history", "-o", "json"]));
    let records = history["records"].as_array().unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!((&records[0]["subject"], &records[0]["author"]["name"]), (&"Broken".into(), &"Grace".into()));
    assert_eq!((&records[0]["author"]["email"], &records[0]["authored"]), (&Value::Null, &Value::Null));
    let missing = history["missing"].to_string();
    assert!(missing.contains("dates and addresses of 2 commits"), "{missing}");
    let named = |args: &[&str]| {
        let mut all = vec!["history", "-o", "name"];
        all.extend(args);
        elsewhere(&stage, &all).out
    };
    assert_eq!(named(&["--author", "GRACE"]), format!("{bad}\n"));
    assert_eq!(named(&["--failed"]), format!("{bad}\n"));
    assert_eq!(named(&["--commit", &good[..8]]), format!("{good}\n"));
    assert_eq!(named(&["deploy/web", "--limit", "1"]), format!("{bad}\n"));
    assert_eq!(named(&["-n", "elsewhere"]), "");
    assert_eq!(named(&["--author", "nobody"]), "");

    let shown = elsewhere(&stage, &["show", &bad[..7]]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.starts_with(&format!("commit {bad}\nAuthor:  Grace\nSubject: Broken\n")), "{}", shown.out);
    assert!(shown.out.contains("Deployment default/web: rolled-back"), "{}", shown.out);
    assert!(shown.out.contains("  revision: 2\n"), "{}", shown.out);
    assert!(shown.out.contains("  reason:   the rollout exceeded its progress deadline"), "{}", shown.out);
    assert!(shown.out.contains(&format!("  back to:  {}", &good[..7])), "{}", shown.out);
    let unknown = elsewhere(&stage, &["show", "0123456"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""));
    assert!(unknown.err.contains(&format!("\n  {}  Broken (Grace)\n", &bad[..7])), "{}", unknown.err);

    // In a working copy Git knows the rest; also of a commit that nothing in the cluster names.
    let note = stage.repository.commit_file("README.md", "The shop", "Say what it is");
    stage.repository.push();
    let clone = stage.repository.clone_to("clone");
    let here = |args: &[&str]| {
        let mut command = belay(&clone);
        let home = stage.home.path();
        command.args(args).arg("--kubeconfig").arg(home.join("kubeconfig"));
        crate::program::finish(command, "")
    };
    let history = value(&here(&["history", "-o", "json"]));
    assert_eq!(history["records"][0]["author"]["email"], "grace@example.com");
    assert!(!history["missing"].to_string().contains("addresses"), "{history:#}");
    for name in ["HEAD", &note] {
        let shown = here(&["show", name]);
        assert!(shown.out.contains("Subject: Say what it is\n\nIt is in the repository here, but"), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_count_nothing_that_was_rebuilt() {
    let (stage, ..) = told().await;
    let stats = elsewhere(&stage, &["history", "--stats"]);
    assert_eq!((stats.code, stats.out.as_str()), (0, "No rollout ended in this time.\n"), "{stats:?}");
}
