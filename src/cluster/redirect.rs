//! Answers that send belay elsewhere: a login page or another proxy stands where the kubeconfig says that the API server is.
//! None is followed: a request carries credentials and manifests, which are for the server that was named.

use std::error::Error;
use std::fmt;

use http::header::LOCATION;
use http::{Response, Uri};

/// The most characters of a server's name that are shown.
const SHOWN: usize = 300;

/// An answer that is none of an API server.
#[derive(Debug)]
pub(super) struct Redirect {
    server: String,
    code: u16,
    to: String,
}

impl Redirect {
    /// The redirect that an answer is, where it is one.
    pub(super) fn of<B>(server: &str, answer: &Response<B>) -> Option<Redirect> {
        let code = answer.status();
        let to = || answer.headers().get(LOCATION).map_or("nowhere".to_owned(), |to| shown(to.as_bytes()));
        code.is_redirection().then(|| Redirect { server: server.to_owned(), code: code.as_u16(), to: to() })
    }
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Redirect { server, code, to } = self;
        write!(
            f,
            "{server} answers HTTP {code} and redirects to {to}, which belay does not follow: its credentials are for the API server \
             alone; write the API server's own address into the kubeconfig, one without a login page or another proxy in front"
        )
    }
}

impl Error for Redirect {}

/// The server that a redirect leads to. Its path, and what is before the name, may hold secrets of a login.
fn shown(location: &[u8]) -> String {
    let text = String::from_utf8_lossy(location);
    let Ok(uri) = text.parse::<Uri>() else { return "an address that is none".to_owned() };
    let Some(host) = uri.host() else { return "another path of itself".to_owned() };
    let scheme = uri.scheme_str().map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    let server = format!("{scheme}{host}{port}");
    if server.len() > SHOWN { "an address that is very long".to_owned() } else { server }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, location: Option<&str>) -> Option<String> {
        let mut answer = Response::builder().status(code);
        if let Some(location) = location {
            answer = answer.header(LOCATION, location.as_bytes());
        }
        let redirect = Redirect::of("https://cluster.example.com:6443", &answer.body(()).unwrap());
        redirect.map(|redirect| redirect.to_string())
    }

    #[test]
    fn it_is_told_with_the_server_that_it_leads_to() {
        let long = format!("https://{}/", "a".repeat(5000));
        for (location, to) in [
            (
                Some("https://login.example.com:8443/start?state=hunter2#x"),
                "redirects to https://login.example.com:8443,",
            ),
            (Some("https://ada:hunter2@login.example.com/"), "redirects to https://login.example.com,"),
            (Some("http://[::1]:80/hunter2"), "redirects to http://[::1]:80,"),
            (Some("/login?token=hunter2"), "redirects to another path of itself,"),
            (Some("hunter2\u{e9} <b>"), "redirects to an address that is none,"),
            (Some(""), "redirects to an address that is none,"),
            (Some(&long), "redirects to an address that is very long,"),
            (None, "redirects to nowhere,"),
        ] {
            for code in [300, 301, 302, 303, 304, 307, 308] {
                let said = said(code, location).unwrap();
                for part in [to, &format!("HTTP {code} "), "https://cluster.example.com:6443 answers", "kubeconfig"] {
                    assert!(said.contains(part), "{location:?}: {said}");
                }
                assert!(!said.contains("hunter2") && said.len() < 1000, "{said}");
            }
        }
        for code in [101, 200, 401, 404, 500] {
            assert_eq!(said(code, Some("https://login.example.com")), None);
        }
    }
}
