//! Watches over the line: each event takes its time, and in a storm they end or are told that their version is too old.

use super::api_proxy::{Answer, ApiProxy, Broken, Process, refusal, whole};
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body;

/// Carries a watch: its beginning, and every event.
pub async fn carry(line: &ApiProxy, process: &Process, request: Request<Body>) -> Result<Answer, Broken> {
    line.travel(process).await;
    let roll = line.random().below(100);
    if roll < line.weather().watches {
        return match line.random().below(4) {
            0 => Err("connection refused".into()),
            1 => answer(refusal(410, None)),
            2 => answer(refusal(429, Some(3))),
            _ => answer(refusal(500, None)),
        };
    }
    let path = request.uri().path().to_owned();
    let response = line.server().send(request).await?;
    let (parts, body) = response.into_parts();
    let (line, process, turns) = (line.clone(), process.clone(), line.turns());
    let reading = Reading { line, process, path, body, rest: BytesMut::new(), turns };
    Ok(Response::from_parts(parts, StreamBody::new(reading.frames()).boxed_unsync()))
}

fn answer((code, bytes): (u16, Bytes)) -> Result<Answer, Broken> {
    Ok(Response::builder().status(code).header("Content-Type", "application/json").body(whole(bytes))?)
}

/// A watch that is being read.
struct Reading {
    line: ApiProxy,
    process: Process,
    path: String,
    body: Body,
    /// The beginning of a line that is not whole yet.
    rest: BytesMut,
    /// The number of turns of the weather at the last look.
    turns: u64,
}

impl Reading {
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Broken>> + Send {
        futures::stream::unfold(self, |mut reading| async move {
            let frame = reading.next().await?;
            Some((frame, reading))
        })
    }

    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1).freeze();
                self.line.travel(&self.process).await;
                let mut line = self.line.twisted(&self.path, line).to_vec();
                self.line.hears(&self.process, &self.path, &line);
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                return Some(Ok(Frame::data(Bytes::from(line))));
            }
            tokio::select! {
                biased;
                () = self.line.turned(self.turns) => {
                    self.turns = self.line.turns();
                    if self.line.random().below(100) < self.line.weather().watches {
                        return match self.line.random().below(3) {
                            0 => None,
                            1 => Some(Err("connection reset by peer".into())),
                            _ => Some(Ok(Frame::data(expired()))),
                        };
                    }
                }
                frame = self.body.frame() => match frame? {
                    Ok(frame) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                    Err(error) => return Some(Err(Box::new(error))),
                },
            }
        }
    }
}

/// Returns the event that tells a watch that its version is too old.
fn expired() -> Bytes {
    let (_, status) = refusal(410, None);
    let status = String::from_utf8_lossy(&status).into_owned();
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"))
}
