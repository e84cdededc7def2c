//! The API server's refusals: an HTTP code and a `Status` object.

use serde_json::{Value, json};

/// A refusal. Clients see its message and details.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP code.
    pub code: u16,
    /// The reason, `NotFound`; empty if the real server gives none.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The name of the object, if there is one.
    pub name: Option<String>,
    /// The API group of the object.
    pub group: Option<String>,
    /// The plural resource for 404 and 409, the kind for 422.
    pub kind: Option<String>,
    /// The uid of the object, for failed preconditions.
    pub uid: Option<String>,
    /// The faults, one by one.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again.
    pub retry_after_seconds: Option<u32>,
    /// A continue token that would work, for an expired list.
    pub continue_token: Option<String>,
    /// True when empty `details` are written, as the real server's outermost layer does.
    pub generic: bool,
}

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid` and the like.
    pub reason: &'static str,
    /// The fault.
    pub message: String,
    /// The field's path, `spec.replicas`.
    pub field: Option<String>,
}

impl ApiError {
    /// Returns a refusal without details.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            code,
            reason,
            message: message.into(),
            name: None,
            group: None,
            kind: None,
            uid: None,
            causes: Vec::new(),
            retry_after_seconds: None,
            continue_token: None,
            generic: false,
        }
    }

    /// Returns a refusal of the outermost layer, which knows nothing of the objects.
    #[must_use]
    pub fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { generic: true, ..ApiError::new(code, reason, message) }
    }

    /// Returns 404: there is no such resource.
    #[must_use]
    pub fn no_such_resource() -> ApiError {
        ApiError::generic(404, "NotFound", "the server could not find the requested resource")
    }

    /// Returns 405: the resource does not answer this verb.
    #[must_use]
    pub fn method_not_allowed() -> ApiError {
        let message = "the server does not allow this method on the requested resource";
        ApiError::generic(405, "MethodNotAllowed", message)
    }

    /// Returns 504: the revision asked for is yet to come.
    #[must_use]
    pub fn too_large_revision(revision: u64, current: u64) -> ApiError {
        let message = format!("Timeout: Too large resource version: {revision}, current: {current}");
        let cause =
            Cause { reason: "ResourceVersionTooLarge", message: "Too large resource version".to_owned(), field: None };
        ApiError { causes: vec![cause], retry_after_seconds: Some(1), ..ApiError::new(504, "Timeout", message) }
    }

    /// Returns 406: no media type that the client takes can be written.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> ApiError {
        ApiError::new(406, "NotAcceptable", message)
    }

    /// Returns 500: a fault of ours, or an impossible request.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(500, "", message)
    }

    /// Returns 500: something that the server could not do for a request.
    #[must_use]
    pub fn internal_error(message: &str) -> ApiError {
        let cause = Cause { reason: "", message: message.to_owned(), field: None };
        let error = ApiError::new(500, "InternalError", format!("Internal error occurred: {message}"));
        ApiError { causes: vec![cause], ..error }
    }

    /// Returns 400: the request itself is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "BadRequest", message)
    }

    /// Returns 404: no such object. `resource` is the plural.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> ApiError {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        ApiError::new(404, "NotFound", message).about(group, resource, name)
    }

    /// Returns 409: there is such an object already.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> ApiError {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        ApiError::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// Returns 409: the object is not, or no longer, in the state that the request expects.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group));
        ApiError::new(409, "Conflict", message).about(group, resource, name)
    }

    /// Returns 403: not allowed.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let subject = qualified(resource, group);
        let subject = if name.is_empty() { subject } else { format!("{subject} \"{name}\"") };
        let message = format!("{subject} is forbidden: {why}");
        ApiError::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// Returns 422: the object breaks rules. `kind` is the kind, not the plural.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> ApiError {
        let mut each: Vec<String> = Vec::new();
        for cause in &causes {
            let text = match &cause.field {
                Some(field) => format!("{field}: {}", cause.message),
                None => cause.message.clone(),
            };
            // Go says everything once.
            if !each.contains(&text) {
                each.push(text);
            }
        }
        let wrong = if each.len() == 1 { each.concat() } else { format!("[{}]", each.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {wrong}", qualified(kind, group));
        ApiError { causes, ..ApiError::new(422, "Invalid", message).about(group, kind, name) }
    }

    fn about(self, group: &str, kind: &str, name: &str) -> ApiError {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ApiError { group: known(group), kind: known(kind), name: known(name), ..self }
    }

    /// Returns the `Status` object that the client gets.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = json!(token);
        }
        let mut details = json!({});
        for (key, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                details[key] = json!(value);
            }
        }
        if !self.causes.is_empty() {
            let cause = |cause: &Cause| {
                let mut said = json!({ "message": cause.message });
                if !cause.reason.is_empty() {
                    said["reason"] = json!(cause.reason);
                }
                if let Some(field) = &cause.field {
                    said["field"] = json!(field);
                }
                said
            };
            details["causes"] = self.causes.iter().map(cause).collect();
        }
        if let Some(seconds) = self.retry_after_seconds {
            details["retryAfterSeconds"] = json!(seconds);
        }
        if self.generic || details != json!({}) {
            status["details"] = details;
        }
        status
    }
}

fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
