//! The second source of some worlds: a Deployment, a ReplicationController, and a Job of another name each time it changes.

use super::findings::is_beside;
use super::repository::{Beside, Key, Side};
use super::scenario::Fate;

/// The name of the source.
pub const NAME: &str = "side";

/// Returns the folder's files.
pub fn files(beside: &Beside) -> Vec<(&'static str, String)> {
    let plain = beside.plain.map(|side| ("side/plain.yaml", plain(side)));
    let controller = beside.controller.map(|side| ("side/controller.yaml", controller(side)));
    let job = beside.job.map(|side| ("side/job.yaml", job(side)));
    plain.into_iter().chain(controller).chain(job).collect()
}

/// Returns the image of one of its objects.
pub fn image(side: Side) -> String {
    format!("registry.example.com/side:v{}-{}", side.version, side.fate.word())
}

/// Returns the Job of a commit.
pub fn job_of(beside: &Beside) -> Option<(Key, Fate)> {
    beside.job.map(|side| (("Job".to_owned(), format!("side-job-{}", side.version)), side.fate))
}

/// Returns the source that an object belongs to.
pub fn source_of(key: &Key) -> &'static str {
    if is_beside(key) { NAME } else { "shop" }
}

fn plain(side: Side) -> String {
    let image = image(side);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: side-plain}}\nspec:\n  progressDeadlineSeconds: 30\n  \
         selector:\n    matchLabels: {{app: side-plain}}\n  template:\n    metadata:\n      labels: {{app: side-plain}}\n    \
         spec:\n      containers:\n      - name: app\n        image: {image}\n"
    )
}

fn controller(side: Side) -> String {
    let image = image(side);
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata:\n  name: side-rc\n  annotations: \
         {{belay.dev/progress-deadline-seconds: \"30\"}}\nspec:\n  replicas: 2\n  selector: {{app: side-rc}}\n  template:\n    \
         metadata:\n      labels: {{app: side-rc}}\n    spec:\n      containers:\n      - name: app\n        image: {image}\n"
    )
}

fn job(side: Side) -> String {
    let (image, version) = (image(side), side.version);
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: side-job-{version}}}\nspec:\n  backoffLimit: 0\n  template:\n    \
         spec:\n      restartPolicy: Never\n      containers:\n      - name: app\n        image: {image}\n"
    )
}
