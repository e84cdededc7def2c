//! A watch: the present objects, if asked for, then every change, with a bookmark now and then.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::time::{Instant, Sleep};

use super::list::selected;
use super::view::{View, error_line};
use crate::Clock;
use crate::api::body::Body;
use crate::api::negotiate::{Format, Negotiated, Shape};
use crate::api::options::{ListOptions, ListStart};
use crate::api::protobuf;
use crate::api::reply::{Reply, ReplyContent};
use crate::api::resource::Resource;
use crate::api::route::Target;
use crate::api::store::{Change, Event, Next, Page, Scope, Stored, Watcher};
use crate::api::{ApiError, ApiServer};

/// The period between two bookmarks of a watch that allows them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// The time before its end at which it gets one more.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The least time of a watch if its client does not say.
const SHORTEST: Duration = Duration::from_secs(1800);

impl ApiServer {
    /// Returns a watch of a scope. A fault at its beginning is in its first line, as in the real server.
    pub(super) fn watch(&self, target: &Target, options: &ListOptions, mut how: Negotiated, scope: &Scope) -> Reply {
        // Objects of custom kinds have no form in protocol buffers; their metadata has.
        if target.resource.custom.is_some() && how.shape == Shape::Object {
            how.format = Format::Json;
        }
        let protobuf = how.format == Format::Protobuf;
        let lasts = match options.timeout_seconds {
            0 => SHORTEST + Duration::from_secs(self.random().below(SHORTEST.as_secs())),
            seconds => Duration::from_secs(seconds),
        };
        let body = match self.begin(target, options, scope) {
            Ok((present, watcher, revision)) => {
                let end = Instant::now().checked_add(lasts).unwrap_or_else(Instant::now);
                Body::stream(WatchStream {
                    resource: Arc::clone(&target.resource),
                    options: options.clone(),
                    how,
                    clock: self.clock().clone(),
                    present: present.into(),
                    present_ends: (options.initial_events == Some(true) && options.bookmarks).then_some(revision),
                    watcher: Some(watcher),
                    first: true,
                    last_revision: revision,
                    end,
                    bookmark: Box::pin(tokio::time::sleep_until(next_bookmark(Instant::now(), end))),
                    timeout: Box::pin(tokio::time::sleep_until(end)),
                })
            }
            Err(error) if protobuf => Body::full(protobuf::frame(&error_line(&error)).unwrap_or_default()),
            Err(error) => Body::full(error_line(&error)),
        };
        let media_type = if protobuf { protobuf::STREAM } else { "application/json" };
        Reply::new(200, ReplyContent::Other(media_type, body))
    }

    /// Returns the first objects of a watch, the changes after that, and the revision in between.
    fn begin(
        &self,
        target: &Target,
        options: &ListOptions,
        scope: &Scope,
    ) -> Result<(Vec<Arc<Stored>>, Watcher, u64), ApiError> {
        let group_resource = &target.resource.group_resource;
        let initial = options.initial_events.unwrap_or(!matches!(options.start, ListStart::At(_)));
        if options.initial_events == Some(true)
            && let ListStart::At(revision) = options.start
        {
            self.not_in_the_future(revision)?;
        }
        let too_old = |revision: u64, oldest: u64| {
            ApiError::new(410, "Expired", format!("too old resource version: {revision} ({oldest})"))
        };
        if initial {
            loop {
                let Ok(snapshot) = self.store().snapshot(group_resource, scope, &Page::default()) else { continue };
                // Between the two, the window may move on.
                let Ok(watcher) = self.store().watch(group_resource, scope, snapshot.revision) else { continue };
                let mut present = snapshot.objects;
                present.retain(|object| selected(object, options));
                return Ok((present, watcher, snapshot.revision));
            }
        }
        let after = match options.start {
            ListStart::At(revision) => revision,
            ListStart::Unset | ListStart::Any => self.store().revision(),
        };
        let watcher = self.store().watch(group_resource, scope, after).map_err(|gone| too_old(after, gone.oldest))?;
        Ok((Vec::new(), watcher, after))
    }
}

fn next_bookmark(now: Instant, end: Instant) -> Instant {
    let regular = now + BOOKMARK_EVERY;
    match end.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now && last < regular => last,
        _ => regular,
    }
}

struct WatchStream {
    resource: Arc<Resource>,
    options: ListOptions,
    how: Negotiated,
    clock: Clock,
    present: VecDeque<Arc<Stored>>,
    /// The revision to send once the present objects are sent.
    present_ends: Option<u64>,
    watcher: Option<Watcher>,
    first: bool,
    last_revision: u64,
    end: Instant,
    bookmark: Pin<Box<Sleep>>,
    timeout: Pin<Box<Sleep>>,
}

impl Stream for WatchStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(object) = this.present.pop_front() {
            return Poll::Ready(Some(this.line(Change::Added, &object)));
        }
        if let Some(revision) = this.present_ends.take() {
            let line = this.view().bookmark(revision, true);
            return Poll::Ready(Some(this.written(line)));
        }
        if this.timeout.as_mut().poll(context).is_ready() {
            this.watcher = None;
            return Poll::Ready(None);
        }
        let due = this.options.bookmarks && this.bookmark.as_mut().poll(context).is_ready();
        let Some(watcher) = &mut this.watcher else { return Poll::Ready(None) };
        // Read before the events are: a later event is newer.
        let revision = due.then(|| watcher.revision());
        while let Poll::Ready(next) = watcher.poll_next(context) {
            let Next::Event(event) = next else { return Poll::Ready(None) };
            this.last_revision = event.object.revision;
            if let Some((change, object)) = seen(&event, &this.options) {
                return Poll::Ready(Some(this.line(change, &object)));
            }
        }
        // The runtime may hold back events that are there, to let others run.
        let Some(revision) = revision.filter(|_| watcher.is_idle()) else { return Poll::Pending };
        this.last_revision = this.last_revision.max(revision);
        this.bookmark.as_mut().reset(next_bookmark(Instant::now(), this.end));
        context.waker().wake_by_ref();
        let line = this.view().bookmark(this.last_revision, false);
        Poll::Ready(Some(this.written(line)))
    }
}

impl WatchStream {
    fn view(&self) -> View<'_> {
        View::new(&self.resource, &self.how, self.clock.now())
    }

    fn line(&mut self, change: Change, object: &Stored) -> Bytes {
        let first = std::mem::take(&mut self.first);
        let line = self.view().line(change, object, first);
        self.written(line)
    }

    /// Returns a line in the form that the client takes.
    fn written(&self, line: Bytes) -> Bytes {
        match self.how.format {
            Format::Protobuf => protobuf::frame(&line).unwrap_or_default(),
            _ => line,
        }
    }
}

/// Returns an event as it appears to a client with a selector. An object that leaves the selection appears as it was
/// when it was still selected, with the revision at which it left.
fn seen(event: &Event, options: &ListOptions) -> Option<(Change, Arc<Stored>)> {
    let before = event.previous.as_ref().filter(|previous| selected(previous, options));
    let after = event.change != Change::Deleted && selected(&event.object, options);
    match (before, after) {
        (None, true) => Some((Change::Added, Arc::clone(&event.object))),
        (Some(_), true) => Some((Change::Modified, Arc::clone(&event.object))),
        (Some(_), false) if event.change == Change::Deleted => Some((Change::Deleted, Arc::clone(&event.object))),
        (Some(before), false) => Some((Change::Deleted, Arc::new(before.at_revision(event.object.revision)))),
        (None, false) => None,
    }
}
