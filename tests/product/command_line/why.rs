//! Commits about which belay did nothing: `show` says why. Digits that fit several commits, or none.

use std::process::{Command, Stdio};

use crate::fixture::Fixture;
use crate::program::belay;
use crate::reading::once;
use crate::support::daemon::{config_map, deployment};

fn shown(stage: &Fixture, commit: &str) -> String {
    let ran = stage.run(&["show", commit]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.split("\n\n").nth(1).unwrap_or_else(|| panic!("{ran:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_folder_no_manifest_skipped_and_too_old() {
    let mut stage = Fixture::new().await;
    let web = "production/web.yaml";
    stage.repository.commit_file(web, &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let produce = |stage: &Fixture| {
        let mut command: Command = stage.command();
        let status = command.args(["--path", "production", "--once"]).status().unwrap();
        assert!(status.success(), "{}", stage.log());
    };
    produce(&stage);
    let staging = stage.repository.commit_file("staging/web.yaml", &deployment("web", "web:9", ""), "Staging only");
    let note = stage.repository.commit_file("production/README.md", "The shop", "A note");
    let skipped = stage.repository.commit_file(web, &deployment("web", "web:2", ""), "Second version");
    let newest = stage.repository.commit_file(web, &deployment("web", "web:3", ""), "Third version");
    stage.repository.push();
    produce(&stage);
    assert_eq!(
        shown(&stage, &staging),
        "It changes nothing in production, which is what default follows: it touches staging/web.yaml.\n"
    );
    assert_eq!(shown(&stage, &note), "It changes no manifest that default follows: it touches production/README.md.\n");
    let said = shown(&stage, &skipped);
    let begin = format!("It came to default together with {}, which was planned in its place", &newest[..7]);
    assert!(said.starts_with(&begin), "{said}");
    let value = stage.run(&["show", &skipped, "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&value.out).unwrap();
    assert!(value["why"].as_str().unwrap().starts_with(&begin) && value["records"] == serde_json::json!([]));

    // In the working copy, and nowhere else.
    let clone = stage.repository.clone_to("clone");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(args).current_dir(&clone);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    };
    git(&["commit", "--allow-empty", "-q", "-m", "Not pushed"]);
    let mut command = belay(&clone);
    command.args(["show", "HEAD"]).args(stage.globals());
    let ran = crate::program::finish(command, "");
    let said =
        format!("default has not fetched it: it follows branch main and is at {}. Is it pushed?\n", &newest[..7]);
    assert!(ran.code == 0 && ran.out.ends_with(&said), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn not_yet_planned() {
    let mut stage = Fixture::new().await;
    let first = stage.repository.commit_file("a.yaml", &config_map("a", "1"), "First");
    stage.repository.push();
    once(&stage, 0);
    // Nothing is left of it: refused, in case it is an accident.
    stage.repository.remove("a.yaml");
    let emptied = stage.repository.commit("Nothing any more");
    stage.repository.push();
    let mut daemon = crate::program::Running(stage.command().spawn().unwrap());
    for _ in 0..600 {
        if stage.log().contains("leaves no manifest") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    daemon.signal("-TERM");
    daemon.ended().await.expect("it ends");
    assert_eq!(
        shown(&stage, &emptied),
        format!("Not yet: default is at {}, from which it comes; belay status tells when.\n", &first[..7])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn digits_that_fit_several() {
    let mut stage = Fixture::new().await;
    // Two of seventeen commits begin with the same digit.
    let mut commits: Vec<String> = (0..17)
        .map(|number| {
            stage.repository.commit_file("a.yaml", &config_map("a", &number.to_string()), &format!("Number {number}"))
        })
        .collect();
    stage.repository.push();
    once(&stage, 0);
    commits.sort();
    let pair = commits.windows(2).find(|pair| pair[0][..1] == pair[1][..1]).unwrap();
    let digits = &pair[0][..1];
    for args in [&["show", digits][..], &["status", "--wait", "--commit", digits]] {
        let ran = stage.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        let begin = format!("error: {digits:?} is the beginning of several commits; write more of it:\n");
        assert!(ran.err.starts_with(&begin), "{}", ran.err);
        for commit in pair {
            assert!(ran.err.contains(&format!("  {}  Number ", &commit[..12])), "{}", ran.err);
        }
    }
    for wrong in ["xyz", "0123456789012345678901234567890123456789"] {
        assert_eq!(stage.run(&["show", wrong]).code, 1, "{wrong}");
    }
}

/// Nobody is asked if a commit is pushed while the repository or the history is in the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_blocked_says_by_what() {
    for repository_is_away in [true, false] {
        let mut stage = Fixture::new().await;
        let first = stage.repository.commit_file("a.yaml", &config_map("a", "1"), "First");
        stage.repository.push();
        let _daemon = crate::program::Running(stage.command().spawn().unwrap());
        stage.until(&first, "complete").await;
        let clone = stage.repository.clone_to("clone");
        let (path, state) = (stage.repository.path().to_owned(), stage.home.path().join("state"));
        match repository_is_away {
            true => std::fs::rename(&path, path.with_extension("away")).unwrap(),
            false => crate::support::full_disk::fill(&state, false),
        }
        let why = loop {
            let status: serde_json::Value =
                serde_json::from_str(&stage.run(&["status", "-o", "json"]).out).unwrap_or_default();
            if let Some(why) = status["sources"][0]["blocked"].as_str() {
                break why.to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        };
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "commit",
            "--allow-empty",
            "-q",
            "-m",
            "New",
        ]);
        assert!(git.current_dir(&clone).stdout(Stdio::null()).status().unwrap().success());
        for args in [&["show", "HEAD"][..], &["status", "--commit", "HEAD", "--wait", "--timeout", "2s"]] {
            let mut command = belay(&clone);
            command.args(args).args(stage.globals());
            let ran = crate::program::finish(command, "");
            let said = format!(
                "default has not fetched it: it follows branch main and is at {}. It is blocked: {why}",
                &first[..7]
            );
            let all = format!("{}{}", ran.out, ran.err);
            assert!(all.contains(&said) && !all.contains("Is it pushed"), "{args:?}: {said}\n{ran:?}");
        }
    }
}
