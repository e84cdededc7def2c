//! The changes that writes make.

/// The change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
}

/// The extent of an object in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteExtent {
    /// All of it.
    Whole,
    /// Its metadata and status. The rest stays as it is in the version that is replaced.
    MetadataAndStatus,
}
