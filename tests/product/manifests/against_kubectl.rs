//! Random texts, read by us and by kubectl. `PROPTEST_CASES=1000` for hours instead of seconds.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;

use crate::support::control_plane::assets;
use crate::{generate, kubectl, yaml_cases};

/// Returns true for a text that kubectl refuses and we read all the same: nothing but tabs before an anchor, a tag or a
/// comment, or behind the `:` of a key with `?`.
fn only_tabs(data: &str) -> bool {
    data.contains('\t')
}

/// Reads each text as the data of a ConfigMap of its own, all in one run of kubectl.
/// Returns how many both read.
fn compare(assets: &Path, batch: &[String]) -> Result<u32, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let texts = batch.iter().enumerate();
    let texts: Vec<String> = texts
        .map(|(at, data)| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}}}\ndata:\n{data}\n"))
        .collect();
    for (at, text) in texts.iter().enumerate() {
        let file = folder.path().join(format!("{at}.yaml"));
        fs::write(&file, text).unwrap();
        files.push(file);
    }
    let answer = kubectl::read(assets, &files);
    let mut both = 0;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let theirs: BTreeMap<String, &Value> = answer.objects.iter().map(|object| (name(object), object)).collect();
    for (at, (data, text)) in batch.iter().zip(&texts).enumerate() {
        let (objects, complaints) = yaml_cases::ours(text.as_bytes());
        match (theirs.get(&format!("c{at}")), complaints.is_empty()) {
            (Some(theirs), true) => {
                let same = matches!(&objects[..], [Some(ours)] if ours == *theirs);
                both += 1;
                prop_assert!(same, "{data:?}: kubectl reads {theirs}, we {objects:?}");
            }
            (None, true) => prop_assert!(only_tabs(data), "{data:?}: kubectl refuses it, we read {objects:?}"),
            (_, false) => {}
        }
    }
    Ok(both)
}

/// Reads whole files, all in one run of kubectl. Returns how many both read.
fn compare_files(assets: &Path, batch: &[String]) -> Result<u32, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, mut texts) = (Vec::new(), Vec::new());
    for (at, text) in batch.iter().enumerate() {
        let mut parts = text.split("NAME");
        let first = parts.next().unwrap_or_default().to_owned();
        let text = parts.enumerate().fold(first, |text, (nth, part)| format!("{text}f{at}-{nth}{part}"));
        let file = folder.path().join(format!("{at}.yaml"));
        fs::write(&file, &text).unwrap();
        files.push(file);
        texts.push(text);
    }
    let answer = kubectl::read(assets, &files);
    let mut both = 0;
    for (at, text) in texts.iter().enumerate() {
        let (ours, complaints) = yaml_cases::ours(text.as_bytes());
        if !complaints.is_empty() {
            continue;
        }
        let of_file = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name.split_once('-').is_some_and(|(file, _)| file == format!("f{at}"))
        };
        let theirs: Vec<&Value> = answer.objects.iter().filter(of_file).collect();
        // A value that is no object of Kubernetes ends kubectl's reading, and is a complaint of ours only when its kind
        // is asked for.
        let typed = |object: &Value| object["kind"].is_string() && object["apiVersion"].is_string();
        let strange = ours.iter().flatten().any(|object| !typed(object));
        let ours: Vec<&Value> = ours.iter().flatten().filter(|object| object["kind"].is_string()).collect();
        prop_assert!(strange || ours == theirs, "{text:?}: kubectl reads {theirs:?}, we {ours:?}");
        both += u32::from(!strange && !ours.is_empty());
    }
    Ok(both)
}

/// Only when asked for, by `PROPTEST_CASES`: kubectl takes minutes for whole files.
#[test]
fn random_files_mean_the_same() {
    if std::env::var_os("PROPTEST_CASES").is_none() {
        eprintln!("PROPTEST_CASES is not set: skipped: random files read by kubectl");
        return;
    }
    run_with("random files read by kubectl", 3, generate::files(), compare_files);
}

fn run(what: &str, batches: u32, data: impl Strategy<Value = String>) {
    run_with(what, batches, data, compare);
}

fn run_with(
    what: &str,
    batches: u32,
    data: impl Strategy<Value = String>,
    compare: fn(&Path, &[String]) -> Result<u32, TestCaseError>,
) {
    let Some(assets) = assets(what) else { return };
    let cases = generate::cases(batches).cases;
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 200, ..Config::default() });
    let batch = prop::collection::vec(data, 150);
    let both = Cell::new(0);
    if let Err(error) = runner.run(&batch, |batch| {
        both.set(both.get() + compare(&assets, &batch)?);
        Ok(())
    }) {
        panic!("{error}");
    }
    // A comparison of what nobody reads would say nothing.
    assert!(both.get() > cases * 150 / 20, "{what}: only {} of {} were read by both", both.get(), cases * 150);
}

#[test]
fn random_scalars_mean_the_same() {
    run("random scalars read by kubectl", 12, generate::scalar_data());
}

#[test]
fn random_brackets_mean_the_same() {
    run("random brackets read by kubectl", 12, generate::flow_data());
}

#[test]
fn random_lines_mean_the_same() {
    run("random lines read by kubectl", 12, generate::block_data());
}

#[test]
fn random_soup_means_the_same() {
    run("random YAML read by kubectl", 12, generate::soup());
}
