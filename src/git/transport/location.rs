//! The location of a repository: a path on this machine, or a URL of a few harmless kinds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The location of a repository. It never carries a password or token, so that it can be shown anywhere.
///
/// Three kinds are known: a path on this machine; `https://host[:port]/path`; and `ssh://[user@]host[:port]/path`, also
/// written `[user@]host:path`. Plain `http` is accepted for this machine only. Everything else, above all an address
/// that would start another program (`ext::…`) or could be taken for an option (a leading `-`), is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(Kind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Path(PathBuf),
    /// The path has a slash in front, but not where it was written `host:path`.
    Url {
        origin: Origin,
        user: Option<String>,
        path: String,
    },
}

/// The server that credentials are for: exactly this scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The protocol.
    pub scheme: Scheme,
    /// The name or address, in lower case; an IPv6 address without brackets.
    pub host: String,
    /// The port, the scheme's own where none was written.
    pub port: u16,
}

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `https`.
    Https,
    /// `http`, only to this machine.
    Http,
    /// `ssh`.
    Ssh,
}

/// A text that is not a location, with the reason; it never shows a possible password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a repository: {shown}: {why}")]
pub struct InvalidLocation {
    shown: String,
    why: String,
}

impl Location {
    /// Returns the path, if it is one on this machine.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Path(path) => Some(path),
            Kind::Url { .. } => None,
        }
    }

    /// Returns the path on the server, as it was written; the path, where it is one on this machine.
    pub(in crate::git) fn path_on_server(&self) -> &str {
        match &self.0 {
            Kind::Path(path) => path.to_str().unwrap_or_default(),
            Kind::Url { path, .. } => path,
        }
    }

    /// The server, if it is a URL.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        match &self.0 {
            Kind::Path(_) => None,
            Kind::Url { origin, .. } => Some(origin),
        }
    }

    /// Returns the user of an `ssh` URL.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.0 {
            Kind::Path(_) => None,
            Kind::Url { user, .. } => user.as_deref(),
        }
    }
}

impl FromStr for Location {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Location, InvalidLocation> {
        parse(text).map(Location).map_err(|why| InvalidLocation { shown: without_userinfo(text), why })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path(path) => write!(f, "{}", path.display()),
            Kind::Url { origin, user, path } => {
                let user = user.as_ref().map_or(String::new(), |user| format!("{user}@"));
                if path.starts_with('/') {
                    write!(f, "{}://{user}{}{path}", origin.scheme.word(), origin.authority())
                } else {
                    write!(f, "{user}{}:{path}", origin.authority())
                }
            }
        }
    }
}

impl Scheme {
    fn word(self) -> &'static str {
        match self {
            Scheme::Https => "https",
            Scheme::Http => "http",
            Scheme::Ssh => "ssh",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Https => 443,
            Scheme::Http => 80,
            Scheme::Ssh => 22,
        }
    }
}

impl Origin {
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.word(), self.authority())
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("it has control characters".to_owned());
    }
    if text.starts_with('-') {
        return Err("it starts with '-', like an option; write ./ in front of a path".to_owned());
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return parse_url(scheme, rest);
    }
    let before_colon = text.split(':').next().unwrap_or_default();
    if before_colon.len() == text.len() || before_colon.contains('/') {
        return parse_path(text);
    }
    if text[before_colon.len()..].starts_with("::") {
        return Err(format!("{before_colon}:: would start another program; https, ssh and paths are allowed"));
    }
    let (authority, path) = text.split_at(before_colon.len());
    // `host:path`, as scp writes it. A path without a slash in front must stay without one: servers know it so.
    parse_remote(Scheme::Ssh, authority, &path[1..])
}

fn parse_path(text: &str) -> Result<Kind, String> {
    if text.starts_with('~') {
        return Err("~ is only known to the shell; write the whole path".to_owned());
    }
    let path = std::path::absolute(text).map_err(|error| format!("the working folder is not known: {error}"))?;
    Ok(Kind::Path(path))
}

fn parse_url(scheme: &str, rest: &str) -> Result<Kind, String> {
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        "ssh" => Scheme::Ssh,
        "file" => return Err("write a repository on this machine as a path, without file://".to_owned()),
        "git" => return Err("git:// can be forged by anybody on the way; use https or ssh".to_owned()),
        other => return Err(format!("the scheme {other} is not allowed; https and ssh are")),
    };
    let slash = rest.find('/').ok_or_else(|| "the path of the repository is missing".to_owned())?;
    let (authority, path) = rest.split_at(slash);
    parse_remote(scheme, authority, path)
}

fn parse_remote(scheme: Scheme, authority: &str, path: &str) -> Result<Kind, String> {
    let (user, host_and_port) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((user, rest)) => (Some(parse_user(scheme, user)?), rest),
    };
    let (host, port) = parse_host(host_and_port)?;
    let port = match port {
        None => scheme.port(),
        Some(digits) => match digits.parse() {
            Ok(port) if port > 0 && digits.bytes().all(|digit| digit.is_ascii_digit()) => port,
            _ => return Err("the port is not a number from 1 to 65535".to_owned()),
        },
    };
    if scheme == Scheme::Http && !is_this_machine(&host) {
        return Err("http sends manifests and credentials for all to read; use https".to_owned());
    }
    check_repository_path(path)?;
    Ok(Kind::Url { origin: Origin { scheme, host, port }, user, path: path.to_owned() })
}

fn parse_user(scheme: Scheme, user: &str) -> Result<String, String> {
    if scheme != Scheme::Ssh || user.contains(':') {
        return Err("it carries a user, password or token, which would end up in logs; put them into files and name \
                    the files in the configuration"
            .to_owned());
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(fine) {
        return Err("the user has characters that are not allowed".to_owned());
    }
    Ok(user.to_owned())
}

fn parse_host(text: &str) -> Result<(String, Option<&str>), String> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']').ok_or_else(|| "the ] of the address is missing".to_owned())?;
        let address: std::net::Ipv6Addr = address.parse().map_err(|_| "not an IPv6 address".to_owned())?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((address.to_string(), Some(port))),
            None if after.is_empty() => Ok((address.to_string(), None)),
            None => Err("after the address comes neither a port nor a path".to_owned()),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if host.is_empty() || host.starts_with(['-', '.']) || !host.chars().all(fine) {
        return Err("the host name is missing or has characters that are not allowed".to_owned());
    }
    Ok((host.to_ascii_lowercase(), port))
}

fn check_repository_path(path: &str) -> Result<(), String> {
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    if parts.peek().is_none() {
        return Err("the path of the repository is missing".to_owned());
    }
    if parts.clone().any(|part| part == "." || part == "..") {
        return Err("the path has . or .. in it".to_owned());
    }
    if parts.peek().is_some_and(|part| part.starts_with('-')) {
        return Err("the path starts with '-', like an option".to_owned());
    }
    if path.contains(['?', '#', '\\', ' ', '"', '\'', '`', '$', '<', '>', '|', ';', '&', '@']) {
        return Err("the path has characters that are not allowed".to_owned());
    }
    Ok(())
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The text with everything between the scheme and the last `@` before the path left out, and control characters too.
fn without_userinfo(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    // A password may itself contain a slash; better to show too little.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let shown = format!("{scheme}{rest}");
    shown.chars().filter(|c| !belay_core::manifest::is_hidden(*c)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        text.parse::<Location>().unwrap().to_string()
    }

    fn refused(text: &str) -> String {
        text.parse::<Location>().unwrap_err().to_string()
    }

    #[test]
    fn paths_and_urls_are_known() {
        assert_eq!(shown("/srv/git/deploy.git"), "/srv/git/deploy.git");
        assert_eq!(shown("https://Git.Example.com/shop/deploy.git"), "https://git.example.com/shop/deploy.git");
        assert_eq!(shown("https://git.example.com:8443/deploy"), "https://git.example.com:8443/deploy");
        assert_eq!(shown("ssh://git@git.example.com/shop/deploy.git"), "ssh://git@git.example.com/shop/deploy.git");
        assert_eq!(shown("ssh://git.example.com:2222/~git/deploy"), "ssh://git.example.com:2222/~git/deploy");
        assert_eq!(shown("git@git.example.com:shop/deploy.git"), "git@git.example.com:shop/deploy.git");
        assert_eq!(shown("git@git.example.com:/srv/deploy.git"), "ssh://git@git.example.com/srv/deploy.git");
        assert_eq!(shown("http://127.0.0.1:8080/deploy.git"), "http://127.0.0.1:8080/deploy.git");
        assert_eq!(shown("https://[::1]:8443/deploy.git"), "https://[::1]:8443/deploy.git");
        assert!(shown("deploy.git").ends_with("/deploy.git") && shown("./-odd").ends_with("/-odd"));
    }

    #[test]
    fn what_could_run_a_program_or_be_an_option_is_refused() {
        for text in [
            "",
            "-u/srv/deploy.git",
            "ext::sh -c id",
            "ssh://-oProxyCommand=id/deploy",
            "ssh://-l@host/deploy",
            "ssh://host/-x",
            "-oProxyCommand=id:deploy",
            "host:-x",
            "git@-host:deploy",
            "ssh://host:0x16/deploy",
            "ssh://host:+22/deploy",
            "ssh://host:99999/deploy",
            "ssh://host",
            "https://host/",
            "https://host/a/../b",
            "https://host/a?token=b",
            "https:///deploy",
            "https://ho st/deploy",
            "https://host/a\nb",
            "file:///srv/deploy.git",
            "git://host/deploy.git",
            "ftp://host/deploy.git",
            "http://git.example.com/deploy.git",
            "~/deploy.git",
        ] {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
        assert!(refused("ext::sh -c id").contains("would start another program"));
    }

    #[test]
    fn credentials_in_a_url_are_refused_and_never_shown() {
        for text in [
            "https://ada:hunter2@git.example.com/deploy.git",
            "https://hunter2@git.example.com/deploy.git",
            "ssh://git:hunter2@git.example.com/deploy.git",
            "git:hunter2@git.example.com:deploy.git",
            "https://ada:hun/ter2@git.example.com/hunter",
            "ext::ada:hunter2@host",
            "https://ada:hunter2@git.example.com/a b",
        ] {
            let error = refused(text);
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_location_or_an_error(text in "\\PC{0,60}|(https|ssh|http)://[a-z@:/.\\-\\[\\]0-9]{0,40}") {
            if let Ok(location) = text.parse::<Location>() {
                let again: Location = location.to_string().parse().unwrap();
                prop_assert_eq!(again, location);
            }
        }
    }
}
