//! The values of a file that may be secret.

use serde_json::Value;

use super::super::report::Showing;
use super::super::secrecy::{self, MaybeSecret};
use super::super::yaml::{self, Content, Document};
use super::{Certainty, Redaction};

/// The content of a file that a folder is rendered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// Objects, of which the Secrets are secret.
    Manifests,
    /// A kustomization, with the literals of its generators and its patches.
    Kustomization,
    /// A patch, whatever it is of.
    Patch,
    /// Lines `key=value`, or the value of a key.
    Environment,
    /// Values of a chart.
    Values,
    /// The schema of a chart's values.
    Schema,
    /// A template of a chart.
    Template,
    /// A `Chart.yaml` or `requirements.yaml`: the names of a chart and of its dependencies, which everybody may read.
    Chart,
}

/// Members of an operation of a JSON patch that are no value.
const OPERATION: [&str; 3] = ["op", "path", "from"];

impl Redaction {
    /// Hides the values of a file that may be secret: in doubt more, all of an unreadable file.
    pub fn hide_file(&mut self, content: FileContent, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}');
        match content {
            FileContent::Environment => self.hide_environment(text),
            FileContent::Template if secrecy::of_text(text) != Showing::Everything => {
                self.hide_template(text, Certainty::Certain);
            }
            // A Secret in another file may include it.
            FileContent::Template if text.contains("define") => self.hide_template(text, Certainty::Possible),
            FileContent::Template => {}
            FileContent::Chart => self.show_names_of_chart(text),
            FileContent::Manifests
            | FileContent::Kustomization
            | FileContent::Patch
            | FileContent::Values
            | FileContent::Schema => self.hide_documents(content, text),
        }
    }

    fn hide_documents(&mut self, content: FileContent, text: &str) {
        let (documents, complaints) = yaml::documents(text);
        for lost in complaints.into_iter().filter_map(|complaint| complaint.lost) {
            self.hide_unread(content, text.get(lost).unwrap_or(text));
        }
        for document in &documents {
            let part = text.get(document.range()).unwrap_or(text);
            let (placed, complaints) = document.read();
            if !complaints.is_empty() && placed.is_some() {
                // A value of a key that is written twice is not in what is read.
                self.hide_unread(content, part);
            }
            match placed {
                Some(placed) => {
                    if self.hide_document(content, placed.value(), part) {
                        self.hide_as_written(document, part);
                    }
                }
                None => self.hide_unread(content, part),
            }
        }
    }

    /// Hides the values of a document. Returns whether more of it may be secret: how they are written, and comments.
    fn hide_document(&mut self, content: FileContent, value: &Value, text: &str) -> bool {
        match content {
            // Its patches are texts of their own.
            FileContent::Kustomization => {
                self.hide_kustomization(value);
                return false;
            }
            FileContent::Schema => {
                self.hide_schema("", value);
                return false;
            }
            FileContent::Values => self.hide_values("", value),
            FileContent::Patch => self.hide_patch(value, text),
            _ if value.is_array() => self.hide_patch(value, text),
            _ => return self.hide_if_secret(value, &MaybeSecret::of(text)),
        }
        true
    }

    /// Hides scalars as they are written, with their escapes, if that is another text than they mean; and comments.
    fn hide_as_written(&mut self, document: &Document<'_>, text: &str) {
        for node in document.nodes().filter(|node| matches!(node.content, Content::Scalar { .. })) {
            let written = node.span.slice(document.text());
            if written.contains(['\\', '\n']) || written.contains("''") {
                self.hide(written.trim_matches(['"', '\'']), Certainty::Certain);
            }
        }
        for (_, comment) in text.lines().filter_map(|line| line.split_once('#')) {
            self.hide(comment, Certainty::Possible);
        }
    }

    /// Hides a document that can't be read.
    fn hide_unread(&mut self, content: FileContent, text: &str) {
        let may_be_shown = content == FileContent::Manifests && secrecy::of_text(text) == Showing::Everything;
        if !may_be_shown {
            self.hide_lines(text, &["apiVersion", "kind"], Certainty::Certain);
        }
    }

    /// Hides the scalars of a value.
    pub fn hide_scalars(&mut self, value: &Value, certainty: Certainty) {
        match value {
            Value::String(text) => self.hide(text, certainty),
            Value::Number(number) => self.hide(&number.to_string(), certainty),
            Value::Array(items) => items.iter().for_each(|item| self.hide_scalars(item, certainty)),
            Value::Object(fields) => fields.values().for_each(|field| self.hide_scalars(field, certainty)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub(super) fn hide_patch(&mut self, patch: &Value, text: &str) {
        match patch {
            Value::Array(operations) => operations.iter().for_each(|operation| match operation.as_object() {
                Some(members) => {
                    let values = members.iter().filter(|(name, _)| !OPERATION.contains(&name.as_str()));
                    values.for_each(|(_, value)| self.hide_scalars(value, Certainty::Certain));
                }
                None => self.hide_scalars(operation, Certainty::Certain),
            }),
            Value::Object(_) => self.hide_secret(patch),
            _ => self.hide_lines(text, &[], Certainty::Certain),
        }
    }

    pub(super) fn hide_environment(&mut self, text: &str) {
        let is_key = text.contains("-----BEGIN ");
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once('=').filter(|_| !is_key) {
                Some((key, value)) if !value.trim_matches('=').is_empty() => {
                    self.hide_key(key.trim());
                    self.hide(value, Certainty::Certain);
                    self.hide(value.trim().trim_matches(['"', '\'']), Certainty::Certain);
                }
                _ => self.hide(line, Certainty::Certain),
            }
        }
    }
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
