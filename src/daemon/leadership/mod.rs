//! The Lease of a source, and the sources that this daemon follows.
//!
//! In: the Lease in the cluster. Out: the start and the end of a source's loop. Without the Lease nothing is written.

pub(super) mod leading;
pub(super) mod lease;
