//! The environment of tests: the real control plane, Git repositories in temporary folders, the daemon.
#![allow(dead_code, reason = "each test binary takes the parts it needs")]

pub mod canary;
pub mod control_plane;
pub mod daemon;
pub mod full_disk;
pub mod git_server;
pub mod habits;
pub mod log;
pub mod programs;
pub mod prometheus;
pub mod receivers;
pub mod repository;
pub mod snapshot;
pub mod ssh_server;
pub mod tap;
pub mod undo_sequence;
pub mod workloads;
