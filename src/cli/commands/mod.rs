//! One file or folder a command. Each is described in the doc comment of its arguments.

pub(in crate::cli) mod check;
pub(in crate::cli) mod cluster;
pub(in crate::cli) mod completions;
pub(in crate::cli) mod demo;
pub(in crate::cli) mod help;
pub(in crate::cli) mod history;
pub(in crate::cli) mod import;
pub(in crate::cli) mod man;
pub(in crate::cli) mod new;
pub(in crate::cli) mod notify_test;
pub(in crate::cli) mod pause;
pub(in crate::cli) mod plan;
pub(in crate::cli) mod render;
pub(in crate::cli) mod restart;
pub(in crate::cli) mod retry;
pub(in crate::cli) mod rolling_update;
pub(in crate::cli) mod run;
pub(in crate::cli) mod scale;
pub(in crate::cli) mod set;
pub(in crate::cli) mod show;
pub(in crate::cli) mod simulate;
pub(in crate::cli) mod status;
pub(in crate::cli) mod suspend;
pub(in crate::cli) mod sync;
pub(in crate::cli) mod undo;
pub(in crate::cli) mod version;
