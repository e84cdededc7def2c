//! Answers in plain text.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn text(code: StatusCode, body: impl Into<String>) -> Response {
    (code, [(header::CONTENT_TYPE, TEXT)], body.into()).into_response()
}
