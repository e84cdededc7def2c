//! The URL of a daemon's pages.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// The URL under which a daemon's pages are: `https://belay.example.com`, perhaps with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Without a slash at its end.
    text: String,
    host: String,
    is_encrypted: bool,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerUrl, String> {
        let uri: Uri = text.parse().map_err(|error| format!("it is no URL: {error}"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("write it with https:// or http://".to_owned()),
        };
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err("it holds a user: leave that out, and name a token with --token-file".to_owned());
        }
        if uri.query().is_some() || text.contains('#') {
            return Err("leave out what begins with ? or #".to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path().trim_end_matches('/');
        let scheme = if is_encrypted { "https" } else { "http" };
        Ok(ServerUrl { text: format!("{scheme}://{authority}{path}"), host, is_encrypted })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ServerUrl {
    /// Returns the address of a question.
    pub(super) fn at(&self, path_and_query: &str) -> String {
        format!("{}/api/v1/{path_and_query}", self.text)
    }

    /// Returns the name of the host.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true when nobody between here and the host can read what is sent.
    pub(super) fn is_private(&self) -> bool {
        let is_loopback = self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        self.is_encrypted || is_loopback || self.host.eq_ignore_ascii_case("localhost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read() {
        for (text, at, host, is_private) in [
            ("https://belay.example.com", "https://belay.example.com/api/v1/status", "belay.example.com", true),
            ("https://example.com/belay/", "https://example.com/belay/api/v1/status", "example.com", true),
            ("http://belay.belay:9750/", "http://belay.belay:9750/api/v1/status", "belay.belay", false),
            ("http://127.0.0.1:9750", "http://127.0.0.1:9750/api/v1/status", "127.0.0.1", true),
            ("http://[::1]:9750", "http://[::1]:9750/api/v1/status", "::1", true),
            ("HTTP://LocalHost", "http://LocalHost/api/v1/status", "LocalHost", true),
        ] {
            let url: ServerUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.at("status").as_str(), url.host(), url.is_private()), (at, host, is_private), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, says) in [
            ("", "no URL"),
            ("belay.example.com", "https://"),
            ("ftp://belay.example.com", "https://"),
            ("/api", "https://"),
            ("https://ada:secret@belay.example.com", "--token-file"),
            ("https://belay.example.com/?a=b", "leave out"),
            ("https://belay.example.com/#a", "leave out"),
            ("https://", "no URL"),
            ("http://a b", "no URL"),
        ] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
