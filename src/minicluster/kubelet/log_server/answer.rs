//! What a node answers.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{Method, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use super::Archive;
use super::query::{Wanted, decode};
use crate::minicluster::{LogLine, PodLogs};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Answers a request.
pub fn answer(method: &Method, uri: &Uri, archive: &Archive) -> Response<Body> {
    if method != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "this node only answers GET");
    }
    let parts: Vec<String> = uri.path().trim_matches('/').split('/').map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts[..] {
        ["healthz"] => plain(StatusCode::OK, "ok"),
        ["containerLogs", namespace, pod, container] => {
            match Wanted::read(uri.query().unwrap_or_default(), archive.clock.now()) {
                Ok(wanted) => log(namespace, pod, container, wanted, archive),
                Err(problem) => plain(StatusCode::BAD_REQUEST, &problem),
            }
        }
        ["exec" | "attach" | "portForward" | "run", ..] => {
            plain(StatusCode::NOT_IMPLEMENTED, "nothing really runs in the pods of this node, so nothing can be joined")
        }
        _ => plain(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

fn log(namespace: &str, name: &str, container: &str, mut wanted: Wanted, archive: &Archive) -> Response<Body> {
    let Some(pod) = archive.directory.find(namespace, name) else {
        return plain(StatusCode::NOT_FOUND, &format!("pod {namespace}/{name} does not exist"));
    };
    let Some(waits) = pod.containers.get(container) else {
        return plain(StatusCode::NOT_FOUND, &format!("container {container} not found in pod {namespace}/{name}"));
    };
    if let Some(reason) = waits {
        let problem = format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
        return plain(StatusCode::BAD_REQUEST, &problem);
    }
    if wanted.previous {
        return match archive.logs.lines(&pod.uid, container, true) {
            Some(lines) => text(wanted.text(&lines)),
            None => {
                let problem = format!("previous terminated container {container:?} in pod {name:?} not found");
                plain(StatusCode::BAD_REQUEST, &problem)
            }
        };
    }
    if wanted.follow {
        return follow(archive.logs.clone(), pod.uid, container.to_owned(), wanted);
    }
    let lines: Vec<LogLine> = archive.logs.lines(&pod.uid, container, false).unwrap_or_default();
    text(wanted.text(&lines))
}

/// What there is and what comes, until the run is over or the pod is gone.
fn follow(logs: PodLogs, uid: String, container: String, wanted: Wanted) -> Response<Body> {
    let start = (logs.subscribe(), None, wanted, false);
    let frames = stream::unfold(start, move |(mut changes, from, mut wanted, ended)| {
        let (logs, uid, container) = (logs.clone(), uid.clone(), container.clone());
        async move {
            if ended {
                return None;
            }
            let mut from = from;
            loop {
                // Marked as seen before it is read, so that nothing is missed in between.
                changes.borrow_and_update();
                let reading = logs.read(&uid, &container, from)?;
                from = Some(reading.next);
                let text = wanted.text(&reading.lines);
                let ended = reading.over || wanted.is_full();
                if !text.is_empty() || ended {
                    let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
                    return Some((frame, (changes, from, wanted, ended)));
                }
                changes.changed().await.ok()?;
            }
        }
    });
    respond(StatusCode::OK, StreamBody::new(frames).boxed_unsync())
}

fn text(text: String) -> Response<Body> {
    respond(StatusCode::OK, Full::from(text).boxed_unsync())
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    respond(status, Full::from(text.to_owned()).boxed_unsync())
}

fn respond(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
