//! One file: text to manifests, or complaints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::object_of::{self, Read};
use super::report::{Report, Showing, Subject, Words};
use super::schema::Definition;
use super::scopes::GroupKind;
use super::secrecy::MaybeSecret;
use super::yaml::{self, At, Document, Limits, Lines, Placed, Span};
use super::{Complaint, Manifest, ObjectKey, Scopes, paths, secrecy};

/// The beginning of a file whose content lies in Git LFS.
const LFS: &str = "version https://git-lfs.github.com/spec/";

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its path, from the root of the repository.
    pub path: Arc<str>,
    /// The manifests that nothing is wrong with, in the order in which they are written.
    pub manifests: Vec<Manifest>,
    /// Everything that is wrong with the file, in the order of places.
    pub complaints: Vec<Complaint>,
    /// Warnings about its objects, in the order of places.
    pub warnings: Vec<Complaint>,
    /// The objects that something is wrong with: they are meant to be there, so nothing may take them for deleted.
    pub rejected: BTreeSet<ObjectKey>,
    /// True when it holds something of which not even the name could be read. The former objects of the file may be
    /// meant.
    pub unreadable: bool,
    /// The definitions of custom kinds in it.
    pub definitions: Vec<Definition>,
    /// The kinds in it that are not Kubernetes' own: it must be read again when the facts about one of them change.
    pub custom: BTreeSet<GroupKind>,
}

/// Reads a file. The same bytes, path and `scopes` always give the same answer.
///
/// Every document is read for itself: a fault in one does not keep the others from being manifests. An object that
/// something is wrong with, or that is written twice, is no manifest.
#[must_use]
pub fn read_file(path: &str, bytes: &[u8], scopes: &Scopes) -> File {
    let path: Arc<str> = path.into();
    let limit = Limits::default().file_bytes;
    if bytes.len() > limit {
        let message = format!("the file is larger than {}", yaml::size(limit));
        return nothing_but(path, "", yaml::YamlComplaint::new(Span::default(), message).hint("split it"));
    }
    match yaml::decode(bytes) {
        Ok(text) => Reader::new(path, &text, &Lines::new(&text), scopes).read(),
        Err(complaint) => nothing_but(path, "", complaint),
    }
}

impl File {
    /// Returns a file that holds nothing.
    #[must_use]
    pub fn empty(path: &str) -> File {
        File { unreadable: false, ..File::unreadable(path.into(), Vec::new()) }
    }

    /// Returns a file of which nothing is known but its faults. Its former objects are still meant.
    #[must_use]
    pub fn unreadable(path: Arc<str>, complaints: Vec<Complaint>) -> File {
        File {
            path,
            manifests: Vec::new(),
            complaints,
            warnings: Vec::new(),
            rejected: BTreeSet::new(),
            unreadable: true,
            definitions: Vec::new(),
            custom: BTreeSet::new(),
        }
    }
}

/// Returns a file that could not be read at all.
pub(super) fn nothing_but(path: Arc<str>, text: &str, complaint: yaml::YamlComplaint) -> File {
    let lines = Lines::new(text);
    let mut report = Report::new(path.clone(), text, &lines);
    report.add_yaml(&Subject { object: None, showing: Showing::Nothing }, complaint);
    File::unreadable(path, report.finish())
}

/// The keys of a document: each written once, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Once,
    Twice,
}

pub(super) struct Reader<'r, 't> {
    path: Arc<str>,
    scopes: &'r Scopes,
    report: Report<'t>,
    manifests: Vec<Manifest>,
    rejected: BTreeSet<ObjectKey>,
    unreadable: bool,
    definitions: Vec<Definition>,
    custom: BTreeSet<GroupKind>,
    /// The place of the first document that is no object at all.
    first_non_object: Option<Span>,
    /// The beginning of each object that has a name.
    named: Vec<(ObjectKey, Span)>,
}

impl<'r, 't> Reader<'r, 't> {
    pub(super) fn new(path: Arc<str>, text: &'t str, lines: &'t Lines, scopes: &'r Scopes) -> Reader<'r, 't> {
        Reader {
            report: Report::new(path.clone(), text, lines),
            path,
            scopes,
            manifests: Vec::new(),
            rejected: BTreeSet::new(),
            unreadable: false,
            definitions: Vec::new(),
            custom: BTreeSet::new(),
            first_non_object: None,
            named: Vec::new(),
        }
    }

    pub(super) fn read(mut self) -> File {
        let text = self.report.text();
        let mut index = 0;
        let complaints = yaml::each_document(text, self.report.lines(), |document| {
            self.document(index, &document);
            index += 1;
        });
        let maybe_secret = MaybeSecret::of(text);
        for complaint in complaints {
            let lost = complaint.lost.clone().map(|lost| text.get(lost).unwrap_or_default());
            self.unreadable |= lost.is_some();
            let complaint = template_hint(complaint, lost.unwrap_or_default());
            // In a text that can't be read, nobody knows the object of a part.
            let showing = maybe_secret.showing();
            self.report.add_yaml(&Subject { object: None, showing }, complaint);
        }
        if let Some(span) = self.first_non_object {
            self.complain_of_non_objects(span);
        }
        self.reject_duplicates();
        let Reader { path, mut report, manifests, rejected, unreadable, definitions, custom, .. } = self;
        let warnings = report.take_warnings();
        File { path, manifests, complaints: report.finish(), warnings, rejected, unreadable, definitions, custom }
    }

    fn document(&mut self, index: usize, document: &Document<'_>) {
        let (placed, complaints) = document.read();
        let text = &document.text()[document.range()];
        let maybe_secret = MaybeSecret::of(text).incomplete(!complaints.is_empty());
        let showing = match &placed {
            Some(placed) => secrecy::of_object(placed.value(), &maybe_secret),
            None => maybe_secret.showing(),
        };
        let keys = if complaints.is_empty() { Keys::Once } else { Keys::Twice };
        // The name may be among the keys that are written twice, or all items of a list.
        self.unreadable |= complaints.iter().any(|complaint| may_name(self.report.text(), complaint.span));
        for complaint in complaints {
            let complaint = if placed.is_none() { template_hint(complaint, text) } else { complaint };
            self.report.add_yaml(&Subject { object: None, showing }, complaint);
        }
        let Some(placed) = placed else {
            self.unreadable = true;
            return;
        };
        self.top(index, &placed, &maybe_secret, keys);
    }

    /// Reads a document's only object, or the items of a list.
    fn top(&mut self, index: usize, placed: &Placed, maybe_secret: &MaybeSecret<'_>, keys: Keys) {
        let root = placed.root();
        if !root.value().is_object() {
            self.first_non_object.get_or_insert(root.span());
            return;
        }
        let kind = root.text("kind").unwrap_or_default();
        let is_list = root.value().get("items").is_some_and(|items| items.is_array() || items.is_null());
        if !kind.ends_with("List") || !(is_list || kind == "List") {
            return self.object(root, (index, None), maybe_secret, keys, None);
        }
        let Some(items) = root.entry("items") else {
            let subject = Subject { object: None, showing: secrecy::of_object(root.value(), maybe_secret) };
            let span = root.entry("kind").map_or_else(|| root.span(), |kind| kind.at.span());
            self.report.add(&subject, Words::at_value(span, "a List needs items"));
            self.unreadable = true;
            return;
        };
        // An item of a `DeploymentList` may leave out fields that the list has.
        let of_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let inherited = of_kind.zip(root.text("apiVersion"));
        let mut of_list = None;
        for (number, item) in items.at.children().enumerate() {
            let nested = item.at.value().get("items").is_some_and(Value::is_array);
            if nested || !item.at.value().is_object() {
                let showing = *of_list.get_or_insert_with(|| secrecy::of_object(root.value(), maybe_secret));
                let subject = Subject { object: None, showing };
                let message =
                    if nested { "kubectl reads no list inside a list" } else { "an item of a List must be an object" };
                self.report.add(&subject, Words::at_value(item.at.span(), message));
                self.unreadable = true;
                continue;
            }
            self.object(item.at, (index, Some(number)), maybe_secret, keys, inherited);
        }
    }

    fn object(
        &mut self,
        at: At<'_>,
        (document, item): (usize, Option<usize>),
        maybe_secret: &MaybeSecret<'_>,
        keys: Keys,
        inherited: Option<(&str, &str)>,
    ) {
        let has = |field: &str| at.value().get(field).is_some();
        if paths::is_rendered_from(&self.path) && !(has("apiVersion") && has("kind")) {
            return;
        }
        match object_of::read(&mut self.report, at, maybe_secret, self.scopes, inherited) {
            Read::Stranger => {
                self.first_non_object.get_or_insert(at.span());
            }
            // It is rendered, or somebody wants it to be left alone.
            Read::Kustomization => {}
            Read::Nameless => self.unreadable = true,
            Read::Rejected { key, custom } => {
                self.named.push((key.clone(), at.span()));
                self.custom.extend(custom);
                self.rejected.insert(key);
            }
            Read::Fine { manifest, custom, definition } => {
                self.named.push((manifest.key.clone(), at.span()));
                self.custom.extend(custom);
                if keys == Keys::Twice {
                    // Nobody knows which of two values of a key was meant.
                    self.rejected.insert(manifest.key);
                } else {
                    self.definitions.extend(definition);
                    self.manifests.push(Manifest { document, item, ..*manifest });
                }
            }
        }
    }

    /// Adds one complaint for a file that holds something else than objects.
    fn complain_of_non_objects(&mut self, span: Span) {
        let pointer = self.report.text().starts_with(LFS).then_some((
            "this is a pointer of Git LFS, and belay fetches only what is in Git",
            "keep manifests out of LFS: git lfs untrack, then commit the file itself",
        ));
        let (message, hint) = pointer.or_else(|| paths::other_tool(&self.path)).unwrap_or((
            "this is no Kubernetes object: it has neither apiVersion nor kind",
            "keep other files out: begin their name or their folder's with _ or .",
        ));
        let start = Span { start: span.start, end: span.start };
        let subject = Subject { object: None, showing: Showing::Nothing };
        self.report.add(&subject, Words::at_value(start, message).hint(hint));
        self.unreadable = true;
    }

    /// Rejects objects that are written twice in the file: they are neither one nor the other.
    fn reject_duplicates(&mut self) {
        let mut first: BTreeMap<ObjectKey, Span> = BTreeMap::new();
        let mut twins = BTreeSet::new();
        for (key, span) in std::mem::take(&mut self.named) {
            let start = Span { start: span.start, end: span.start };
            let Some(first) = first.get(&key) else {
                first.insert(key, start);
                continue;
            };
            let subject = Subject { object: Some(key.clone()), showing: Showing::Nothing };
            let words = Words::at_value(start, format!("{key} is written twice"))
                .hint("leave one of them out")
                .also(*first, "first written here");
            self.report.add(&subject, words);
            twins.insert(key);
        }
        self.manifests.retain(|manifest| !twins.contains(&manifest.key));
        self.definitions.retain(|definition| definition_is_kept(definition, &twins));
        self.rejected.append(&mut twins);
    }
}

/// Returns true when a key that is written twice may say which object is meant, or which there are. A key with anything
/// odd in how it is written counts as one that does.
fn may_name(text: &str, key: Span) -> bool {
    const NAMING: [&str; 6] = ["apiVersion", "kind", "metadata", "name", "namespace", "items"];
    let written = text.get(key.range()).unwrap_or_default();
    let odd = |byte: u8| !(byte.is_ascii_alphanumeric() || b"-._/".contains(&byte));
    written.is_empty() || written.bytes().any(odd) || NAMING.contains(&written)
}

/// Adds a hint to a complaint about a template of Helm or Go, which is mostly no YAML.
fn template_hint(complaint: yaml::YamlComplaint, text: &str) -> yaml::YamlComplaint {
    if text.contains("{{") { complaint.hint("{{ begins a template, which belay does not fill in") } else { complaint }
}

fn definition_is_kept(definition: &Definition, twins: &BTreeSet<ObjectKey>) -> bool {
    !twins.iter().any(|twin| twin.kind == "CustomResourceDefinition" && twin.name == definition.name)
}
