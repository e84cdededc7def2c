//! The embedded API server, as anybody who reaches its port could speak to it.

use std::time::Duration;

use belay::clock::Clock;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use minicluster::{MiniCluster, Part};
use serde_json::Value;
use tower::ServiceExt;

use super::text::sections;

/// Every request is answered, and an error is a Status. A section is a request: `METHOD path media-type`, then its body.
pub fn request(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
        let cluster = MiniCluster::builder()
            .clock(clock)
            .without(Part::Controllers)
            .without(Part::Kubelet)
            .without(Part::ServiceAccounts);
        let cluster = cluster.start().await.expect("the embedded cluster starts");
        for (heading, body) in sections(data).into_iter().take(8) {
            let heading = String::from_utf8_lossy(heading).into_owned();
            let mut words = heading.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let request = Request::builder().method(word()).uri(word()).header("content-type", word());
            let Ok(request) = request.body(Full::new(Bytes::from(body))) else { continue };
            let is_head = request.method() == http::Method::HEAD;
            let answer = async {
                let (parts, body) = cluster.api().clone().oneshot(request).await.expect("it can't fail").into_parts();
                (parts, body.collect().await.expect("it can't fail").to_bytes())
            };
            // A watch that was asked to last an hour does.
            let Ok((parts, body)) = tokio::time::timeout(Duration::from_secs(4000), answer).await else {
                panic!("{heading}: no answer")
            };
            let text = String::from_utf8_lossy(&body);
            assert!(!text.contains("caused apiserver to panic"), "{heading}: {text}");
            let code = parts.status.as_u16();
            let is_json = parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
            if code >= 400 && is_json && !is_head {
                let status: Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &code.into()), "{heading}: {text}");
            }
        }
        cluster.stop().await;
    });
}
