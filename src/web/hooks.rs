//! `POST /hooks/SOURCE`: a forge, or a script, says that something was pushed. The request is only a hint to fetch:
//! nothing of it is believed, or kept, so that an old one that somebody sends again does no harm.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::Room;
use super::hook_signature::{Checking, Proof, is_secret};
use super::plain_text::text;
use crate::config::read_secret;
use crate::daemon::LookRequest;
use crate::telemetry::Hooked;

/// The largest body, in bytes: GitHub's own limit. It is read piece by piece.
const LARGEST: u64 = 25 << 20;
/// The longest time until it has arrived.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of secrets of a source that count.
const SECRETS: usize = 16;
/// The least time between two warnings about refused hooks.
const WARNINGS_APART: Duration = Duration::from_mins(1);

/// The hook by which others request a fetch of one source. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hook(Arc<HooksInner>);

#[derive(Debug)]
struct HooksInner {
    secret_file: PathBuf,
    look: LookRequest,
    warned: Mutex<Option<Instant>>,
}

impl Hook {
    /// Returns a hook for everybody who knows one of the secrets in this file, a line each.
    #[must_use]
    pub fn new(secret_file: PathBuf, look: LookRequest) -> Hook {
        Hook(Arc::new(HooksInner { secret_file, look, warned: Mutex::default() }))
    }

    /// Logs a problem; at most once a minute, so that nobody fills the log.
    fn warn(&self, source: &str, why: &str, what: &str) {
        let mut warned = self.0.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARNINGS_APART) {
            *warned = Some(Instant::now());
            warn!(source, why, "{what}; further ones are told of at most once a minute");
        }
    }

    /// Logs problems of the file of the secrets, before the first hook comes.
    pub fn report_problems(&self, source: &str) {
        if let Err(HookRefusal::Unreadable(why)) = self.secrets(source) {
            self.warn(source, &why, "no hook can be taken");
        }
    }

    /// Reads the secrets that count. A line that is no secret, and lines beyond the limit, are reported: a sender with
    /// one of them is refused.
    fn secrets(&self, source: &str) -> Result<Vec<String>, HookRefusal> {
        let file = &self.0.secret_file;
        let text = read_secret(file).map_err(HookRefusal::Unreadable)?;
        let (secrets, problems) = secrets_of(&text);
        let problems = problems.iter().map(|problem| format!("{}:{problem}", file.display())).collect::<Vec<_>>();
        if secrets.is_empty() {
            let why = problems.first().cloned().unwrap_or_else(|| format!("{} holds no secret", file.display()));
            return Err(HookRefusal::Unreadable(why));
        }
        if let Some(problem) = problems.first() {
            self.warn(source, problem, "a line of the secret file does not count");
        }
        Ok(secrets)
    }

    async fn check(&self, source: &str, request: Request) -> Result<(), HookRefusal> {
        let (head, body) = request.into_parts();
        let proof = Proof::of(&head.headers);
        if body.size_hint().lower() > LARGEST {
            return Err(HookRefusal::TooLarge);
        }
        let secrets = self.secrets(source)?;
        // Also where nothing can come of it: who is in the middle of sending does not hear an answer.
        let mut checking = proof.unwrap_or_default().check(secrets.iter().map(String::as_str));
        timeout(BODY_TIMEOUT, read(body, &mut checking)).await.map_err(|_| HookRefusal::TooSlow)??;
        if checking.proves() { Ok(()) } else { Err(HookRefusal::Unproven) }
    }
}

/// Returns the secrets of a file, one a line, and the problems of the lines that do not count, by their numbers.
fn secrets_of(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut secrets, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        match line.trim() {
            "" => {}
            line if !is_secret(line) => {
                problems.push(format!("{number}: whsec_ has no key after it: this is no secret"))
            }
            _ if secrets.len() == SECRETS => {
                problems.push(format!("{number}: only the first {SECRETS} secrets count"));
                break;
            }
            line => secrets.push(line.to_owned()),
        }
    }
    (secrets, problems)
}

/// The reason for which a hook is not taken.
#[derive(Debug)]
enum HookRefusal {
    Unproven,
    TooLarge,
    TooSlow,
    /// The secret can't be read, and why.
    Unreadable(String),
}

/// Takes one.
pub(super) async fn receive(State(room): State<Room>, Path(source): Path<String>, request: Request) -> Response {
    // A source that is not followed, and one that takes no hooks: the answer does not say which.
    let Some(hook) = room.shown.sources().hooks.get(&source).cloned() else {
        return text(StatusCode::NOT_FOUND, "no source of that name takes hooks\n");
    };
    let metrics = &room.shown.metrics;
    let (hooked, code, answer, why) = match hook.check(&source, request).await {
        Ok(()) => {
            debug!(source, "a hook: looking at the repository");
            metrics.hooked(&source, Hooked::Accepted);
            hook.0.look.pushed();
            return text(StatusCode::ACCEPTED, "the repository is looked at\n");
        }
        Err(HookRefusal::Unproven) => {
            let answer = "the signature or token is missing or wrong\n";
            (Hooked::Refused, StatusCode::UNAUTHORIZED, answer, answer.trim_end().to_owned())
        }
        Err(HookRefusal::TooLarge) => {
            let answer = "the body is larger than 25 MiB\n";
            (Hooked::Invalid, StatusCode::PAYLOAD_TOO_LARGE, answer, answer.trim_end().to_owned())
        }
        Err(HookRefusal::TooSlow) => {
            let answer = "the body did not arrive within 20 s\n";
            (Hooked::Invalid, StatusCode::REQUEST_TIMEOUT, answer, answer.trim_end().to_owned())
        }
        Err(HookRefusal::Unreadable(why)) => {
            let answer = "the secret can't be read: belay's log says why\n";
            (Hooked::Error, StatusCode::INTERNAL_SERVER_ERROR, answer, why)
        }
    };
    hook.warn(&source, &why, "a hook was not taken");
    metrics.hooked(&source, hooked);
    text(code, answer)
}

/// Reads all of a body, and keeps nothing of it.
async fn read(mut body: Body, checking: &mut Checking) -> Result<(), HookRefusal> {
    let mut length = 0_u64;
    while let Some(frame) = body.frame().await {
        // A request that broke off has no answer.
        let Ok(frame) = frame else { return Err(HookRefusal::TooSlow) };
        let bytes = frame.data_ref().map_or(&[][..], |data| &data[..]);
        length = length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if length > LARGEST {
            return Err(HookRefusal::TooLarge);
        }
        checking.update(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_secret_is_told() {
        let (secrets, problems) = secrets_of("\nwhsec_\n one \nwhsec_AAAA\nwhsec_=\n");
        assert_eq!(secrets, ["one", "whsec_AAAA"]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("2: whsec_ has no key") && problems[1].starts_with("5: "), "{problems:?}");
        let (secrets, problems) = secrets_of(&"secret\n".repeat(SECRETS + 5));
        assert_eq!((secrets.len(), problems.len()), (SECRETS, 1));
        assert!(problems[0].starts_with("17: only the first 16"), "{problems:?}");
    }
}
