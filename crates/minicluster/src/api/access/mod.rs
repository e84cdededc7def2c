//! Authentication and authorization.

mod account_tokens;
mod authenticate;
mod bootstrap_policy;
mod escalation;
mod grants;
mod impersonation;
mod permission_atom;
mod rbac;
mod reviews;
mod subject;

pub use account_tokens::{AccountTokens, ISSUER};
pub use authenticate::{Access, Authenticator, Peer, Token};
pub(super) use bootstrap_policy::policy;
pub use rbac::{Attributes, Authorization, Authorizer};

#[cfg(test)]
mod tests;
