//! Manifests: as kubectl reads them, as an API server takes them, within bounds, and never with a secret shown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod against_api_server;
mod against_kubectl;
mod bounds;
mod cases;
mod edits;
mod generate;
mod kubectl;
mod secrets;
mod yaml_cases;
