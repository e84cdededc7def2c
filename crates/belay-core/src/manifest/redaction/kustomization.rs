//! The values in a kustomization: literals of its generators, its patches, and what stands in the place of paths.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::rendered::join;
use super::super::yaml;
use super::files::{FileContent, items};
use super::{Certainty, Redaction, WITHIN_WORDS};

/// The files that a kustomization names, by their paths.
pub type NamedFiles = BTreeMap<String, FileContent>;

/// Fields of kustomizations below which nothing is secret.
const NAMES: [&str; 20] = [
    "apiVersion",
    "kind",
    "group",
    "version",
    "name",
    "namespace",
    "fieldPath",
    "fieldPaths",
    "behavior",
    "type",
    "images",
    "replicas",
    "namePrefix",
    "nameSuffix",
    "buildMetadata",
    "labelSelector",
    "annotationSelector",
    "delimiter",
    "labels",
    "commonLabels",
];
/// Fields of kustomizations that name files and folders. kustomize says of a text in the place of one that there is no such file.
const PATHS: [&str; 10] = [
    "path",
    "resources",
    "components",
    "bases",
    "crds",
    "configurations",
    "generators",
    "transformers",
    "validators",
    "openapi",
];
/// Endings of files that generators read. A missing file with another ending may be a value.
const ENDINGS: [&str; 31] = [
    "cer",
    "cfg",
    "cnf",
    "conf",
    "config",
    "crt",
    "css",
    "csv",
    "enc",
    "env",
    "htm",
    "html",
    "ini",
    "jks",
    "js",
    "json",
    "key",
    "lua",
    "md",
    "p12",
    "pem",
    "properties",
    "pub",
    "py",
    "sh",
    "sql",
    "toml",
    "txt",
    "xml",
    "yaml",
    "yml",
];

impl Redaction {
    pub(super) fn hide_kustomization(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    match name.as_str() {
                        "literals" => self.hide_literals_of(field),
                        "patch" | "patchesStrategicMerge" => self.hide_inline_patches(field),
                        "files" | "env" | "envs" => self.hide_what_is_no_path(field),
                        name if PATHS.contains(&name) => self.hide_texts_for_paths(field),
                        name if NAMES.contains(&name) => {}
                        _ => self.hide_kustomization(field),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.hide_kustomization(item)),
            other => self.hide_scalars(other, Certainty::Certain),
        }
    }

    fn hide_literals_of(&mut self, literals: &Value) {
        match literals {
            Value::String(literal) => self.hide_environment(literal),
            Value::Array(items) => items.iter().for_each(|item| self.hide_literals_of(item)),
            Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                self.hide_key(key);
                self.hide_literals_of(value);
            }),
            other => self.hide_scalars(other, Certainty::Certain),
        }
    }

    fn hide_inline_patches(&mut self, patches: &Value) {
        match patches {
            Value::Array(items) => items.iter().for_each(|item| self.hide_inline_patches(item)),
            Value::String(text) if !text.trim_end().contains('\n') && !text.contains([':', '{', '[']) => {}
            Value::String(text) => self.hide_file(FileContent::Patch, text.as_bytes()),
            other => self.hide_patch(other, ""),
        }
    }

    /// Hides literals that stand where files should. A file that is there is shown all the same.
    fn hide_what_is_no_path(&mut self, files: &Value) {
        match files {
            Value::Array(items) => items.iter().for_each(|item| self.hide_what_is_no_path(item)),
            Value::String(file) => {
                let path = file.split_once('=').map_or(file.as_str(), |(_, path)| path);
                if !is_file_name(path) {
                    self.hide(path, Certainty::Certain);
                    path.split('/').filter(|part| part.len() >= WITHIN_WORDS).for_each(|part| {
                        self.hide(part, Certainty::Certain);
                    });
                }
            }
            other => self.hide_scalars(other, Certainty::Certain),
        }
    }

    /// Hides texts that stand where paths should.
    fn hide_texts_for_paths(&mut self, paths: &Value) {
        match paths {
            Value::Array(items) => items.iter().for_each(|item| self.hide_texts_for_paths(item)),
            Value::String(text) if text.contains(['\n', '{', '[']) || text.contains(": ") => {
                self.hide_file(FileContent::Patch, text.as_bytes());
            }
            Value::String(_) => {}
            Value::Object(fields) if fields.contains_key("path") => {
                fields.values().for_each(|field| self.hide_texts_for_paths(field));
            }
            other => self.hide_scalars(other, Certainty::Certain),
        }
    }
}

/// Returns true when a text looks like the path of a file that generators read.
fn is_file_name(path: &str) -> bool {
    let fine = path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    fine && path.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Returns the files that the kustomization of a folder names, other than manifests.
#[must_use]
pub fn files_of_kustomization(folder: &str, bytes: &[u8]) -> NamedFiles {
    let mut named = NamedFiles::new();
    let Ok(text) = yaml::decode(bytes) else { return named };
    for placed in yaml::documents(&text).0.iter().filter_map(|document| document.read().0) {
        let value = placed.value();
        let mut name = |path: &str, content| named.extend(join(folder, path).map(|path| (path, content)));
        for generator in ["configMapGenerator", "secretGenerator"].iter().flat_map(|field| items(&value[*field])) {
            for file in ["files", "envs", "env"].iter().flat_map(|field| texts(&generator[*field])) {
                name(file.split_once('=').map_or(file, |(_, path)| path), FileContent::Environment);
            }
        }
        for patch in ["patches", "patchesJson6902"].iter().flat_map(|field| items(&value[*field])) {
            texts(&patch["path"]).into_iter().for_each(|path| name(path, FileContent::Patch));
        }
        texts(&value["patchesStrategicMerge"]).into_iter().for_each(|path| name(path, FileContent::Patch));
    }
    named
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        other => items(other).iter().filter_map(Value::as_str).collect(),
    }
}
