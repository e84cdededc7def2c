//! One watch of a scope: the events that were missed, then those that come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::Store;
use super::event::Event;
use super::resource_store::Gone;
use super::storage_key::{GroupResource, Scope};

/// A watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    store: Store,
    group_resource: GroupResource,
    scope: Scope,
    id: u64,
    backlog: VecDeque<Arc<Event>>,
    receiver: mpsc::Receiver<Arc<Event>>,
    after: u64,
}

/// The next message of a watch.
#[derive(Debug)]
pub enum Next {
    /// Something happened.
    Event(Arc<Event>),
    /// The watch is over: the server stops, or too much waited.
    End,
}

impl Watcher {
    pub(super) fn new(
        store: Store,
        group_resource: GroupResource,
        scope: Scope,
        id: u64,
        backlog: VecDeque<Arc<Event>>,
        receiver: mpsc::Receiver<Arc<Event>>,
        after: u64,
    ) -> Watcher {
        Watcher { store, group_resource, scope, id, backlog, receiver, after }
    }

    /// Returns the next event after the revision that the watch began at, or the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            let event = match self.backlog.pop_front() {
                Some(event) => event,
                None => match self.receiver.poll_recv(context) {
                    Poll::Ready(Some(event)) => event,
                    Poll::Ready(None) => return Poll::Ready(Next::End),
                    Poll::Pending => return Poll::Pending,
                },
            };
            // A watch may begin at a revision that is yet to come.
            if event.object.revision > self.after {
                return Poll::Ready(Next::Event(event));
            }
        }
    }

    /// Returns true when no event is waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty() && self.receiver.is_empty()
    }

    /// Returns the latest revision of the store that watches have. A watcher that has taken all events that were
    /// waiting after this call has seen every change of the scope up to it.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.store.told()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.store.unregister(&self.group_resource, &self.scope, self.id);
    }
}

impl Store {
    /// Tells of every change in a scope after a revision.
    ///
    /// # Errors
    /// The window does not reach back to the revision.
    pub fn watch(&self, group_resource: &GroupResource, scope: &Scope, after: u64) -> Result<Watcher, Gone> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.watchers_made += 1;
        let id = inner.watchers_made;
        let open = !inner.closed;
        let watched = inner.stores.entry(group_resource.clone()).or_default();
        let backlog = watched.since(scope, after, inner.told)?;
        let receiver = watched.register(scope, id, open);
        Ok(Watcher::new(self.clone(), group_resource.clone(), scope.clone(), id, backlog, receiver, after))
    }

    /// Ends a watch.
    fn unregister(&self, group_resource: &GroupResource, scope: &Scope, id: u64) {
        if let Some(store) = self.lock().stores.get_mut(group_resource) {
            store.unregister(scope, id);
        }
    }

    /// Returns the revision up to which watches have the events. If writes are kept, it may be behind the latest.
    fn told(&self) -> u64 {
        self.lock().told
    }
}
