//! Reaching a Git server: over http and https by hyper and rustls, over ssh by the user's own `ssh`; and repositories on
//! this machine.
//!
//! libgit2 speaks Git; how the bytes come and go is belay's own (`register`). Each session has its limits (`session`).

pub(in crate::git) mod askpass;
mod completeness;
pub(in crate::git) mod copied_packs;
pub(in crate::git) mod credentials;
pub(in crate::git) mod fetch;
mod http;
mod http_client;
pub(in crate::git) mod import;
pub(in crate::git) mod local_files;
pub(in crate::git) mod location;
pub(in crate::git) mod redirect;
pub(in crate::git) mod register;
pub(in crate::git) mod session;
mod ssh;
pub(in crate::git) mod ssh_command;
pub(in crate::git) mod ssh_errors;
pub(in crate::git) mod surplus_parents;
pub(in crate::git) mod wake;
