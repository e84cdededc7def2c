//! Objects as a client wants to see them: in the version that it asked for, whole, as a row of a table, or their
//! metadata alone.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::api::convert;
use crate::api::negotiate::{Negotiated, Shape};
use crate::api::reply::{Reply, ReplyContent};
use crate::api::resource::Resource;
use crate::api::store::{Change, Stored};
use crate::api::table;

/// The view of a resource's objects in one answer.
#[derive(Clone, Debug)]
pub struct View<'a> {
    resource: &'a Resource,
    how: &'a Negotiated,
    now: Timestamp,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub struct ListFacts {
    /// The revision of the snapshot.
    pub revision: u64,
    /// The place at which it goes on.
    pub next: Option<String>,
    /// The number of further objects.
    pub remaining: Option<usize>,
}

impl<'a> View<'a> {
    /// Returns a view of objects of a resource.
    #[must_use]
    pub fn new(resource: &'a Resource, how: &'a Negotiated, now: Timestamp) -> View<'a> {
        View { resource, how, now }
    }

    /// Returns one object from the store, with code 200.
    ///
    /// # Errors
    /// 406 if a list was asked for.
    pub fn stored(&self, stored: &Stored) -> Result<Reply, ApiError> {
        if self.how.shape == Shape::Object && self.resource.is_served_as_stored() {
            return Ok(Reply::json(stored.json()));
        }
        if let (Shape::Metadata { version, list: false }, true) = (&self.how.shape, self.resource.is_stored_version()) {
            return Ok(Reply::new(200, ReplyContent::Json(spliced_metadata(stored, version))));
        }
        self.object(convert::from_storage(self.resource, stored.value()))
    }

    /// Returns one object that is not in the store (as it is served, with its kind), with code 200.
    ///
    /// # Errors
    /// 406 if a list was asked for.
    pub fn object(&self, object: Value) -> Result<Reply, ApiError> {
        let value = match &self.how.shape {
            Shape::Object => object,
            Shape::Table { version, include } => table::of_one(self.resource, &object, version, *include, self.now),
            Shape::Metadata { list: true, .. } if self.resource.custom.is_some() => {
                return Err(ApiError::internal("content is not a list"));
            }
            Shape::Metadata { list: true, .. } => {
                return Err(ApiError::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    self.go_type(&self.resource.definition.kind)
                )));
            }
            Shape::Metadata { version, .. } => metadata_of(&object, version),
        };
        Ok(Reply::value(value))
    }

    /// Returns a list.
    ///
    /// # Errors
    /// 406 if a single object was asked for.
    pub fn list(&self, objects: &[Arc<Stored>], facts: &ListFacts) -> Result<Reply, ApiError> {
        let custom = self.resource.custom.is_some() && self.how.shape == Shape::Object;
        let metadata = list_metadata(facts, custom);
        let served = |stored: &Arc<Stored>| convert::from_storage(self.resource, stored.value());
        let value = match &self.how.shape {
            Shape::Object => return Ok(Reply::new(200, ReplyContent::Json(self.pieces(objects, &metadata)))),
            Shape::Table { version, include } => {
                let rows = objects.iter().map(served);
                table::of_list(self.resource, rows, &metadata, version, *include, self.now)
            }
            Shape::Metadata { list: false, .. } => return Err(self.is_list()),
            Shape::Metadata { version, .. } => {
                let pieces = self.metadata_pieces(objects, &metadata, version);
                return Ok(Reply::new(200, ReplyContent::Json(pieces)));
            }
        };
        Ok(Reply::value(value))
    }

    /// Returns a list of objects that are not in the store: as it is served, without its kind.
    ///
    /// # Errors
    /// As [`View::list`].
    pub fn values(&self, objects: Vec<Value>) -> Result<Reply, ApiError> {
        Ok(Reply::value(match &self.how.shape {
            Shape::Object => json!({
                "kind": self.resource.list_kind, "apiVersion": self.resource.api_version(), "metadata": {},
                "items": objects,
            }),
            Shape::Table { version, include } => {
                table::of_list(self.resource, objects.into_iter(), &json!({}), version, *include, self.now)
            }
            Shape::Metadata { list: false, .. } => return Err(self.is_list()),
            Shape::Metadata { version, .. } => {
                let items: Vec<Value> = objects.iter().map(|object| metadata_of(object, version)).collect();
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": {},
                    "items": items,
                })
            }
        }))
    }

    fn is_list(&self) -> ApiError {
        ApiError::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            self.go_type(&self.resource.list_kind)
        ))
    }

    /// Returns a list of metadata, in pieces.
    fn metadata_pieces(&self, objects: &[Arc<Stored>], metadata: &Value, version: &str) -> VecDeque<Bytes> {
        let head = format!(
            r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/{version}","metadata":{metadata},"items":["#
        );
        let mut pieces = VecDeque::with_capacity(4 * objects.len() + 2);
        pieces.push_back(Bytes::from(head));
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                pieces.push_back(Bytes::from_static(b","));
            }
            if self.resource.is_stored_version() {
                pieces.extend(spliced_metadata(object, version));
            } else {
                let served = convert::from_storage(self.resource, object.value());
                pieces.push_back(Bytes::from(metadata_of(&served, version).to_string()));
            }
        }
        pieces.push_back(Bytes::from_static(b"]}"));
        pieces
    }

    /// Returns a list, in pieces: the objects are spliced in as they lie in the store.
    fn pieces(&self, objects: &[Arc<Stored>], metadata: &Value) -> VecDeque<Bytes> {
        let head = format!(
            r#"{{"kind":{},"apiVersion":{},"metadata":{metadata},"items":["#,
            json!(self.resource.list_kind),
            json!(self.resource.api_version())
        );
        let mut pieces = VecDeque::with_capacity(5 * objects.len() + 2);
        pieces.push_back(Bytes::from(head));
        for (index, object) in objects.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if !self.resource.is_served_as_stored() {
                let mut served = convert::from_storage(self.resource, object.value());
                if self.resource.custom.is_none()
                    && let Some(fields) = served.as_object_mut()
                {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                pieces.push_back(Bytes::from(format!("{comma}{served}")));
            } else {
                // Items of built-in kinds do not repeat the list's version and kind.
                pieces.push_back(Bytes::from_static(if index == 0 { b"{" } else { b",{" }));
                pieces.extend(object.json_without_kind());
            }
        }
        pieces.push_back(Bytes::from_static(b"]}"));
        pieces
    }

    /// Returns a line of a watch. The first line of a table carries the columns.
    #[must_use]
    pub fn line(&self, change: Change, stored: &Stored, first: bool) -> Bytes {
        if self.how.shape == Shape::Object && self.resource.is_served_as_stored() {
            return stored.frame_as(change);
        }
        if let (Shape::Metadata { version, .. }, true) = (&self.how.shape, self.resource.is_stored_version()) {
            let parts = spliced_metadata(stored, version);
            let mut text = format!("{{\"type\":\"{}\",\"object\":", name(change)).into_bytes();
            parts.iter().for_each(|part| text.extend_from_slice(part));
            text.extend_from_slice(b"}\n");
            return Bytes::from(text);
        }
        let object = convert::from_storage(self.resource, stored.value());
        let shown = match &self.how.shape {
            Shape::Object => object,
            Shape::Table { version, include } => {
                let mut table = table::of_one(self.resource, &object, version, *include, self.now);
                if !first {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            Shape::Metadata { version, .. } => metadata_of(&object, version),
        };
        line(name(change), &shown)
    }

    /// Returns the line of a watch with a revision and nothing else.
    #[must_use]
    pub fn bookmark(&self, revision: u64, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match &self.how.shape {
            Shape::Object => self.empty_object(&metadata),
            // An empty row, whose object has the content of a bookmark.
            Shape::Table { version, include } => {
                let mut row = metadata;
                if let Some(fields) = row.as_object_mut() {
                    fields.remove("creationTimestamp");
                }
                let empty = self.empty_object(&row);
                let mut table = table::of_one(self.resource, &empty, version, *include, self.now);
                table["columnDefinitions"] = Value::Null;
                table
            }
            Shape::Metadata { version, .. } => json!({
                "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
            }),
        };
        line("BOOKMARK", &object)
    }

    fn empty_object(&self, metadata: &Value) -> Value {
        json!({
            "kind": self.resource.definition.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": metadata,
        })
    }

    /// Returns a kind's type as the real server names it in two of its messages.
    fn go_type(&self, kind: &str) -> String {
        if self.resource.custom.is_some() {
            let list = if kind.ends_with("List") { "List" } else { "" };
            return format!("*unstructured.Unstructured{list}");
        }
        let group = self.resource.definition.group.split('.').next().unwrap_or_default();
        format!("*{}.{kind}", if group.is_empty() { "core" } else { group })
    }
}

/// Returns the line of a watch with an error.
#[must_use]
pub fn error_line(error: &ApiError) -> Bytes {
    line("ERROR", &error.to_status())
}

fn line(change: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{change}\",\"object\":{object}}}\n"))
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Added => "ADDED",
        Change::Modified => "MODIFIED",
        Change::Deleted => "DELETED",
    }
}

/// Returns an object's metadata alone, cut out of its text.
fn spliced_metadata(stored: &Stored, version: &str) -> VecDeque<Bytes> {
    let head = format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{version}","metadata":"#);
    VecDeque::from([Bytes::from(head), stored.metadata_json(), Bytes::from_static(b"}")])
}

fn metadata_of(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object["metadata"],
    })
}

fn list_metadata(facts: &ListFacts, custom: bool) -> Value {
    let mut metadata = json!({ "resourceVersion": facts.revision.to_string() });
    if custom {
        metadata["continue"] = json!("");
    }
    if let Some(token) = &facts.next {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = facts.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}
