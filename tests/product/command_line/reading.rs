//! `history`, `show`, `status` and `plan`, after a commit that was rolled out and one that was taken back.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::program::{Ran, Running, belay, finish};
use crate::support::daemon::{config_map, deployment, tools_folder};

/// Returns the stage, and the ids of the good commit and of the bad one.
pub async fn told() -> (Fixture, String, String) {
    let mut stage = Fixture::new().await;
    stage.repository.author("Ada", "ada@example.com");
    let good = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    once(&stage, 0);
    let broken = deployment("web", "web:404", "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2");
    let bad = stage.repository.author("Grace", "grace@example.com").commit_file("web.yaml", &broken, "Broken");
    stage.repository.push();
    once(&stage, 3);
    (stage, good, bad)
}

pub fn once(stage: &Fixture, code: i32) {
    let status = stage.command().arg("--once").status().unwrap();
    assert_eq!(status.code(), Some(code), "{}", stage.log());
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

fn commits(ran: &Ran) -> Vec<String> {
    let records = json(ran)["records"].take();
    records.as_array().unwrap().iter().map(|record| record["commit"].as_str().unwrap().to_owned()).collect()
}

/// A plan and the history tell who does not notice a change of configuration, and who is rolled out for it.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_notice_a_change_of_configuration_is_told() {
    const NOTE: &str = "Deployment default/web reads it as environment, and will not notice before it restarts: belay restart \
                        deployment/web -n default";
    let mut stage = Fixture::new().await;
    let folder = stage.home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let write = |stage: &mut Fixture, path: &str, text: &str| {
        std::fs::write(folder.join(path), text).unwrap();
        stage.repository.write(path, text);
    };
    let from = folder.display().to_string();
    let plan = |stage: &Fixture, more: &[&str]| stage.run(&[&["plan", "--from", &from], more].concat());
    let roll_out = |stage: &mut Fixture, message: &str| {
        let commit = stage.repository.commit(message);
        stage.repository.push();
        once(stage, 0);
        commit
    };
    let reads = |more: &str| {
        let text =
            format!("{}        envFrom: [{{configMapRef: {{name: settings}}}}]\n", deployment("web", "web:1", ""));
        text.replace("  name: web\n", &format!("  name: web\n{more}"))
    };
    write(&mut stage, "settings.yaml", &config_map("settings", "1"));
    write(&mut stage, "web.yaml", &reads(""));
    roll_out(&mut stage, "First version");
    write(&mut stage, "settings.yaml", &config_map("settings", "2"));
    let text = plan(&stage, &[]);
    assert_eq!(text.code, 3, "{text:?}");
    assert!(text.out.contains(&format!("\nnote: {NOTE}\n")), "{}", text.out);
    assert!(plan(&stage, &["-o", "markdown"]).out.contains("will not notice before it restarts"));
    let steps: Value = serde_json::from_str(&plan(&stage, &["-o", "json"]).out).unwrap();
    let map = steps["steps"].as_array().unwrap().iter().find(|step| step["object"]["kind"] == "ConfigMap").unwrap();
    assert_eq!(map["unnoticed"][0]["workload"]["name"], "web");
    assert_eq!(map["unnoticed"][0]["reading"]["environment"], true);
    let asked = plan(&stage, &["--roll-on-config"]);
    assert!(asked.out.contains("Deployment default/web rolls out") && !asked.out.contains("note:"), "{}", asked.out);
    assert!(asked.out.contains("belay.dev/config-hash"), "{}", asked.out);
    let other = roll_out(&mut stage, "Other settings");
    let shown = stage.run(&["show", &other]);
    assert!(shown.out.contains(&format!("  note:     {NOTE}\n")), "{}", shown.out);
    let value = json(&stage.run(&["show", &other, "-o", "json"]));
    assert_eq!(value["records"][0]["unnoticed"][0]["workload"]["name"], "web", "{value:#}");

    // From the next change on it is rolled out.
    write(&mut stage, "web.yaml", &reads("  annotations: {belay.dev/roll-on-config: \"true\"}\n"));
    roll_out(&mut stage, "Roll it out, too");
    let rests = plan(&stage, &[]);
    assert_eq!(rests.code, 0, "nothing is rolled out for being asked for: {rests:?}");
    write(&mut stage, "settings.yaml", &config_map("settings", "3"));
    let text = plan(&stage, &[]);
    assert!(text.out.contains("Deployment default/web rolls out") && !text.out.contains("note:"), "{}", text.out);
    roll_out(&mut stage, "Settings again");
    let rests = plan(&stage, &[]);
    assert_eq!(rests.code, 0, "{rests:?}");
    // Then the live template tells, also if its manifest does not.
    write(&mut stage, "web.yaml", &reads(""));
    write(&mut stage, "settings.yaml", &config_map("settings", "4"));
    let text = plan(&stage, &[]);
    assert!(text.out.contains("Deployment default/web rolls out"), "{}", text.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_read_in_every_way() {
    let (stage, good, bad) = told().await;
    let table = stage.run(&["history"]);
    let lines: Vec<&str> = table.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", table.out);
    assert!(lines[0].starts_with("COMMIT    AGE   OBJECTS"), "{}", table.out);
    assert!(
        lines[1].starts_with(&bad[..7]) && lines[1].contains("rolled-back") && lines[1].ends_with("Grace    Broken")
    );
    assert!(lines[2].contains("└ the rollout exceeded its progress deadline: pod web-"), "{}", table.out);
    assert!(lines[3].starts_with(&good[..7]) && lines[3].contains("   complete      "), "{}", table.out);
    let outcome = lines[0].find("OUTCOME").unwrap();
    assert_eq!((lines[1].find("rolled-back"), lines[3].find("complete")), (Some(outcome), Some(outcome)), "aligned");

    assert_eq!(commits(&stage.run(&["history", "-o", "json"])), [bad.as_str(), &good]);
    assert_eq!(commits(&stage.run(&["history", "deploy/web", "--failed", "-o", "json"])), [bad.as_str()]);
    assert_eq!(commits(&stage.run(&["history", "--commit", &good[..9], "-o", "json"])), [good.as_str()]);
    assert_eq!(commits(&stage.run(&["history", "--author", "ada", "-o", "json"])), [good.as_str()]);
    assert_eq!(commits(&stage.run(&["history", "--since", "1h", "--limit", "1", "-o", "json"])), [bad.as_str()]);
    assert_eq!(stage.run(&["history", "-o", "name"]).out, format!("{bad}\n{good}\n"));
    let yaml: Value = serde_yaml::from_str(&stage.run(&["history", "-o", "yaml"]).out).unwrap();
    assert_eq!(yaml["records"][0]["outcome"], "rolled-back");
    assert!(stage.run(&["history", "--objects", "-o", "wide"]).out.contains("web.yaml:1:1"));
    assert_eq!(stage.run(&["history", "statefulset/web"]).code, 1, "there is none");
    let stats = stage.run(&["history", "--stats"]);
    let lines: Vec<&str> = stats.out.lines().collect();
    assert!(lines[0].starts_with("SOURCE    ROLLOUTS   PER DAY   LEAD TIME"), "{}", stats.out);
    assert!(lines[1].starts_with("default   2          0.1") && lines[1].contains("   50 %     "), "{}", stats.out);
    let value = json(&stage.run(&["history", "--stats", "--by", "workload", "-o", "json"]))["stats"][0].take();
    assert_eq!((&value["of"], &value["failures"]), (&"default: Deployment default/web".into(), &1.into()));
    assert_eq!((&value["leadTime"]["count"], &value["timeToRestore"]["count"]), (&1.into(), &1.into()));
    assert_eq!(stage.run(&["history", "--by", "month"]).code, 2);
    let shown = stage.run(&["show", &bad]).out;
    for columns in [80, 200] {
        narrow(&in_a_terminal(&stage, columns, "history"), columns);
        narrow(&in_a_terminal(&stage, columns, "status"), columns);
        narrow(&in_a_terminal(&stage, columns, "history --stats"), columns);
        // Reasons and log lines are shown whole: the terminal wraps them.
        assert_eq!(in_a_terminal(&stage, columns, &format!("show {bad}")), shown);
    }
}

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";

/// Returns a command's output in a terminal, without its colour, of which there must be some.
pub fn in_a_terminal(stage: &Fixture, columns: usize, command: &str) -> String {
    let typed = format!("'{}' {command} {}", env!("CARGO_BIN_EXE_belay"), stage.globals().join(" "));
    let shown = typed_in_a_terminal(stage.home.path(), columns, 24, &typed);
    assert!(shown.contains("\x1b["), "colour on a terminal: {shown:?}");
    anstream::adapter::strip_str(&shown).to_string().replace("\r\n", "\n")
}

/// Returns the output of a command line in a terminal of this size, as it is.
pub fn typed_in_a_terminal(home: &Path, columns: usize, rows: usize, typed: &str) -> String {
    let typed = format!("stty cols {columns} rows {rows}; {typed}");
    let output = std::process::Command::new("/usr/bin/script")
        .args(["-qec", &typed, "/dev/null"])
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm-256color")
        .output()
        .expect("script, of util-linux");
    String::from_utf8(output.stdout).unwrap()
}

/// No line is wider than the terminal.
pub fn narrow(shown: &str, columns: usize) {
    assert!(!shown.is_empty());
    for line in shown.lines() {
        assert!(line.chars().count() <= columns, "{} of {columns} columns: {line}", line.chars().count());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_shown_with_why_it_failed() {
    let (mut stage, good, bad) = told().await;
    let shown = stage.run(&["show", &bad[..7]]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [
        format!("commit {bad}\nAuthor:  Grace <grace@example.com>\n"),
        "Subject: Broken\n".to_owned(),
        "Deployment default/web: rolled-back after ".to_owned(),
        "  place:    web.yaml:1:1\n".to_owned(),
        "  reason:   the rollout exceeded its progress deadline".to_owned(),
        format!("  back to:  {}", &good[..7]),
        "  pods:\n".to_owned(),
        "  events:\n".to_owned(),
    ] {
        assert!(shown.out.contains(&part), "{part:?} is not in:\n{}", shown.out);
    }
    // Events with their ages, the newest first, and of this rollout only.
    let (_, events) = shown.out.split_once("  events:\n").unwrap();
    let aged: Vec<&str> = events.lines().take_while(|line| line.starts_with("    ")).collect();
    assert!(!aged.is_empty() && aged.iter().all(|line| line.contains("s before: ")), "{events}");
    assert!(!events.contains("RolloutComplete"), "{events}");
    let value = json(&stage.run(&["show", &bad, "-o", "json"]));
    assert_eq!(value["records"][0]["outcome"], "rolled-back");
    let times = value["records"][0]["evidence"]["events"].as_array().unwrap().iter();
    let times: Vec<jiff::Timestamp> = times.map(|event| event["at"].as_str().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    assert!(value["records"][0]["evidence"]["pods"][0]["state"].as_str().unwrap().contains("Image"));
    let passed_over = stage.repository.commit_file("README.md", "The shop", "Say what it is");
    let newer = stage.repository.commit_file("settings.yaml", SETTINGS, "Settings");
    stage.repository.push();
    once(&stage, 3);
    let why = stage.run(&["show", &passed_over]);
    assert_eq!(why.code, 0, "{why:?}");
    let said = "Subject: Say what it is\n\nIt changes no manifest that default follows: it touches README.md.\n";
    assert!(why.out.contains(said), "{}", why.out);
    assert_eq!(stage.run(&["show", &newer, "-o", "name"]).out, "ConfigMap default/settings\n");
    let unknown = stage.run(&["show", "0123456"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""));
    assert!(unknown.err.contains("no commit that begins with \"0123456\""), "{}", unknown.err);
    assert!(unknown.err.contains(&format!("the newest are\n  {}  Settings (", &newer[..7])), "{}", unknown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_is_held_and_waits_for_commits() {
    let (stage, good, bad) = told().await;
    let table = stage.run(&["status"]);
    let lines: Vec<&str> = table.out.lines().collect();
    assert_eq!(lines[0], format!("default is at {} Broken (Grace): degraded (1 held)", &bad[..7]));
    assert!(lines[2].starts_with("SOURCE    OBJECT"), "{}", table.out);
    assert!(lines[3].contains("held") && lines[3].contains(&format!("commit {} is held", &bad[..7])), "{}", table.out);
    assert_eq!(lines.len(), 4);
    let workload = json(&stage.run(&["status", "deploy/web", "-o", "json"]))["workloads"][0].take();
    assert_eq!((&workload["state"], &workload["commit"]), (&"held".into(), &good.as_str().into()));
    assert_eq!(stage.run(&["status", "-o", "name"]).out, "deployment/web\n");
    assert!(stage.run(&["status", "-n", "elsewhere"]).out.contains("no workload in namespace elsewhere"));

    let waited = stage.run(&["status", "--commit", &good[..7], "--wait"]);
    assert_eq!((waited.code, waited.out.as_str()), (0, &*format!("commit {} is complete: 1 object\n", &good[..7])));
    let waited = stage.run(&["status", "--commit", &bad, "--wait"]);
    assert_eq!(waited.code, 3);
    assert!(waited.out.starts_with("Deployment default/web: rolled-back: "), "{}", waited.out);
    let waited = stage.run(&["status", "--commit", "0123456", "--wait", "--timeout", "100ms"]);
    assert_eq!(waited.code, 4, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_may_begin_before_the_daemon_does() {
    let mut stage = Fixture::new().await;
    let first = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let mut command = belay(stage.home.path());
    command.args(["status", "--commit", &first, "--wait", "--timeout", "60s"]).args(stage.globals());
    let mut waiting = Running(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    assert!(waiting.ended_within(Duration::from_millis(300)).await.is_none(), "there is nothing yet");
    once(&stage, 0);
    assert!(waiting.ended().await.expect("it is through").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_is_in_the_way_of_the_repository() {
    let (stage, _, bad) = told().await;
    stage.repository.go_away();
    let mut running = Running(stage.command().spawn().unwrap());
    let mut table = stage.run(&["status"]).out;
    for _ in 0..600 {
        if table.contains("nothing newer is rolled out (") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        table = stage.run(&["status"]).out;
    }
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with(&format!("default is at {} Broken (Grace): ", &bad[..7])), "{table}");
    assert!(lines[1].starts_with("  nothing newer is rolled out ("), "{table}");
    assert!(lines[1].contains("there is no Git repository at "), "{table}");
    assert!(lines.last().unwrap().contains(" held "), "{table}");
    let source = json(&stage.run(&["status", "-o", "json"]))["sources"][0].take();
    assert!(source["trouble"]["message"].as_str().unwrap().starts_with("there is no Git repository at "), "{source:#}");
    running.signal("-TERM");
    assert!(running.ended().await.expect("it ends when told").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_goes_on_being_shown() {
    let (mut stage, ..) = told().await;
    let shown = stage.home.path().join("watched");
    let mut command = belay(stage.home.path());
    command.args(["status", "--watch"]).args(stage.globals());
    command.stdout(std::fs::File::create(&shown).unwrap()).stderr(std::process::Stdio::null());
    let mut running = Running(command.spawn().unwrap());
    let until = async |what: &str| {
        for _ in 0..600 {
            let text = std::fs::read_to_string(&shown).unwrap();
            if text.contains(what) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what:?} was not shown: {}", std::fs::read_to_string(&shown).unwrap());
    };
    until("   held ").await;
    stage.repository.commit_file("web.yaml", &slow(), "A fix, slow to start");
    stage.repository.push();
    once(&stage, 0);
    let text = until("   complete ").await;
    assert!(text.contains("   progressing ") && text.contains("fails in ") && text.contains('○'), "{text}");
    assert_eq!(text.matches("SOURCE").count(), 1, "{text}");
    running.signal("-INT");
    assert!(running.ended().await.expect("it ends when told").success());
}

fn slow() -> String {
    deployment("web", "web:3", "").replace(
        "    spec:\n      containers",
        "      annotations: {kubelet.belay.dev/fate: ready-after=3s}\n    spec:\n      containers",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_what_would_change_and_changes_nothing() {
    let (mut stage, ..) = told().await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {KEY: hunter2}\n";
    stage.repository.write("key.yaml", secret);
    stage.repository.write("web.yaml", deployment("web", "web:3", ""));
    stage.repository.commit("A fix, and a key");
    stage.repository.push();
    let clone = stage.repository.clone_to("clone");
    let folder = clone.display().to_string();
    let here = clone.strip_prefix(stage.home.path()).unwrap_or(&clone).display().to_string();
    let before = everything(&stage).await;
    let plan = stage.run(&["plan", "--from", &folder, "--source", "default"]);
    assert_eq!(plan.code, 3, "{plan:?}");
    assert!(plan.out.contains(&format!("Deployment default/web rolls out ({here}/web.yaml:1:1)")), "{}", plan.out);
    assert!(plan.out.contains("web:1") && plan.out.contains("web:3"), "{}", plan.out);
    assert!(plan.out.contains(&format!("Secret default/key is new ({here}/key.yaml:1:1)")), "{}", plan.out);
    assert!(!format!("{plan:?}").contains("hunter2") && !plan.out.contains("aHVudGVyMg"), "{}", plan.out);
    assert!(plan.err.contains("1 new, 1 changed"), "{}", plan.err);
    let named = stage.run(&["plan", "--from", &folder, "-o", "name"]);
    assert_eq!(named.out, "Secret default/key\nDeployment default/web\n");
    let value: Value = serde_json::from_str(&stage.run(&["plan", "--from", &folder, "-o", "json"]).out).unwrap();
    assert!(value.to_string().contains("web:3") && !value.to_string().contains("hunter2"), "{value:#}");

    let markdown = stage.run(&["plan", "--from", &folder, "-o", "markdown"]).out;
    assert!(markdown.starts_with("### belay plan: 1 new, 1 changed\n"), "{markdown}");
    let heading = format!("<b>Deployment default/web</b> rolls out ({here}/web.yaml:1:1)</summary>");
    assert!(markdown.contains(&format!("<details><summary>{heading}")), "{markdown}");
    assert!(markdown.contains("```diff\n") && markdown.contains("containers[0].image: web:3"), "{markdown}");

    // A revision of the working copy: the first would take off the hold, the second is what is held.
    let at = |revision: &str| {
        let mut command = belay(&clone);
        command.args(["plan", revision]).args(stage.globals());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert!(at("HEAD~2").1.contains("- metadata.annotations[belay.dev/hold]"), "{:?}", at("HEAD~2"));
    assert_eq!(at("HEAD~2").0, Some(3));
    assert!(at("HEAD~1").1.starts_with("Deployment default/web is held: "), "{:?}", at("HEAD~1"));
    assert_eq!(at("HEAD~1").0, Some(0), "{:?}", at("HEAD~1"));
    assert_eq!(at("HEAD").0, Some(3));
    assert_eq!(at("nonsense").0, Some(1));

    let after = "  name: web\n  annotations: {belay.dev/after: deployment/db}\n";
    std::fs::write(clone.join("web.yaml"), deployment("web", "web:3", "").replace("  name: web\n", after)).unwrap();
    std::fs::write(clone.join("db.yaml"), deployment("db", "db:1", "")).unwrap();
    let value: Value = serde_json::from_str(&stage.run(&["plan", "--from", &folder, "-o", "json"]).out).unwrap();
    let waits = value["steps"].as_array().unwrap().iter().filter(|step| step.get("after").is_some());
    assert_eq!(waits.map(|step| step["after"][0]["name"].clone()).collect::<Vec<_>>(), ["db"], "{value:#}");

    std::fs::write(clone.join("web.yaml"), deployment("web", "web:3", "").replace("replicas", "replica")).unwrap();
    let refused = stage.run(&["plan", "--from", &folder]);
    assert_eq!(refused.code, 1);
    assert!(refused.out.contains("web.yaml:6:3") && refused.out.contains("replicas"), "{}", refused.out);
    // Names only go where results go, and what is wrong is told beside them.
    let named = stage.run(&["plan", "--from", &folder, "-o", "name"]);
    assert_eq!(named.code, 1, "{named:?}");
    assert!(named.err.contains(&format!("error: {here}/web.yaml:6:3: ")), "{named:?}");
    // One file is checked like a folder, and told as it was named.
    let checked = stage.run(&["check", &format!("{here}/web.yaml"), "-o", "name"]);
    assert_eq!((checked.code, checked.out), (1, format!("{here}/web.yaml:6:3\n")));
    let checked = stage.run(&["check", &format!("{here}/db.yaml")]);
    assert_eq!((checked.code, checked.err.as_str()), (0, "1 object in 1 file, and nothing wrong.\n"), "{checked:?}");
    assert_eq!(everything(&stage).await, before, "nothing was written");
}

/// Returns the revision of everything that a plan could have touched.
async fn everything(stage: &Fixture) -> Vec<Value> {
    let client = stage.cluster.client();
    let mut found = Vec::new();
    for path in ["/apis/apps/v1/deployments", "/api/v1/secrets", "/api/v1/configmaps", "/api/v1/events"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        found.push(client.request::<Value>(request).await.unwrap()["items"].take());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_nothing_has_are_refused_with_what_there_is() {
    let (stage, first, _) = told().await;
    let refused = |line: &str, part: &str| {
        let ran = stage.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{line}: {ran:?}");
        assert!(ran.err.contains(part), "{line}: {}", ran.err);
    };
    for form in ["", " -o json", " -o name", " --watch"] {
        refused(
            &format!("status wep{form}"),
            "belay has applied no workload \"wep\" in namespace default (-A: in all); there is deployment.apps/web",
        );
    }
    refused("status sts/web", "belay has applied no workload \"web\"");
    refused("status web -n kube-system", "belay has applied no workload \"web\" in namespace kube-system");
    refused(
        "status --commit 0123abcd",
        "no workload in namespace default (-A: in all) is at a commit that begins with \"0123abcd\"",
    );
    refused("history wep", "nothing was rolled out that is called \"wep\"; there is deployment.apps/web");
    refused("history web -n kube-system", "\"web\" in namespace kube-system");
    refused("history --source shep", "nothing was rolled out of a source \"shep\"; there is ");
    refused("history --commit 0123abcd -o json", "nothing was rolled out by a commit that begins with \"0123abcd\"");
    refused("show 0123abcd", "there is no commit that begins with \"0123abcd\"");
    for command in ["undo", "retry", "suspend", "resume-sync", "pause", "resume", "restart"] {
        refused(&format!("{command} wep"), "there is deployment.apps/web");
    }
    refused("plan nonsense", "is not in a Git working copy");
    refused("plan --from nowhere", "nowhere");
    refused("check nowhere", "nowhere");
    // An empty result is an answer.
    for line in ["history --author nobody", "history web --since 0s", "history --failed --since 0s"] {
        let ran = stage.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (0, "Nothing was rolled out.\n"), "{line}: {ran:?}");
    }
    let found = stage.run(&["history", "--commit", &first[..7]]);
    assert_eq!(found.code, 0, "{found:?}");
}

/// A plan leaves the fields alone that the daemon's configuration does.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_takes_what_the_configuration_leaves_alone() {
    let mut stage = Fixture::new().await;
    let folder = stage.home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    stage.repository.write("settings.yaml", config_map("settings", "1"));
    stage.repository.commit("Settings");
    stage.repository.push();
    once(&stage, 0);
    std::fs::write(folder.join("settings.yaml"), config_map("settings", "2")).unwrap();
    let config = stage.home.path().join("belay.toml");
    let text = "[[source]]\nrepository = \"/srv/git/shop.git\"\n[[source.ignore]]\nkind = \"ConfigMap\"\nfields = [\"/data/A\"]\n";
    std::fs::write(&config, text).unwrap();
    let (from, config) = (folder.display().to_string(), config.display().to_string());
    assert_eq!(stage.run(&["plan", "--from", &from]).code, 3);
    let plan = stage.run(&["plan", "--from", &from, "--config", &config]);
    assert_eq!((plan.code, plan.err.trim()), (0, "1 unchanged."), "{plan:?}");
    let other = stage.run(&["plan", "--from", &from, "--config", &config, "--source", "shop"]);
    assert!(other.err.contains("has no source \"shop\", only \"default\""), "{other:?}");
    // The only source is meant, whatever its name; of several one has to be named.
    std::fs::write(&config, text.replace("[[source]]", "[[source]]\nname = \"shop\"")).unwrap();
    let only = stage.run(&["plan", "--from", &from, "--config", &config, "-o", "json"]);
    let value: Value = serde_json::from_str(&only.out).unwrap_or_else(|error| panic!("{error}: {only:?}"));
    assert_eq!(value["source"], "shop", "{only:?}");
    // The cluster is the one that the source is for.
    std::fs::write(&config, text.replace("[[source]]", "[[source]]\ncontext = \"elsewhere\"")).unwrap();
    let elsewhere = stage.run(&["plan", "--from", &from, "--config", &config]);
    assert!(elsewhere.code == 1 && elsewhere.err.contains("elsewhere"), "{elsewhere:?}");
    let two = format!("{text}[[source]]\nname = \"shop\"\nrepository = \"/srv/git/other.git\"\n");
    std::fs::write(&config, two).unwrap();
    let several = stage.run(&["plan", "--from", &from, "--config", &config]);
    assert!(several.err.contains("has several sources, \"default\", \"shop\"; say --source NAME"), "{several:?}");
}

/// A plan excludes and renders the files that the daemon's configuration does.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_reads_a_folder_as_the_configuration_says() {
    let Some(tools) = tools_folder() else { return };
    let helm = tools.join("helm");
    let mut stage = Fixture::new().await;
    stage.repository.write("settings.yaml", config_map("settings", "1"));
    stage.repository.commit("Settings");
    stage.repository.push();
    once(&stage, 0);
    let folder = stage.home.path().join("folder");
    std::fs::create_dir_all(folder.join("web/templates")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    std::fs::create_dir(folder.join(".git")).unwrap();
    write(".git/HEAD", "ref: refs/heads/main\n");
    write("settings.yaml", &config_map("settings", "1"));
    write("odd.test.yaml", &config_map("odd", "1"));
    write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let named = "name: '{{ .Release.Name }}-{{ .Values.colour }}'";
    write("web/templates/map.yaml", &config_map("map", "1").replace("name: map", named));
    let config = stage.home.path().join("belay.toml");
    let source = "[[source]]\nrepository = \"/srv/git/shop.git\"\nexclude = [\"*.test.yaml\"]\n[[source.helm]]\nchart = \
                  \"web\"\nrelease = \"shop\"\nset = { colour = \"blue\" }\n";
    std::fs::write(&config, format!("[render]\nhelm = {helm:?}\n{source}")).unwrap();
    let (from, config) = (folder.display().to_string(), config.display().to_string());
    let plan = stage.run(&["plan", "--from", &from, "--config", &config]);
    assert_eq!(plan.code, 3, "{plan:?}");
    let text = format!("{}{}", plan.out, plan.err);
    assert!(text.contains("shop-blue") && !text.contains("odd"), "{plan:?}");
    assert!(text.contains("1 unchanged"), "{plan:?}");
}

/// A plan is about the part that the daemon follows, of a folder and of a revision.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_reads_what_the_source_follows() {
    let mut stage = Fixture::new().await;
    stage.repository.write("live/settings.yaml", config_map("settings", "1"));
    stage.repository.write("other/odd.yaml", config_map("odd", "1"));
    stage.repository.commit("Settings");
    stage.repository.push();
    let copy = stage.repository.clone_to("copy");
    let config = stage.home.path().join("belay.toml");
    for path in ["live", "./live", "live/"] {
        std::fs::write(&config, format!("[[source]]\nrepository = \"/srv/git/shop.git\"\npath = {path:?}\n")).unwrap();
        let (from, config) = (copy.display().to_string(), config.display().to_string());
        let folder = stage.run(&["plan", "--from", &from, "--config", &config, "-o", "name"]);
        assert_eq!((folder.code, folder.out.as_str()), (3, "ConfigMap default/settings\n"), "{path}: {folder:?}");
        for revision in
            [&["plan", "HEAD", "--config", &config, "-o", "name"][..], &["plan", "HEAD", "--path", path, "-o", "name"]]
        {
            let mut command = belay(stage.home.path());
            command.args(revision).args(stage.globals()).current_dir(&copy);
            let ran = finish(command, "");
            assert_eq!((ran.code, ran.out.as_str()), (3, "ConfigMap default/settings\n"), "{path}: {ran:?}");
        }
    }
}

/// An object that leaves the repository is shown with its end: deleted within `prune_limit`, or left as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_what_leaves() {
    let (stage, ..) = told().await;
    let folder = stage.home.path().join("other");
    std::fs::create_dir(&folder).unwrap();
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";
    std::fs::write(folder.join("settings.yaml"), settings).unwrap();
    let config = stage.home.path().join("belay.toml");
    let plan = |more: &str, output: &[&str]| {
        let text = format!("[[source]]\nname = \"default\"\nrepository = \"/srv/shop.git\"\n{more}\n");
        std::fs::write(&config, text).unwrap();
        let (config, folder) = (config.display().to_string(), folder.display().to_string());
        stage.run(&[&["plan", "--config", &config, "--from", &folder], output].concat())
    };
    let stays = plan("", &[]);
    assert_eq!(stays.code, 3, "{stays:?}");
    assert!(stays.out.contains("Deployment default/web is orphaned: "), "{stays:?}");
    assert!(stays.out.contains("pruning is off") && stays.err.contains("1 new, 1 orphaned"), "{stays:?}");
    let goes = plan("prune = true\nprune_limit = \"100%\"", &[]);
    assert_eq!(goes.code, 3, "{goes:?}");
    assert!(
        goes.out.contains("Deployment default/web is deleted") && goes.err.contains("1 new, 1 deleted"),
        "{goes:?}"
    );
    let refused = plan("prune = true\nprune_limit = \"0\"", &["-o", "json"]);
    let value: Value = serde_json::from_str(&refused.out).unwrap();
    let steps = value["steps"].as_array().unwrap();
    let web = steps.iter().find(|step| step["object"]["name"] == "web").unwrap();
    assert_eq!(web["action"], "orphan", "{web:#}");
    assert!(web["reason"]["message"].as_str().unwrap().contains("prune_limit allows 0 of 1"), "{web:#}");
    // An object that only stays as it is changes nothing.
    std::fs::remove_file(folder.join("settings.yaml")).unwrap();
    assert_eq!(plan("", &[]).code, 0);
    // More deletions than `prune_limit` allows are a difference that a pipeline must hear of, in every format.
    const BEYOND: &str = "1 object has left the repository, and prune_limit allows 0";
    for output in [&[][..], &["-o", "name"], &["-o", "json"], &["-o", "markdown"]] {
        let beyond = plan("prune = true\nprune_limit = \"0\"", output);
        assert_eq!(beyond.code, 3, "{output:?}: {beyond:?}");
        let text = format!("{}{}", beyond.out, beyond.err).replace('\\', "");
        assert!(text.contains(BEYOND) && text.contains("Belay-Allow-Prune: 1"), "{output:?}: {beyond:?}");
    }
    let beyond = plan("prune = true\nprune_limit = \"0\"", &["-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&beyond.out).unwrap()["changes"], true, "{beyond:?}");
}

/// An object that waits for its kind is a change: it is made as soon as the kind is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_objects_wait_is_not_empty() {
    let stage = Fixture::new().await;
    let folder = stage.home.path().join("waits");
    std::fs::create_dir(&folder).unwrap();
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\n";
    std::fs::write(folder.join("one.yaml"), widget).unwrap();
    let plan = stage.run(&["plan", "--from", &folder.display().to_string()]);
    assert!(plan.out.contains("has to wait") && plan.err.contains("1 waiting"), "{plan:?}");
    assert_eq!(plan.code, 3, "{plan:?}");
}
