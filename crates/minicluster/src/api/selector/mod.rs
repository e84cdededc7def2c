//! The selection of objects: by their labels, and by a few of their fields.

mod fields;
mod labels;

pub use fields::{FieldSelector, Selectable};
pub use labels::LabelSelector;
