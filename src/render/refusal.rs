//! Refusals of units before rendering.

use belay_core::manifest::Place;

/// The reason for which a unit is not rendered, known before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place.
    pub place: Place,
    /// The fault.
    pub message: String,
    /// The advice.
    pub hint: String,
}

/// Returns a path or an address as it may be shown: without a login, and without parameters.
pub(super) fn shown_path(path: &str) -> String {
    let (address, query) = path.split_once('?').unwrap_or((path, ""));
    let shown = match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            match host.rsplit_once('@') {
                Some((_, host)) => format!("{scheme}://***@{host}{path}"),
                None => address.to_owned(),
            }
        }
        None => address.to_owned(),
    };
    let reference = query.split('&').find(|part| part.starts_with("ref="));
    reference.map_or(shown.clone(), |reference| format!("{shown}?{reference}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_not_shown() {
        for (path, shown) in [
            ("https://ada:hunter2@example.com/x", "https://***@example.com/x"),
            ("https://ada:hun@ter2@example.com", "https://***@example.com"),
            ("https://example.com/x?token=hunter2&ref=v1", "https://example.com/x?ref=v1"),
            ("git@example.com:o/r.git", "git@example.com:o/r.git"),
            ("../../x", "../../x"),
        ] {
            assert_eq!(shown_path(path), shown);
        }
    }
}
