//! Protocol buffers, which Go's clients use for built-in kinds: a magic number, then an envelope that names the type of
//! the content.
//!
//! Nothing here knows a kind. The numbers of fields are data (`fields.txt`), read from the Go types of a real API server by
//! `tests/cluster/fidelity/go_protobuf.rs`; everything becomes JSON on the way in and is made from JSON on the way out.
//! Generated types (a crate of 3 MB of code) or a reflection library with its descriptors would be more to carry, and
//! this is always of the version of the other facts.

mod decode;
mod encode;
mod fields;
pub(super) mod wire;

use bytes::Bytes;
use serde_json::{Value, json};

use kube_facts::facts;
use wire::{Raw, put_bytes};

/// The media type of one object.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const MAGIC: &[u8] = b"k8s\0";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const TIME: &str = "Time";
const MICRO_TIME: &str = "MicroTime";

/// Reads an object.
///
/// # Errors
/// The bytes are none, or of a kind that has no form in protocol buffers.
pub fn to_json(body: &[u8]) -> Result<Value, String> {
    if !is_enveloped(body) {
        return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned());
    }
    envelope(body)
}

/// Writes an object of a built-in kind, or a list of such; nothing for other kinds.
pub fn from_json(value: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let name = message_name(api_version, kind)?;
    let mut header = Vec::new();
    put_bytes(&mut header, 1, api_version.as_bytes());
    put_bytes(&mut header, 2, kind.as_bytes());
    let mut unknown = Vec::new();
    put_bytes(&mut unknown, 1, &header);
    put_bytes(&mut unknown, 2, &encode::encode(&name, value));
    put_bytes(&mut unknown, 3, b"");
    put_bytes(&mut unknown, 4, b"");
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&unknown);
    Some(out)
}

/// Returns a line of a watch as a frame: its length in four bytes, then the event without an envelope, the object in
/// one.
pub fn frame(line: &[u8]) -> Option<Bytes> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let object = from_json(&line["object"])?;
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, &object);
    let mut event = Vec::new();
    put_bytes(&mut event, 1, line["type"].as_str()?.as_bytes());
    put_bytes(&mut event, 2, &raw);
    let mut frame = u32::try_from(event.len()).ok()?.to_be_bytes().to_vec();
    frame.extend_from_slice(&event);
    Some(frame.into())
}

fn is_enveloped(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the content of an envelope.
fn envelope(bytes: &[u8]) -> Result<Value, String> {
    let (mut api_version, mut kind, mut inner, mut media_type) = (String::new(), String::new(), &[][..], &[][..]);
    for field in wire::fields(&bytes[MAGIC.len()..])? {
        match field {
            (1, Raw::Bytes(header)) => {
                for part in wire::fields(header)? {
                    match part {
                        (1, Raw::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, Raw::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(raw)) => inner = raw,
            (4, Raw::Bytes(said)) => media_type = said,
            _ => {}
        }
    }
    if media_type == b"application/json" {
        return serde_json::from_slice(inner).map_err(|error| error.to_string());
    }
    let name = message_name(&api_version, &kind)
        .ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut object = decode::decode(&name, inner)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

/// Returns the message of a kind, by its name in OpenAPI.
fn message_name(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let own = facts().type_name(group, version, kind).map(str::to_owned);
    // Messages of every group.
    let shared = || Some(format!("{META}.{kind}"));
    own.or_else(shared).filter(|name| fields::message(name).is_some())
}

/// Messages whose JSON is not made of their fields have a short name here.
fn special(name: &str) -> &str {
    let short = name.rsplit('.').next().unwrap_or_default();
    let ours = name.starts_with("io.k8s.apimachinery.pkg.") || name.starts_with("io.k8s.apiextensions-apiserver.pkg.");
    if ours { short } else { "" }
}

#[cfg(test)]
mod tests;
