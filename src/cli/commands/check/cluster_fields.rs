//! Fields of a manifest that the cluster writes itself: belay leaves them to it.

use belay_core::manifest::{Complaint, Manifest};
use belay_core::rollout::cluster_fields;

/// Returns a warning for each field of a manifest that the cluster writes itself.
pub(super) fn left_to_the_cluster(manifest: &Manifest) -> Vec<Complaint> {
    let warning = |field: belay_core::rollout::ClusterField| Complaint {
        place: manifest.place_of(&field.path),
        object: Some(manifest.key.clone()),
        message: format!("{}: {}", field.path, field.why),
        hint: Some("belay leaves it to the cluster; leave it out of the manifest".to_owned()),
        excerpt: None,
        also: Vec::new(),
    };
    cluster_fields(&manifest.value()).into_iter().map(warning).collect()
}
