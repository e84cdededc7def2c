//! Who asks, and what they may do.

mod authenticate;
mod bootstrap_policy;
mod escalation;
mod grants;
mod impersonation;
mod permission_atom;
mod rbac;
mod reviews;
mod subject;

pub use authenticate::{Access, Authorization, Peer, Token};
pub(super) use bootstrap_policy::policy;
pub(super) use rbac::Attributes;
