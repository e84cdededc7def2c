//! Writing: server-side apply of whole manifests, and the few small patches that marks and commands need.

use http::Method;
use serde_json::{Value, json};

use super::call::{Purpose, request};
use super::error::AwayCause;
use super::{Cluster, ClusterError, Served, ServerRefusal};
use belay_core::manifest::{Compact, ObjectKey, without_values};
use belay_core::rollout::{CommitId, Revision, marks, revisions, same_template, template};

/// The choice if a write is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The server only reports the result that the write would have.
    DryRun,
    /// The write is done.
    Real,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The object after it.
    pub object: Value,
    /// The warnings of the server.
    pub warnings: Vec<String>,
    /// True when the object is new.
    pub created: bool,
}

/// Returns a body as a server stores it: an object of a cluster-wide kind has no namespace, whatever its manifest says.
fn in_its_scope(served: &Served, body: Compact) -> Compact {
    if served.namespaced {
        return body;
    }
    let mut object = body.read();
    match object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("namespace")) {
        Some(_) => Compact::of(&object),
        None => body,
    }
}

impl Cluster {
    /// Applies a manifest server-side. belay takes over the fields that it names from their owners.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn apply(
        &self,
        key: &ObjectKey,
        served: &Served,
        body: impl Into<Compact>,
        mode: Mode,
    ) -> Result<Written, ClusterError> {
        let body = in_its_scope(served, body.into());
        let what = match mode {
            Mode::DryRun => format!("try {key}"),
            Mode::Real => format!("apply {key}"),
        };
        let dry = if mode == Mode::DryRun { "&dryRun=All" } else { "" };
        let manager = marks::FIELD_MANAGER;
        let path = format!("{}?fieldManager={manager}&force=true&fieldValidation=Strict{dry}", served.path_of(key));
        let request = request(Method::PATCH, &path, "application/apply-patch+yaml", body.text().as_bytes().to_vec());
        let answer = self.call_for(Purpose { what: &what, secret: key.kind == "Secret" }, key, request).await;
        let words = |text: &str| without_values(&body.read(), text);
        let answer = answer.map_err(|error| lost_a_race(what, error.in_words(words)))?;
        let warnings = answer.warnings.iter().map(|warning| words(warning)).collect();
        Ok(Written { object: answer.value, warnings, created: answer.code == 201 })
    }

    /// Changes annotations of an object, `None` removing one, and nothing else. `uid` guards against an object of the
    /// same name that has taken its place.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them; a wrong uid is [`ClusterError::Refused`].
    pub async fn annotate(
        &self,
        key: &ObjectKey,
        served: &Served,
        uid: Option<&str>,
        annotations: &[(&str, Option<&str>)],
    ) -> Result<Value, ClusterError> {
        let entries: serde_json::Map<String, Value> =
            annotations.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        let mut patch = json!({"metadata": {"annotations": entries}});
        if let Some(uid) = uid {
            patch["metadata"]["uid"] = json!(uid);
        }
        let what = format!("annotate {key}");
        let path = format!("{}?fieldManager={}", served.path_of(key), marks::FIELD_MANAGER);
        let request = request(Method::PATCH, &path, "application/merge-patch+json", patch.to_string().into_bytes());
        Ok(self.call_for(Purpose { what: &what, secret: key.kind == "Secret" }, key, request).await?.value)
    }

    /// Sends a JSON patch (RFC 6902) as it is: to write the fields of an object over to belay.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them; 409, if the patch was made for an older state of the object, is
    /// [`ClusterError::Refused`].
    pub async fn json_patch(
        &self,
        key: &ObjectKey,
        served: &Served,
        patch: &Value,
        mode: Mode,
    ) -> Result<Value, ClusterError> {
        let what = format!("take over {key}");
        let dry = if mode == Mode::DryRun { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager={}{dry}", served.path_of(key), marks::FIELD_MANAGER);
        let request = request(Method::PATCH, &path, "application/json-patch+json", patch.to_string().into_bytes());
        Ok(self.call_for(Purpose { what: &what, secret: key.kind == "Secret" }, key, request).await?.value)
    }

    /// Deletes an object in the background; nothing happens if there is none.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them. It is a conflict if there is one with another uid by now, or if the server can't
    /// do it at this moment.
    pub async fn delete(&self, key: &ObjectKey, served: &Served, uid: &str) -> Result<(), ClusterError> {
        let what = format!("delete {key}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "preconditions": {"uid": uid}});
        let request =
            request(Method::DELETE, &served.path_of(key), "application/json", options.to_string().into_bytes());
        match self.call(Purpose { what: &what, secret: key.kind == "Secret" }, request).await {
            Ok(_) => Ok(()),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Marks the newest revision that `commit` made as failed, in its change-cause, so that `kubectl rollout history`
    /// shows it. Not while it is the current one: its controller would write the workload's own change-cause over it.
    /// Does nothing if there is none, or it is marked already.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn mark_failed(
        &self,
        key: &ObjectKey,
        live: &Value,
        commit: &CommitId,
        reason: &str,
    ) -> Result<(), ClusterError> {
        let keepers = self.revision_keepers(key, live).await?;
        let present = template(live);
        let made_by = |revision: &&Revision| {
            revision.marks.commit.as_deref() == Some(commit.as_str())
                && !present.is_some_and(|present| same_template(present, &revision.template))
        };
        let all = revisions(&keepers);
        let Some(failed) = all.iter().find(made_by).filter(|revision| !revision.failed) else { return Ok(()) };
        let Some(keeper) = keepers.iter().find(|keeper| keeper["metadata"]["name"] == failed.name.as_str()) else {
            return Ok(());
        };
        let kind = keeper["kind"].as_str().unwrap_or_default();
        let served = self.served("apps/v1", kind).await?;
        let keeper_key = ObjectKey { kind: kind.to_owned(), name: failed.name.clone(), ..key.clone() };
        let cause = marks::annotation(keeper, marks::CHANGE_CAUSE).unwrap_or_default();
        let cause = format!("{cause}{}{reason}", marks::FAILED);
        let annotations = [(marks::CHANGE_CAUSE, Some(cause.as_str()))];
        match self.annotate(&keeper_key, &served, Some(marks::uid(keeper)), &annotations).await {
            // Its history limit took it between the two requests.
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// Takes the request to be left alone off the revisions of a workload that is taken up again: its controller has copied it
    /// there, and an undo with kubectl would bring it back.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn take_up_revisions(&self, key: &ObjectKey, live: &Value) -> Result<(), ClusterError> {
        for keeper in self.revision_keepers(key, live).await? {
            if marks::annotation(&keeper, marks::SUSPEND).is_none() {
                continue;
            }
            let kind = keeper["kind"].as_str().unwrap_or_default();
            let name = keeper["metadata"]["name"].as_str().unwrap_or_default();
            let served = self.served("apps/v1", kind).await?;
            let keeper_key = ObjectKey { kind: kind.to_owned(), name: name.to_owned(), ..key.clone() };
            let annotations = [(marks::SUSPEND, None)];
            match self.annotate(&keeper_key, &served, Some(marks::uid(&keeper)), &annotations).await {
                // Its history limit took it between the two requests.
                Err(ClusterError::Refused(refusal)) if refusal.code == 404 || refusal.code == 409 => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }
}

/// Returns an apply that takes what it names, whoever owns it and whichever version is stored, is in conflict only with
/// a write of the same moment, which the server has given up trying again by itself. Such a conflict is a fault of the
/// infrastructure.
fn lost_a_race(what: String, error: ClusterError) -> ClusterError {
    match error {
        ClusterError::Refused(ServerRefusal { code: 409, message, .. }) => {
            ClusterError::Away { what, message, retry_after_seconds: None, because: AwayCause::Conflict }
        }
        error => error,
    }
}
