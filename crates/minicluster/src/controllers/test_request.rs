//! Requests of tests.

use serde_json::Value;

use crate::MiniCluster;

/// Sends a request with every right and returns the answer. A patch is a merge patch; null is no body.
pub async fn request(cluster: &MiniCluster, method: &str, path: &str, body: Value) -> Value {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    cluster.client().request(request.body(body).unwrap()).await.unwrap()
}
