//! The parts of the simulation, from the seed to the verdict.

pub mod books;
pub mod bugs;
pub mod checks;
pub mod events;
pub mod findings;
pub mod hands;
pub mod line;
pub mod log;
pub mod perform;
pub mod play;
pub mod repository;
pub mod run;
pub mod scenario;
pub mod second;
pub mod shrink;
pub mod story;
pub mod watching;
pub mod weather;
