//! Which page is asked for.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::hosts::{Hosts, known_host};
use super::{Room, Shown, api, metrics, page};
use crate::daemon::Status;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// The pages. It only reads, and answers to these names only.
pub(super) fn router(shown: Shown, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/workloads", get(api::workloads))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/commits/{digits}", get(api::commit))
        .route("/api/v1/stats", get(api::stats))
        .route("/api/v1/openapi.json", get(api::document))
        .fallback(nothing)
        .layer(from_fn(only_reads))
        .layer(from_fn_with_state(Arc::new(hosts), known_host))
        .layer(from_fn(with_headers))
        .with_state(Room::new(shown))
}

async fn overview(State(Room { shown, .. }): State<Room>) -> Response {
    let html = page::page(&shown.status.borrow(), shown.clock.now());
    ([(header::CONTENT_TYPE, HTML)], html).into_response()
}

async fn healthz(State(Room { shown, .. }): State<Room>) -> Response {
    match shown.lives() {
        true => text(StatusCode::OK, "ok\n"),
        false => text(StatusCode::INTERNAL_SERVER_ERROR, "the daemon has ended\n"),
    }
}

async fn readyz(State(Room { shown, .. }): State<Room>) -> Response {
    let waiting = unready(&shown.status.borrow(), shown.lives());
    match waiting.is_empty() {
        true => text(StatusCode::OK, "ok\n"),
        false => text(StatusCode::SERVICE_UNAVAILABLE, waiting),
    }
}

async fn scrape(State(Room { registry, .. }): State<Room>, headers: HeaderMap) -> Response {
    let Ok(open_metrics) = metrics::open_metrics(&registry) else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n");
    };
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    match accepted.contains("application/openmetrics-text") {
        true => ([(header::CONTENT_TYPE, metrics::OPEN_METRICS)], open_metrics).into_response(),
        false => ([(header::CONTENT_TYPE, metrics::PROMETHEUS)], metrics::prometheus(&open_metrics)).into_response(),
    }
}

async fn nothing() -> Response {
    text(StatusCode::NOT_FOUND, "there is /, /api/v1/openapi.json, /metrics, /healthz and /readyz\n")
}

async fn only_reads(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => next.run(request).await,
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
    }
}

async fn with_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// What belay is not ready for, one line each: it is ready when every source has been planned once.
fn unready(status: &Status, lives: bool) -> String {
    if !lives {
        return "the daemon has ended\n".to_owned();
    }
    let waiting = status.sources.iter().filter(|(_, source)| source.planned.is_none());
    waiting.map(|(name, _)| format!("source {name} has not been planned yet\n")).collect()
}

pub(super) fn text(code: StatusCode, body: impl Into<String>) -> Response {
    (code, [(header::CONTENT_TYPE, TEXT)], body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::daemon::SourceStatus;
    use crate::telemetry::Metrics;
    use axum::body::Body;
    use belay_core::rollout::CommitId;
    use tokio::sync::watch;
    use tower::ServiceExt as _;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    async fn ask(method: Method, path: &str, accept: &str, planned: bool, lives: bool) -> Response {
        let commit: CommitId = COMMIT.parse().unwrap();
        let source = SourceStatus { planned: planned.then_some(commit), ..SourceStatus::default() };
        let (daemon, status) = watch::channel(Status { sources: [("shop".to_owned(), source)].into() });
        let clock = Clock::tokio(jiff::Timestamp::UNIX_EPOCH);
        let router = router(
            Shown { status, metrics: Metrics::default(), state: std::path::PathBuf::new(), clock },
            Hosts::new(&[]),
        );
        let _daemon = lives.then_some(daemon);
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn code(method: Method, path: &str, planned: bool, lives: bool) -> u16 {
        ask(method, path, "*/*", planned, lives).await.status().as_u16()
    }

    #[tokio::test]
    async fn it_is_ready_when_every_source_has_been_planned() {
        let get = |path: &'static str, planned, lives| code(Method::GET, path, planned, lives);
        assert_eq!(get("/readyz", false, true).await, 503);
        assert_eq!(get("/readyz", true, true).await, 200);
        assert_eq!(get("/readyz", true, false).await, 503);
        assert_eq!(get("/healthz", false, true).await, 200);
        assert_eq!(get("/healthz", true, false).await, 500);
    }

    #[tokio::test]
    async fn it_only_reads() {
        assert_eq!(code(Method::POST, "/", true, true).await, 405);
        assert_eq!(code(Method::POST, "/nothing", true, true).await, 405);
        assert_eq!(code(Method::GET, "/nothing", true, true).await, 404);
        assert_eq!(code(Method::HEAD, "/metrics", true, true).await, 200);
    }

    #[tokio::test]
    async fn open_metrics_are_for_who_asks_for_them() {
        for (accept, media_type) in [
            ("*/*", metrics::PROMETHEUS),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2", metrics::OPEN_METRICS),
        ] {
            let answer = ask(Method::GET, "/metrics", accept, true, true).await;
            assert_eq!(answer.headers()[header::CONTENT_TYPE], media_type);
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body.ends_with(b"# EOF\n"), media_type == metrics::OPEN_METRICS);
        }
    }
}
