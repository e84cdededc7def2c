//! Completion, manual pages, the plugin, the global options.

use std::process::Command;

use crate::program::{belay, run, uncoloured};
use crate::reading::typed_in_a_terminal;
use crate::served::Served;
use crate::support::programs::write_program;

/// Returns the candidates of Tab for the last of some words.
fn tab(served: &Served, words: &[&str]) -> Vec<String> {
    let mut command = served.command();
    command.env("BELAY_COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    command.args(["--", "belay"]).args(words);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    text.lines().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_knows_the_cluster() {
    let served = Served::new().await;
    let labels = serde_json::json!({"app": "web"});
    let template =
        serde_json::json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template}});
    served.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let controller = serde_json::json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"},
        "spec": {"replicas": 0, "selector": labels, "template": template}});
    served.post("/api/v1/namespaces/default/replicationcontrollers", &controller).await;
    assert_eq!(tab(&served, &["hist"]), ["history"]);
    assert_eq!(tab(&served, &["status", "dep"]), ["deployment/web"]);
    assert_eq!(tab(&served, &["status", "we"]), ["web"]);
    assert_eq!(tab(&served, &["rolling-update", "o"]), ["old"]);
    assert_eq!(tab(&served, &["rolling-update", "-n", "kube-system", "o"]), Vec::<String>::new());
    assert_eq!(tab(&served, &["status", "-n", "kube-s"]), ["kube-system"]);
    assert_eq!(tab(&served, &["status", "--sel"]), ["--selector"]);
    let plugin = served.home().join("kubectl_complete-belay");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_belay"), &plugin).unwrap();
    let answer = Command::new(&plugin).env_clear().env("HOME", served.home()).args(["status", "dep"]).output().unwrap();
    assert_eq!(String::from_utf8(answer.stdout).unwrap(), "deployment/web\n:4\n");
}

#[test]
fn scripts_are_for_each_shell() {
    let home = tempfile::tempdir().unwrap();
    for (shell, word) in [("bash", "complete -o nospace"), ("zsh", "#compdef belay"), ("fish", "complete --keep-order")]
    {
        let ran = run(home.path(), &["completions", shell]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains(word) && ran.out.contains("BELAY_COMPLETE"), "{shell}: {}", ran.out);
    }
    assert_eq!(run(home.path(), &["completions", "tcsh"]).code, 2);
}

#[test]
fn each_shell_that_is_here_takes_its_script() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(home.path(), &["completions", shell]).out;
        let file = home.path().join(shell);
        std::fs::write(&file, script).unwrap();
        match Command::new(shell).arg("-n").arg(&file).status() {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(_) => eprintln!("there is no {shell}: skipped: its completion script"),
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["man", "--dir", "pages"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let page = std::fs::read_to_string(home.path().join("pages/belay-history.1")).unwrap();
    assert!(page.contains(".TH BELAY-HISTORY 1") && page.contains("belay history"), "{page}");
    match Command::new("mandoc")
        .args(["-T", "lint", "-W", "error", "pages/belay-history.1"])
        .current_dir(home.path())
        .status()
    {
        Ok(status) => assert!(status.success(), "mandoc has nothing against it"),
        Err(_) => eprintln!("there is no mandoc: skipped: what it thinks of a page"),
    }
    let whole = run(home.path(), &["man"]).out;
    assert!(whole.contains(".TH BELAY 1") && whole.contains("rolling"), "{whole}");
    let nested = run(home.path(), &["man", "set", "image"]);
    assert!(nested.out.contains(".TH BELAY-SET-IMAGE 1 2026-11-30 \"belay "), "{nested:?}");
    let none = run(home.path(), &["man", "histroy"]);
    assert!(none.code == 1 && none.err.contains("history"), "{none:?}");
}

/// A page on a terminal goes through `man`; in a pipe it is the source of the page.
#[test]
fn a_page_is_shown_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_belay");
    let typed = |path: &str, words: &str| {
        let typed = format!("PATH={path} '{program}' man {words}");
        uncoloured(&typed_in_a_terminal(home.path(), 80, 24, &typed))
    };
    let help = typed("/nowhere", "set image");
    assert!(help.contains("this machine has no man"), "{help}");
    assert!(help.contains("Usage: belay set image") && help.contains("--container"), "{help}");
    let man = home.path().join("man");
    write_program(&man, "#!/bin/sh\necho \"$# page: $1\"\ncat \"$1\"\n");
    let shown = typed(&format!("{}:/usr/bin:/bin", home.path().display()), "history");
    assert!(shown.starts_with("1 page: /") && shown.contains("/belay-history.1\n"), "{shown}");
    assert!(shown.contains(".TH BELAY-HISTORY 1"), "{shown}");
}

/// Every command has a line with its description, below what people want to do.
#[test]
fn help_groups_the_commands_with_their_descriptions() {
    let home = tempfile::tempdir().unwrap();
    let whole = belay::cli::command();
    for args in [&["help"][..], &["--help"], &["-h"]] {
        let ran = run(home.path(), args);
        assert_eq!(ran.code, 0);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines.len() <= 50, "{}", ran.out);
        for line in &lines {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let titles = [
            "Get started",
            "Inspect",
            "Roll back and hold",
            "Edit manifests",
            "Operate workloads",
            "Preview",
            "Migrate and set up",
        ];
        let is_title = |line: &&&str| titles.contains(*line) || **line == "Other";
        assert_eq!(lines.iter().filter(is_title).copied().collect::<Vec<_>>(), titles, "{}", ran.out);
        for command in whole.get_subcommands().filter(|command| command.get_name() != "help") {
            let begin = format!("  {} ", command.get_name());
            let of_it: Vec<&&str> = lines.iter().filter(|line| line.starts_with(&begin)).collect();
            let about = command.get_about().unwrap().to_string();
            assert!(of_it.len() == 1 && of_it[0].ends_with(&format!("  {about}")), "{begin}: {of_it:?}");
        }
    }
}

#[test]
fn as_a_plugin_it_is_called_kubectl_belay() {
    let home = tempfile::tempdir().unwrap();
    let plugin = home.path().join("kubectl-belay");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_belay"), &plugin).unwrap();
    let ended = Command::new(&plugin).env_clear().env("HOME", home.path()).arg("show").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("Usage: kubectl belay show"));
    let version = Command::new(&plugin).env_clear().env("HOME", home.path()).arg("version").output().unwrap();
    assert!(version.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_a_limit_that_can_be_said() {
    let home = tempfile::tempdir().unwrap();
    // A port that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    std::fs::write(
        home.path().join(".kube/config"),
        format!("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nclusters: [{{name: a, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\n"),
    )
    .unwrap();
    let ran = run(home.path(), &["status", "--request-timeout", "200ms"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("no answer within 200ms"), "{}", ran.err);
    assert_eq!(belay(home.path()).args(["status", "--request-timeout", "0"]).output().unwrap().status.code(), Some(2));
    assert_eq!(belay(home.path()).args(["status", "--as-group", "x"]).output().unwrap().status.code(), Some(2));
}
