//! Several workloads are acted on only after a question, asked where somebody can answer it: on a terminal.

use serde_json::Value;

use crate::program::{Ran, on_a_terminal, uncoloured};
use crate::support::daemon::deployment;
use crate::workstation::{Workstation, path};

/// Every command that acts on several, and what its question begins with.
const COMMANDS: [(&str, &str); 9] = [
    ("pause a b", "Pause all of these?"),
    ("resume a b", "Resume all of these?"),
    ("restart a b", "Restart all of these?"),
    ("undo a b", "Roll back all of these?"),
    ("retry a b", "Try again all of these?"),
    ("suspend a b", "Suspend all of these?"),
    ("resume-sync a b", "Take up all of these?"),
    ("set image deploy a b app=web:9 --live", "Change all of these?"),
    ("scale deploy a b --replicas 5 --live", "Change all of these?"),
];

/// Types a line, and answers.
fn typed(desk: &Workstation, line: &str, answer: &str) -> Option<Ran> {
    let line = format!("{line} --kubeconfig '{}'", desk.kubeconfig.display());
    let Ran { code, out, err } = on_a_terminal(desk.home.path(), desk.home.path(), 80, &line, answer)?;
    Some(Ran { code, out: uncoloured(&out), err })
}

async fn generations(desk: &Workstation) -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["a", "b"] {
        let live = desk.get(&path("deployments", name)).await.unwrap();
        all.push(serde_json::json!([live["spec"], live["metadata"]["annotations"]["belay.dev/suspend"]]));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_unless_somebody_says_yes() {
    let desk = Workstation::embedded().await;
    for name in ["a", "b"] {
        desk.apply(&path("deployments", name), &deployment(name, "web:1", "")).await;
        desk.synced(&path("deployments", name)).await;
    }
    let before = generations(&desk).await;
    for (line, question) in COMMANDS {
        let answers: &[&str] = if line.starts_with("pause") { &["n\n", "\n", "maybe\n"] } else { &["n\n"] };
        for answer in answers {
            let Some(ran) = typed(&desk, line, answer) else { return };
            assert_eq!(ran.code, 1, "{line}: {ran:?}");
            assert!(ran.out.contains(question), "{line}: {}", ran.out);
            assert!(ran.out.contains("  deployment.apps/a\n  deployment.apps/b\n[y/N] "), "{line}: {}", ran.out);
            assert!(ran.out.contains("error: nothing was done"), "{line}: {}", ran.out);
        }
        let piped = desk.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((piped.code, piped.out.as_str()), (1, ""), "{line}: {piped:?}");
        assert!(piped.err.contains("say --yes to act on all of them"), "{line}: {}", piped.err);
    }
    assert_eq!(generations(&desk).await, before);
    for answer in ["y\n", "YES\n"] {
        let Some(ran) = typed(&desk, "restart a b", answer) else { return };
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("deployment.apps/b restarted"), "{}", ran.out);
        // A second restart within one second is none.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    }
    // One is no question, and neither is a try.
    assert_eq!(typed(&desk, "pause a", "").unwrap().out, "deployment.apps/a paused\n");
    let tried = desk.belay(&["pause", "b", "a", "--dry-run"]);
    assert_eq!(tried.out, "deployment.apps/b paused (server dry run)\n", "{tried:?}");
}
