//! Completion of arguments: the cluster, the history and the kubeconfig are asked when somebody presses Tab.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::workload::Named;
use crate::cli::Globals;
use crate::cli::commands::history;
use crate::cluster::Cluster;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::marks;

/// The longest time that a person who presses Tab waits.
const LIMIT: Duration = Duration::from_secs(2);
/// The number of records that are searched for commits.
const RECORDS: u32 = 300;

/// Returns the candidates for a word that is begun.
pub(in crate::cli) type Find = fn(&OsStr) -> Vec<CompletionCandidate>;

/// Returns the function that finds the candidates of an argument, by its name.
pub(in crate::cli) fn of(argument: &str) -> Option<Find> {
    match argument {
        "workload" | "workloads" => Some(workloads),
        "commit" | "to_commit" => Some(commits),
        "to_revision" => Some(revisions),
        "old" => Some(controllers),
        "namespace" => Some(namespaces),
        "context" => Some(contexts),
        _ => None,
    }
}

fn workloads(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = ask(async |cluster, namespace| {
        let live = cluster.workloads(namespace.as_deref(), "").await.unwrap_or_default();
        live.into_iter().map(|(key, live)| (key, cause(&live))).collect()
    });
    let typed = typed.to_string_lossy();
    let candidates = found.into_iter().filter_map(|(key, cause)| Some(candidate(as_typed(&key, &typed)?, cause)));
    fitting(candidates.collect(), &typed)
}

/// Returns a workload in the words in which it is begun to be typed: `web`, `deployment/web`, `deploy/web`; `None` if
/// the kind that is typed is another.
fn as_typed(key: &ObjectKey, typed: &str) -> Option<String> {
    if let Some((kind, _)) = typed.split_once('/') {
        let whole = format!("{kind}/{}", key.name);
        return whole.parse::<Named>().is_ok_and(|named| named.means(key, None)).then_some(whole);
    }
    let whole = format!("{}/{}", key.kind.to_lowercase(), key.name);
    Some(if typed.is_empty() || whole.starts_with(typed) { whole } else { key.name.clone() })
}

fn controllers(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = ask(async |cluster, namespace| {
        let Ok(served) = cluster.served("v1", "ReplicationController").await else { return Vec::new() };
        let live = cluster.list(&served, namespace.as_deref(), "").await.unwrap_or_default();
        live.iter().map(|live| (name_of(live), cause(live))).collect()
    });
    fitting(found.into_iter().map(|(name, cause)| candidate(name, cause)).collect(), &typed.to_string_lossy())
}

fn namespaces(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = ask(async |cluster, _| {
        let Ok(served) = cluster.served("v1", "Namespace").await else { return Vec::new() };
        let live = cluster.list(&served, None, "").await.unwrap_or_default();
        live.iter().map(name_of).collect()
    });
    fitting(found.into_iter().map(|name| candidate(name, None)).collect(), &typed.to_string_lossy())
}

fn contexts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let globals = globals(&words());
    let names = globals
        .kubeconfig_as_read()
        .map(|config| config.contexts)
        .unwrap_or_default()
        .into_iter()
        .map(|context| context.name);
    fitting(names.map(|name| candidate(name, None)).collect(), &typed.to_string_lossy())
}

fn commits(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Ok(history) = history::open(&globals(&words())) else { return Vec::new() };
    let query = Query { limit: Some(RECORDS), ..Query::default() };
    let records = history.records(&query).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut candidates = Vec::new();
    for record in records {
        if !seen.insert(record.commit.clone()) {
            continue;
        }
        let subject = history.commit(&record.commit).ok().flatten().map(|commit| commit.subject);
        let whole = typed.len() > record.commit.short().len();
        let id = if whole { record.commit.as_str() } else { record.commit.short() };
        candidates.push(candidate(id.to_owned(), subject).display_order(Some(candidates.len())));
    }
    fitting(candidates, &typed.to_string_lossy())
}

/// Returns the revisions of the workload that is named already.
fn revisions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let named: Vec<Named> =
        words().iter().filter(|word| word.contains('/')).filter_map(|word| word.parse().ok()).collect();
    let found = ask(async move |cluster, namespace| {
        let live = cluster.workloads(namespace.as_deref(), "").await.unwrap_or_default();
        let mut found = Vec::new();
        for (key, live) in live.iter().filter(|(key, _)| named.iter().any(|named| named.means(key, None))) {
            for revision in cluster.revisions(key, live).await.unwrap_or_default() {
                found.push((revision.number, revision.marks.change_cause));
            }
        }
        found
    });
    fitting(
        found.into_iter().map(|(number, cause)| candidate(number.to_string(), cause)).collect(),
        &typed.to_string_lossy(),
    )
}

fn fitting(mut candidates: Vec<CompletionCandidate>, typed: &str) -> Vec<CompletionCandidate> {
    candidates.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(typed));
    candidates
}

fn candidate(value: String, help: Option<String>) -> CompletionCandidate {
    CompletionCandidate::new(value).help(help.map(Into::into))
}

fn cause(live: &serde_json::Value) -> Option<String> {
    marks::annotation(live, marks::CHANGE_CAUSE).map(str::to_owned)
}

fn name_of(live: &serde_json::Value) -> String {
    live["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Asks the cluster that the words on the line mean; nothing if it does not answer soon.
fn ask<T>(question: impl AsyncFnOnce(Cluster, Option<String>) -> Vec<T>) -> Vec<T> {
    let words = words();
    let globals = globals(&words);
    let everywhere = words.iter().any(|word| word == "-A" || word == "--all-namespaces");
    // kube asks for the process's default provider; a second installation is refused, and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let answer = async {
        let Ok(cluster) = globals.cluster("").await else { return Vec::new() };
        let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
        question(cluster, (!everywhere).then_some(namespace)).await
    };
    runtime.block_on(async { tokio::time::timeout(LIMIT, answer).await }).unwrap_or_default()
}

/// Returns the words that are on the line.
fn words() -> Vec<String> {
    let all = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    all.filter(|word| word != "--").collect()
}

/// Returns the global options among words that are not a whole command line yet.
fn globals(words: &[String]) -> Globals {
    let value = |names: &[&str]| {
        words.iter().enumerate().find_map(|(at, word)| {
            let split =
                word.split_once('=').filter(|(name, _)| names.contains(name)).map(|(_, value)| value.to_owned());
            split.or_else(|| names.contains(&word.as_str()).then(|| words.get(at + 1).cloned()).flatten())
        })
    };
    Globals {
        kubeconfig: value(&["--kubeconfig"]).map(Into::into),
        context: value(&["--context"]),
        namespace: value(&["-n", "--namespace"]),
        state_dir: value(&["--state-dir"]).map(Into::into),
        as_user: value(&["--as"]),
        as_group: value(&["--as-group"]).into_iter().collect(),
        request_timeout: Some(LIMIT),
        verbose: 0,
    }
}

/// Returns the command line with the candidates of each argument.
pub(in crate::cli) fn with_candidates(command: Command) -> Command {
    // In place: an argument that is taken out and put back loses its position.
    let command = command.mut_args(|argument| match of(argument.get_id().as_str()) {
        Some(find) => argument.add(ArgValueCompleter::new(find)),
        None => argument,
    });
    command.mut_subcommands(with_candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_on_the_line_count() {
        let words = ["belay", "status", "-n", "shop", "--context=prod", "--state-dir", "/srv/belay", ""];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let globals = globals(&words);
        assert_eq!(globals.namespace.as_deref(), Some("shop"));
        assert_eq!(globals.context.as_deref(), Some("prod"));
        assert_eq!(globals.state_dir, Some("/srv/belay".into()));
        assert_eq!(globals.kubeconfig, None);
    }
}
