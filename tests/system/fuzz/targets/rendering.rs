//! The patterns of a repository about its files, and the messages of a tool about files that hold secrets.

use belay::render::Excluded;
use belay_core::manifest::{FileContent, Redaction, files_of_kustomization};

use super::text::sections;

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
const CONTENTS: [(&[u8], FileContent); 7] = [
    (b"manifests", FileContent::Manifests),
    (b"kustomization", FileContent::Kustomization),
    (b"patch", FileContent::Patch),
    (b"environment", FileContent::Environment),
    (b"values", FileContent::Values),
    (b"template", FileContent::Template),
    (b"chart", FileContent::Chart),
];

/// Whatever files a tool repeats: the steps are a multiple of their bytes, what is shown is what was said or less, and no
/// value of an environment file is left. Each section is a file, under what it holds.
pub fn redaction(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let sections = sections(data);
    let said = String::from_utf8_lossy(data);
    let mut redaction = Redaction::of(&said);
    for (heading, bytes) in &sections {
        for (_, content) in CONTENTS.iter().filter(|(name, _)| name == heading) {
            redaction.hide_file(*content, bytes);
        }
        let _ = files_of_kustomization("over/deep", bytes);
    }
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
