//! What belay does, one file a behaviour, named as a sentence: the real daemon, a real client, the embedded cluster, a
//! real Git repository in a temporary folder, time paused.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod rolls_out_what_a_commit_says;
