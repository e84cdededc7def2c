//! The patterns of a repository about its files, and the messages of a tool about files that hold secrets.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use belay::render::{Excluded, HelmOptions, MemoryTree, Node, Options, Tree, find};
use belay_core::manifest::{
    ChartTemplates, FileContent, Origins, Redaction, Rendered, Scopes, files_of_kustomization, read_rendered,
};

use super::text::{sections, steers};

/// Whatever the patterns are: what lies in a folder that does not count does not count, and the same lines say the same.
/// The first section are patterns, the others paths, one a line.
pub fn patterns(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (patterns, paths) = text.split_once("\n=== ").unwrap_or((&text, "a/b.yaml\n.x\n"));
    let lines: Vec<String> = patterns.lines().take(200).map(|line| line.chars().take(300).collect()).collect();
    let excluded = Excluded::of(&[], &lines);
    let again = Excluded::of(&[], &lines);
    assert_eq!(excluded, again);
    for path in paths.lines().take(50).map(|path| path.trim_matches('/')).filter(|path| !path.is_empty()) {
        let has = excluded.has(path);
        assert_eq!(has, again.has(path));
        if has {
            assert!(
                excluded.has(&format!("{path}/deeper/still.yaml"))
                    || !lines.iter().all(|line| !line.trim_end().ends_with('/'))
            );
        }
        if lines.iter().all(|line| line.starts_with('!') || line.starts_with('#') || line.trim().is_empty()) {
            assert!(!has, "{path}: nothing excludes it");
        }
    }
}

/// The kinds of files that are looked through.
const CONTENTS: [(&[u8], FileContent); 8] = [
    (b"manifests", FileContent::Manifests),
    (b"kustomization", FileContent::Kustomization),
    (b"patch", FileContent::Patch),
    (b"environment", FileContent::Environment),
    (b"values", FileContent::Values),
    (b"template", FileContent::Template),
    (b"chart", FileContent::Chart),
    (b"schema", FileContent::Schema),
];

/// Whatever files a tool repeats: the steps are a multiple of their bytes, what is shown is what was said or less, and no
/// value of an environment file is left. Each section is a file, under what it holds.
pub fn redaction(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let sections = sections(data);
    let said = String::from_utf8_lossy(data);
    let mut redaction = Redaction::of(&said);
    let mut templates = ChartTemplates::default();
    for (heading, bytes) in &sections {
        let text = String::from_utf8_lossy(bytes);
        match *heading {
            b"template" => templates.note(&text),
            b"values" => templates.note_values(&text),
            _ => {}
        }
        for (_, content) in CONTENTS.iter().filter(|(name, _)| name == heading) {
            redaction.hide_file(*content, bytes);
        }
        let _ = files_of_kustomization("over/deep", bytes);
    }
    redaction.hide_included(&templates);
    let _ = templates.may_read("notes.md");
    let steps = redaction.steps();
    assert!(steps <= 200 * (data.len() as u64 + 100), "{steps} steps for {} bytes", data.len());
    let shown = redaction.finish(|_| false);
    assert!(shown.len() <= said.len() + 3 * said.matches(char::is_whitespace).count() + 3 * said.len());
    for (_, bytes) in sections.iter().filter(|(heading, _)| *heading == b"environment") {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| Some(line.split_once('=')?.1.trim()));
        for value in values.filter(|value| value.len() >= 8 && said.len() < 8000) {
            assert!(!shown.contains(value), "{value:?} is shown");
        }
    }
}

/// The most steps in which the units of a folder are found, beside some for each file.
const STEPS: usize = 150_000;

/// A tree that counts how often it is asked.
struct Counted(MemoryTree, AtomicUsize);

impl Tree for Counted {
    type Error = Infallible;

    fn node(&self, path: &str) -> Result<Option<Node>, Infallible> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.node(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, Infallible> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.list(folder)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Infallible> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read(path, limit)
    }
}

/// Whatever kustomizations and charts name: their units are found in bounded steps, twice the same, and are made from
/// paths of the repository alone. Each section is a file, under its path; `> target` alone is a link.
pub fn units(data: &[u8]) {
    let data = &data[..data.len().min(32 << 10)];
    let mut tree = MemoryTree::default();
    for (path, bytes) in sections(data).into_iter().take(60) {
        let Ok(path) = std::str::from_utf8(path) else { continue };
        let is_usable = |part: &str| !part.is_empty() && part != "." && part != ".." && !steers(part);
        if !path.split('/').all(is_usable) || tree.paths().any(|other| is_above(other, path) || is_above(path, other)) {
            continue;
        }
        match std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_prefix("> ")) {
            Some(target) => tree.link(path, target.trim()),
            None => tree.file(path, bytes),
        }
    }
    let files = tree.paths().count();
    let counted = Counted(tree, AtomicUsize::new(0));
    let named = HelmOptions {
        chart: "chart".to_owned(),
        values: vec!["production.yaml".to_owned(), "/values/web.yaml".to_owned(), "../../x".to_owned()],
        ..HelmOptions::default()
    };
    for helm in [Vec::new(), vec![named]] {
        let options = Options { helm, ..Options::default() };
        let Ok(plan) = find(&counted, "", &options);
        let steps = counted.1.swap(0, Ordering::Relaxed);
        assert!(steps <= STEPS + 100 * files, "{steps} steps for {files} files");
        let Ok(again) = find(&counted.0, "", &options);
        assert_eq!(plan, again);
        for unit in plan.units.values() {
            for path in unit.inputs.nodes.keys().chain(&unit.files).chain(&unit.bases) {
                assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path:?}");
            }
            if let Some(refusal) = &unit.refusal {
                assert!(!refusal.message.is_empty() && refusal.place.line > 0 && refusal.place.column > 0);
            }
        }
        let _ = plan.rolled_out_twice();
    }
}

fn is_above(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Whatever a tool puts out: the places of its objects are files of the repository, the same text says the same, and
/// nothing of a complaint steers a terminal.
pub fn rendered(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let scopes = Scopes::new("default");
    for origins in [Origins::Annotation { kept: false }, Origins::Annotation { kept: true }, Origins::Comment] {
        let rendered = Rendered { path: "over/kustomization.yaml", folder: "over", origins };
        let file = read_rendered(&rendered, data, &scopes);
        let again = read_rendered(&rendered, data, &scopes);
        assert_eq!(file.manifests, again.manifests);
        let places = file.manifests.iter().map(|manifest| &manifest.place);
        for place in places.chain(file.complaints.iter().map(|complaint| &complaint.place)) {
            let path = &*place.path;
            assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path:?}");
            assert_eq!((place.line, place.column), (1, 1));
        }
        for complaint in &file.complaints {
            assert!(!steers(&complaint.message) && complaint.excerpt.is_none(), "{:?}", complaint.message);
        }
    }
}
