//! A person's own working copy: its files edited, committed, signed and pushed.

pub(in crate::git) mod identity;
pub(in crate::git) mod lost_folders;
pub(in crate::git) mod push;
pub(in crate::git) mod revision;
pub(in crate::git) mod signing;
pub(in crate::git) mod working_copy;
