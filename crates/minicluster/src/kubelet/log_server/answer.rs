//! The answers of a node.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{Method, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use super::Archive;
use super::query::{Wanted, decode};
use crate::{LogLine, PodLogs};

type LogBody = UnsyncBoxBody<Bytes, Infallible>;

/// Answers a request.
pub fn answer(method: &Method, uri: &Uri, archive: &Archive) -> Response<LogBody> {
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

fn log(namespace: &str, name: &str, container: &str, mut wanted: Wanted, archive: &Archive) -> Response<LogBody> {
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

/// Returns the present lines and new ones, until the run is over or the pod is gone.
fn follow(logs: PodLogs, uid: String, container: String, wanted: Wanted) -> Response<LogBody> {
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

fn text(text: String) -> Response<LogBody> {
    respond(StatusCode::OK, Full::from(text).boxed_unsync())
}

fn plain(status: StatusCode, text: &str) -> Response<LogBody> {
    respond(status, Full::from(text.to_owned()).boxed_unsync())
}

fn respond(status: StatusCode, body: LogBody) -> Response<LogBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::Clock;
    use crate::PodLogs;
    use crate::kubelet::directory::{Directory, ListedObjects};
    use crate::kubelet::log_server::Archive;
    use http::Method;
    use http_body_util::BodyExt;
    use jiff::Timestamp;

    fn archive() -> Archive {
        let (logs, directory) = (PodLogs::default(), Directory::default());
        let containers = [("app".to_owned(), None), ("late".to_owned(), Some("ContainerCreating".to_owned()))];
        directory.list("shop", "web", ListedObjects { uid: "uid".to_owned(), containers: containers.into() });
        for text in ["one", "two"] {
            logs.begin("uid", "app");
            logs.append("uid", "app", Timestamp::UNIX_EPOCH, text);
        }
        Archive { logs, directory, clock: Clock::system() }
    }

    async fn get(archive: &Archive, path: &str) -> (u16, String) {
        let response = answer(&Method::GET, &path.parse().unwrap(), archive);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn logs_are_answered_and_what_is_not_there_is_said() {
        let archive = archive();
        for (path, status, text) in [
            ("/containerLogs/shop/web/app", 200, "two\n"),
            ("/containerLogs/shop/web/app?previous=true", 200, "one\n"),
            ("/containerLogs/shop/web/app?follow=true&limitBytes=3", 200, "two"),
            (
                "/containerLogs/shop/web/late",
                400,
                "container \"late\" in pod \"web\" is waiting to start: ContainerCreating",
            ),
            ("/containerLogs/shop/web/none", 404, "container none not found in pod shop/web"),
            ("/containerLogs/shop/none/app", 404, "pod shop/none does not exist"),
            ("/containerLogs/shop/web/app?tailLines=x", 400, "tailLines: \"x\" is not a number from 0"),
            ("/healthz", 200, "ok"),
            ("/", 404, "404 page not found"),
        ] {
            assert_eq!(get(&archive, path).await, (status, text.to_owned()), "{path}");
        }
        assert_eq!(get(&archive, "/exec/shop/web/app?command=sh").await.0, 501);
        assert_eq!(answer(&Method::POST, &"/healthz".parse().unwrap(), &archive).status(), 405);
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_is_followed_until_its_run_ends() {
        let archive = archive();
        let writing = async {
            for text in ["three", "four"] {
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                archive.logs.append("uid", "app", Timestamp::UNIX_EPOCH, text);
            }
            archive.logs.end("uid", "app");
        };
        let (followed, ()) = tokio::join!(get(&archive, "/containerLogs/shop/web/app?follow=1"), writing);
        assert_eq!(followed.1, "two\nthree\nfour\n");
    }
}
