//! Faults between a client and the API server.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use kube::client::Body;
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::ApiServer;
use crate::api;

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection breaks before the request reaches the server.
    Disconnect,
    /// The server carries the request out, and its answer is lost.
    LoseAnswer,
    /// The server answers with this HTTP code (400 to 599; others become 500) and does nothing.
    Refuse(u16),
    /// The request arrives so much later, in the time of tokio's clock.
    Delay(Duration),
}

/// Returns a client that asks `fault` for the fault of each request, by its method and its path without the query.
pub(super) fn client(
    api: &ApiServer,
    fault: impl Fn(&Method, &str) -> Option<Fault> + Send + Sync + 'static,
) -> kube::Client {
    let api = api.clone();
    let service = service_fn(move |request: Request<Body>| {
        let fault = fault(request.method(), request.uri().path());
        let api = api.clone();
        async move {
            match fault {
                Some(Fault::Disconnect) => return Err(BoxError::from("the connection was reset")),
                Some(Fault::Refuse(code)) => return Ok(refusal(code)),
                Some(Fault::Delay(wait)) => tokio::time::sleep(wait).await,
                Some(Fault::LoseAnswer) | None => {}
            }
            let lost = fault == Some(Fault::LoseAnswer);
            let Ok(answer) = api.oneshot(request).await;
            if lost { Err("the connection was reset".into()) } else { Ok(answer) }
        }
    });
    kube::Client::new(service, "default")
}

fn refusal(code: u16) -> Response<api::Body> {
    let code = Some(code).filter(|code| (400..600).contains(code)).unwrap_or(500);
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": "", "message": "a fault was injected",
    });
    let mut response = Response::new(api::Body::full(status.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
