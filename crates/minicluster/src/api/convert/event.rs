//! Events: `v1` in the store, `events.k8s.io/v1` to those who ask for that. The same fields under other names.

use serde_json::{Map, Value};

/// Core name, name in `events.k8s.io/v1`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn to_events_group(event: &mut Value) {
    if let Some(fields) = event.as_object_mut() {
        for (core, other) in NAMES {
            rename(fields, core, other);
        }
        for name in ["reportingController", "reportingInstance"] {
            if fields.get(name).is_some_and(|value| value == "") {
                fields.remove(name);
            }
        }
    }
}

pub(super) fn to_core(event: &mut Value) {
    if let Some(fields) = event.as_object_mut() {
        for (core, other) in NAMES {
            rename(fields, other, core);
        }
        for name in ["reportingComponent", "reportingInstance"] {
            // The core group writes them even if there is nothing to say.
            fields.entry(name).or_insert_with(|| Value::from(""));
        }
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}
