//! Tells open pages that something has changed, as server-sent events. A page that hears of it reads itself again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _, stream};
use http::{StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Room;
use super::plain_text::text;
use crate::daemon::Status;

/// The number of pages that may listen at once: half of the connections, so that they never keep others out. One more
/// shows its page as it was when it was opened, and tries again.
const LISTENERS: usize = 32;
/// The shortest time between two messages to a page.
const BETWEEN: Duration = Duration::from_secs(1);
/// The time without events after which a comment is sent: a proxy does not close the connection then, and a page that was
/// closed gives its room back.
const KEEP: Duration = Duration::from_secs(5);

/// Returns the room for listeners.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LISTENERS))
}

pub(super) async fn events(State(room): State<Room>) -> Response {
    match Arc::clone(&room.listeners).try_acquire_owned() {
        Ok(permit) => {
            let told = Sse::new(changes(room.shown.status.clone(), permit)).keep_alive(KeepAlive::new().interval(KEEP));
            // A proxy in between must not gather events before it hands them on.
            ([(header::HeaderName::from_static("x-accel-buffering"), "no")], told).into_response()
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "too many pages listen\n"),
    }
}

/// Returns an event for each change, none if the daemon has ended. The first says that somebody listens.
fn changes(
    mut status: watch::Receiver<Status>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    status.mark_unchanged();
    let hello = Event::default().event("hello").retry(Duration::from_secs(3)).data("1");
    let later = stream::unfold((status, permit), |(mut status, permit)| async move {
        status.changed().await.ok()?;
        // Events of the meantime are sent with it.
        tokio::time::sleep(BETWEEN).await;
        status.mark_unchanged();
        Some((Event::default().event("change").data("1"), (status, permit)))
    });
    stream::once(async { hello }).chain(later).map(Ok)
}
