//! Folders that a tool turns into manifests: finding them in a tree, the inputs of each, and the tool's run.
//!
//! | part | contents |
//! |---|---|
//! | [`Tree`] | the files of a commit, or of a folder on this machine, as the parts below read them |
//! | [`SourcePaths`] | the folders of a tree that a source follows |
//! | [`Options`], [`find`] | the folders that are units: read from the top down, nothing below a unit is read by itself |
//! | [`Unit`] | one of them, with its inputs: the files that its kustomization or chart names, in one hash |
//! | [`Renderer`] | runs the tool, and keeps its output by the hash of the inputs |
//! | [`Tools`] | the programs: kustomize, or kubectl, and helm |
//!
//! Finding units and their inputs is pure: a tree in, a plan out. A tool sees only exported files of the tree, the same
//! that the hash covers: a rendering of the same inputs is never out of date. The tool is a child process without the
//! environment, the network and the files of this machine, with limits of time, memory and output; nothing of a
//! repository is run.

mod arguments;
mod cache;
mod capabilities;
mod child;
mod closure;
mod confine;
mod excluded;
mod export;
mod find;
mod helm;
mod links;
mod lookup;
mod memory_tree;
mod origins;
mod orphans;
mod outcomes;
mod patterns;
mod program;
mod refusal;
#[cfg(target_os = "linux")]
mod refused_calls;
mod renderer;
mod said;
mod slots;
mod source_paths;
mod tools;
mod tree;
mod turns;
mod unit;

pub use capabilities::Capabilities;
pub use child::{ChildFailure, ChildLimits, confinement};
pub use closure::kustomization_in;
pub use confine::Confinement;
pub use excluded::{Excluded, IGNORE_FILE, are_patterns_too_many, ignoring_above};
pub use find::find;
pub use links::leads_to_manifests;
pub use memory_tree::MemoryTree;
pub use refusal::Refusal;
pub use renderer::Renderer;
pub use source_paths::SourcePaths;
pub use tools::{FoundTool, Tool, Tools};
pub use tree::{ContentId, Node, Tree, below, folders_above};
pub use unit::{
    HelmOptions, Inputs, KUSTOMIZATIONS, Options, Plan, RenderId, RolledOutTwice, Unit, UnitKind, UnitWarning,
};

#[cfg(test)]
mod tests;
