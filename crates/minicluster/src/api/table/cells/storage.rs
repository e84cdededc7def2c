//! Rows of volumes and their classes.

use serde_json::{Value, json};

use super::{Row, UNSET, plain};

pub(super) fn cells(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    let flag = |pointer: &str| json!(row.at(pointer) == true);
    Some(match kind {
        "storageclasses" => {
            let default = "storageclass.kubernetes.io/is-default-class";
            let beta = "storageclass.beta.kubernetes.io/is-default-class";
            let annotations = row.at("/metadata/annotations");
            let marked = [default, beta].iter().any(|key| annotations[*key] == "true");
            let name = if marked { json!(format!("{} (default)", plain(&name))) } else { name };
            vec![
                name,
                json!(row.text("/provisioner")),
                json!(row.text_or("/reclaimPolicy", "Delete")),
                json!(row.text_or("/volumeBindingMode", UNSET)),
                flag("/allowVolumeExpansion"),
                age,
            ]
        }
        _ => return None,
    })
}

/// Returns a claim.
pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let deleting = row.at("/metadata/deletionTimestamp").is_string();
    let phase = if deleting { "Terminating" } else { row.text("/status/phase") };
    let bound = !row.text("/spec/volumeName").is_empty();
    let (modes, capacity) = if bound {
        (modes(row, "/status/accessModes"), plain(row.at("/status/capacity/storage")))
    } else {
        (String::new(), String::new())
    };
    vec![
        row.name(),
        json!(phase),
        json!(row.text("/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(class(row)),
        json!(attributes_class(row)),
        row.age(),
        json!(volume_mode(row)),
    ]
}

/// Returns a volume.
pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = match row.text("/spec/claimRef/name") {
        "" => String::new(),
        name => format!("{}/{name}", row.text("/spec/claimRef/namespace")),
    };
    let deleting = row.at("/metadata/deletionTimestamp").is_string();
    let phase = if deleting { "Terminating" } else { row.text("/status/phase") };
    vec![
        row.name(),
        json!(plain(row.at("/spec/capacity/storage"))),
        json!(modes(row, "/spec/accessModes")),
        json!(row.text("/spec/persistentVolumeReclaimPolicy")),
        json!(phase),
        json!(claim),
        json!(class(row)),
        json!(attributes_class(row)),
        json!(row.text("/status/reason")),
        row.age(),
        json!(volume_mode(row)),
    ]
}

fn class(row: &Row<'_>) -> String {
    let annotation = row.at("/metadata/annotations")["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or_else(|| row.text("/spec/storageClassName")).to_owned()
}

fn attributes_class<'a>(row: &Row<'a>) -> &'a str {
    row.text_or("/spec/volumeAttributesClassName", UNSET)
}

fn volume_mode<'a>(row: &Row<'a>) -> &'a str {
    row.text_or("/spec/volumeMode", UNSET)
}

/// Access modes by their abbreviations.
fn modes(row: &Row<'_>, pointer: &str) -> String {
    let has = |mode: &str| row.list(pointer).iter().any(|known| known == mode);
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
