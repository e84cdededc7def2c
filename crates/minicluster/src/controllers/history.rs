//! ControllerRevisions: the templates that StatefulSets and DaemonSets had.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::context::Context;
use super::error::Error;
use super::key::{Key, name_of};
use super::owner::controller_reference;
use super::ownership::{Claimed, Claimer};
use super::requests::Requests;
use super::selector::Selector;
use super::template::{fnv1, in_letters};

/// The owner's part of a revision's name is at most this long.
const LONGEST_PREFIX: usize = 223;

/// Returns a revision's content: the template, and that it replaces whatever is there.
pub fn data_of(template: &PodTemplateSpec) -> Result<Value, Error> {
    let unusable =
        |error: serde_json::Error| Error::Unusable { what: "a pod template".to_owned(), why: error.to_string() };
    let mut template = serde_json::to_value(template).map_err(unusable)?;
    template["$patch"] = json!("replace");
    Ok(json!({ "spec": { "template": template } }))
}

/// Returns the template in a revision's content.
///
/// # Errors
/// A revision that holds none.
pub fn template_of(revision: &ControllerRevision) -> Result<PodTemplateSpec, Error> {
    let mut template = revision.data.0["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    serde_json::from_value(template).map_err(|error| Error::Unusable {
        what: format!("the revision {}", name_of(&revision.metadata)),
        why: error.to_string(),
    })
}

/// Returns the hash of a revision's content: of the bytes that a real cluster stores, so that the names are the same.
pub fn hash_of(data: &Value, collisions: i32) -> String {
    let text = data.to_string();
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    in_letters(&fnv1(&[escaped.as_bytes(), collisions.to_string().as_bytes()]).to_string())
}

/// Returns `<owner>-<hash>`, the owner's part cut if it is long.
pub fn name_with(owner: &str, hash: &str) -> String {
    format!("{}-{hash}", owner.chars().take(LONGEST_PREFIX).collect::<String>())
}

/// Returns the revision's number.
pub fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

/// Sorts revisions: the lowest number first, then the oldest.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    let age = |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
    revisions.sort_by(|one, other| {
        let by_number = number(one).cmp(&number(other));
        by_number.then_with(|| age(one).cmp(&age(other))).then_with(|| one.metadata.name.cmp(&other.metadata.name))
    });
}

/// The common parts of all revisions of one owner.
pub struct History<'a> {
    /// The controller's surroundings.
    pub context: &'a Context,
    /// The owner.
    pub owner: &'a ObjectMeta,
    /// The owner's reference in revisions.
    pub reference: OwnerReference,
}

impl<'a> History<'a> {
    /// Returns the history of an owner of kind `O`.
    pub fn of<O: kube::Resource<DynamicType = ()>>(context: &'a Context, owner: &'a ObjectMeta) -> History<'a> {
        History { context, owner, reference: controller_reference::<O>(owner) }
    }

    /// Returns the owner's revisions, sorted; such as are nobody's and match are adopted.
    ///
    /// # Errors
    /// Fails with the server's error.
    pub async fn claim<O>(&self, selector: &Selector) -> Result<Claimed<ControllerRevision>, Error>
    where
        O: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        let revisions = self.context.informers.controller_revisions.candidates(self.owner);
        let claimer = Claimer {
            requests: self.requests(),
            owner: self.owner,
            selector,
            reference: self.reference.clone(),
            finalizer: None,
        };
        let mut claimed = claimer.claim::<O, ControllerRevision, ControllerRevision>(revisions).await?;
        sort(&mut claimed.objects);
        Ok(claimed)
    }

    /// Makes a revision. One of the same name with the same content that is the owner's is as good.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken by another object; other errors of the server.
    pub async fn create(&self, draft: &ControllerRevision) -> Result<ControllerRevision, Error> {
        let made: Result<ControllerRevision, Error> = self.requests().create(draft).await;
        match made {
            Err(error) if error.is_already_exists() => {
                let there: ControllerRevision = self.requests().get(&Key::of(&draft.metadata)).await?;
                if there.data.0 == draft.data.0 { Ok(there) } else { Err(error) }
            }
            made => made,
        }
    }

    /// Returns a revision that is not yet made.
    pub fn draft(
        &self,
        template: &PodTemplateSpec,
        data: &Value,
        hash: &str,
        label: &str,
        number: i64,
    ) -> ControllerRevision {
        let mut labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
        labels.insert(label.to_owned(), hash.to_owned());
        ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name_with(name_of(self.owner), hash)),
                namespace: self.owner.namespace.clone(),
                labels: Some(labels),
                annotations: self.owner.annotations.clone(),
                owner_references: Some(vec![self.reference.clone()]),
                ..ObjectMeta::default()
            },
            data: RawExtension(data.clone()),
            revision: Some(number),
        }
    }

    /// Gives a revision another number.
    ///
    /// # Errors
    /// Fails with the server's error.
    pub async fn renumber(&self, revision: &ControllerRevision, number: i64) -> Result<ControllerRevision, Error> {
        let changed = ControllerRevision { revision: Some(number), ..revision.clone() };
        self.requests().replace(&changed).await
    }

    /// Deletes the lowest revisions beyond the limit. Those in use do not count and are not deleted.
    ///
    /// # Errors
    /// Fails with the server's error.
    pub async fn truncate(
        &self,
        revisions: &[Arc<ControllerRevision>],
        limit: Option<i32>,
        is_used: impl Fn(&ControllerRevision) -> bool,
    ) -> Result<(), Error> {
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
        let unused: Vec<_> = revisions.iter().filter(|revision| !is_used(revision)).collect();
        for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
            let key = Key::of(&revision.metadata);
            match self.requests().delete::<ControllerRevision>(&key, &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the owner's live state, for those who must not act on an old one.
    ///
    /// # Errors
    /// Fails with the server's error.
    pub async fn live<O>(&self) -> Result<O, Error>
    where
        O: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        self.requests().get(&Key::of(self.owner)).await
    }

    fn requests(&self) -> &Requests {
        &self.context.requests
    }
}

#[cfg(test)]
mod tests {
    use super::{data_of, hash_of, template_of};
    use k8s_openapi::api::apps::v1::ControllerRevision;
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
    use serde_json::json;

    #[test]
    fn a_revision_holds_its_template() {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "image": "v1", "args": ["a < b && c"] }] },
        }))
        .unwrap();
        let data = data_of(&template).unwrap();
        assert_eq!(
            data.to_string(),
            "{\"spec\":{\"template\":{\"$patch\":\"replace\",\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":\
             {\"containers\":[{\"args\":[\"a < b && c\"],\"image\":\"v1\",\"name\":\"app\"}]}}}}"
        );
        let revision = ControllerRevision { data: RawExtension(data.clone()), ..ControllerRevision::default() };
        assert_eq!(template_of(&revision).unwrap(), template);
        assert_ne!(hash_of(&data, 0), hash_of(&data, 1));
    }
}
