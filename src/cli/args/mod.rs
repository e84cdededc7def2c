//! What is typed: workloads, selectors, pages of the command line; and what may have been meant.

pub(in crate::cli) mod act_on_each;
pub(in crate::cli) mod candidates;
pub(in crate::cli) mod command_line;
pub(in crate::cli) mod nearest;
pub(in crate::cli) mod selector;
pub(in crate::cli) mod target;
pub(in crate::cli) mod workload;
