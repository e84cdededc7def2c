//! One manifest: an object as written in a file.

use serde_json::{Value, json};
use std::sync::Arc;

use super::yaml::{At, Placed, Span, Start};
use super::{Compact, Complaint, ManifestHash, ObjectKey, Place};

/// One Kubernetes object as written in a file; nothing is wrong with it that can be seen without a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object's name. Its namespace is the one that it will be in, also if the manifest names none.
    pub key: ObjectKey,
    /// `apps/v1`.
    pub api_version: String,
    /// The place of its first key.
    pub place: Place,
    /// The path of the kustomization or the chart that it was rendered by. `None` for one that is read as it is
    /// written.
    pub rendered_by: Option<Arc<str>>,
    /// The hash of its content.
    pub hash: ManifestHash,
    /// The number of its document in the file, as [`yaml::documents`](super::yaml::documents) counts them, from 0.
    pub document: usize,
    /// The number of its item, from 0, if the document is a list.
    pub item: Option<usize>,
    /// Its content. Thousands of manifests are handed on at once, and kept in several places.
    pub(super) value: Compact,
    /// The place of each of its parts.
    pub(super) starts: Arc<[Start]>,
}

impl Manifest {
    /// Returns one that says nothing but which object it is, for an object that is written nowhere any more. It is at
    /// the first place of a file without a name.
    #[must_use]
    pub fn of_nothing_but(key: ObjectKey, api_version: String) -> Manifest {
        let mut metadata = json!({"name": key.name});
        if let Some(namespace) = &key.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        let value = json!({"apiVersion": api_version, "kind": key.kind, "metadata": metadata});
        let place = Place { path: "".into(), line: 1, column: 1 };
        let (hash, value) = (ManifestHash::of(&value), Compact::of(&value));
        let (rendered_by, starts) = (None, Arc::new([]));
        Manifest { key, api_version, place, rendered_by, hash, document: 0, item: None, value, starts }
    }

    /// Returns a complaint about it as it is shown to people: one about a rendered object names object and folder.
    #[must_use]
    pub fn shown(&self, complaint: Complaint) -> Complaint {
        match &self.rendered_by {
            Some(unit) => complaint.as_rendered(unit.rsplit_once('/').map_or("", |(folder, _)| folder)),
            None => complaint,
        }
    }

    /// Returns the file that it was read from: another than that of its place where it was rendered.
    #[must_use]
    pub fn file(&self) -> &str {
        self.rendered_by.as_deref().unwrap_or(&self.place.path)
    }

    /// Returns the object, as kubectl would send it. It has no namespace where the manifest names none. It is read
    /// again each time.
    #[must_use]
    pub fn value(&self) -> Value {
        self.value.read()
    }

    /// Returns its approximate size in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Manifest>() + self.value.text().len() + self.starts.len() * size_of::<Start>()
    }

    /// Returns the version in its group, `v1`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the place of a field: its key, or the item itself. If there is no such field, returns its nearest
    /// parent.
    ///
    /// Understands paths as API servers write them in errors: `spec.template.spec.containers[0].image`,
    /// `.spec.ports[name="http"].port`, `metadata.annotations[example.com/a.b]`, `spec.hard.requests.cpu`.
    #[must_use]
    pub fn place_of(&self, field_path: &str) -> Place {
        // Rendered objects are not written in any file as they are.
        if self.starts.is_empty() {
            return self.place.clone();
        }
        let placed = Placed::starting(self.value(), &self.starts);
        let mut at = placed.root();
        let mut span = at.span();
        let mut rest = field_path.trim_start_matches('.');
        while !rest.is_empty() {
            let Some((inner, key, after)) = step(at, rest) else { break };
            (at, span, rest) = (inner, key, after);
        }
        Place { path: self.place.path.clone(), line: span.start.line, column: span.start.column }
    }
}

/// Takes one step of a path: returns the value, its place, and the rest of the path.
fn step<'p, 'r>(at: At<'p>, path: &'r str) -> Option<(At<'p>, Span, &'r str)> {
    let path = path.trim_start_matches('.');
    if let Some(inside) = path.strip_prefix('[') {
        let end = closing_bracket(inside)?;
        let (selector, rest) = (&inside[..end], &inside[end + 1..]);
        return select(at, selector).map(|(inner, key)| (inner, key, rest));
    }
    // A key may have points in it: the longest that is there.
    let whole = path.find('[').unwrap_or(path.len());
    let mut end = whole;
    loop {
        if let Some(child) = at.entry(&path[..end]) {
            return Some((child.at, child.key, &path[end..]));
        }
        end = path[..end].rfind('.')?;
    }
}

fn select<'p>(at: At<'p>, selector: &str) -> Option<(At<'p>, Span)> {
    if at.value().is_object() {
        let child = at.entry(selector.trim_matches('"'))?;
        return Some((child.at, child.key));
    }
    if let Ok(index) = selector.parse::<usize>() {
        let child = at.children().nth(index)?;
        return Some((child.at, child.key));
    }
    // `[name="http"]`, `[containerPort=80,protocol="TCP"]`: the first item that has all of them; `[="x"]`: a value.
    let wanted: Vec<(&str, &str)> = selector.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let says = |value: &Value, wanted: &str| match value {
        Value::String(text) => text == wanted.trim_matches('"'),
        Value::Number(number) => wanted.parse().is_ok_and(|wanted: serde_json::Number| wanted == *number),
        Value::Bool(value) => wanted.parse() == Ok(*value),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let all = |value: &Value, absent: bool| {
        wanted.iter().all(|(key, wanted)| match *key {
            "" => says(value, wanted),
            key => value.get(key).map_or(absent, |value| says(value, wanted)),
        })
    };
    let named = |value: &Value| wanted.iter().any(|(key, _)| key.is_empty() || value.get(key).is_some());
    // A key that is left to its default is in the server's path all the same.
    let exact = at.children().find(|child| all(child.at.value(), false));
    let child = exact.or_else(|| at.children().find(|child| named(child.at.value()) && all(child.at.value(), true)))?;
    Some((child.at, child.key))
}

/// Returns the end of `[…]`, quoted brackets not counted.
fn closing_bracket(inside: &str) -> Option<usize> {
    let mut quoted = false;
    inside.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ']' && !quoted).then_some(at)
    })
}
