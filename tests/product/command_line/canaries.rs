//! `belay promote` and `belay abort`, beside a daemon that rolls out in steps.

use std::fs;
use std::process::Stdio;

use crate::fixture::Fixture;
use crate::program::{Running, belay};
use crate::support::canary::with_steps;
use crate::support::daemon::deployment;

fn web(image: &str) -> String {
    with_steps("1 0", &deployment("web", image, ""))
}

/// Waits until a workload's row says this.
async fn until_status(stage: &Fixture, words: &str) {
    let seen = async {
        loop {
            let status = stage.run(&["status", "-o", "wide"]);
            if status.out.contains(words) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(2), seen).await;
    assert!(waited.is_ok(), "{words:?} is not in: {:?}\n{}", stage.run(&["status", "-o", "wide"]), stage.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_promoted_and_aborted() {
    let mut stage = Fixture::new().await;
    let config = format!(
        "[[source]]\nname = \"shop\"\nrepository = \"{}\"\ninterval = \"1s\"\n",
        stage.repository.path().display()
    );
    fs::write(stage.home.path().join("belay.toml"), config).unwrap();
    let mut command = belay(stage.home.path());
    command.args(["run", "--config", "belay.toml"]).args(stage.globals());
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.home.path().join("log")).unwrap());
    let _daemon = Running(command.spawn().unwrap());
    let push = |stage: &mut Fixture, image: &str, subject: &str| {
        let commit = stage.repository.commit_file("web.yaml", &web(image), subject);
        stage.repository.push();
        commit
    };
    let through =
        |stage: &Fixture, commit: &str| stage.run(&["status", "--commit", commit, "--wait", "--timeout", "90s"]);

    let first = push(&mut stage, "web:1", "First version");
    assert_eq!(through(&stage, &first).code, 0, "{}", stage.log());
    let idle = stage.run(&["promote", "deployment/web"]);
    assert_eq!(idle.code, 1, "{idle:?}");
    assert!(idle.err.contains("no canary of it is under way"), "{idle:?}");

    let second = push(&mut stage, "web:2", "Second version");
    until_status(&stage, "canary step 1 of 1: 1 of 1 new pods are ready; waits for belay promote or belay abort").await;
    for (command, words) in [("undo", "take it back with 'belay abort"), ("pause", "has a canary under way")] {
        let refused = stage.run(&[command, "deployment/web"]);
        assert!(refused.code == 1 && refused.err.contains(words), "{refused:?}");
    }
    let tried = stage.run(&["promote", "web", "--dry-run"]);
    assert_eq!(tried.out, "deployment.apps/web promoted at canary step 1 of 1 (server dry run)\n", "{tried:?}");
    let promoted = stage.run(&["promote", "web", "--note", "looks good"]);
    assert_eq!(promoted.out, "deployment.apps/web promoted at canary step 1 of 1\n", "{promoted:?}");
    assert!(promoted.err.contains("all pods are replaced when the new pods of the step are ready"), "{promoted:?}");
    assert_eq!(through(&stage, &second).code, 0, "{}", stage.log());
    let shown = stage.run(&["show", &second, "--steps"]);
    for words in ["canary step 1 of 1: 1 new pod", "looks good", "the canary is over: all pods are replaced"] {
        assert!(shown.out.contains(words), "{words:?} is missing: {}", shown.out);
    }

    let third = push(&mut stage, "web:3", "Third version");
    until_status(&stage, "waits for belay promote or belay abort").await;
    let aborted = stage.run(&["abort", "web"]);
    assert_eq!(aborted.out, "deployment.apps/web aborted at canary step 1 of 1\n", "{aborted:?}");
    let waited = through(&stage, &third);
    assert_eq!(waited.code, 3, "{waited:?}\n{}", stage.log());
    assert!(waited.out.contains("taken back by hand (belay abort)"), "{waited:?}");
    let figures = stage.run(&["history", "--stats", "-o", "wide"]);
    assert!(figures.out.contains("by-hand"), "{figures:?}");
}
