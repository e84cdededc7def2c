//! The program itself: what it prints and how it exits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod desk;
mod program;
mod stage;

mod basics;
mod beside_kubectl;
mod by_hand;
mod demo;
mod editing;
mod reading;
mod run;
