//! One object of a document: its name, and its complaints.

use serde_json::Value;

use super::report::{Report, Subject, Words};
use super::schema::{self, Definition, Rules};
use super::scopes::{GroupKind, Known};
use super::secrecy::MaybeSecret;
use super::yaml::{At, Span};
use super::{Compact, Manifest, ManifestHash, ObjectKey, Scopes, doubts, names, rules, secrecy};

/// The result of reading.
pub(super) enum Read {
    /// It is no object of Kubernetes at all, and nothing was said about it yet.
    Stranger,
    /// Instructions for kustomize: no object of the cluster.
    Kustomization,
    /// Something is wrong with it, and it isn't known which object it is.
    Nameless,
    /// Something is wrong with it.
    Rejected { key: ObjectKey, custom: Option<GroupKind> },
    /// Nothing is.
    Fine { manifest: Box<Manifest>, custom: Option<GroupKind>, definition: Option<Definition> },
}

/// Reads an object. `maybe_secret` is about its document; `inherited` is the kind and version that the list says, which it is an
/// item of.
pub(super) fn read(
    report: &mut Report<'_>,
    at: At<'_>,
    maybe_secret: &MaybeSecret<'_>,
    scopes: &Scopes,
    inherited: Option<(&str, &str)>,
) -> Read {
    let has = |name: &str| at.value().get(name).is_some_and(|value| !value.is_null());
    if inherited.is_none() && !has("apiVersion") && !has("kind") {
        return Read::Stranger;
    }
    if at.text("apiVersion").is_some_and(|version| version.starts_with("kustomize.config.k8s.io/")) {
        return Read::Kustomization;
    }
    // kubectl lets an item inherit both or nothing: one with a kind must have its version too. It would write the list's
    // version over another that an item without a kind has; that is refused here.
    let other = at.text("apiVersion");
    let inherited = inherited.filter(|(_, version)| !has("kind") && other.is_none_or(|other| other == *version));
    let showing = match inherited {
        Some((kind, _)) if !has("kind") => secrecy::of_item(kind, at.value(), maybe_secret),
        _ => secrecy::of_object(at.value(), maybe_secret),
    };
    let mut object = Object { report, at, subject: Subject { object: None, showing }, fine: true };
    object.read(scopes, inherited)
}

struct Object<'o, 't> {
    report: &'o mut Report<'t>,
    at: At<'o>,
    subject: Subject,
    fine: bool,
}

impl<'o> Object<'o, '_> {
    fn read(&mut self, scopes: &Scopes, inherited: Option<(&str, &str)>) -> Read {
        let kind = self.type_field("kind", inherited.map(|(kind, _)| kind));
        let api_version = self.type_field("apiVersion", inherited.map(|(_, version)| version));
        let name = self.name();
        let (Some(kind), Some(api_version)) = (kind, api_version) else { return Read::Nameless };
        let Some((group, version)) = split(&api_version) else {
            self.complain_at(
                "apiVersion",
                "apiVersion must be a version, or a group, a / and a version".to_owned(),
                None,
            );
            return Read::Nameless;
        };
        let known = scopes.lookup(group, version, &kind);
        let built_in = matches!(known, Ok(Known::BuiltIn(..)));
        let custom = (!built_in).then(|| GroupKind { group: group.to_owned(), kind: kind.clone() });
        let Some(name) = name else {
            self.check_shape(group, &kind, known.as_ref().ok());
            return Read::Nameless;
        };
        let namespace = self.namespace(known.as_ref().ok(), scopes);
        let key = ObjectKey { group: group.to_owned(), kind: kind.clone(), namespace, name };
        if let Some(fault) = names::object_name(group, &kind, &key.name) {
            self.fail();
            let span = self.metadata("name").map_or_else(|| self.first(), |name| name.span());
            self.report.add(&self.subject, Words::at_value(span, format!("the name of a {kind} {fault}")));
        }
        // Code that shows an object's name may trust that it holds nothing that moves a terminal's cursor.
        let plain = names::segment(&key.name).is_none()
            && names::api_group(group).is_none()
            && kind.chars().all(char::is_alphanumeric);
        self.subject.object = plain.then(|| key.clone());
        if self.is_sops() {
            return Read::Rejected { key, custom };
        }
        match &known {
            Ok(known) => {
                self.check_type(group, version, &kind);
                self.check_shape(group, &kind, Some(known));
            }
            Err(no) => {
                let field = if self.at.value().get("apiVersion").is_some() { "apiVersion" } else { "kind" };
                self.complain_at(field, no.message.clone(), no.hint.clone());
                self.check_metadata();
            }
        }
        if !self.fine {
            return Read::Rejected { key, custom };
        }
        let definition = (group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition")
            .then(|| Definition::read(self.at.value()))
            .flatten();
        let placed = match inherited {
            Some((kind, version)) => self.at.to_placed().with_type(version, kind),
            None => self.at.to_placed(),
        };
        // An API server ignores the namespace of an object that lives in none.
        let placed = if key.namespace.is_none() { placed.without_namespace() } else { placed };
        doubts::warn(self.report, &self.subject, &key, self.at);
        let place = self.report.place(self.at.span());
        let hash = ManifestHash::of(placed.value());
        // The reader of the file knows the document's number in it.
        let (value, starts) = (Compact::of(placed.value()), placed.starts());
        let manifest =
            Manifest { key, api_version, place, rendered_by: None, hash, document: 0, item: None, value, starts };
        Read::Fine { manifest: Box::new(manifest), custom, definition }
    }

    /// Returns the text of `kind` or `apiVersion`.
    fn type_field(&mut self, field: &str, inherited: Option<&str>) -> Option<String> {
        match self.at.value().get(field) {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            None | Some(Value::Null) => {
                if let Some(inherited) = inherited {
                    return Some(inherited.to_owned());
                }
                self.fail();
                let first = self.first();
                self.report.add(&self.subject, Words::at_key(first, format!("{field} is missing")));
            }
            Some(_) => self.complain_at(field, format!("{field} must be text, and not empty"), None),
        }
        None
    }

    /// Checks group, version and kind: all of them become parts of paths.
    fn check_type(&mut self, group: &str, version: &str, kind: &str) {
        if let Some(fault) = names::api_group(group) {
            self.complain_at("apiVersion", format!("the API group, before the /, {fault}"), None);
        }
        if let Some(fault) = names::api_version(version) {
            let behind = if group.is_empty() { "" } else { ", behind the /," };
            self.complain_at("apiVersion", format!("the version{behind} {fault}"), None);
        }
        if let Some(fault) = names::kind(kind) {
            self.complain_at("kind", format!("a kind {fault}"), None);
        }
    }

    fn name(&mut self) -> Option<String> {
        match self.metadata("name").map(At::value) {
            Some(Value::String(name)) if !name.is_empty() => return Some(name.clone()),
            // A check of the shape complains about anything but a text.
            Some(Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => self.fail(),
            None | Some(Value::Null | Value::String(_)) => {
                self.fail();
                let generated = self.metadata("generateName").is_some();
                let span = self.at.entry("metadata").map_or_else(|| self.first(), |metadata| metadata.key);
                let words = Words::at_key(span, "metadata.name is missing");
                let hint = "an object that is applied needs a name; generateName only makes new ones".to_owned();
                self.report.add(&self.subject, words.maybe_hint(generated.then_some(hint)));
            }
        }
        None
    }

    fn namespace(&mut self, known: Option<&Known<'_>>, scopes: &Scopes) -> Option<String> {
        let written =
            self.metadata("namespace").filter(|namespace| namespace.value() != "" && !namespace.value().is_null());
        let text = written.and_then(|namespace| namespace.value().as_str());
        let namespaced = match known {
            Some(Known::BuiltIn(fact, _)) => Some(fact.namespaced),
            Some(Known::Defined(definition, _)) => Some(definition.namespaced),
            Some(Known::Served { namespaced }) => Some(*namespaced),
            Some(Known::Custom) | None => None,
        };
        if namespaced == Some(false) {
            return None;
        }
        if let (Some(fault), Some(written)) = (text.and_then(names::dns_label), written) {
            self.fail();
            let message = format!("the name of a namespace {fault}");
            self.report.add(&self.subject, Words::at_value(written.span(), message));
        }
        Some(text.unwrap_or(&scopes.default_namespace).to_owned())
    }

    /// Returns true for an encrypted manifest, which would be applied as it is, with the encrypted text as its values.
    fn is_sops(&mut self) -> bool {
        let Some(sops) = self.at.entry("sops").filter(|sops| sops.at.value().is_object()) else { return false };
        let words = Words::at_key(sops.key, "this manifest is encrypted with SOPS, which belay does not decrypt")
            .hint("let the cluster decrypt it, with External Secrets or Sealed Secrets");
        self.report.add(&self.subject, words);
        true
    }

    fn check_shape(&mut self, group: &str, kind: &str, known: Option<&Known<'_>>) {
        let before = self.report.count();
        match known {
            Some(Known::BuiltIn(fact, _)) if !fact.verbs.iter().any(|verb| verb == "patch") => {
                self.complain_at("kind", format!("a {kind} is asked for, not applied"), None);
            }
            Some(Known::BuiltIn(_, Some(shape))) => {
                schema::check(self.report, &self.subject, self.at, shape, Rules::BuiltIn);
                self.check_labels();
                rules::object(self.report, &self.subject, group, kind, self.at);
            }
            Some(Known::Defined(_, Some(shape))) => {
                schema::check(self.report, &self.subject, self.at, shape, Rules::Custom);
                self.check_metadata();
            }
            Some(Known::BuiltIn(_, None) | Known::Defined(_, None) | Known::Served { .. } | Known::Custom) | None => {
                self.check_metadata();
            }
        }
        self.fine &= self.report.count() == before;
    }

    /// Checks the metadata of a kind whose own shape does not describe it.
    fn check_metadata(&mut self) {
        if let Some(metadata) = self.at.entry("metadata") {
            schema::check_metadata(self.report, &self.subject, metadata);
            self.check_labels();
        }
    }

    fn check_labels(&mut self) {
        if let Some(metadata) = self.at.get("metadata") {
            rules::metadata(self.report, &self.subject, metadata);
        }
    }

    fn metadata(&self, field: &str) -> Option<At<'o>> {
        self.at.get("metadata")?.get(field)
    }

    fn complain_at(&mut self, field: &str, message: String, hint: Option<String>) {
        self.fail();
        let span = self.at.get(field).map_or_else(|| self.first(), At::span);
        self.report.add(&self.subject, Words::at_value(span, message).maybe_hint(hint));
    }

    /// Returns the object's first key, for want of the one that is missing.
    fn first(&self) -> Span {
        self.at.children().map(|child| child.key).min().unwrap_or_else(|| self.at.span())
    }

    fn fail(&mut self) {
        self.fine = false;
    }
}

/// Returns group and version; `None` if there is more than one `/`, or nothing on a side of it.
fn split(api_version: &str) -> Option<(&str, &str)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let fine = !version.is_empty() && !version.contains('/') && (!group.is_empty() || !api_version.contains('/'));
    fine.then_some((group, version))
}
