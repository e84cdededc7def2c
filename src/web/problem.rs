//! The reasons for which there is no answer.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

/// The reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The request can't be understood.
    Unclear(String),
    /// There is no such thing.
    Nothing(String),
    /// The history can't be read now.
    Unavailable(String),
}

/// The body of a refusal.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProblemAnswer {
    /// The fault, for people.
    pub error: String,
}

impl Problem {
    /// Returns the problem of a page that its template could not write.
    pub(super) fn of_template(error: &askama::Error) -> Problem {
        Problem::Unavailable(format!("belay's own fault: {error}"))
    }

    pub(super) fn code(&self) -> StatusCode {
        match self {
            Problem::Unclear(_) => StatusCode::BAD_REQUEST,
            Problem::Nothing(_) => StatusCode::NOT_FOUND,
            Problem::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn message(&self) -> &str {
        let (Problem::Unclear(message) | Problem::Nothing(message) | Problem::Unavailable(message)) = self;
        message
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = self.message().to_owned();
        (self.code(), Json(ProblemAnswer { error })).into_response()
    }
}
