//! Pod templates: when two are the same, and the short hash by which revisions are named.
//!
//! Two templates are the same if they mean the same: absent and empty maps and lists are equal, quantities are compared
//! by value, and the label that the Deployment controller itself adds does not count. The hash is ours: nothing
//! compares it with those of other clusters, which change from release to release as well.

mod canonical;
mod text;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use sha2::{Digest as _, Sha256};

pub use text::Template;

/// The label with a Deployment's template hash.
pub const HASH_LABEL: &str = "pod-template-hash";

/// The letters of hashes: those that generated names are made of.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The meaning of a template, in the form in which templates are compared. Equal for templates that mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanonicalTemplate {
    digest: [u8; 32],
    /// The beginning of the short hash, of the same bytes.
    hash: Fnv1a,
}

impl CanonicalTemplate {
    /// Returns the meaning of a template, without the hash label.
    pub fn of(template: &PodTemplateSpec) -> CanonicalTemplate {
        let mut bytes = canonical::bytes(&template.metadata, HASH_LABEL);
        bytes.extend(canonical::bytes(&template.spec, ""));
        let mut hash = Fnv1a::default();
        hash.add(&bytes);
        CanonicalTemplate { digest: Sha256::digest(&bytes).into(), hash }
    }

    /// Returns the hash of this template: up to ten letters. Another number of collisions gives another hash.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        let mut hash = self.hash;
        if let Some(collisions) = collisions {
            hash.add(&collisions.to_le_bytes());
            hash.add(&[0; 4]);
        }
        in_letters(&hash.0.to_string())
    }
}

/// Writes a text in the letters of generated names, one for one.
pub fn in_letters(text: &str) -> String {
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

/// FNV-1a, 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Fnv1a {
        Fnv1a(0x811c_9dc5)
    }
}

impl Fnv1a {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// FNV-1, 32 bits, of `bytes`: the hash of StatefulSets' revisions.
pub fn fnv1(bytes: &[&[u8]]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
    bytes.iter().copied().flatten().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::{CanonicalTemplate, HASH_LABEL};
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use serde_json::{Value, json};

    fn canonical(template: Value) -> CanonicalTemplate {
        CanonicalTemplate::of(&serde_json::from_value::<PodTemplateSpec>(template).unwrap())
    }

    fn template(container: Value) -> Value {
        let mut container = container;
        container["name"] = json!("app");
        json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } })
    }

    #[test]
    fn absent_and_empty_are_the_same_and_quantities_count_by_value() {
        let plain = canonical(template(json!({})));
        assert_eq!(plain, canonical(template(json!({ "env": [], "resources": {}, "args": null }))));
        let cpu = |amount: &str| canonical(template(json!({ "resources": { "requests": { "cpu": amount } } })));
        assert_eq!(cpu("1"), cpu("1000m"));
        assert_ne!(cpu("1"), cpu("1001m"));
        assert_ne!(plain, canonical(template(json!({ "image": "web:2" }))));
        let mut labelled = template(json!({}));
        labelled["metadata"]["labels"][HASH_LABEL] = json!("5d4");
        assert_eq!(plain, canonical(labelled));
    }

    #[test]
    fn what_is_empty_on_purpose_counts() {
        let volume = |source: Value| {
            let mut template = template(json!({}));
            let mut volume = json!({ "name": "data" });
            if let Some(empty) = source.get("emptyDir") {
                volume["emptyDir"] = empty.clone();
            }
            template["spec"]["volumes"] = json!([volume]);
            canonical(template)
        };
        assert_ne!(volume(json!({ "emptyDir": {} })), volume(json!({})));
    }

    #[test]
    fn hashes_are_stable_and_change_with_collisions() {
        let plain = canonical(template(json!({})));
        let hashes = [plain.hash(None), plain.hash(Some(0)), plain.hash(Some(1))];
        assert_eq!(hashes[0], plain.hash(None));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
        for hash in hashes {
            assert!((1..=10).contains(&hash.len()) && hash.bytes().all(|byte| b"456789bcdf".contains(&byte)), "{hash}");
        }
    }
}
