//! The API server: request to response, a tower service; the only owner of the store.

pub mod object;
mod status;

pub use status::{ApiError, Cause};
