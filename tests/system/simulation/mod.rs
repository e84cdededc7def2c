//! The parts of the simulation, from the seed to the verdict.

pub mod api_proxy;
pub mod bugs;
pub mod checks;
pub mod cluster_faults;
pub mod events;
pub mod fault_rates;
pub mod findings;
pub mod history_rows;
pub mod log;
pub mod manual_changes;
pub mod perform;
pub mod play;
pub mod prometheus;
pub mod repository;
pub mod run;
pub mod scenario;
pub mod second_source;
pub mod shrink;
pub mod story;
pub mod watching;
