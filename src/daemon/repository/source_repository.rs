//! The repository's side of a source: its mirror, and the known facts about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::beyond_limits::HeadBeyondLimits;
use super::desired_state::DesiredState;
use super::read_files::ReadFiles;
use super::units::Units;
use super::unmanaged::Unmanaged;
use crate::daemon::shared::blocking_pool::BlockingPool;
use crate::git::Mirror;
use crate::render::SourcePaths;

/// The repository's side of a source.
#[derive(Clone)]
pub struct Repository {
    pub mirror: Arc<Mirror>,
    /// The paths that are followed.
    pub paths: SourcePaths,
    /// The folder that all of that lies in.
    pub folder: String,
    /// Its content at its head, as the source's loop has set it last.
    pub desired: watch::Receiver<Arc<DesiredState>>,
    /// The flag that it has not answered yet.
    pub away: Away,
    /// The place where all this runs.
    pub blocking_pool: BlockingPool,
    /// The rendered units.
    pub units: Units,
    /// The flag that its head is beyond the limits.
    pub beyond_limits: HeadBeyondLimits,
    /// Objects with the label of this source that it did not make.
    pub unmanaged: Arc<Unmanaged>,
    /// Files that were read lately.
    pub read_files: Arc<ReadFiles>,
}

impl Repository {
    /// Returns its content at its head. A newer head does not change the returned value.
    pub fn desired(&self) -> Arc<DesiredState> {
        Arc::clone(&self.desired.borrow())
    }
}

/// The flag that all knowledge of a repository comes from the mirror, since it has not answered yet.
#[derive(Clone, Debug, Default)]
pub struct Away(pub Arc<AtomicBool>);

impl Away {
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
