//! The program itself: what it prints and how it exits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod program;
mod stage;

mod basics;
mod demo;
mod reading;
mod run;
