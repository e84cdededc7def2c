//! The program itself: what it prints and how it exits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod desk;
mod door;
mod program;
mod schema;
mod served;
mod stage;

mod around;
mod asking;
mod basics;
mod beside_kubectl;
mod by_hand;
mod cluster;
mod committing;
mod controllers;
mod demo;
mod docs;
mod editing;
mod globals;
mod image;
mod importing;
mod kustomized;
mod monitoring;
mod notifying;
mod operating;
mod pushing;
mod reading;
mod recollecting;
mod render;
mod rolling_update;
mod run;
mod secrets;
mod setting;
mod shells;
mod simulate;
mod standing;
mod terminal;
mod waiting_ends;
mod why;
