//! Authentication: from the client's credentials to its user.

use http::HeaderMap;

use super::account_tokens::AccountTokens;
use super::impersonation::impersonated;
use super::rbac::{Authorization, Authorizer};
use super::subject::subject;
use crate::api::ApiError;
use crate::api::call::User;

/// The known tokens, and the mode of authorization.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Bearer tokens of users.
    pub tokens: Vec<Token>,
    /// The mode of authorization.
    pub authorization: Authorization,
}

/// A bearer token and whose it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token.
    pub token: String,
    /// The user of the token.
    pub user: User,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Token({})", self.user.name)
    }
}

/// The known facts about the other end of a connection. Requests without it come from this process and are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The certificate that was shown, in DER; an authority of the server's has signed it.
    pub certificate: Option<Vec<u8>>,
}

/// Identifies users by their credentials.
#[derive(Debug)]
pub struct Authenticator {
    tokens: Vec<Token>,
    account_tokens: AccountTokens,
}

impl Authenticator {
    /// Knows the users of these tokens, and the accounts that tokens are made for.
    #[must_use]
    pub fn new(tokens: Vec<Token>, account_tokens: AccountTokens) -> Authenticator {
        Authenticator { tokens, account_tokens }
    }

    /// Returns the tokens of service accounts.
    #[must_use]
    pub fn account_tokens(&self) -> &AccountTokens {
        &self.account_tokens
    }

    /// Returns the user of a request, after impersonation, which `authorizer` must allow.
    ///
    /// # Errors
    /// 401 for tokens that are nobody's, 403 where impersonation is not allowed, 400 where it names no user.
    pub fn authenticate(
        &self,
        authorizer: &Authorizer,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<User, ApiError> {
        let user = self.own_identity(authorizer, headers, peer)?;
        Ok(impersonated(authorizer, &user, headers)?.unwrap_or(user))
    }

    fn own_identity(
        &self,
        authorizer: &Authorizer,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<User, ApiError> {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = sent.and_then(|sent| {
            let (scheme, token) = sent.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if let Some(token) = token {
            return self.user_of(token).ok_or_else(unauthorized);
        }
        match peer {
            None => Ok(User::admin()),
            Some(Peer { certificate: Some(certificate) }) => Ok(certified(certificate)),
            Some(_) if authorizer.allows_all() => {
                // Without roles, an anonymous client may do nothing: kube-apiserver turns anonymous requests off in
                // that mode, health checks included.
                if self.tokens.is_empty() { Ok(User::admin()) } else { Err(unauthorized()) }
            }
            Some(_) => Ok(User {
                name: "system:anonymous".to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..User::default()
            }),
        }
    }

    /// Returns the user of a token.
    pub(super) fn user_of(&self, token: &str) -> Option<User> {
        if let Some(known) = self.tokens.iter().find(|known| known.token == token) {
            let mut user = known.user.clone();
            if !user.groups.iter().any(|group| group == "system:authenticated") {
                user.groups.push("system:authenticated".to_owned());
            }
            return Some(user);
        }
        let (namespace, name, uid) = self.account_tokens.account_of(token)?;
        Some(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid,
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            extra: Vec::new(),
        })
    }
}

fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}

/// A certificate's common name is the user's, its organizations are the groups.
fn certified(certificate: &[u8]) -> User {
    let subject = subject(certificate).unwrap_or_default();
    let mut groups = subject.organizations;
    groups.push("system:authenticated".to_owned());
    User { name: subject.common_name, groups, ..User::default() }
}
