//! Which page is asked for.

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use jiff::Timestamp;

use super::{metrics, page};
use crate::daemon::Status;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// The answer to a request. `lives` says whether the daemon runs.
pub(super) fn answer(
    method: &Method,
    path: &str,
    status: &Status,
    lives: bool,
    now: Timestamp,
) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned());
    }
    match path {
        "/healthz" if lives => respond(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/healthz" => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the daemon has ended\n".to_owned()),
        "/readyz" => match unready(status, lives) {
            waiting if waiting.is_empty() => respond(StatusCode::OK, TEXT, "ok\n".to_owned()),
            waiting => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, waiting),
        },
        "/metrics" => respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics::metrics(status)),
        "/" => respond(StatusCode::OK, "text/html; charset=utf-8", page::page(status, now)),
        _ => respond(StatusCode::NOT_FOUND, TEXT, "there is /, /metrics, /healthz and /readyz\n".to_owned()),
    }
}

/// What belay is not ready for, one line each: it is ready when every source has been planned once.
fn unready(status: &Status, lives: bool) -> String {
    if !lives {
        return "the daemon has ended\n".to_owned();
    }
    let waiting = status.sources.iter().filter(|(_, source)| source.planned.is_none());
    waiting.map(|(name, _)| format!("source {name} has not been planned yet\n")).collect()
}

pub(super) fn respond(code: StatusCode, media_type: &str, body: String) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, media_type)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .body(Full::new(Bytes::from(body)))
        .expect("headers are plain texts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::SourceStatus;
    use belay_core::rollout::CommitId;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn code(method: &Method, path: &str, planned: bool, lives: bool) -> u16 {
        let commit: CommitId = COMMIT.parse().unwrap();
        let source = SourceStatus { planned: planned.then_some(commit), ..SourceStatus::default() };
        let status = Status { sources: [("shop".to_owned(), source)].into() };
        answer(method, path, &status, lives, Timestamp::UNIX_EPOCH).status().as_u16()
    }

    #[test]
    fn it_is_ready_when_every_source_has_been_planned() {
        let get = |path: &str, planned, lives| code(&Method::GET, path, planned, lives);
        assert_eq!(
            [get("/readyz", false, true), get("/readyz", true, true), get("/readyz", true, false)],
            [503, 200, 503]
        );
        assert_eq!([get("/healthz", false, true), get("/healthz", true, false)], [200, 500]);
    }

    #[test]
    fn it_only_reads() {
        assert_eq!(code(&Method::POST, "/", true, true), 405);
        assert_eq!(code(&Method::GET, "/nothing", true, true), 404);
        assert_eq!(code(&Method::HEAD, "/metrics", true, true), 200);
    }
}
