//! `tests/cases/manifests`: files and what is wrong with them, as people see it (`.txt`). Those in `valid/` are fine.
//!
//! A new case needs no code: put the file there and run the test with `BELAY_RECORD=1`. Objects of kind `Backup` follow the
//! definition in `valid/definition.yaml`.

use std::fs;
use std::path::{Path, PathBuf};

use belay_core::manifest::{Colour, File, Scopes, read_file, render};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/manifests")
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files
        .retain(|path| path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|one| ending == *one)));
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

/// Returns the facts about kinds: Kubernetes' own and the definition among the valid files.
pub fn scopes() -> Scopes {
    let mut scopes = Scopes::new("default");
    let definition = fs::read(folder().join("valid/definition.yaml")).unwrap();
    for definition in read_file("definition.yaml", &definition, &scopes).definitions {
        scopes.define(definition);
    }
    scopes
}

fn read(path: &Path) -> File {
    let name = path.file_name().unwrap().to_string_lossy();
    read_file(&name, &fs::read(path).unwrap(), &scopes())
}

/// Returns the output for a person: the good objects, and every complaint.
fn shown(file: &File) -> String {
    let mut text = String::new();
    for manifest in &file.manifests {
        text.push_str(&format!("fine: {} at {}\n", manifest.key, manifest.place));
    }
    if file.unreadable {
        text.push_str("unreadable: a part of the file\n");
    }
    for complaint in &file.complaints {
        text.push_str(&render(complaint, Colour::Off, 80));
    }
    for warning in &file.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

#[test]
fn complaints_are_as_expected() {
    for path in files(&folder()) {
        let (shown, expected) = (shown(&read(&path)), path.with_extension("txt"));
        if std::env::var_os("BELAY_RECORD").is_some() {
            fs::write(&expected, &shown).unwrap();
        }
        assert_eq!(shown, fs::read_to_string(&expected).unwrap_or_default(), "{}", expected.display());
    }
}

#[test]
fn valid_files_give_no_complaint() {
    for path in files(&folder().join("valid")) {
        let file = read(&path);
        assert!(file.complaints.is_empty() && !file.unreadable, "{}: {}", path.display(), shown(&file));
        assert!(!file.manifests.is_empty(), "{}", path.display());
    }
}

#[test]
fn fields_are_found_where_they_are_written() {
    let file = read(&folder().join("valid/deployment.yaml"));
    let place = |path: &str| {
        let place = file.manifests[0].place_of(path);
        (place.line, place.column)
    };
    let text = fs::read_to_string(folder().join("valid/deployment.yaml")).unwrap();
    let line = |wanted: &str| 1 + text.lines().position(|line| line.contains(wanted)).unwrap() as u32;
    let column = |wanted: &str, part: &str| {
        let line = text.lines().find(|line| line.contains(wanted)).unwrap();
        1 + line.find(part).unwrap() as u32
    };
    assert_eq!(place("spec.replicas"), (line("replicas: 3"), 3));
    assert_eq!(place(".spec.replicas"), (line("replicas: 3"), 3));
    let image = (line("image: registry.example.com/shop/web"), 9);
    assert_eq!(place("spec.template.spec.containers[0].image"), image);
    assert_eq!(place(".spec.template.spec.containers[name=\"web\"].image"), image);
    assert_eq!(place("spec.template.spec.containers[0].imagee"), (line("- name: web"), 9));
    let port = "containerPort: 8080, protocol: UDP";
    assert_eq!(
        place("spec.template.spec.containers[name=\"web\"].ports[containerPort=8080,protocol=\"UDP\"].protocol"),
        (line(port), column(port, "protocol"))
    );
    assert_eq!(place("metadata.annotations.example.com/owner"), (line("example.com/owner"), 5));
    assert_eq!(place("metadata.annotations[example.com/owner]"), (line("example.com/owner"), 5));
    let limits = "ephemeral-storage: 2e9";
    assert_eq!(
        place("spec.template.spec.containers[0].resources.limits.example.com/gpu"),
        (line(limits), column(limits, "example.com/gpu"))
    );
    assert_eq!(place("spec.template.spec.tolerations[17].key"), (line("tolerations:"), 7));
    assert_eq!(place("status.replicas"), (file.manifests[0].place.line, file.manifests[0].place.column));
    assert_eq!(place("[[[").0, 2);
}
