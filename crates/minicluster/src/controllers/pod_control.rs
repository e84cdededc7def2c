//! Creating pods from templates and deleting them, with their events.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::DeleteParams;
use serde::Serialize;

use super::error::Error;
use super::events::{EventType, Recorder};
use super::key::{Key, name_of, namespace_of};
use super::pod::Pod;
use super::requests::Requests;

/// The longest name that a pod may have.
const LONGEST_NAME: usize = 253;

/// Makes and deletes pods for one owner.
pub struct PodControl<'a, O> {
    /// Through which requests go.
    pub requests: &'a Requests,
    /// The recorder of events about it.
    pub recorder: &'a Recorder,
    /// The owner.
    pub owner: &'a O,
}

/// A pod that is to be made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPod<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'a ObjectMeta,
    spec: Option<&'a PodSpec>,
}

impl<'a> NewPod<'a> {
    /// Returns a pod with this metadata and specification.
    pub fn new(metadata: &'a ObjectMeta, spec: Option<&'a PodSpec>) -> NewPod<'a> {
        NewPod { api_version: "v1", kind: "Pod", metadata, spec }
    }
}

impl<O: Resource<DynamicType = ()>> PodControl<'_, O> {
    /// Makes a pod with this metadata and specification.
    ///
    /// # Errors
    /// Fails with the server's error; an event names it unless the namespace is going away.
    pub async fn create(&self, metadata: &ObjectMeta, spec: Option<&PodSpec>) -> Result<Pod, Error> {
        let namespace = namespace_of(metadata);
        let name = metadata.name.as_ref().or(metadata.generate_name.as_ref());
        let key = Key::new(namespace, name.cloned().unwrap_or_default());
        if metadata.labels.as_ref().is_none_or(|labels| labels.is_empty()) {
            return Err(Error::Unusable {
                what: format!("a pod template of {key}"),
                why: "it has no labels".to_owned(),
            });
        }
        let body = NewPod::new(metadata, spec);
        let created: Result<Pod, Error> = self.requests.create_from::<Pod, _, _>(&key, &body).await;
        match &created {
            Ok(pod) => {
                let message = format!("Created pod: {}", name_of(&pod.metadata));
                self.recorder.say(self.owner, EventType::Normal, "SuccessfulCreate", message);
            }
            Err(error) if error.is_namespace_terminating() => {}
            Err(error) => {
                let message = format!("Error creating: {}", error.message());
                self.recorder.say(self.owner, EventType::Warning, "FailedCreate", message);
            }
        }
        created
    }

    /// Deletes a pod; a pod that is gone already is not an error.
    ///
    /// # Errors
    /// Fails with the server's error; an event names it.
    pub async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let key = Key::of(&pod.metadata);
        match self.requests.delete::<Pod>(&key, &DeleteParams::default()).await {
            Ok(()) => {
                let message = format!("Deleted pod: {}", key.name);
                self.recorder.say(self.owner, EventType::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {}", error.message());
                self.recorder.say(self.owner, EventType::Warning, "FailedDelete", message);
                Err(error)
            }
        }
    }
}

/// The metadata of a pod made from a template for `owner`, with a generated name.
pub fn metadata_from(template: &PodTemplateSpec, owner: &ObjectMeta, reference: OwnerReference) -> ObjectMeta {
    let template = template.metadata.as_ref();
    ObjectMeta {
        generate_name: Some(name_prefix(name_of(owner))),
        namespace: owner.namespace.clone(),
        labels: template.and_then(|metadata| metadata.labels.clone()),
        annotations: template.and_then(|metadata| metadata.annotations.clone()),
        finalizers: template.and_then(|metadata| metadata.finalizers.clone()),
        owner_references: Some(vec![reference]),
        ..ObjectMeta::default()
    }
}

/// Returns the prefix of the names of a controller's pods: its own name and a dash, if that can begin a pod's name. The
/// server cuts it where the whole would be too long.
pub fn name_prefix(owner: &str) -> String {
    if owner.len() <= LONGEST_NAME { format!("{owner}-") } else { owner.to_owned() }
}

/// Does the same `count` times, in batches of 1, 2, 4, 8 … at once; a batch in which something fails is the last.
/// So a server that refuses everything is asked once, not a thousand times. Returns how often it succeeded.
pub async fn slow_start<F, T>(count: usize, mut attempt: impl FnMut(usize) -> F) -> (usize, Vec<Error>)
where
    F: Future<Output = Result<T, Error>>,
{
    let (mut done, mut batch) = (0, count.min(1));
    let mut succeeded = 0;
    while batch > 0 {
        let outcomes = join_all((done..done + batch).map(&mut attempt)).await;
        let errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
        succeeded += batch - errors.len();
        if !errors.is_empty() {
            return (succeeded, errors);
        }
        done += batch;
        batch = (batch * 2).min(count - done);
    }
    (succeeded, Vec::new())
}

/// Pods by reference, for those who only read.
pub type Pods = Vec<Arc<Pod>>;

#[cfg(test)]
mod tests {
    use super::super::error::Error;
    use super::slow_start;
    use std::cell::Cell;

    async fn attempts(wanted: usize, possible: usize) -> (usize, usize) {
        let calls = Cell::new(0);
        let (succeeded, _) = slow_start(wanted, |_| {
            calls.set(calls.get() + 1);
            let call = calls.get();
            async move {
                let refused = || Error::NotYet { what: String::new(), why: String::new() };
                if call <= possible { Ok(()) } else { Err(refused()) }
            }
        })
        .await;
        (calls.get(), succeeded)
    }

    #[tokio::test]
    async fn batches_double_until_something_fails() {
        assert_eq!(attempts(10, 0).await, (1, 0));
        assert_eq!(attempts(10, 5).await, (7, 5));
        assert_eq!(attempts(10, 10).await, (10, 10));
        assert_eq!(attempts(0, 0).await, (0, 0));
    }
}
