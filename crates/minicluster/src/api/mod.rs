//! The API server: request to response, a tower service; the only owner of the store.
//!
//! ```text
//! request ─▶ call ─▶ route ─▶ read/    get, list, watch          ─▶ view ─▶ reply ─▶ response
//!           (who,   (what a   write/   create, update, patch,     (object, table,
//!            body)   path      │       delete ─▶ kube_rules ─▶ admission   metadata; JSON, YAML)
//!                    names)    ▼
//!                            store    one sequence of revisions, a window of events a resource
//! ```
//!
//! [`access::Authenticator`] finds the user, [`access::Authorizer`] the rights, and [`admission::Admission`] the
//! additions, refusals and counts of the cluster's rules. Each knows the store and no server, and is tested with
//! nothing else.
//!
//! Other encodings of objects than JSON and YAML are at home at two seams: [`call::Call::read`] on the way in, and
//! `reply::written` with [`negotiate`] on the way out.

mod access;
mod admission;
mod body;
mod bootstrap;
mod call;
mod convert;
mod definitions;
mod discovery;
mod field_selector;
mod handler;
mod health;
mod json_pointer;
mod negotiate;
mod openapi;
mod options;
mod pretty;
mod protobuf;
mod query;
mod read;
mod registry;
mod reply;
mod resource;
mod route;
mod server;
mod store;
mod subresource;
mod table;
mod time;
mod timeout;
mod write;
mod write_context;

pub use kube_rules::{ApiError, Cause};

pub use access::{Access, Authorization, Peer, Token};
pub use body::Body;
pub use call::User;
pub use server::{ApiServer, Kept, Settings};
pub use store::{Backup, KeepError};

#[cfg(test)]
mod tests;
