//! Options of lists and watches.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{forbidden, refuse, unsupported};
use crate::api::ApiError;
use crate::api::field_selector::FieldSelector;
use crate::api::query::{Query, not_a_number};
use crate::api::resource::Resource;
use kube_rules::LabelSelector;

/// The options of a list or a watch.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// True for a watch.
    pub watch: bool,
    /// The labels.
    pub labels: LabelSelector,
    /// The fields.
    pub fields: FieldSelector,
    /// At most so many objects; 0 for all.
    pub limit: usize,
    /// The end of the list before this one.
    pub next: Option<Continue>,
    /// As of when.
    pub start: ListStart,
    /// The meaning of the revision in `start`: this one exactly, or a newer one; not set, if `None`.
    pub matched: Option<Match>,
    /// The time of the watch, in seconds; 0 for the server's choice.
    pub timeout_seconds: u64,
    /// True when the watch may send revisions without events.
    pub bookmarks: bool,
    /// True when the watch begins with the present objects, and marks their end.
    pub initial_events: Option<bool>,
}

/// As of when a list or watch is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStart {
    /// Nothing said: now.
    Unset,
    /// `0`: whatever is at hand.
    Any,
    /// A revision.
    At(u64),
}

/// The meaning of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Exactly this one.
    Exact,
    /// This one, or any newer one.
    NotOlderThan,
}

/// The place at which a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The revision of the first part; `None` if that is forgotten and the present must do.
    pub revision: Option<u64>,
    /// After this path.
    pub after: String,
    /// The number of further objects, if that is known.
    pub left: Option<usize>,
}

const MATCH: &str = "resourceVersionMatch";

impl ListOptions {
    /// Reads and checks the parameters.
    ///
    /// # Errors
    /// 400, 422 and 500 as the real server gives them.
    pub fn new(query: &Query, resource: &Resource, path_says_watch: bool) -> Result<ListOptions, ApiError> {
        let limit = query.number("limit")?.unwrap_or_default();
        let timeout = query.number("timeoutSeconds")?.unwrap_or_default();
        let watch = path_says_watch || query.flag("watch").unwrap_or_default();
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?;
        let fields = resource.field_selector(query.get("fieldSelector").unwrap_or_default())?;
        check(query, watch)?;
        let next = match query.text("continue") {
            Some(token) if !watch => Some(Continue::read(token)?),
            _ => None,
        };
        if next.is_some() && query.text("resourceVersion").is_some_and(|version| version != "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        let start = start(query, watch)?;
        // Whatever is at hand is at hand as a whole.
        let limit = if start == ListStart::Any && next.is_none() { 0 } else { limit };
        Ok(ListOptions {
            watch,
            labels,
            fields,
            limit: usize::try_from(limit).unwrap_or_default(),
            next,
            start,
            matched: match query.get(MATCH) {
                Some("Exact") => Some(Match::Exact),
                Some("NotOlderThan") => Some(Match::NotOlderThan),
                _ => None,
            },
            timeout_seconds: u64::try_from(timeout).unwrap_or(1),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            initial_events: query.flag("sendInitialEvents"),
        })
    }

    /// Returns true when only some of the objects are asked for.
    #[must_use]
    pub fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

fn start(query: &Query, watch: bool) -> Result<ListStart, ApiError> {
    match query.text("resourceVersion") {
        None => Ok(ListStart::Unset),
        Some(text) => match text.parse() {
            Ok(0) => Ok(ListStart::Any),
            Ok(revision) => Ok(ListStart::At(revision)),
            Err(_) => {
                let wrong = format!("resourceVersion: Invalid value: {text:?}: {}", not_a_number("ParseUint", text));
                // A slip of the real server: the same mistake is an internal error on a watch.
                Err(if watch {
                    ApiError::internal(wrong)
                } else {
                    ApiError::bad_request(format!("invalid resource version: {wrong}"))
                })
            }
        },
    }
}

fn check(query: &Query, watch: bool) -> Result<(), ApiError> {
    let matched = query.text(MATCH);
    let version = query.text("resourceVersion");
    let initial = query.flag("sendInitialEvents").is_some();
    let continues = query.text("continue").is_some();
    let mut causes = Vec::new();
    if watch {
        if initial && matched != Some("NotOlderThan") {
            causes.push(forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if !initial && matched.is_some() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if let Some(other) = matched.filter(|matched| *matched != "NotOlderThan") {
            causes.push(unsupported(MATCH, &format!("{other:?}"), &["NotOlderThan"]));
        }
        if continues {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        return refuse("ListOptions", causes);
    }
    if let Some(matched) = matched {
        if version.is_none() {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if continues {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matched, "Exact" | "NotOlderThan") {
            causes.push(unsupported(MATCH, &format!("{matched:?}"), &["Exact", "NotOlderThan", ""]));
        }
        if matched == "Exact" && version == Some("0") {
            causes.push(forbidden(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
    }
    if initial {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse("ListOptions", causes)
}

impl Continue {
    fn read(token: &str) -> Result<Continue, ApiError> {
        let refuse = |why: &str| {
            let message = format!("invalid continue token: continue key is not valid: {why}");
            ApiError::bad_request(message)
        };
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| refuse(&error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| refuse(&error.to_string()))?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(refuse(&format!("server does not recognize this encoded version {version}")));
        }
        let start = value["start"].as_str().unwrap_or_default();
        let after = start.trim_start_matches('/').trim_end_matches('\0');
        let revision = value["rv"].as_i64().unwrap_or_default();
        if after.is_empty() || revision == 0 {
            return Err(refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let left = value["left"].as_u64().and_then(|left| usize::try_from(left).ok());
        Ok(Continue { revision: u64::try_from(revision).ok(), after: after.to_owned(), left })
    }

    /// Returns the token that a client sends to go on from here.
    #[must_use]
    pub fn token(&self) -> String {
        let revision = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        let mut value = json!({ "v": "meta.k8s.io/v1", "rv": revision, "start": format!("/{}\0", self.after) });
        if let Some(left) = self.left {
            value["left"] = json!(left);
        }
        URL_SAFE_NO_PAD.encode(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::registry::Registry;

    fn options(query: &str) -> Result<ListOptions, ApiError> {
        let registry = Registry::built_in();
        ListOptions::new(&Query::new(query), registry.resource("", "v1", "pods").unwrap(), false)
    }

    #[test]
    fn options_are_read() {
        let read = options("labelSelector=a&fieldSelector=status.phase%3DRunning&limit=5&resourceVersion=7").unwrap();
        assert_eq!((read.limit, read.start, read.matched, read.selects()), (5, ListStart::At(7), None, true));
        let read = options("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").unwrap();
        assert_eq!((read.watch, read.initial_events), (true, Some(true)));
        assert_eq!(options("limit=-2&resourceVersion=0").unwrap().start, ListStart::Any);
        assert_eq!(options("limit=2&resourceVersion=0").unwrap().limit, 0, "whatever is at hand has no pages");
    }

    #[test]
    fn wrong_combinations_are_refused() {
        let code = |query: &str| options(query).unwrap_err().code;
        assert_eq!(code("watch=1&sendInitialEvents=true"), 422);
        assert_eq!(code("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5"), 422);
        assert_eq!(code("resourceVersionMatch=Exact"), 422);
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=0"), 422);
        assert_eq!(code("sendInitialEvents=true"), 422);
        assert_eq!(code("resourceVersion=x"), 400);
        assert_eq!(code("watch=1&resourceVersion=x"), 500);
        assert_eq!(code("continue=abc"), 400);
    }

    #[test]
    fn a_token_leads_back_to_its_place() {
        let place = Continue { revision: Some(892), after: "a/s2".to_owned(), left: Some(3) };
        assert_eq!(Continue::read(&place.token()).unwrap(), place);
        let lost = Continue { revision: None, after: "s2".to_owned(), left: None };
        assert_eq!(Continue::read(&lost.token()).unwrap(), lost);
        let theirs = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6ODkyLCJzdGFydCI6Ii9zMlx1MDAwMCJ9";
        assert_eq!(
            Continue::read(theirs).unwrap(),
            Continue { revision: Some(892), after: "s2".to_owned(), left: None }
        );
    }
}
