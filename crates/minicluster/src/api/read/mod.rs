//! Reading: one object, a list, a watch.

mod component_statuses;
mod get;
mod list;
mod view;
mod watch;

pub use view::{ListFacts, View};
