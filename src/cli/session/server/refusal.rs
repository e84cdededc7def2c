//! The meaning of an answer without a result, and the advice for people.

use http::StatusCode;
use serde::Deserialize;

use crate::plain_line::plain_line;

/// The most characters that are shown of a server's own message.
const SHOWN: usize = 500;

/// The reason for which a daemon has no result. Each names its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum ServerError {
    /// Nobody answers now, and somebody may in a moment.
    #[error("{0}")]
    Away(String),
    /// The daemon knows nothing of that name.
    #[error("{0}")]
    Nothing(String),
    /// The same question has the same answer again.
    #[error("{0}")]
    Refused(String),
}

/// The body of a refusal.
#[derive(Deserialize)]
struct ErrorBody {
    error: String,
}

/// The facts about the question that its refusal is explained by.
pub(super) struct AskedQuestion<'a> {
    /// The address of the question.
    pub(super) address: &'a str,
    /// The name of the host.
    pub(super) host: &'a str,
    /// The file with the token, if there is one.
    pub(super) token_file: Option<&'a str>,
}

/// Returns the meaning of an answer with this status, which is none of success.
pub(super) fn meaning(asked: &AskedQuestion<'_>, status: StatusCode, body: &[u8]) -> ServerError {
    let AskedQuestion { address, host, token_file } = asked;
    let own = serde_json::from_slice(body).ok().map(|ErrorBody { error }| plain_line(&error, SHOWN));
    match (status.as_u16(), own) {
        (300..=399, _) => ServerError::Refused(format!(
            "{address} leads to another address ({status}), which is not followed: name that address with --server, or, if it is \
             a login, a token with --token-file"
        )),
        (401 | 403, _) => ServerError::Refused(match token_file {
            Some(file) => format!("{address} refuses the token in {file} ({status}): is it still valid?"),
            None => format!("{address} asks for a login ({status}): name a token with --token-file"),
        }),
        (421, _) => ServerError::Refused(format!(
            "{address}: the daemon does not answer to the name {host}: add it to allowed_hosts under [web] of its configuration"
        )),
        (404, Some(error)) => ServerError::Nothing(format!("{address}: {error}")),
        (404, None) => ServerError::Refused(format!(
            "{address}: there is no such page ({status}): --server takes the URL of a daemon's pages, of [web] listen or of the \
             proxy in front"
        )),
        (500..=599 | 429, own) => ServerError::Away(match own {
            Some(error) => format!("{address} has no answer now ({status}): {error}"),
            None => format!("{address} has no answer now ({status}): is the daemon behind it running?"),
        }),
        (_, Some(error)) => ServerError::Refused(format!("{address}: {error}")),
        (_, None) => ServerError::Refused(format!("{address} answers with {status}, as no daemon of belay does")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        use ServerError::{Away, Nothing, Refused};
        let own = r#"{"error":"belay has seen \u001b[2J no commit that begins so"}"#;
        type Kind = fn(String) -> ServerError;
        for (status, body, token_file, kind, says) in [
            (302, "", None, Refused as Kind, "leads to another address (302 Found)"),
            (307, own, None, Refused, "--token-file"),
            (401, "", None, Refused, "asks for a login (401 Unauthorized): name a token with --token-file"),
            (403, "<html>", Some("/run/token"), Refused, "refuses the token in /run/token"),
            (421, "", None, Refused, "does not answer to the name belay.example.com: add it to allowed_hosts"),
            (
                404,
                own,
                None,
                Nothing,
                "https://belay.example.com/api/v1/x: belay has seen  [2J no commit that begins so",
            ),
            (404, "not found", None, Refused, "--server takes the URL of a daemon's pages"),
            (400, r#"{"error":"since: not a time"}"#, None, Refused, "x: since: not a time"),
            (400, "", None, Refused, "answers with 400 Bad Request, as no daemon of belay does"),
            (
                503,
                r#"{"error":"the history is locked"}"#,
                None,
                Away,
                "(503 Service Unavailable): the history is locked",
            ),
            (502, "<html>", None, Away, "is the daemon behind it running?"),
            (429, "", None, Away, "no answer now"),
            (204, "", None, Refused, "answers with 204"),
        ] {
            let asked =
                AskedQuestion { address: "https://belay.example.com/api/v1/x", host: "belay.example.com", token_file };
            let meant = meaning(&asked, StatusCode::from_u16(status).unwrap(), body.as_bytes());
            let text = meant.to_string();
            assert_eq!(meant, kind(text.clone()), "{status}");
            assert!(text.contains(says), "{status}: {text}");
            assert!(text.starts_with("https://belay.example.com/api/v1/x"), "{text}");
        }
    }
}
