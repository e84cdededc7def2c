//! Writes under way: a bounded number at a time, at most one for each pod.

use std::collections::VecDeque;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::event_key::EventKey;
use super::pod_name::Uid;
use super::requests::Error;
use super::simulated_pod::Found;

/// Writes under way at a time.
const AT_ONCE: usize = 32;

/// The purpose of a write, and its result.
pub struct WriteResult {
    /// The purpose.
    pub what: What,
    /// The result.
    pub result: Result<(), Error>,
}

/// The purpose of a write.
#[derive(Debug)]
pub enum What {
    /// The status of the pod with this uid, or its removal.
    Pod(Uid),
    /// The binding of the pod with this uid to this node.
    Binding(Uid, String),
    /// The message that the pod with this uid waits for a node, or that it is pushed out of one.
    Wait(Uid),
    /// An event of the pod with this uid.
    Event(Uid, EventKey),
    /// The needs of the pod with this uid, and those that were found.
    LookUp(Uid, Result<Found, Error>),
    /// The lease of this node.
    Lease(String),
}

/// Writes under way and those that wait for their turn.
#[derive(Default)]
pub struct Writes {
    under_way: FuturesUnordered<BoxFuture<'static, WriteResult>>,
    waiting: VecDeque<BoxFuture<'static, WriteResult>>,
}

impl Writes {
    /// Makes a write as soon as its turn comes.
    pub fn add(&mut self, write: impl Future<Output = WriteResult> + Send + 'static) {
        self.waiting.push_back(Box::pin(write));
        self.fill();
    }

    /// Returns the next write that is done; never, while there is none under way.
    pub async fn next(&mut self) -> WriteResult {
        match self.under_way.next().await {
            Some(done) => {
                self.fill();
                done
            }
            None => std::future::pending().await,
        }
    }

    fn fill(&mut self) {
        while self.under_way.len() < AT_ONCE
            && let Some(write) = self.waiting.pop_front()
        {
            self.under_way.push(write);
        }
    }
}
