//! `tests/cases/yaml`: texts, what kubectl makes of them (`.kubectl`, recorded), and our complaints (`.txt`).
//!
//! A new case needs no code: put the text there and run the test with `BELAY_RECORD=1` and `KUBEBUILDER_ASSETS`. A `.cases` file
//! holds many, separated by lines `====`, each the data of a ConfigMap.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use belay_core::manifest::yaml::{self, YamlComplaint};
use serde_json::Value;

use crate::kubectl::{self, Answer};
use crate::support::control_plane::assets;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/yaml")
}

/// Returns our reading of a text: the objects that are read without doubt, and all faults.
pub fn ours(bytes: &[u8]) -> (Vec<Option<Value>>, Vec<YamlComplaint>) {
    let text = match yaml::decode(bytes) {
        Ok(text) => text,
        Err(complaint) => return (Vec::new(), vec![YamlComplaint { lost: Some(0..bytes.len()), ..complaint }]),
    };
    let (documents, mut complaints) = yaml::documents(&text);
    let mut objects = Vec::new();
    for document in documents {
        let (value, wrong) = document.read();
        complaints.extend(wrong);
        match value.map(yaml::Placed::into_value) {
            Some(value) => objects.extend(items(value).into_iter().map(Some)),
            None => objects.push(None),
        }
    }
    (objects, complaints)
}

/// kubectl prints the items of a list.
fn items(value: Value) -> Vec<Value> {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let Some(own) = kind.strip_suffix("List").filter(|_| value.get("items").is_some()) else { return vec![value] };
    let items = value["items"].as_array().cloned().unwrap_or_default().into_iter();
    let inherit = |mut item: Value| {
        if !own.is_empty() && item.is_object() && item.get("kind").is_none() {
            item["kind"] = own.into();
            item["apiVersion"] = value["apiVersion"].clone();
        }
        item
    };
    items.map(inherit).collect()
}

/// Holds our reading against kubectl's.
pub fn compare(name: &str, bytes: &[u8], theirs: &Answer) {
    let (objects, complaints) = ours(bytes);
    if theirs.refused {
        // It also refuses what is no object of Kubernetes, which is not yet our concern here.
        let strange = objects.iter().flatten().any(|object| !object["kind"].is_string());
        assert!(!complaints.is_empty() || strange, "{name}: kubectl refuses it, we read {objects:?}");
    }
    if complaints.is_empty() && !theirs.refused {
        let objects: Vec<Value> = objects.into_iter().flatten().collect();
        assert_eq!(objects, theirs.objects, "{name}: not what kubectl reads");
        return;
    }
    // Whatever is wrong elsewhere, what kubectl read is read in the same way, or it is said that it isn't read.
    let mut read = objects.iter();
    for object in &theirs.objects {
        // Two keys may differ in YAML and be the same in JSON: kubectl takes either.
        let said =
            complaints.iter().any(|complaint| complaint.lost.is_some() || twice(complaint)) || objects.contains(&None);
        assert!(
            read.any(|ours| ours.as_ref() == Some(object)) || said,
            "{name}: kubectl reads {object}, we {objects:?}"
        );
    }
}

fn twice(complaint: &YamlComplaint) -> bool {
    complaint.message.ends_with("is written twice")
}

fn listing(bytes: &[u8]) -> String {
    let (_, complaints) = ours(bytes);
    let mut text = String::new();
    for complaint in complaints {
        let position = complaint.span.start;
        let hint = complaint.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        writeln!(text, "{}:{}: {}{hint}", position.line, position.column, complaint.message).unwrap();
    }
    text
}

/// Returns the texts of a file, each with its name.
fn texts(path: &Path) -> Vec<(String, Vec<u8>)> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let bytes = fs::read(path).unwrap();
    if path.extension().is_none_or(|extension| extension != "cases") {
        return vec![(name, bytes)];
    }
    let text = String::from_utf8(bytes).unwrap();
    let snippets = text.split("\n====\n").map(|snippet| snippet.strip_suffix('\n').unwrap_or(snippet));
    snippets
        .map(|snippet| {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n{snippet}\n");
            (format!("{name}: {snippet:?}"), text.into_bytes())
        })
        .collect()
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| {
        path.extension().is_some_and(|ending| ["yaml", "json", "cases"].iter().any(|one| ending == *one))
    });
    cases.sort();
    assert!(cases.len() > 90, "the cases are where they should be");
    cases
}

fn recording() -> bool {
    std::env::var_os("BELAY_RECORD").is_some()
}

#[test]
fn texts_mean_what_kubectl_recorded() {
    for path in cases() {
        let answers = path.with_extension("kubectl");
        if recording()
            && let Some(assets) = assets("recording what kubectl reads")
        {
            let lines: Vec<String> =
                texts(&path).iter().map(|(_, text)| kubectl::read_text(&assets, text).to_line()).collect();
            fs::write(&answers, lines.join("\n") + "\n").unwrap();
        }
        let recorded = fs::read_to_string(&answers).unwrap_or_else(|error| panic!("{}: {error}", answers.display()));
        let texts = texts(&path);
        assert_eq!(recorded.lines().count(), texts.len(), "{}: an answer for each text", answers.display());
        for ((name, text), line) in texts.iter().zip(recorded.lines()) {
            compare(name, text, &Answer::from_line(line));
        }
    }
}

#[test]
fn complaints_are_as_expected() {
    for path in cases() {
        let listed = path.with_extension("txt");
        let mut complaints = String::new();
        let texts = texts(&path);
        for (name, text) in &texts {
            let listing = listing(text);
            if texts.len() > 1 && !listing.is_empty() {
                writeln!(complaints, "{name}").unwrap();
            }
            complaints.push_str(&listing);
        }
        if recording() && !complaints.is_empty() {
            fs::write(&listed, &complaints).unwrap();
        } else if recording() && listed.exists() {
            fs::remove_file(&listed).unwrap();
        }
        let expected = fs::read_to_string(&listed).unwrap_or_default();
        assert_eq!(complaints, expected, "{}", listed.display());
    }
}

#[test]
fn kubectl_still_reads_what_was_recorded() {
    let Some(assets) = assets("comparing the recorded answers with kubectl") else { return };
    for path in cases() {
        let recorded = fs::read_to_string(path.with_extension("kubectl")).unwrap();
        for ((name, text), line) in texts(&path).iter().zip(recorded.lines()) {
            let (now, then) = (kubectl::read_text(&assets, text), Answer::from_line(line));
            let doubtful = ours(text).1.iter().any(twice);
            assert!(now == then || doubtful, "{name}: {now:?}");
        }
    }
}
