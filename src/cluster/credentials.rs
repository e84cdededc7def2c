//! Errors of programs that a kubeconfig names for credentials, without the output of those programs.

use std::error::Error;

use kube::client::AuthError;

use super::redirect::Redirect;
use super::unreachable::Unreachable;

/// The length of such a program's standard error that is shown, in characters.
const SAID_LIMIT: usize = 300;

/// Returns the text of an error, without the credentials that it may quote: the output of a program is one, or a piece
/// of one.
#[must_use]
pub fn without_credentials(error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        match inner.downcast_ref::<AuthError>() {
            Some(AuthError::AuthExecRun { out, .. }) => {
                // Its arguments and environment may be the credentials: it is not quoted.
                let said = String::from_utf8_lossy(&out.stderr);
                let said: String = said.trim().chars().filter(|c| !c.is_control()).take(SAID_LIMIT).collect();
                let colon = if said.is_empty() { "" } else { ": " };
                return format!(
                    "the program that the kubeconfig asks for credentials ended with {}{colon}{said}",
                    out.status
                );
            }
            Some(AuthError::AuthExecParse(_)) => {
                return "the program that the kubeconfig asks for credentials answers with something else".to_owned();
            }
            _ if inner.is::<Unreachable>() || inner.is::<Redirect>() => return inner.to_string(),
            _ => cause = inner.source(),
        }
    }
    error.to_string()
}
