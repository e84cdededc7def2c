//! Has kustomize say where objects came from.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use belay_core::manifest::yaml::{decode, documents};

/// The option by which the objects name their origin.
const ORIGIN: &str = "originAnnotations";

/// Returns true when a value of `buildMetadata` has the objects name their origin.
pub(super) fn asks_origin(value: &Value) -> bool {
    value.as_array().is_some_and(|options| options.iter().any(|option| option == ORIGIN))
}

/// Has a kustomization that was exported say where its objects came from. One that can't be read stays as it is: the
/// tool reports the problem.
pub(super) fn ask_for_origins(file: &Path) -> std::io::Result<()> {
    let bytes = fs::read(file)?;
    let read = |bytes: &[u8]| {
        let text = decode(bytes).ok()?;
        let (documents, complaints) = documents(&text);
        let ([document], true) = (&documents[..], complaints.is_empty()) else { return None };
        document.read().0.map(|placed| placed.value().clone()).filter(Value::is_object)
    };
    let Some(mut value) = read(&bytes) else { return Ok(()) };
    if value.get("buildMetadata").is_none() {
        // As it is written, so that the tool's words about its lines stay true.
        let mut longer = bytes;
        longer.extend_from_slice(format!("\nbuildMetadata: [{ORIGIN}]\n").as_bytes());
        if read(&longer).is_some_and(|value| value.get("buildMetadata").is_some_and(asks_origin)) {
            return fs::write(file, longer);
        }
    }
    match &mut value["buildMetadata"] {
        Value::Array(options) => options.push(ORIGIN.into()),
        other => *other = json!([ORIGIN]),
    }
    fs::write(file, value.to_string())
}
