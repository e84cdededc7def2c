//! The embedded cluster against the real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::too_many_lines,
    reason = "tests; a case is a list of steps"
)]

#[path = "../../support/mod.rs"]
mod support;

mod api_documents;
mod api_exchange;
mod api_protobuf;
mod controllers;
mod drift;
mod facts;
mod go_protobuf;
mod go_types;
mod installations;
mod jobs_run_once;
mod kubectl;
mod kubelet;
mod main_job;
mod main_job_analysis;
mod main_job_bake;
mod main_job_canary;
mod main_job_kinds;
mod main_job_not_served;
mod main_job_rendered;
mod main_job_restored;
mod main_job_traps;
mod manager_protobuf;
mod objects;
mod quiet;
mod random_objects;
mod roles;
mod token_volumes;
mod undo;
