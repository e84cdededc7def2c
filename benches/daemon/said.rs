//! The log lines of belay while it works, with their times.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The messages of belay's own log, at every level.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<(Instant, String)>>>);

impl Said {
    /// Listens to this process from here on.
    pub fn listen() -> Said {
        let said = Said::default();
        tracing_subscriber::registry().with(said.clone()).init();
        said
    }

    /// Returns the lines since it was asked last.
    pub fn take(&self) -> Vec<(Instant, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for Said {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("belay") {
            return;
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push((Instant::now(), message.0));
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
