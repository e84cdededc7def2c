//! The choice of the page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::hosts::{Hosts, known_host};
use super::plain_text::text;
use super::{Room, api, assets, hooks, live, metrics, openapi, pages};
use crate::daemon::{Obstacle, SourceStatus, Status};

/// A page loads only resources that are served here, and no script that is written into it runs.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the pages, which only read, and the endpoint of hooks. Answers to these names only.
pub(super) fn router(room: Room, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(pages::overview))
        .route("/timeline", get(pages::timeline))
        .route("/commits/{digits}", get(pages::commit))
        .route("/workloads/{source}/{kind}/{namespace}/{name}", get(pages::workload))
        .route("/delivery", get(pages::delivery))
        .route("/daemon", get(pages::daemon))
        .route("/style.css", get(assets::style))
        .route("/script.js", get(assets::script))
        .route("/icon/{name}", get(assets::icon))
        .route("/events", get(live::events))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/workloads", get(api::workloads))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/commits/{digits}", get(api::commit))
        .route("/api/v1/stats", get(api::stats))
        .route("/api/v1/openapi.json", get(openapi::answer_document))
        .fallback(nothing)
        .layer(from_fn(only_reads))
        .route("/hooks/{source}", post(hooks::receive))
        .layer(from_fn_with_state(Arc::new(hosts), known_host))
        .layer(from_fn(with_headers))
        .with_state(room)
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

async fn nothing(State(room): State<Room>) -> Response {
    pages::nothing(&room)
}

async fn only_reads(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => next.run(request).await,
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
    }
}

async fn with_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 5] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns the reasons for which belay is not ready, one line each: it is ready when every source has been planned
/// once, or waits for another of its sources, and outcomes can be recorded.
fn unready(status: &Status, lives: bool) -> String {
    if !lives {
        return "the daemon has ended\n".to_owned();
    }
    let unready = |(name, source): (&String, &SourceStatus)| match source.obstacles.trouble.get(&Obstacle::History) {
        Some(trouble) => Some(format!("source {name}: nothing is written down: {trouble}\n")),
        None => (source.planned.is_none() && !waits_for_another(source))
            .then(|| format!("source {name} has not been planned yet\n")),
    };
    status.sources.iter().filter_map(unready).collect()
}

/// Returns true for a source whose head waits until another source of this daemon is complete.
fn waits_for_another(source: &SourceStatus) -> bool {
    source.obstacles.waits.is_some() && !source.obstacles.standby
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::telemetry::Metrics;
    use crate::web::{Shown, ShownSources};
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
        let shown = Shown {
            status,
            metrics: Metrics::default(),
            state: std::path::PathBuf::new(),
            history: crate::history::HistoryLocation::in_folder(""),
            sources: ShownSources::default().shown().1,
            clock,
        };
        let router = router(Room::new(shown), Hosts::new(&[]));
        let _daemon = lives.then_some(daemon);
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let request = request.header(header::ACCEPT, accept);
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

    #[test]
    fn a_source_that_waits_for_another_is_ready() {
        let source = |waits: bool, standby: bool| {
            let mut source = SourceStatus::default();
            source.obstacles.waits = waits.then(|| "waits for source infra".to_owned());
            source.obstacles.standby = standby;
            Status { sources: [("shop".to_owned(), source)].into() }
        };
        for (waits, standby, ready) in [(false, false, false), (true, false, true), (true, true, false)] {
            assert_eq!(unready(&source(waits, standby), true).is_empty(), ready, "{waits} {standby}");
        }
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
