//! D: creation and ownership.

use serde_json::json;

use super::super::workloads::{deployment, sets};
use super::super::{Case, case};

pub fn cases() -> Vec<Case> {
    vec![case!("D01", "a Deployment makes one ReplicaSet with its annotations", |w| {
        let mut web = deployment(2, json!({}));
        web["metadata"]["annotations"] =
            json!({ "test": "x", "kubectl.kubernetes.io/last-applied-configuration": "y" });
        w.create(web).await?;
        w.complete().await?;
        w.check(w.sizes() == [2], "one ReplicaSet of 2")?;
        w.check(w.revision() == "1", "revision 1")?;
        let set = w.look(sets)[0].clone().unwrap_or_default();
        let annotations = &set["metadata"]["annotations"];
        w.check(annotations["test"] == "x", "annotations are copied")?;
        w.check(annotations["deployment.kubernetes.io/desired-replicas"] == "2", "desired-replicas")?;
        w.check(annotations["deployment.kubernetes.io/max-replicas"] == "3", "max-replicas")?;
    })]
}
