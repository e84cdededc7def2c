//! Reading: one object, a list, a watch.

mod get;
mod list;
mod view;
mod watch;

pub use view::{ListFacts, View};
