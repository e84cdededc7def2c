//! Git, with real repositories in temporary folders.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, clippy::print_stdout, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod attribution;
mod bombs;
mod damaged;
mod hostile_answers;
mod hostile_packs;
mod hostile_servers;
mod killed;
mod lost_folders;
mod many_parents;
mod mirror;
mod random;
mod remote;
mod secure_shell;
mod source;
mod trees;
mod wake;
mod working_copy;
