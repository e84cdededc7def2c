//! Claims that name no storage class get the default one.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::Admission;
use crate::api::json_pointer::text;
use crate::api::store::Scope;

const MARKS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

impl Admission {
    /// Gives a claim the default class, the newest if there are several.
    pub(super) fn set_storage_class(&self, claim: &mut Value) {
        let named = claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].is_string();
        if named || claim["spec"].get("storageClassName").is_some() {
            return;
        }
        let classes = self.store.all("storage.k8s.io", "storageclasses", &Scope::All);
        let mut defaults: Vec<Value> = classes
            .iter()
            .map(|class| class.value())
            .filter(|class| MARKS.iter().any(|mark| class["metadata"]["annotations"][*mark] == "true"))
            .collect();
        defaults.sort_by_key(|class| {
            (Reverse(text(class, "/metadata/creationTimestamp").to_owned()), text(class, "/metadata/name").to_owned())
        });
        if let Some(class) = defaults.first() {
            claim["spec"]["storageClassName"] = json!(text(class, "/metadata/name"));
        }
    }
}
