//! The values of a file that may be secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::rendered::join;
use super::super::report::{KEY, Showing, is_short_key};
use super::super::secrecy::{self, MaybeSecret};
use super::super::yaml::{self, Content, Document};
use super::{Certainty, Redaction, WITHIN_WORDS, may_be_secret};

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
    /// A template of a chart.
    Template,
    /// A `Chart.yaml` or `requirements.yaml`: the names of a chart and of its dependencies, which everybody may read.
    Chart,
}

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
/// Fields of an object that say which one it is.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "type"];
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
            FileContent::Manifests | FileContent::Kustomization | FileContent::Patch | FileContent::Values => {
                self.hide_documents(content, text);
            }
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

    fn hide_if_secret(&mut self, object: &Value, maybe_secret: &MaybeSecret<'_>) -> bool {
        if let Some(items) = object["items"].as_array() {
            // All of them are searched: one match ends nothing.
            return items.iter().filter(|item| self.hide_if_secret(item, maybe_secret)).count() > 0;
        }
        let is_secret = secrecy::of_object(object, maybe_secret) != Showing::Everything;
        if is_secret {
            self.hide_secret(object);
            self.hide_secrets_within(object);
        }
        is_secret
    }

    /// Hides the Secrets inside another object, as those in `objects` of a Template.
    fn hide_secrets_within(&mut self, object: &Value) {
        match object {
            Value::Array(items) => items.iter().for_each(|item| self.hide_secrets_within(item)),
            Value::Object(fields) => {
                fields.values().filter(|field| field.is_object() || field.is_array()).for_each(|field| {
                    if field["data"].is_object() {
                        self.hide_secret(field);
                    }
                    self.hide_secrets_within(field);
                })
            }
            _ => {}
        }
    }

    /// Hides the content of a Secret, also the passwords of registries that are in base64 once more in it.
    pub fn hide_secret(&mut self, secret: &Value) {
        let Some(fields) = secret.as_object() else { return self.hide_scalars(secret, Certainty::Certain) };
        for (name, field) in fields.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())) {
            match (name.as_str(), field) {
                ("metadata", Value::Object(metadata)) => {
                    let others = metadata.iter().filter(|(name, _)| !matches!(name.as_str(), "name" | "namespace"));
                    others.for_each(|(_, value)| self.hide_scalars(value, Certainty::Certain));
                }
                ("data", Value::Object(data)) => data.iter().for_each(|(key, value)| {
                    self.hide_key(key);
                    self.hide_encoded(value);
                }),
                ("stringData", Value::Object(data)) => data.iter().for_each(|(key, value)| {
                    self.hide_key(key);
                    self.hide_scalars(value, Certainty::Certain);
                }),
                _ => self.hide_scalars(field, Certainty::Certain),
            }
        }
    }

    fn hide_encoded(&mut self, value: &Value) {
        self.hide_scalars(value, Certainty::Certain);
        let encoded: String = value.as_str().unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
        let Some(decoded) = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return;
        };
        self.hide(&decoded, Certainty::Certain);
        let Ok(config) = serde_json::from_str::<Value>(&decoded) else { return };
        let registries = config.get("auths").unwrap_or(&config).as_object().into_iter().flatten();
        for login in registries.filter_map(|(_, registry)| STANDARD.decode(registry["auth"].as_str()?).ok()) {
            let login = String::from_utf8_lossy(&login).into_owned();
            self.hide(&login, Certainty::Certain);
            self.hide(login.split_once(':').map_or("", |(_, password)| password), Certainty::Certain);
        }
    }

    /// Hides a key that is none, or so long that it may be a value.
    fn hide_key(&mut self, key: &str) {
        if !is_short_key(key) {
            self.hide(key, Certainty::Certain);
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

    /// Hides the values of a chart: in doubt those whose names say nothing of a secret. `name` is that of the value, with dots.
    pub fn hide_values(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, field)| {
                self.hide_values(&if name.is_empty() { key.clone() } else { format!("{name}.{key}") }, field);
            }),
            Value::Array(items) => items.iter().for_each(|item| self.hide_values(name, item)),
            scalar => {
                let is_secret = may_be_secret(name, scalar.as_str().unwrap_or_default());
                self.hide_scalars(scalar, if is_secret { Certainty::Certain } else { Certainty::Possible });
            }
        }
    }

    /// Shows the names in a `Chart.yaml` or `requirements.yaml`. An address with a user in it is hidden.
    fn show_names_of_chart(&mut self, text: &str) {
        for placed in yaml::documents(text).0.iter().filter_map(|document| document.read().0) {
            let chart = placed.value();
            for named in std::iter::once(chart).chain(items(&chart["dependencies"])) {
                ["name", "alias"]
                    .iter()
                    .filter_map(|field| named[*field].as_str())
                    .for_each(|name| self.show_name(name));
                if let Some(address) = named["repository"].as_str().filter(|address| address.contains('@')) {
                    self.hide(address, Certainty::Certain);
                }
            }
        }
    }

    fn hide_patch(&mut self, patch: &Value, text: &str) {
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

    fn hide_kustomization(&mut self, value: &Value) {
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

    fn hide_environment(&mut self, text: &str) {
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

/// Returns true when a text looks like the path of a file that generators read.
fn is_file_name(path: &str) -> bool {
    let fine = path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    fine && path.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Returns a server's message about an object, without the values that were sent, if the object is or may be a Secret.
#[must_use]
pub fn without_values(sent: &Value, text: &str) -> String {
    if !is_secret(sent) {
        return text.to_owned();
    }
    let mut redaction = Redaction::of(text);
    redaction.hide_secret(sent);
    redaction.finish(|_| false)
}

fn is_secret(object: &Value) -> bool {
    secrecy::of_object(object, &MaybeSecret::of("")) != Showing::Everything
}

/// Returns the path of a field of a Secret, without keys that may be values: `data[***]`.
#[must_use]
pub fn short_keys(field: &str) -> String {
    let is_fine =
        |part: &str| part.split('.').all(|part| part.is_empty() || is_short_key(part)) && part.len() <= 2 * KEY;
    match field.split_once('[') {
        Some((before, key)) if is_fine(before) => {
            let (key, after) = key.rsplit_once(']').unwrap_or((key, ""));
            let key = if is_short_key(key) { key } else { "***" };
            format!("{before}[{key}]{}", if is_fine(after) { after } else { "" })
        }
        _ if is_fine(field) => field.to_owned(),
        _ => "***".to_owned(),
    }
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

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        other => items(other).iter().filter_map(Value::as_str).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-Geheim";

    /// Returns the message of a program that repeats all that it reads.
    fn repeated(content: FileContent, text: &str) -> String {
        let mut redaction = Redaction::of(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        redaction.hide_file(content, text.as_bytes());
        redaction.finish(|_| false)
    }

    /// Files, and what of each is still shown.
    const EVERY_FILE: &[(FileContent, &str, &str)] = {
        use FileContent::{Chart, Environment, Kustomization, Manifests, Patch, Template, Values};
        &[
            (
                Manifests,
                "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: hunter2-Geheim}\n",
                "Secret db password",
            ),
            (
                Manifests,
                "kind: Secret\nmetadata: {name: db}\ndata: {password: aHVudGVyMi1HZWhlaW0=, hunter2-Geheim-hunter2-Geheim-hunter2: YQ==}\n",
                "Secret db",
            ),
            (Manifests, "kind: Secret\nmetadata:\n  name: db\nstringData:\n  password: \"hunter2-Geheim\n", "Secret"),
            (Manifests, "kind: Secret\nstringData:\n  hunter2-Geheim\n  more\n", "Secret"),
            (
                Patch,
                "- op: replace\n  path: /stringData/password\n  value: hunter2-Geheim\n",
                "replace /stringData/password",
            ),
            (Patch, "kind: Deployment\nmetadata: {name: web}\nspec: {env: hunter2-Geheim}\n", "Deployment web env"),
            (Patch, "password hunter2-Geheim", ""),
            (
                Kustomization,
                "secretGenerator:\n- name: db\n  literals: [password=hunter2-Geheim, oops]\n",
                "db password",
            ),
            (Kustomization, "secretGenerator:\n- name: db\n  literals: [hunter2-Geheim]\n", "db"),
            (Kustomization, "secretGenerator:\n- name: db\n  literals: password=hunter2-Geheim\n", "db"),
            (Kustomization, "secretGenerator:\n- name: db\n  literals: {password: hunter2-Geheim}\n", "db"),
            (Kustomization, "secretGenerator:\n- name: db\n  files: [password=hunter2-Geheim, a=b.txt]\n", "db b.txt"),
            (Kustomization, "secretGenerator: {name: db, literal: hunter2-Geheim}\n", "db"),
            (Kustomization, "secretGenerator: [{name: db, envs: [password=aHVudGVyMi1H/ZWhlaW0=]}]\n", "db password"),
            (Kustomization, "secretGenerator: [{name: db, env: a.hunter2-Geheim, files: [x/a.env]}]\n", "db x/a.env"),
            (
                Kustomization,
                "patches:\n- path: |-\n    kind: Secret\n    stringData: {a: hunter2-Geheim}\n- path: p.yaml\n",
                "p.yaml",
            ),
            (
                Kustomization,
                "transformers:\n- |-\n  kind: PatchTransformer\n  patch: hunter2-Geheim\n- ../t.yaml\n",
                "../t.yaml",
            ),
            (Kustomization, "secretGenerator: [{literals: [a=hunter2-Geheim], literals: []}]\n", ""),
            (Manifests, "kind: Secret\nstringData:\n  a: *hunter2-Geheim\n", "Secret"),
            (
                Manifests,
                "kind: Template\nobjects: [{kind: Secret, data: {a: aHVudGVyMi1HZWhlaW0=}, stringData: {b: hunter2-Geheim}}]\n",
                "Template",
            ),
            (
                Template,
                "kind: Secret\nstringData:\n  a: {{ printf \"x://%s:hunter2-Geheim@%s\" .a .b }} {{ fail (printf \"no size %s\" .c) }}\n",
                "no size",
            ),
            (Template, "{{ define \"dsn\" }}postgres://ada:hunter2-Geheim@db:{{ .Values.port }}/x{{ end }}", "dsn"),
            (
                Kustomization,
                "resources: [web.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n    stringData:\n      password: hunter2-Geheim\n",
                "web.yaml Secret password",
            ),
            (Kustomization, "patches:\n- patch: \"[{op: add, path: /a, value: hunter2-Geheim}\"\n", ""),
            (
                Kustomization,
                "patchesStrategicMerge:\n- |\n  kind: Secret\n  stringData: {a: hunter2-Geheim}\n- p.yaml\n",
                "p.yaml",
            ),
            (Kustomization, "replacements: [{sourceValue: hunter2-Geheim, targets: [{select: {name: web}}]}]\n", "web"),
            (Kustomization, "secretGenerator:\n  - literals: [a=hunter2-Geheim\n", ""),
            (Environment, "# note\npassword=hunter2-Geheim\nuser='ada lovelace'\n", "password user"),
            (Environment, "password: hunter2-Geheim\n", ""),
            (Environment, "-----BEGIN KEY-----\nhunter2-Geheim\n-----END KEY-----\n", ""),
            (Values, "db: {password: hunter2-Geheim, port: 80}\n", "password port: 80"),
            (Values, "db: {password: hunter2-Geheim\n", ""),
            (Chart, "name: web\ndependencies: [{name: db, repository: 'https://ada:hunter2-Geheim@c'}]\n", "web db"),
            (
                Template,
                "kind: Secret\nstringData:\n  a: hunter2-Geheim\n  b: {{ include \"web.name\" . }}\n",
                "web.name Secret",
            ),
            (
                Template,
                "kind: Secret\nstringData:\n  a: {{ b64enc \"hunter2-Geheim\" | quote }} {{ fail \"no size\" }}\n",
                "b64enc no size",
            ),
        ]
    };

    #[test]
    fn values_of_every_file_are_hidden_and_names_are_not() {
        for (content, text, shown) in EVERY_FILE {
            let said = repeated(*content, text);
            assert!(!said.contains(SECRET) && !said.contains("aHVudGVyMi1H"), "{text}: {said}");
            assert!(shown.split(' ').all(|word| said.contains(word)), "{text}: {said}");
        }
    }

    /// Programs print bytes that are no text, an alias, and a number in their own form.
    #[test]
    fn values_are_hidden_in_the_words_of_programs() {
        use FileContent::{Environment, Manifests, Values};
        for (content, bytes, said, shown) in [
            (
                Environment,
                &b"password=Gr\xfcn-hun\n"[..],
                "line [112 97 115 115 61 71 114 252 110 45] has invalid utf8 bytes : \"Gr\\xfcn-hun\"",
                "line [***] has invalid utf8 bytes : \"***\\xfc***\"",
            ),
            (
                Manifests,
                b"kind: Secret\nstringData:\n  password: *gEh3im\n",
                "unknown anchor 'gEh3im' referenced",
                "unknown anchor '***' referenced",
            ),
            (Manifests, b"kind: Secret\nstringData: [*ab, x]\n", "unknown anchor 'ab'", "unknown anchor '***'"),
            (
                Values,
                b"pin: 87654321\n",
                "got 8.7654321×10⁰⁷, 8.7654321e+07, 87,654,321, want 9,999",
                "got ***×10⁰⁷, ***, ***, want 9,999",
            ),
        ] {
            let mut redaction = Redaction::of(said);
            redaction.hide_file(content, bytes);
            assert_eq!(redaction.finish(|_| false), shown);
        }
    }

    /// A name of a chart, in Helm's words about it, beside a file that has the same word as a value.
    #[test]
    fn names_of_charts_are_shown_where_no_secret_is_the_same() {
        let said = "found in Chart.yaml, but missing in charts/ directory: postgresql";
        for (content, text, shown) in [
            (FileContent::Values, "image: docker.io/bitnami/postgresql\ndb: postgresql\n", true),
            (FileContent::Values, "auth: {password: postgresql}\n", false),
            (FileContent::Values, "db: {apiKey: postgresql}\n", false),
            (FileContent::Environment, "name=postgresql\n", false),
            (FileContent::Manifests, "kind: Secret\nstringData: {user: postgresql}\n", false),
            (FileContent::Kustomization, "secretGenerator: [{name: a, literals: [user=postgresql]}]\n", false),
        ] {
            let chart = "name: web\nversion: 1.0.0\ndependencies: [{name: postgresql, version: 1.x.x}]\n";
            for order in
                [[(FileContent::Chart, chart), (content, text)], [(content, text), (FileContent::Chart, chart)]]
            {
                let mut redaction = Redaction::of(said);
                order.iter().for_each(|(content, text)| redaction.hide_file(*content, text.as_bytes()));
                assert_eq!(redaction.finish(|_| false).contains("postgresql"), shown, "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for (content, text) in [
            (FileContent::Manifests, "kind: ConfigMap\ndata: {color: dark-blue-green}\n"),
            (FileContent::Template, "kind: Deployment\nspec: {image: {{ .Values.image }}, note: \"a longer text\"}\n"),
            (
                FileContent::Kustomization,
                "resources: [../base/app]\nimages: [{name: registry/web, newTag: 1.2.3-alpha}]\n",
            ),
        ] {
            assert_eq!(repeated(content, text), text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    #[test]
    fn what_a_server_says_of_a_secret_quotes_no_value() {
        let sent = serde_json::json!({"kind": "Secret", "metadata": {"name": "db"}, "data": {"password": "aHVudGVyMi1HZWhlaW0="},
            "stringData": {"hunter2-Geheim hunter2-Geheim": "a"}});
        for text in [
            "denied: \"hunter2-Geheim\" is weak",
            "illegal base64 aHVudGVyMi1HZWhlaW0=",
            "key hunter2-Geheim hunter2-Geheim",
        ] {
            let said = without_values(&sent, text);
            assert!(!said.contains(SECRET) && !said.contains("aHVudGVy") && said.contains("***"), "{said}");
        }
        let map = serde_json::json!({"kind": "ConfigMap", "data": {"color": "dark-blue"}});
        assert_eq!(without_values(&map, "dark-blue"), "dark-blue");
        for (field, short) in [
            ("data[tls.crt]", "data[tls.crt]"),
            ("data[a b]", "data[***]"),
            ("metadata.name", "metadata.name"),
            ("data[a].b", "data[a].b"),
            ("stringData.hunter2 x", "***"),
            ("", ""),
        ] {
            assert_eq!(short_keys(field), short);
        }
    }

    #[test]
    fn a_kustomization_names_its_files() {
        let named = files_of_kustomization(
            "over",
            b"secretGenerator: [{envs: [s.env], files: [k=../f.pem]}]\npatches: [{path: p.yaml}]\npatchesStrategicMerge: [s.yaml]\n",
        );
        let named: Vec<(&str, FileContent)> = named.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        use FileContent::{Environment, Patch};
        assert_eq!(
            named,
            [("f.pem", Environment), ("over/p.yaml", Patch), ("over/s.env", Environment), ("over/s.yaml", Patch)]
        );
    }
}
