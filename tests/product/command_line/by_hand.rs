//! Changes by hand, beside a daemon that follows Git: the workload is left so until Git has something new.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::program::{Ran, belay};
use crate::support::daemon::{broken, deployment, short};
use crate::support::repository::Repository;
use crate::workstation::{Workstation, path};

/// A desk, a repository, and the daemon.
pub struct Office {
    pub desk: Workstation,
    repository: Repository,
    daemon: Option<Child>,
}

impl Drop for Office {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Office {
    pub async fn new() -> Office {
        Office { desk: Workstation::embedded().await, repository: Repository::new(), daemon: None }
    }

    /// Returns the same, with a daemon that has brought up two versions of a manifest, by their images: their commits.
    async fn with_two_versions(text: impl Fn(&str) -> String) -> (Office, String, String) {
        let mut office = Office::new().await;
        let first = office.push(&text("web:1"), "First version");
        office.start();
        office.until(&first, "complete").await;
        let second = office.push(&text("web:2"), "Second version");
        office.until(&second, "complete").await;
        (office, first, second)
    }

    pub fn start(&mut self) {
        let mut command = belay(self.desk.home.path());
        let repository = self.repository.path().display().to_string();
        command.args(["run", "--name", "shop", "--interval", "1s", "--repository", &repository]);
        command.arg("--kubeconfig").arg(&self.desk.kubeconfig).arg("--state-dir").arg(self.desk.state());
        let log = std::fs::File::create(self.desk.home.path().join("log")).unwrap();
        self.daemon = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }

    pub fn push(&mut self, content: &str, message: &str) -> String {
        let commit = self.repository.commit_file("web.yaml", content, message);
        self.repository.push();
        commit
    }

    pub fn belay(&self, line: &str) -> Ran {
        self.desk.belay(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Waits until the history says so of a commit.
    pub async fn until(&self, commit: &str, outcome: &str) {
        let started = Instant::now();
        loop {
            let ran = self.belay(&format!("history --commit {commit} -o json"));
            let records: Value = serde_json::from_str(&ran.out).unwrap_or_default();
            let all = records["records"].as_array().cloned().unwrap_or_default();
            if all.iter().any(|record| record["outcome"] == outcome) {
                return;
            }
            let log = std::fs::read_to_string(self.desk.home.path().join("log")).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(60), "{outcome}: {records:#}\n{log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the one record of an undo of a commit: it says who it was.
    pub fn undone(&self, commit: &str) -> Value {
        let ran = self.belay(&format!("history --commit {commit} -o json"));
        let records: Value = serde_json::from_str(&ran.out).unwrap();
        let all = records["records"].as_array().unwrap();
        let undone: Vec<&Value> = all.iter().filter(|record| record["trigger"]["by"] == "undo-by-hand").collect();
        assert_eq!(undone.len(), 1, "{records:#}");
        assert!(undone[0]["trigger"]["who"].as_str().unwrap().contains(" as "), "{:#}", undone[0]);
        undone[0].clone()
    }

    /// Returns the first record that was set off so, once there is one.
    pub async fn triggered(&self, word: &str) -> Value {
        let started = Instant::now();
        loop {
            let records: Value = serde_json::from_str(&self.belay("history -o json").out).unwrap_or_default();
            let all = records["records"].as_array().cloned().unwrap_or_default();
            if let Some(record) = all.iter().find(|record| record["trigger"]["by"] == word) {
                return record.clone();
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{word}: {records:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn image_is(&self, image: &str) -> Value {
        self.desk.until(&path("deployments", "web"), image, |live| image_of(live) == image).await
    }

    /// Returns the Deployment, after the daemon has had the time to do something about it.
    async fn in_a_while(&self) -> Value {
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.desk.get(&path("deployments", "web")).await.unwrap()
    }
}

pub fn image_of(live: &Value) -> &str {
    live["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

pub fn hold_of(live: &Value) -> Option<Value> {
    serde_json::from_str(live["metadata"]["annotations"]["belay.dev/hold"].as_str()?).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_is_left_until_a_newer_commit() {
    let (mut office, first, second) = Office::with_two_versions(|image| deployment("web", image, "")).await;

    let tried = office.belay("undo web --dry-run");
    assert_eq!(
        (tried.code, tried.out.as_str()),
        (0, "deployment.apps/web rolled back (server dry run)\n"),
        "{tried:?}"
    );
    assert_eq!(image_of(&office.in_a_while().await), "web:2");

    let undone = office.belay("undo deploy/web --reason=slow");
    assert_eq!((undone.code, undone.out.as_str()), (0, "deployment.apps/web rolled back\n"), "{undone:?}");
    assert!(undone.err.contains(&format!("commit {} is held", short(&second))), "{}", undone.err);
    let live = office.in_a_while().await;
    assert_eq!(image_of(&live), "web:1");
    let record = office.undone(&second);
    assert_eq!(record["outcome"], "rolled-back");
    assert_eq!(&record["reason"]["code"], "UndoneByHand", "{record:#}");
    assert_eq!(record["backTo"], first.as_str(), "{record:#}");
    let hold = hold_of(&live).expect("held");
    assert_eq!(hold["commit"], second.as_str(), "{hold:#}");
    assert!(hold["reason"].as_str().unwrap().ends_with(": slow"), "{hold:#}");
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["belay.dev/commit"], first.as_str());
    assert!(annotations["kubernetes.io/change-cause"].as_str().unwrap().contains("First version"), "{annotations:#}");
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3", "its first revision is used again");
    let owners: Vec<&str> = live["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry.get("subresource").is_none())
        .filter(|entry| entry["fieldsV1"]["f:spec"].is_object())
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["belay"], "nobody else owns anything of it");

    // A restart is no drift, and what is held stays held.
    assert_eq!(office.belay("restart web").out, "deployment.apps/web restarted\n");
    let live = office.in_a_while().await;
    assert_eq!(image_of(&live), "web:1");
    assert!(live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
    let hold = belay_core::rollout::Hold::on(&live).expect("held");
    assert!(hold.is_about(&live["spec"]["template"]), "{hold:#?}");
    let again = office.belay("undo web --to-commit").code;
    assert_eq!(again, 2, "an option without its value");
    let third = office.push(&deployment("web", "web:3", ""), "Third version");
    office.until(&third, "complete").await;
    let live = office.in_a_while().await;
    assert_eq!((image_of(&live), hold_of(&live)), ("web:3", None));
    assert_eq!(office.belay("restart web").code, 0);
    office.in_a_while().await;

    // Past a restart the template still becomes just what the revision says.
    let back = office.belay(&format!("undo web --to-commit {}", short(&second)));
    assert_eq!(back.code, 0, "{back:?}");
    let live = office.in_a_while().await;
    assert_eq!(image_of(&live), "web:2");
    assert_eq!(live["spec"]["template"]["metadata"].get("annotations"), None, "{live:#}");
    assert_eq!(hold_of(&live).unwrap()["commit"], third.as_str());

    let retried = office.belay("retry web");
    assert_eq!(retried.out, format!("deployment.apps/web let go of commit {}\n", short(&third)));
    office.image_is("web:3").await;
    assert_eq!(hold_of(&office.in_a_while().await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_ends_the_rollout_under_way() {
    let mut office = Office::new().await;
    let first = office.push(&deployment("web", "web:1", ""), "First version");
    office.start();
    office.until(&first, "complete").await;
    let stuck = broken("web", "never-ready").replace("Seconds: 30", "Seconds: 5");
    let second = office.push(&stuck, "Stuck");
    office.until(&second, "progressing").await;
    let undone = office.belay("undo deploy/web");
    assert_eq!((undone.code, undone.out.as_str()), (0, "deployment.apps/web rolled back\n"), "{undone:?}");
    office.until(&second, "rolled-back").await;
    // Its deadline passes, and nothing goes back on top of it.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let live = office.in_a_while().await;
    assert_eq!(
        (image_of(&live), &live["metadata"]["annotations"]["belay.dev/commit"]),
        ("web:1", &first.clone().into())
    );
    assert!(hold_of(&live).unwrap()["by"].is_string(), "{live:#}");
    office.undone(&second);
    let shown = office.belay(&format!("show {second}"));
    let ended: Vec<&str> = shown.out.lines().filter(|line| line.starts_with("Deployment default/web: ")).collect();
    assert_eq!(ended.len(), 2, "the rollout and the undo: {}", shown.out);
    assert!(ended.iter().all(|line| line.contains(": rolled-back")), "{}", shown.out);
    assert!(shown.out.contains("  trigger:  undo-by-hand ("), "{}", shown.out);
    assert!(shown.out.contains("  reason:   taken back by hand (belay undo) to revision 1 ("), "{}", shown.out);
    assert!(!shown.out.contains("deadline"), "no verdict: {}", shown.out);
    let sets = office.desk.get("apis/apps/v1/namespaces/default/replicasets").await.unwrap();
    assert!(!sets.to_string().contains(" \u{2014} failed: "), "nothing has failed: {sets:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_with_kubectl_says_so() {
    let (office, _, second) = Office::with_two_versions(|image| deployment("web", image, "")).await;
    let sets = office.desk.get("apis/apps/v1/namespaces/default/replicasets").await.unwrap();
    let set = sets["items"].as_array().unwrap().iter().find(|set| image_of(set) == "web:1").unwrap();
    // As kubectl does it: the template, and the annotations of the revision.
    let annotations = &set["metadata"]["annotations"];
    let marks: serde_json::Map<String, Value> = ["belay.dev/commit", "kubernetes.io/change-cause"]
        .into_iter()
        .map(|mark| (mark.to_owned(), annotations[mark].clone()))
        .collect();
    let undo = serde_json::json!({"metadata": {"annotations": marks}, "spec": {"template": set["spec"]["template"]}});
    let request = http::Request::patch(format!("/{}?fieldManager=kubectl-rollout", path("deployments", "web")))
        .header("Content-Type", "application/merge-patch+json")
        .body(undo.to_string().into_bytes())
        .unwrap();
    office.desk.client().request::<Value>(request).await.unwrap();
    office.until(&second, "rolled-back").await;
    // The fields that kubectl owns since may be taken over under a record of their own.
    let wide = office.belay("history --objects -o wide --failed --limit 1");
    assert!(wide.out.contains("undo-by-hand (kubectl-rollout)"), "{}", wide.out);
    assert_eq!(image_of(&office.in_a_while().await), "web:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_history_limit_the_history_and_git_remember() {
    let text = |image: &str| deployment("web", image, "  revisionHistoryLimit: 0\n");
    let (mut office, first, second) = Office::with_two_versions(text).await;
    office.stop();
    let sets = "apis/apps/v1/namespaces/default/replicasets";
    office.desk.until(sets, "one ReplicaSet", |list| list["items"].as_array().unwrap().len() == 1).await;
    let refused = office.belay("undo web");
    assert_eq!((refused.code, refused.err.as_str()), (1, "error: no rollout history found for deployment \"web\"\n"));
    let unknown = office.belay("undo web --to-commit abcdef0");
    assert_eq!(unknown.code, 1);
    assert!(unknown.err.contains(&format!("its revisions are of {}", short(&second))), "{}", unknown.err);
    let done = office.belay(&format!("undo web --to-commit {}", short(&first)));
    assert_eq!((done.code, done.out.as_str()), (0, "deployment.apps/web rolled back\n"), "{done:?}");
    assert_eq!(image_of(&office.image_is("web:1").await), "web:1");
    // The daemon, which was away, finds it held, and writes it down, once.
    office.start();
    office.in_a_while().await;
    office.undone(&second);
    office.stop();
    office.start();
    let live = office.in_a_while().await;
    office.undone(&second);
    assert_eq!(image_of(&live), "web:1");
    assert_eq!(hold_of(&live).unwrap()["commit"], second.as_str());
    office.stop();
    // Without the history there still is the mirror; only what to hold is not known.
    std::fs::remove_file(office.desk.state().join("history.db")).unwrap();
    let held = office.belay(&format!("undo web --to-commit {second}"));
    assert!(held.code == 1 && held.err.contains("is held for") && held.err.contains("belay retry"), "{held:?}");
    assert_eq!(office.belay("retry web").code, 0);
    assert_eq!(office.belay(&format!("undo web --to-commit {second}")).code, 0);
    let hold = hold_of(&office.image_is("web:2").await).unwrap();
    assert_eq!(
        (&hold["manifest"], &hold["commit"]),
        (&Value::from(""), &Value::from(first.as_str())),
        "it says who: {hold}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_is_left_alone_until_it_is_taken_up() {
    let mut office = Office::new().await;
    let first = office.push(&deployment("web", "web:1", ""), "First version");
    office.start();
    office.until(&first, "complete").await;
    let suspended = office.desk.belay(&["suspend", "web", "--reason", "we look at it"]);
    assert_eq!((suspended.code, suspended.out.as_str()), (0, "deployment.apps/web suspended\n"), "{suspended:?}");
    let twice = office.desk.belay(&["suspend", "web", "--reason", "we look at it"]);
    assert_eq!(twice.err, "error: deployments.apps \"web\" is already suspended: we look at it\n");
    let second = office.push(&deployment("web", "web:2", ""), "Second version");
    office.until(&second, "suspended").await;
    assert_eq!(image_of(&office.in_a_while().await), "web:1");
    let resumed = office.belay("resume-sync web");
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "deployment.apps/web taken up again\n"), "{resumed:?}");
    let live = office.image_is("web:2").await;
    assert_eq!(hold_of(&live), None);
    let twice = office.belay("resume-sync web");
    assert_eq!((twice.code, twice.err.as_str()), (1, "error: deployments.apps \"web\" is not suspended\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_it_is_kept() {
    let (mut office, first, second) = Office::with_two_versions(|image| deployment("web", image, "")).await;
    let said = ["--note", "slow", "--description", "Seen at\nnoon.", "--commit", &first];
    let undone = office.desk.belay(&[&["undo", "web"], &said[..]].concat());
    assert_eq!(undone.code, 0, "{undone:?}");
    let live = office.in_a_while().await;
    let reason = hold_of(&live).expect("held")["reason"].as_str().unwrap().to_owned();
    let all = format!(": slow; Seen at noon.; commit {} First version", short(&first));
    assert!(reason.contains(&all), "{reason}");
    assert!(office.undone(&second)["reason"]["message"].as_str().unwrap().contains(&all));
    assert_eq!(office.desk.belay(&["restart", "web", "--note", "as it hung"]).code, 0);
    let cause = office.in_a_while().await["metadata"]["annotations"]["kubernetes.io/change-cause"].clone();
    assert_eq!(cause, "as it hung", "also of what is held");

    assert_eq!(office.desk.belay(&["retry", "web", "--note", "mended"]).code, 0);
    // The answer is that of the retry, also if the daemon has not taken it up yet.
    let waited = office.belay(&format!("status --commit {second} --wait"));
    assert_eq!(waited.code, 0, "{waited:?}");
    office.image_is("web:2").await;
    let retried = office.triggered("retry").await;
    let note = retried["note"].as_str().unwrap().to_owned();
    assert!(note.contains(" as ") && note.ends_with(": mended"), "{retried:#}");
    let shown = office.belay(&format!("show {second}"));
    assert!(shown.out.contains(&format!("  note:     {note}\n")), "{}", shown.out);

    assert_eq!(office.desk.belay(&["suspend", "web", "--note", "a look", "--description", "inside"]).code, 0);
    let why = office.in_a_while().await["metadata"]["annotations"]["belay.dev/suspend"].clone();
    assert_eq!(why, "a look; inside");
    let both = office.desk.belay(&["suspend", "web", "--note", "a look", "--reason", "a look"]);
    assert_eq!(both.code, 2, "{both:?}");
    let third = office.push(&deployment("web", "web:3", ""), "Third version");
    office.until(&third, "suspended").await;
    assert_eq!(office.desk.belay(&["resume-sync", "web", "--note", "seen enough"]).code, 0);
    let waited = office.belay(&format!("status --commit {third} --wait"));
    assert_eq!(waited.code, 0, "{waited:?}");
    office.image_is("web:3").await;
    let shown = office.belay(&format!("show {third}"));
    assert!(shown.out.contains(": seen enough\n") && !shown.out.contains("mended"), "{}", shown.out);

    // A command without a note has no earlier note.
    assert_eq!(office.belay("suspend web").code, 0);
    let fourth = office.push(&deployment("web", "web:4", ""), "Fourth version");
    office.until(&fourth, "suspended").await;
    assert_eq!(office.belay("resume-sync web").code, 0);
    let live = office.image_is("web:4").await;
    assert_eq!(live["metadata"]["annotations"].get("belay.dev/note"), None);
    assert!(!office.belay(&format!("show {fourth}")).out.contains("note:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_an_undo_of_others_is_its_change_cause() {
    let desk = Workstation::embedded().await;
    for image in ["web:1", "web:2"] {
        desk.apply(&path("deployments", "web"), &deployment("web", image, "")).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let undone = desk.belay(&["undo", "web", "--note", "slow", "--description", "Seen at noon."]);
    assert_eq!(undone.code, 0, "{undone:?}");
    let live = desk.get(&path("deployments", "web")).await.unwrap();
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(image_of(&live), "web:1");
    assert_eq!(annotations["kubernetes.io/change-cause"], "slow");
    assert_eq!(annotations["kubernetes.io/description"], "Seen at noon.");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_by_hand_is_no_drift() {
    let mut office = Office::new().await;
    let first = office.push(&deployment("web", "web:1", ""), "First version");
    office.start();
    office.until(&first, "complete").await;
    assert_eq!(office.belay("pause web").out, "deployment.apps/web paused\n");
    assert_eq!(office.in_a_while().await["spec"]["paused"], true);
    assert_eq!(office.belay("resume web").out, "deployment.apps/web resumed\n");
    assert_eq!(office.belay("restart web").out, "deployment.apps/web restarted\n");
    let live = office.in_a_while().await;
    assert!(live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
    assert_eq!(live["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_asked_for_first() {
    let desk = Workstation::embedded().await;
    for name in ["a", "b"] {
        desk.apply(&path("deployments", name), &deployment(name, "web:1", "")).await;
    }
    let asked = desk.belay(&["pause", "a", "b"]);
    assert_eq!(asked.code, 1);
    assert_eq!(
        asked.err,
        "error: these are 2: deployment.apps/a, deployment.apps/b; say --yes to act on all of them\n"
    );
    let done = desk.belay(&["pause", "deploy", "a", "b", "nobody", "--yes", "-o", "name"]);
    assert_eq!((done.code, done.out.as_str()), (1, "deployment.apps/a\ndeployment.apps/b\n"));
    assert_eq!(done.err, "error: deployments.apps \"nobody\" not found\n");
    let listed = desk.belay(&["resume", "a", "b", "-y", "-o", "json"]);
    let value: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((value["kind"].as_str(), value["items"].as_array().unwrap().len()), (Some("List"), 2));
    assert_eq!(value["items"][0]["metadata"].get("managedFields"), None);
    for (line, message) in [
        ("retry a", "deployments.apps \"a\" is not applied by belay"),
        ("retry rc nobody", "replicationcontrollers \"nobody\" not found"),
        ("retry job nobody", "jobs.batch \"nobody\" not found"),
        ("suspend a", "is not applied by belay; there is nothing to suspend"),
        ("undo a", "no rollout history found for deployment \"a\""),
        ("undo a --to-commit abcdef0", "no pod template of deployment \"a\" is known that commit abcdef0 made"),
        (
            "undo nobody",
            "there is no Deployment or StatefulSet or DaemonSet or ReplicationController \"nobody\" in namespace default",
        ),
        ("restart -l app=a deploy b", "name workloads, or say which labels they have, not both"),
    ] {
        let ran = desk.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{line}: {ran:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(message), "{line}: {}", ran.err);
    }
    for line in ["undo", "undo a --to-commit xyz", "undo a --to-commit abcd --to-revision 1", "suspend a --reason="] {
        let ran = desk.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_what_is_suspended_says_when_it_is_applied() {
    let (office, ..) = Office::with_two_versions(|image| deployment("web", image, "")).await;
    for line in ["undo web", "suspend web"] {
        let ran = office.desk.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let retried = office.desk.belay(&["retry", "web"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    let said = "; belay applies it again after belay resume-sync deployment.apps/web -n default: it is suspended (";
    assert!(retried.err.contains(said), "{retried:?}");
    assert_eq!(image_of(&office.in_a_while().await), "web:1");
}
