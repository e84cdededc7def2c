//! The content of a repository: its commits, trees and files, at a commit and between two.

pub(in crate::git) mod attribution;
pub(in crate::git) mod commits;
pub(in crate::git) mod folder_trees;
pub(in crate::git) mod follow;
pub(in crate::git) mod graph;
pub(in crate::git) mod limits;
pub(in crate::git) mod listing;
pub(in crate::git) mod names;
pub(in crate::git) mod tree;
pub(in crate::git) mod user_config;
pub(in crate::git) mod wildcard;
