//! One object as it lies in the store: its text in parts, and the little of it that is asked for without reading it.
//!
//! The parts are those that change apart: the object's identity, its managed fields, its spec, its status. A new
//! version shares the parts that are as they were, so that a write of the status holds no second specification.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::change::{Change, WriteExtent};
use super::storage_key::namespace_of;

const ADDED: &[u8] = br#"{"type":"ADDED","object":"#;
const MODIFIED: &[u8] = br#"{"type":"MODIFIED","object":"#;
const DELETED: &[u8] = br#"{"type":"DELETED","object":"#;
const END: &[u8] = b"}\n";

/// With so many managed fields of other objects an object's are compared.
const LATELY: usize = 16;

/// The end of metadata without managed fields, and that of an object without a status.
static ENDS: LazyLock<[Arc<[u8]>; 2]> = LazyLock::new(|| [Arc::from(*b"\"}"), Arc::from(*b"}")]);

type StoredLabels = [(Box<str>, Box<str>)];

/// An object at a revision. Its text is written once and shared by everyone who reads or watches it.
#[derive(Debug)]
pub struct Stored {
    /// Its path among the objects of its resource.
    pub path: Arc<str>,
    /// The revision of its last write.
    pub revision: u64,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its labels, sorted.
    pub labels: Arc<StoredLabels>,
    /// The values for field selectors, in the order of the resource's list of them.
    pub fields: Arc<[Box<str>]>,
    text: Text,
}

/// An object's JSON. The revision stands between the first two parts.
#[derive(Clone, Debug)]
struct Text {
    /// Kind, apiVersion, and metadata but for the managed fields, up to the revision.
    identity: Arc<[u8]>,
    /// The managed fields, and the end of the metadata.
    managers: Arc<[u8]>,
    /// Everything after the metadata, but for the status.
    content: Arc<[u8]>,
    /// The status, and the end of the object.
    status: Arc<[u8]>,
    places: TextOffsets,
}

/// The beginnings of parts of an object in the first part of its text.
#[derive(Clone, Copy, Debug, Default)]
struct TextOffsets {
    after_kind: usize,
    metadata: usize,
}

/// The object that a write asks to be stored.
#[derive(Debug)]
pub struct WrittenObject {
    /// The object.
    pub object: Value,
    /// Its path among the objects of its resource.
    pub path: Arc<str>,
    /// The values for field selectors.
    pub fields: Vec<String>,
}

/// An object that is written down but for its revision.
#[derive(Debug)]
pub struct Draft {
    path: Arc<str>,
    uid: Arc<str>,
    labels: Arc<StoredLabels>,
    fields: Arc<[Box<str>]>,
    text: Text,
}

impl Draft {
    /// Writes an object down. Parts that are as in `before`, or are not written, are shared with it.
    #[must_use]
    pub fn new(written: WrittenObject, extent: WriteExtent, before: Option<&Stored>) -> Draft {
        let WrittenObject { object, path, fields } = written;
        let metadata = &object["metadata"];
        let mut labels: Vec<(Box<str>, Box<str>)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
        labels.sort();
        let fields: Vec<Box<str>> = fields.into_iter().map(String::into_boxed_str).collect();
        Draft {
            path: before.map_or(path, |before| Arc::clone(&before.path)),
            uid: shared(metadata["uid"].as_str().unwrap_or_default(), before.map(|before| &before.uid)),
            labels: shared(labels, before.map(|before| &before.labels)),
            fields: shared(fields, before.map(|before| &before.fields)),
            text: Text::new(&object, extent, before.map(|before| &before.text)),
        }
    }

    /// Shares the managed fields with an object that was written lately, if they say the same.
    pub fn share_managers(&mut self, lately: &mut VecDeque<Arc<[u8]>>) {
        let managers = &mut self.text.managers;
        if let Some(known) = lately.iter().find(|known| **known == *managers) {
            *managers = Arc::clone(known);
            return;
        }
        if lately.len() == LATELY {
            lately.pop_front();
        }
        lately.push_back(Arc::clone(managers));
    }

    /// Returns the object, once it is known which write it is.
    #[must_use]
    pub fn at(self, revision: u64) -> Stored {
        let Draft { path, uid, labels, fields, text } = self;
        Stored { path, revision, uid, labels, fields, text }
    }
}

impl Stored {
    /// Returns an object at a revision, of which there is no earlier one.
    #[must_use]
    pub fn new(written: WrittenObject, revision: u64) -> Stored {
        Draft::new(written, WriteExtent::Whole, None).at(revision)
    }

    /// Returns the object as JSON, with kind and apiVersion.
    #[must_use]
    pub fn json(&self) -> Bytes {
        self.joined(&[], 0, &[])
    }

    /// Appends the object as JSON, with kind and apiVersion.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let revision = self.revision.to_string();
        let Text { identity, managers, content, status, .. } = &self.text;
        [identity, revision.as_bytes(), managers, content, status].iter().for_each(|part| out.extend_from_slice(part));
    }

    /// Returns the object as JSON from after its kind and apiVersion on, without the opening brace: `"metadata":{…}…}`.
    /// In pieces, none of which is copied but the first.
    #[must_use]
    pub fn json_without_kind(&self) -> [Bytes; 4] {
        let Text { identity, managers, content, status, places } = &self.text;
        let mut head = identity[places.after_kind..].to_vec();
        head.extend_from_slice(self.revision.to_string().as_bytes());
        [Bytes::from(head), lent(managers), lent(content), lent(status)]
    }

    /// Returns the object's metadata as JSON.
    #[must_use]
    pub fn metadata_json(&self) -> Bytes {
        let Text { identity, managers, places, .. } = &self.text;
        let revision = self.revision.to_string();
        Bytes::from([&identity[places.metadata..], revision.as_bytes(), managers].concat())
    }

    /// Returns the line of a watch for a change of this object.
    #[must_use]
    pub fn frame_as(&self, change: Change) -> Bytes {
        let prefix = match change {
            Change::Added => ADDED,
            Change::Modified => MODIFIED,
            Change::Deleted => DELETED,
        };
        self.joined(prefix, prefix.len(), END)
    }

    fn joined(&self, prefix: &[u8], begins: usize, end: &[u8]) -> Bytes {
        let Text { identity, managers, content, status, .. } = &self.text;
        let parts = [identity, managers, content, status].iter().map(|part| part.len()).sum::<usize>();
        // A revision has at most 20 digits.
        let mut out = Vec::with_capacity(begins + parts + 20 + end.len());
        out.extend_from_slice(prefix);
        self.write_json(&mut out);
        out.extend_from_slice(end);
        Bytes::from(out)
    }

    /// Returns the object, read.
    #[must_use]
    pub fn value(&self) -> Value {
        read(&self.json())
    }

    /// Returns the object's kind, version, metadata and status, read.
    #[must_use]
    pub fn metadata_and_status(&self) -> Value {
        let Text { identity, managers, status, .. } = &self.text;
        read(&[identity, self.revision.to_string().as_bytes(), managers, status].concat())
    }

    /// Returns the same object with another revision, as the one that is deleted at it.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Stored {
        Stored {
            path: Arc::clone(&self.path),
            revision,
            uid: Arc::clone(&self.uid),
            labels: Arc::clone(&self.labels),
            fields: Arc::clone(&self.fields),
            text: self.text.clone(),
        }
    }

    /// Returns the namespace that the object lives in.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        namespace_of(&self.path)
    }

    /// Returns the object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.labels[index].1)
    }

    /// Returns how many of the four parts of the text are the same memory as those of another version.
    #[cfg(test)]
    pub fn parts_shared_with(&self, other: &Stored) -> usize {
        let parts = |text: &Text| [&text.identity, &text.managers, &text.content, &text.status].map(Arc::as_ptr);
        parts(&self.text).iter().zip(parts(&other.text)).filter(|(one, other)| std::ptr::eq(**one, *other)).count()
    }
}

impl Text {
    /// Writes `kind` and `apiVersion` first, so that lists can leave them out by leaving out the beginning.
    fn new(object: &Value, extent: WriteExtent, before: Option<&Text>) -> Text {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let mut out = vec![b'{'];
        for key in ["kind", "apiVersion"] {
            if let Some(value) = fields.get(key) {
                write_member(&mut out, key, value);
                out.push(b',');
            }
        }
        let mut places = TextOffsets { after_kind: out.len(), metadata: 0 };
        out.extend_from_slice(br#""metadata":"#);
        places.metadata = out.len();
        out.push(b'{');
        let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (key, value) in
            metadata.iter().filter(|(key, _)| !matches!(key.as_str(), "managedFields" | "resourceVersion"))
        {
            write_member(&mut out, key, value);
            out.push(b',');
        }
        out.extend_from_slice(br#""resourceVersion":""#);
        let identity = part(&mut out, before.map(|before| &before.identity));
        out.push(b'"');
        if let Some(managed) = metadata.get("managedFields") {
            out.push(b',');
            write_member(&mut out, "managedFields", managed);
        }
        out.push(b'}');
        let managers = part(&mut out, before.map(|before| &before.managers));
        let content = match (extent, before) {
            (WriteExtent::MetadataAndStatus, Some(before)) => Arc::clone(&before.content),
            _ => write_content(&mut out, fields, before.map(|before| &before.content)),
        };
        if let Some(status) = fields.get("status") {
            out.push(b',');
            write_member(&mut out, "status", status);
        }
        out.push(b'}');
        let status = part(&mut out, before.map(|before| &before.status));
        Text { identity, managers, content, status, places }
    }
}

/// Returns everything but the header, the metadata and the status.
fn write_content(out: &mut Vec<u8>, fields: &Map<String, Value>, before: Option<&Arc<[u8]>>) -> Arc<[u8]> {
    let others = |key: &str| !matches!(key, "kind" | "apiVersion" | "metadata" | "status");
    for (key, value) in fields.iter().filter(|(key, _)| others(key)) {
        out.push(b',');
        write_member(out, key, value);
    }
    part(out, before)
}

/// Returns the written part, or the one before if it is the same.
fn part(written: &mut Vec<u8>, before: Option<&Arc<[u8]>>) -> Arc<[u8]> {
    let known = before.into_iter().chain(ENDS.iter()).find(|known| ***known == **written);
    let part = known.map_or_else(|| Arc::from(written.as_slice()), Arc::clone);
    written.clear();
    part
}

/// Returns a value as it was before if it is the same.
fn shared<T: PartialEq + ?Sized, V: AsRef<T> + Into<Arc<T>>>(value: V, before: Option<&Arc<T>>) -> Arc<T> {
    match before.filter(|before| ***before == *value.as_ref()) {
        Some(before) => Arc::clone(before),
        None => value.into(),
    }
}

/// Reads a text that was written from a value here. To read all of the text at once is quicker than string by string.
fn read(json: &[u8]) -> Value {
    #[cfg(test)]
    crate::work_count::count(crate::work_count::Counted::Read);
    let text = std::str::from_utf8(json);
    text.ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn lent(part: &Arc<[u8]>) -> Bytes {
    if part.is_empty() { Bytes::new() } else { Bytes::from_owner(Arc::clone(part)) }
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    write_json(out, key);
    out.push(b':');
    write_json(out, value);
}

/// Appends a value's JSON.
fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Neither a vector refuses to grow nor has a JSON value keys that are not text.
    serde_json::to_writer(out, value).unwrap_or_default();
}
