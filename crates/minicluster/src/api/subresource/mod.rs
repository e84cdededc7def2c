//! The subresources that are not simply a part of the object.

mod binding;
mod eviction;
mod finalize;
mod log;
mod scale;
mod token;

use serde_json::{Value, json};

use super::call::Call;
use super::reply::Reply;
use super::route::Target;
use super::{ApiError, ApiServer};

impl ApiServer {
    /// Answers a verb on a subresource other than status.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub(super) async fn below(&self, call: &Call, target: &Target, name: &str, verb: &str) -> Result<Reply, ApiError> {
        match (name, verb) {
            ("scale", "get") => self.get_scale(call, target),
            ("scale", "update") => self.put_scale(call, target),
            ("scale", "patch") => self.patch_scale(call, target),
            ("binding", "create") => self.bind(call, target),
            ("eviction", "create") => self.evict(call, target),
            ("finalize", "update") => self.finalize(call, target),
            ("token", "create") => self.token(call, target),
            ("log", "get") => self.log(call, target),
            ("exec" | "attach" | "portforward" | "proxy", _) => {
                self.find(target)?;
                Err(unsupported(target, name))
            }
            // A part of the object that is written apart, as its status is.
            (_, "get") => self.get(call, target),
            (_, "update") => self.update(call, target),
            (_, "patch") => self.patch(call, target),
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

/// There is nothing in a pod of this cluster that could be spoken to.
fn unsupported(target: &Target, what: &str) -> ApiError {
    let resource = &target.resource.definition.resource;
    let name = target.name.as_deref().unwrap_or_default();
    let why = format!("{resource} \"{name}\": {what} is not supported: containers are only simulated here");
    ApiError::new(501, "NotImplemented", why)
}

/// Returns the answer when something was done and there is nothing to show.
fn done() -> Reply {
    Reply::value(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }))
        .code(201)
}

/// Returns a body of a kind of its own, which is only spoken, never stored.
fn body(call: &Call, kind: &str) -> Result<Value, ApiError> {
    let body = call.options()?.unwrap_or_default();
    let sent = body["kind"].as_str().unwrap_or(kind);
    if !body.is_object() {
        let message = format!("the object provided is unrecognized (must be of type {kind})");
        return Err(ApiError::bad_request(message));
    }
    if sent != kind {
        let version = body["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        let message = format!("{sent} in version {version:?} cannot be handled as a {kind}");
        return Err(ApiError::bad_request(message));
    }
    Ok(body)
}
