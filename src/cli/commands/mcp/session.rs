//! A session: messages are taken one after the other, calls of tools run beside each other, and answers go out as they come.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::call::ToolRunner;
use super::line::{self, BoundedLine, LINE};
use super::protocol::{
    ClientMessage, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, answer, error_answer, initialized,
    read,
};
use super::tools::{TOOLS, called};

/// The calls that run at once. One more waits, and with it the messages behind it.
const CALLS: usize = 4;
/// The answers that wait to be written.
const ANSWERS: usize = 16;

/// Answers the messages of a client, until it closes the input and its calls have ended.
pub(super) async fn serve<R, W>(mut input: R, output: W, runner: Arc<ToolRunner>) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (answers, queue) = mpsc::channel(ANSWERS);
    let writer = tokio::spawn(write(output, queue));
    let slots = Arc::new(Semaphore::new(CALLS));
    let mut session =
        McpSession { runner, answers, slots, calls: JoinSet::new(), running: BTreeMap::new(), is_begun: false };
    while let Some(line) = line::next(&mut input).await? {
        if !session.take(line).await {
            // Nobody reads the answers any more: the calls end with the session.
            return Ok(());
        }
    }
    let McpSession { mut calls, answers, .. } = session;
    while calls.join_next().await.is_some() {}
    drop(answers);
    // An output that was closed is the end of the client.
    let _ = writer.await;
    Ok(())
}

async fn write<W: AsyncWrite + Unpin>(mut output: W, mut queue: mpsc::Receiver<Value>) -> io::Result<()> {
    while let Some(message) = queue.recv().await {
        output.write_all(format!("{message}\n").as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

struct McpSession {
    runner: Arc<ToolRunner>,
    answers: mpsc::Sender<Value>,
    slots: Arc<Semaphore>,
    calls: JoinSet<()>,
    /// The calls by the ids of their requests.
    running: BTreeMap<String, AbortHandle>,
    /// True once the client has begun the session.
    is_begun: bool,
}

impl McpSession {
    /// Takes a line. Returns false when nobody reads the answers.
    async fn take(&mut self, line: BoundedLine) -> bool {
        let text = match line {
            BoundedLine::Text(text) if text.trim_ascii().is_empty() => return true,
            BoundedLine::Text(text) => text,
            BoundedLine::TooLong => {
                let why = format!("the line is longer than {} MiB", LINE >> 20);
                return self.send(error_answer(&Value::Null, PARSE_ERROR, &why)).await;
            }
        };
        match read(&text) {
            ClientMessage::Request { id, method, params } => match self.answered(&id, &method, &params) {
                Some(answer) => self.send(answer).await,
                None => self.begin_call(id, params).await,
            },
            ClientMessage::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.cancel(&params["requestId"]);
                }
                true
            }
            ClientMessage::Response => true,
            ClientMessage::Wrong(answer) => self.send(answer).await,
        }
    }

    async fn send(&self, answer: Value) -> bool {
        self.answers.send(answer).await.is_ok()
    }

    /// Returns the answer to a request; `None` for the call of a tool.
    fn answered(&mut self, id: &Value, method: &str, params: &Value) -> Option<Value> {
        if method == "ping" {
            return Some(answer(id, &json!({})));
        }
        if method != "initialize" && !self.is_begun {
            return Some(error_answer(id, INVALID_REQUEST, "the session begins with initialize"));
        }
        match method {
            "initialize" => Some(match initialized(params) {
                Ok(result) => {
                    self.is_begun = true;
                    answer(id, &result)
                }
                Err(why) => error_answer(id, INVALID_PARAMS, why),
            }),
            "tools/list" if params.get("cursor").is_some() => {
                Some(error_answer(id, INVALID_PARAMS, "there is one page of tools, and no cursor"))
            }
            "tools/list" => {
                let tools: Vec<Value> = TOOLS.iter().map(|tool| tool.described()).collect();
                Some(answer(id, &json!({"tools": tools})))
            }
            "tools/call" => self.refused_call(id, params),
            _ => Some(error_answer(id, METHOD_NOT_FOUND, "there is no such method")),
        }
    }

    /// Returns the answer to a call that names no tool, has no arguments, or whose id is in use.
    fn refused_call(&self, id: &Value, params: &Value) -> Option<Value> {
        let name = params["name"].as_str().unwrap_or_default();
        if called(name).is_none() {
            let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            let why = format!("there is no such tool; there is {}", known.join(", "));
            return Some(error_answer(id, INVALID_PARAMS, &why));
        }
        if params.get("arguments").is_some_and(|arguments| !arguments.is_object()) {
            return Some(error_answer(id, INVALID_PARAMS, "arguments is an object"));
        }
        let is_used = self.running.get(&id.to_string()).is_some_and(|call| !call.is_finished());
        is_used.then(|| error_answer(id, INVALID_REQUEST, "a call with this id is still running"))
    }

    /// Begins the call of a tool, once there is room for one.
    async fn begin_call(&mut self, id: Value, params: Value) -> bool {
        let Some(tool) = params["name"].as_str().and_then(called) else { return true };
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return false };
        let (runner, answers, key) = (Arc::clone(&self.runner), self.answers.clone(), id.to_string());
        while self.calls.try_join_next().is_some() {}
        self.running.retain(|_, call| !call.is_finished());
        let call = self.calls.spawn(async move {
            let none = Map::new();
            let result = runner.call(tool, params["arguments"].as_object().unwrap_or(&none)).await;
            // If nobody reads it, the session ends with its next answer.
            let _ = answers.send(answer(&id, &result)).await;
            drop(slot);
        });
        self.running.insert(key, call);
        true
    }

    /// Ends a call; it has no answer then.
    fn cancel(&mut self, id: &Value) {
        if let Some(call) = self.running.remove(&id.to_string()) {
            call.abort();
        }
    }
}
