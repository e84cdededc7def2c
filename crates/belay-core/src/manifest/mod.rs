//! TEXT TO OBJECTS. Pure: no I/O, no clock.
//!
//! `yaml` reads text exactly as kubectl would, each key and value with its place; `schema` knows which fields a kind has;
//! `set` turns the files of a folder at a commit into manifests, or complaints, file by file.

mod compact;
mod complaint;
mod doubts;
pub mod edit;
mod hash;
mod helm_hooks;
mod hidden;
mod hook_deletion;
mod manifest_set;
mod names;
mod not_read;
mod object;
mod object_of;
mod one_manifest;
mod paths;
mod redaction;
mod render;
mod rendered;
mod report;
mod rules;
mod schema;
mod scopes;
mod secrecy;
mod set;
mod shortened;
#[cfg(test)]
pub(crate) mod thread_time;
mod value_memory;
mod written;
pub mod yaml;

pub use compact::Compact;
pub use complaint::{Complaint, Excerpt, Note};
pub use doubts::{left_to_other_tool, other_tool};
pub use hash::{ManifestHash, hex, parse_hex};
pub use helm_hooks::{AFTER, HOOK_RUN, ONCE, UPGRADE};
pub use hidden::is_hidden;
pub use hook_deletion::{HookDeletion, UNTIL, deletes_hook};
pub use manifest_set::{Located, ManifestSet};
pub use not_read::{FolderReplacement, NotRead};
pub use object::{ObjectKey, Place};
pub use one_manifest::Manifest;
pub use paths::{is_manifest, is_passed_over};
pub use redaction::{
    Certainty, ChartTemplates, FileContent, NamedFiles, Redaction, files_of_kustomization, may_be_secret, short_keys,
    without_values,
};
pub use render::{Colour, render};
pub use rendered::{Origins, Rendered, join, not_rendered, read_rendered};
pub use report::brief;
pub use schema::{CustomShape, Definition, nearest};
pub use scopes::{GroupKind, Scopes};
pub use secrecy::secret_lines;
pub use set::{File, read_file};
pub use shortened::shortened;
pub use value_memory::{Unread, value_memory};
