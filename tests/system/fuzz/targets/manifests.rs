//! Texts become objects or complaints; files become a set.

use std::collections::{BTreeMap, BTreeSet};

use belay::cluster::paths_of;
use belay_core::manifest::yaml::{self, Limits, Span, YamlComplaint};
use belay_core::manifest::{Colour, File, Manifest, ManifestSet, Scopes, read_file, render};
use serde_json::Value;

use super::text::{line_and_column, sections, steers};

/// Any text is read, within the limits; every complaint is about a place in it; what was read and printed as JSON is read
/// as the same.
pub fn yaml(data: &[u8]) {
    let limits = Limits::default();
    let text = match yaml::decode(data) {
        Ok(text) => text,
        Err(complaint) => {
            assert!(complaint.span.start.offset as usize <= data.len(), "{complaint:?}");
            return;
        }
    };
    let (documents, complaints) = yaml::documents(&text);
    assert!(documents.len() <= limits.documents);
    about(&text, &complaints);
    for document in &documents {
        assert!(document.range().end <= text.len());
        let (placed, complaints) = document.read();
        about(&text, &complaints);
        let Some(placed) = placed else {
            assert!(!complaints.is_empty(), "nothing is read, and nothing is wrong");
            continue;
        };
        inside(&text, placed.root().span());
        let value = placed.into_value();
        let (nodes, depth) = size(&value);
        assert!(nodes <= limits.nodes && depth <= limits.depth, "{nodes} values, {depth} deep");
        if value.is_object() && complaints.is_empty() {
            read_again(&value);
        }
    }
    let file = read_file("any.yaml", data, &Scopes::new("default"));
    sound(&file, data);
}

fn read_again(value: &Value) {
    let printed = value.to_string();
    if printed.len() > Limits::default().document_bytes {
        return;
    }
    let (documents, complaints) = yaml::documents(&printed);
    assert!(complaints.is_empty(), "{printed}: {complaints:?}");
    let [document] = &documents[..] else { panic!("one document: {printed}") };
    let (again, complaints) = document.read();
    assert!(complaints.is_empty(), "{printed}: {complaints:?}");
    assert_eq!(again.map(yaml::Placed::into_value).as_ref(), Some(value), "{printed}");
}

/// Returns how many values there are in a value, and how deep they are nested.
fn size(value: &Value) -> (usize, usize) {
    let parts: Vec<(usize, usize)> = match value {
        Value::Array(items) => items.iter().map(size).collect(),
        Value::Object(members) => members.values().map(size).collect(),
        _ => return (1, 0),
    };
    (1 + parts.iter().map(|part| part.0).sum::<usize>(), 1 + parts.iter().map(|part| part.1).max().unwrap_or_default())
}

fn about(text: &str, complaints: &[YamlComplaint]) {
    // One for what is too much, beside those that are within the limit.
    assert!(complaints.len() <= text.len() + 1, "{} complaints about {} bytes", complaints.len(), text.len());
    for complaint in complaints.iter().take(20) {
        assert!(!complaint.message.is_empty());
        inside(text, complaint.span);
        if let Some((span, _)) = &complaint.also {
            inside(text, *span);
        }
        if let Some(lost) = &complaint.lost {
            assert!(text.get(lost.clone()).is_some(), "{complaint:?}");
        }
    }
}

fn inside(text: &str, span: Span) {
    assert!(span.start <= span.end, "{span:?}");
    for position in [span.start, span.end] {
        let offset = position.offset as usize;
        assert!(text.is_char_boundary(offset), "{position:?} in {} bytes", text.len());
        let (line, mut column) = line_and_column(text, offset);
        // A byte order mark, with which kubectl lets a document begin, has no width.
        let before = text[..offset].rsplit(['\n', '\r']).next().unwrap_or_default();
        column -= u32::from(position.column < column && before.starts_with('\u{FEFF}'));
        assert_eq!((position.line, position.column), (line, column), "{position:?}");
    }
}

/// Files are put into a set, replaced, taken away: it always is what it would be, had it been made from the files that
/// are left.
pub fn manifest_set(data: &[u8]) {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut set, mut scopes) = (ManifestSet::new(), Scopes::new("default"));
    for (heading, content) in sections(data).into_iter().take(40) {
        let heading = String::from_utf8_lossy(heading).into_owned();
        let path = match heading.strip_prefix("- ") {
            Some(path) => {
                files.remove(path);
                path.to_owned()
            }
            None => {
                files.insert(heading.clone(), content);
                heading
            }
        };
        take_up(&mut set, &mut scopes, &files, BTreeSet::from([path]));
    }
    let (mut whole, mut all_scopes) = (ManifestSet::new(), Scopes::new("default"));
    take_up(&mut whole, &mut all_scopes, &files, files.keys().cloned().collect());
    assert_eq!(set.iter().collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
    assert_eq!(set.complaints(), whole.complaints());
    assert_eq!(set.unreadable().collect::<Vec<_>>(), whole.unreadable().collect::<Vec<_>>());
    assert_eq!(set.len(), files.len());
    for (key, located) in set.iter() {
        assert!(set.mentions(key) && files.contains_key(&*located.place.path), "{key}");
    }
}

/// Reads files, and again those that a changed definition is about.
fn take_up(set: &mut ManifestSet, scopes: &mut Scopes, files: &BTreeMap<String, Vec<u8>>, mut paths: BTreeSet<String>) {
    let mut read = 0;
    while let Some(path) = paths.pop_first() {
        read += 1;
        assert!(read <= 100 * (files.len() + 1), "files are read over and over");
        let file = files.get(&path).map(|content| read_file(&path, content, scopes));
        if let (Some(file), Some(content)) = (&file, files.get(&path)) {
            sound(file, content);
        }
        for kind in set.replace(&path, file.as_ref()) {
            match set.definition(&kind) {
                Some(definition) => scopes.define(definition.clone()),
                None => scopes.forget(&kind),
            }
            paths.extend(set.files_with(&kind).map(|path| path.to_string()));
        }
    }
}

/// Checks that a manifest that was read can be asked for: each name stays in its segment of the path.
fn asked_for(manifest: &Manifest) {
    // A name that is longer than any path may be is reported when it is asked for.
    if manifest.key.name.len() > 10_000 {
        return;
    }
    let [version, object] = paths_of(manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.key));
    let group = usize::from(manifest.api_version.contains('/'));
    let namespace = if manifest.key.namespace.is_some() { 2 } else { 0 };
    assert_eq!(version.path().split('/').count(), 3 + group, "{version}");
    assert_eq!(object.path().split('/').count(), 5 + group + namespace, "{object}");
    assert!(object.query().is_none() && version.query().is_none(), "{object}");
}

/// Checks the rules for every file.
fn sound(file: &File, bytes: &[u8]) {
    assert!(file.complaints.len() <= Limits::default().complaints + 1);
    let ends = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    for complaint in &file.complaints {
        let places = complaint.also.iter().map(|note| &note.place).chain([&complaint.place]);
        for place in places {
            assert!(place.line >= 1 && place.column >= 1 && place.line as usize <= ends + 1, "{complaint}");
            assert_eq!(place.path, file.path);
        }
        let shown = render(complaint, Colour::Off, 80);
        assert!(!steers(shown.strip_prefix(&*file.path).unwrap_or(&shown)) || steers(&file.path), "{shown:?}");
    }
    for manifest in &file.manifests {
        assert!(!file.rejected.contains(&manifest.key), "{} is fine and is not", manifest.key);
        asked_for(manifest);
        assert!(manifest.value().is_object() && !manifest.key.kind.is_empty() && !manifest.key.name.is_empty());
    }
    let silent = file.complaints.is_empty() && (file.unreadable || !file.rejected.is_empty());
    assert!(!silent, "something is wrong, and it is not said what");
    assert!(file.complaints.is_empty() || file.unreadable || !file.rejected.is_empty(), "{:?}", file.complaints);
}
