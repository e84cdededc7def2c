//! Receivers of notices, and a collector of traces, that behave as a test says.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::clock::Clock;
use belay::notices::{Delivery, HttpAnswer, Post, SendError};
use jiff::Timestamp;
use serde_json::Value;

/// The behaviour of a receiver.
#[derive(Clone, Copy, PartialEq)]
pub enum ReceiverBehaviour {
    Takes,
    /// Answers so, with a wish when to be asked again, in seconds.
    Says(u16, Option<u64>),
    /// Is not there.
    Away,
    /// Takes the connection, and says nothing.
    Silent,
}

/// Receivers by their hosts, and what they were sent.
#[derive(Clone, Default)]
pub struct Receivers(Arc<Mutex<ReceiverState>>);

#[derive(Default)]
struct ReceiverState {
    behaviours: BTreeMap<String, ReceiverBehaviour>,
    sent: Vec<Sent>,
    clock: Option<Clock>,
}

/// A message that a receiver was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub host: String,
    pub at: Timestamp,
    pub path: String,
    pub headers: BTreeMap<&'static str, String>,
    pub body: Value,
}

impl Post for Receivers {
    fn post(&self, delivery: Delivery) -> Pin<Box<dyn Future<Output = Result<HttpAnswer, SendError>> + Send + '_>> {
        let mut state = self.0.lock().unwrap();
        let (host, path) = (delivery.host().to_owned(), delivery.path().to_owned());
        let behaviour = state.behaviours.get(&host).copied().unwrap_or(ReceiverBehaviour::Takes);
        let body = serde_json::from_slice(&delivery.body).unwrap();
        let at = state.clock.as_ref().unwrap().now();
        state.sent.push(Sent { host, at, path, headers: delivery.headers.into_iter().collect(), body });
        Box::pin(async move {
            let answer = |status, retry_after| Ok(HttpAnswer { status, retry_after, text: String::new() });
            match behaviour {
                ReceiverBehaviour::Takes => answer(204, None),
                ReceiverBehaviour::Says(status, seconds) => answer(status, seconds.map(Duration::from_secs)),
                ReceiverBehaviour::Away => Err(SendError("connection refused".to_owned())),
                ReceiverBehaviour::Silent => std::future::pending().await,
            }
        })
    }
}

impl Receivers {
    /// Notes the times of messages by this clock.
    pub fn keep_time(&self, clock: &Clock) {
        self.0.lock().unwrap().clock = Some(clock.clone());
    }

    /// Lets a receiver behave so.
    pub fn set(&self, host: &str, behaviour: ReceiverBehaviour) {
        self.0.lock().unwrap().behaviours.insert(host.to_owned(), behaviour);
    }

    /// Returns what a receiver was sent.
    pub fn sent(&self, host: &str) -> Vec<Sent> {
        self.0.lock().unwrap().sent.iter().filter(|sent| sent.host == host).cloned().collect()
    }

    /// Returns the events that a receiver was sent.
    pub fn events(&self, host: &str) -> Vec<String> {
        self.sent(host).iter().map(|sent| sent.headers["x-belay-event"].clone()).collect()
    }
}
