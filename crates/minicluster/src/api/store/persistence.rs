//! The knowledge of a store about its file: the writes that are not in it yet, and those who wait for them.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::event::Event;
use super::journal::{Journal, Noted};
use super::storage_key::GroupResource;

/// The persistence of a store's writes.
#[derive(Debug)]
pub(super) struct Persistence {
    pub(super) journal: Mutex<Journal>,
    /// Cancelled when a write could not be kept.
    pub(super) failed: CancellationToken,
    /// The last visit to the file that was told.
    pub(super) saved: Arc<watch::Sender<Saved>>,
}

/// The content of the file after a visit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    /// The number of the visit. Two tasks may tell of their visits in the other order.
    pub(super) visit: u64,
    /// Everything up to this revision is in the file.
    pub(super) revision: u64,
}

/// The writes that are not in the file yet.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// The writes, those in a list that were made together.
    pub(super) writes: Vec<Vec<Noted>>,
    /// The events for watches once it is in the file.
    pub(super) events: Vec<(GroupResource, Arc<Event>)>,
    /// True while somebody is writing the file.
    pub(super) saving: bool,
    /// The number of visits to the file.
    visits: u64,
}

impl Unsaved {
    /// Counts a visit after which the file is at a revision.
    pub(super) fn visited(&mut self, revision: u64) -> Saved {
        self.visits += 1;
        Saved { visit: self.visits, revision }
    }
}

/// Tells those who wait of a visit to the file, unless they know of a later one.
pub(super) fn tell(told: &watch::Sender<Saved>, saved: Saved) {
    told.send_if_modified(|told| {
        let is_news = saved.visit > told.visit;
        if is_news {
            *told = saved;
        }
        is_news
    });
}
