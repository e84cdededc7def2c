//! The repository's side of a source: its mirror, and what is known of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::beyond_limits::HeadBeyondLimits;
use super::blocking_pool::BlockingPool;
use super::desired_state::DesiredState;
use super::read_files::ReadFiles;
use super::units::Units;
use super::unmanaged::Unmanaged;
use crate::git::Mirror;
use crate::render::SourcePaths;

/// The repository's side of a source.
#[derive(Clone)]
pub(super) struct Repository {
    pub mirror: Arc<Mirror>,
    /// What is followed of it.
    pub paths: SourcePaths,
    /// The folder that all of that lies in.
    pub folder: String,
    /// What it holds at its head, as the source's loop has put it in place last.
    pub desired: watch::Receiver<Arc<DesiredState>>,
    /// Whether it has not answered yet.
    pub away: Away,
    /// Where all this is done.
    pub blocking_pool: BlockingPool,
    /// What is rendered.
    pub units: Units,
    /// Whether its head is beyond the limits.
    pub beyond_limits: HeadBeyondLimits,
    /// Objects with the label of this source that it did not make.
    pub unmanaged: Arc<Unmanaged>,
    /// Files that were read lately.
    pub read_files: Arc<ReadFiles>,
}

impl Repository {
    /// What it holds at its head. A newer head does not change what is returned.
    pub(super) fn desired(&self) -> Arc<DesiredState> {
        Arc::clone(&self.desired.borrow())
    }
}

/// Whether all that is known of a repository comes from the mirror, since it has not answered yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Away(pub Arc<AtomicBool>);

impl Away {
    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
