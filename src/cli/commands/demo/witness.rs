//! An observer that asks the cluster, not the daemon.

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::cli::output::table::Table;
use belay_core::rollout::canary::CanaryMark;
use belay_core::rollout::{CommitId, Hold, marks};

const NAMESPACE: &str = "shop";
const NAME: &str = "web";

/// The witness.
pub(super) struct Witness(Client);

/// The last observation of the Deployment; nothing while there is none.
pub(super) struct DemoSight(Option<Value>);

impl Witness {
    pub(super) fn new(client: Client) -> Witness {
        Witness(client)
    }

    /// Looks at the Deployment.
    pub(super) async fn look(&self) -> anyhow::Result<DemoSight> {
        let found = self.api("Deployment", "deployments").get_opt(NAME).await?;
        Ok(DemoSight(found.map(serde_json::to_value).transpose()?))
    }

    /// Prints the same as `kubectl rollout history`: the revisions of the Deployment, from its ReplicaSets.
    pub(super) async fn rollout_history(&self) -> anyhow::Result<Vec<String>> {
        let mut revisions: Vec<(i64, String)> = Vec::new();
        for set in self.api("ReplicaSet", "replicasets").list(&ListParams::default()).await? {
            let set = serde_json::to_value(set)?;
            let cause = marks::annotation(&set, marks::CHANGE_CAUSE).unwrap_or("<none>").to_owned();
            revisions.extend(marks::revision(&set).map(|revision| (revision, cause)));
        }
        revisions.sort();
        let mut table = Table::new(&["REVISION", "CHANGE-CAUSE"]);
        for (revision, cause) in revisions {
            table.row([revision.to_string().into(), cause.into()]);
        }
        Ok(std::iter::once(format!("deployment.apps/{NAME}")).chain(table.lines()).collect())
    }

    fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(self.0.clone(), NAMESPACE, &resource)
    }
}

impl DemoSight {
    /// Returns true when this commit's version runs, all of it, and no other does.
    pub(super) fn runs(&self, commit: &CommitId, image: &str) -> bool {
        let Some(live) = &self.0 else { return false };
        marks::annotation(live, marks::COMMIT) == Some(commit.as_str())
            && Hold::on(live).is_none()
            && self.image() == image
            && self.is_complete()
    }

    /// Returns true when the version before runs again, and this commit is held.
    pub(super) fn is_back(&self, commit: &CommitId, image: &str) -> bool {
        let Some(live) = &self.0 else { return false };
        Hold::on(live).is_some_and(|hold| hold.commit == *commit) && self.image() == image && self.is_complete()
    }

    /// Returns one line.
    pub(super) fn line(&self) -> String {
        if self.0.is_none() {
            return "waiting for Deployment shop/web".to_owned();
        }
        let tag = self.image().rsplit(':').next().unwrap_or_default().to_owned();
        let [total, updated, available] =
            ["replicas", "updatedReplicas", "availableReplicas"].map(|field| self.count(field));
        let old = total - updated;
        let bar: String = "●".repeat(usize::try_from(available).unwrap_or_default())
            + &"○".repeat(usize::try_from(total - available).unwrap_or_default());
        let mut line =
            format!("Deployment shop/web at web:{tag}  {bar:<4} {updated} new, {old} old, {available} available");
        if let Some(mark) = self.0.as_ref().and_then(CanaryMark::on) {
            line.push_str(&format!(" ({})", mark.words()));
        }
        if let Some(reason) = self.trouble() {
            line.push_str(&format!(" ({reason})"));
        }
        line
    }

    fn trouble(&self) -> Option<&str> {
        let conditions = self.0.as_ref()?["status"]["conditions"].as_array()?;
        let failing =
            conditions.iter().find(|condition| condition["type"] == "Progressing" && condition["status"] == "False")?;
        failing["reason"].as_str()
    }

    fn image(&self) -> &str {
        let image = self.0.as_ref().map(|live| &live["spec"]["template"]["spec"]["containers"][0]["image"]);
        image.and_then(Value::as_str).unwrap_or_default()
    }

    fn count(&self, field: &str) -> i64 {
        self.0.as_ref().and_then(|live| live["status"][field].as_i64()).unwrap_or_default()
    }

    fn is_complete(&self) -> bool {
        let Some(live) = &self.0 else { return false };
        let wanted = live["spec"]["replicas"].as_i64().unwrap_or(1);
        live["status"]["observedGeneration"] == live["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| self.count(field) == wanted)
    }
}
