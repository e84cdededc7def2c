//! Completion as a person sees it: the scripts in real shells, against a cluster and a history.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::fixture::Fixture;
use crate::program::{Ran, finish};
use crate::support::daemon::deployment;

/// Returns the lines before Tab.
fn lines(globals: &str, commits: &[String]) -> Vec<String> {
    let some = &commits[1][..4];
    let typed = [
        "his".to_owned(),
        "undo dep".to_owned(),
        "undo we".to_owned(),
        "undo deploy/we".to_owned(),
        "undo deployment/web --to-revision ".to_owned(),
        "undo web --to-commit ".to_owned(),
        format!("show {some}"),
        "set im".to_owned(),
    ];
    typed.iter().map(|line| format!("belay {globals} {line}")).collect()
}

/// Returns the candidates that must be offered, in any order.
fn offered(commits: &[String]) -> Vec<BTreeSet<String>> {
    let short = |commit: &String| commit[..7].to_owned();
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<String>>();
    vec![
        set(&["history"]),
        set(&["deployment/web"]),
        set(&["web"]),
        set(&["deploy/web"]),
        set(&["1", "2"]),
        commits.iter().map(short).collect(),
        [short(&commits[1])].into(),
        set(&["image"]),
    ]
}

/// Runs a shell where belay is found, and nothing else of this machine's configuration.
fn in_shell(stage: &Fixture, shell: &str, args: &[&str]) -> Option<Ran> {
    let programs = Path::new(env!("CARGO_BIN_EXE_belay")).parent().unwrap();
    let there = Command::new(shell).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !there {
        eprintln!("there is no {shell}: skipped: its completion");
        return None;
    }
    // A shell that waits for a terminal must not wait for ever.
    let mut command = Command::new("timeout");
    command.args(["120", shell]).args(args).env_clear().env("HOME", stage.home.path()).env("TERM", "dumb");
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display())).current_dir(stage.home.path());
    Some(finish(command, ""))
}

fn answers(ran: &Ran) -> Vec<BTreeSet<String>> {
    let words = |answer: &str| {
        answer
            .lines()
            .filter_map(|line| Some(line.split('\t').next()?.trim().to_owned()).filter(|word| !word.is_empty()))
            .collect()
    };
    ran.out.split("==\n").map(words).take(8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_shell_completes_from_the_cluster_and_the_history() {
    let mut stage = Fixture::new().await;
    let mut commits = Vec::new();
    for image in ["web:1", "web:2"] {
        commits.push(stage.repository.commit_file("web.yaml", &deployment("web", image, ""), &format!("Use {image}")));
        stage.repository.push();
        assert!(stage.command().arg("--once").status().unwrap().success(), "{}", stage.log());
    }
    let (lines, offered) = (lines(&stage.globals().join(" "), &commits), offered(&commits));

    let tab = "source <(belay completions bash)\n\
               tab() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMPREPLY=()\n\
               _clap_complete_belay belay \"${COMP_WORDS[COMP_CWORD]}\" \"\"; printf '%s\\n' \"${COMPREPLY[@]}\" ==; }\n";
    let last = |line: &String| if line.ends_with(' ') { format!("tab {line}''\n") } else { format!("tab {line}\n") };
    let asked: String = lines.iter().map(last).collect();
    if let Some(ran) = in_shell(&stage, "bash", &["--norc", "-c", &format!("{tab}{asked}")]) {
        assert_eq!(answers(&ran), offered, "{ran:?}");
    }

    let asked: String = lines.iter().map(|line| format!("complete -C '{line}'; echo ==\n")).collect();
    let script = format!("belay completions fish | source\n{asked}");
    if let Some(ran) = in_shell(&stage, "fish", &["--no-config", "-c", &script]) {
        assert_eq!(answers(&ran), offered, "{ran:?}");
    }
    in_zsh(&stage, &lines, &commits);
}

/// In zsh Tab is pressed on a terminal of its own making; what then stands in the line is printed.
fn in_zsh(stage: &Fixture, lines: &[String], commits: &[String]) {
    let script = r#"zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z 'PS1= PS2= RPS1=; unsetopt beep prompt_cr prompt_sp list_ambiguous zle; stty -echo; print REA""DY'
until { zpty -r z line && [[ $line == *READY* ]] }; do :; done
zpty -w z 'setopt zle; COLUMNS=500; unset zle_bracketed_paste; bindkey -e; autoload -U compinit; compinit -u -D; source <(belay completions zsh); print SE""T'
until { zpty -r z line && [[ $line == *SET* ]] }; do :; done
for typed in "$@"; do
  zpty -w -n z $'\x15'"$typed"$'\t\x01'"print -r -- 'GOT<"$'\x05'">'"$'\r'
  while zpty -r z line; do
    line=${line//$'\r'/}
    [[ $line == GOT\<*\>* ]] && { print -r -- "$line"; break }
  done
done
zpty -d z
"#;
    std::fs::write(stage.home.path().join("tab.zsh"), script).unwrap();
    // An ambiguous word is only reported; it is typed as far as it is not.
    let mut typed: Vec<String> = lines.to_vec();
    typed[4].push('2');
    typed[5].push_str(&commits[0][..4]);
    let mut args = vec!["-f", "tab.zsh"];
    args.extend(typed.iter().map(String::as_str));
    let Some(ran) = in_shell(stage, "zsh", &args) else { return };
    let got: Vec<&str> = ran
        .out
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split('<').nth(1).unwrap_or_default())
        .collect();
    let ends = [
        "history",
        "undo deployment/web",
        "undo web",
        "undo deploy/web",
        "--to-revision 2",
        &commits[0][..7],
        &commits[1][..7],
        "set image",
    ];
    assert_eq!(got.len(), ends.len(), "{ran:?}");
    for (got, end) in got.iter().zip(ends) {
        assert!(got.trim_end_matches('>').trim_end().ends_with(end), "{end}: {got}\n{ran:?}");
    }
}
