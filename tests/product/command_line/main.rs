//! The program itself: what it prints and how it exits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod cluster_port;
mod fixture;
mod planned_names;
mod program;
mod schema;
mod served;
mod workstation;

mod analysed;
mod asking_a_server;
mod assistant;
mod basics;
mod beside_kubectl;
mod booted;
mod by_hand;
mod canaries;
mod checking;
mod cluster;
mod committing;
mod confirmation;
mod controllers;
mod demo;
mod docs;
mod editing;
mod globals;
mod guarded;
mod history_without_daemon;
mod image;
mod importing;
mod kustomized;
mod lost_folders;
mod memory_limits;
mod monitoring;
mod notifying;
mod operating;
mod other_user;
mod pushing;
mod reading;
mod reloading;
mod render;
mod retrying;
mod rights;
mod rolling_update;
mod run;
mod secrets;
mod setting;
mod shell_integration;
mod shells;
mod simulate;
mod status_of_an_outage;
mod status_states;
mod terminal;
mod waiting_ends;
mod why;
