//! Answers that are read by others than belay, who would keep all of them: bounded on their way.

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use tower::BoxError;

/// A body of bytes.
pub(super) type BoundedBody = UnsyncBoxBody<Bytes, BoxError>;

/// A body whose lines have at most `limit` bytes each. It breaks off behind a longer one.
pub(super) fn with_short_lines(body: Body, limit: usize) -> BoundedBody {
    let mut line = 0;
    let frames = body.into_data_stream().map(move |bytes| -> Result<Frame<Bytes>, BoxError> {
        let bytes = bytes?;
        let is_end = |byte: &u8| *byte == b'\n';
        let ended = line + bytes.iter().position(is_end).unwrap_or(bytes.len());
        line = bytes.iter().rposition(is_end).map_or(ended, |end| bytes.len() - end - 1);
        match ended.max(line) > limit {
            true => Err(format!("a line of it has more than {limit} bytes").into()),
            false => Ok(Frame::data(bytes)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(parts: &[&'static str], limit: usize) -> Result<Vec<u8>, String> {
        let parts = parts.to_vec();
        // A body of several frames, as a client hands it on.
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let frames = parts.clone().into_iter().map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from(part))));
            let body = StreamBody::new(futures::stream::iter(frames));
            async move { Ok::<_, BoxError>(http::Response::new(body)) }
        });
        let client = kube::Client::new(service, "default");
        let answer = client.send(http::Request::new(Body::empty())).await.unwrap();
        let read = with_short_lines(answer.into_body(), limit).collect().await;
        read.map(|body| body.to_bytes().to_vec()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_it() {
        for (parts, good) in [
            (vec![], true),
            (vec!["12345\n", "12345\n12", "345\n"], true),
            (vec!["1234", "56\n"], false),
            (vec!["1\n", "123", "456", "7"], false),
        ] {
            match read(&parts, 5).await {
                Ok(whole) => assert!(good && whole == parts.concat().into_bytes(), "{parts:?}"),
                Err(error) => assert!(!good && error.contains("more than 5 bytes"), "{parts:?}: {error}"),
            }
        }
    }
}
