//! The arguments: workloads, selectors, pages of the command line; and suggestions.

pub(in crate::cli) mod act_on_each;
pub(in crate::cli) mod candidates;
pub(in crate::cli) mod command_line;
pub(in crate::cli) mod nearest;
pub(in crate::cli) mod selector;
pub(in crate::cli) mod target;
pub(in crate::cli) mod workload;
