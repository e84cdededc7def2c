//! `[telemetry]`: where traces are sent.

use std::fmt;
use std::path::PathBuf;

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The path that is appended to the address of a collector, as OTLP says.
const TRACES: &str = "/v1/traces";

/// A trace of each commit, for a collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The address of a collector that takes OTLP over HTTP, `http://collector:4318`; `/v1/traces` is appended to it. No traces
    /// are sent if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub otlp: Option<CollectorUrl>,
    /// A file with a bearer token, which is read for each trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with certificates in PEM, of authorities that are trusted beside those that the machine trusts; it is read for
    /// each trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// The address of a collector. Its path may hold a secret: it is shown to nobody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CollectorUrl(String);

impl CollectorUrl {
    /// Returns the address as it was written, without a slash at its end.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the address that traces are sent to.
    #[must_use]
    pub fn of_traces(&self) -> String {
        format!("{}{TRACES}", self.0)
    }
}

impl fmt::Debug for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(an address)")
    }
}

impl From<CollectorUrl> for String {
    fn from(CollectorUrl(url): CollectorUrl) -> String {
        url
    }
}

impl TryFrom<String> for CollectorUrl {
    type Error = String;

    /// Reads an address; the error does not repeat it.
    fn try_from(text: String) -> Result<CollectorUrl, String> {
        let uri: Uri = text.parse().map_err(|_| "the address of the collector is none".to_owned())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("the address of the collector does not begin with http:// or https://".to_owned());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("the address of the collector holds a user, which is not sent: leave it out".to_owned());
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err("the address of the collector names no host".to_owned());
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(format!(
                "the address of the collector has something behind its path: {TRACES} is appended to it"
            ));
        }
        let base = text.trim_end_matches('/');
        if base.ends_with(TRACES) {
            return Err(format!("{TRACES} is appended to the address of the collector: leave it out"));
        }
        Ok(CollectorUrl(base.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parsed(telemetry: &str) -> Result<Config, String> {
        let text = format!("[[source]]\nrepository = \"/srv\"\n[telemetry]\n{telemetry}\n");
        Config::parse(&text, "belay.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn the_path_of_traces_is_appended() {
        for (url, traces) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("https://otlp.example.com/otlp/", "https://otlp.example.com/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            let telemetry = parsed(&format!("otlp = \"{url}\"")).unwrap().telemetry;
            assert_eq!(telemetry.otlp.unwrap().of_traces(), traces);
        }
        assert_eq!(parsed("").unwrap().telemetry.otlp, None, "off by default");
    }

    #[test]
    fn an_address_that_can_not_be_used_is_an_error_with_its_place() {
        for (url, says) in [
            ("collector:4318", "does not begin with http:// or https://"),
            ("grpc://token-1:4317", "does not begin with http:// or https://"),
            ("http://ada:token-1@collector", "holds a user"),
            ("http://collector/?token-1", "something behind its path"),
            ("http://collector/#token-1", "something behind its path"),
            ("http://collector/v1/traces", "leave it out"),
            ("http://", "is none"),
            ("no address token-1", "is none"),
        ] {
            let error = parsed(&format!("otlp = \"{url}\"")).unwrap_err();
            assert!(error.starts_with("belay.toml:4:8: ") && error.contains(says), "{url}: {error}");
            assert!(!error.contains("token-1"), "{error}");
        }
        let error = parsed("otpl = \"http://collector\"").unwrap_err();
        assert_eq!(error, "belay.toml:4:1: unknown key \"otpl\"; did you mean \"otlp\"?");
        let config = parsed("otlp = \"http://collector/token-1\"").unwrap();
        assert!(!format!("{config:?}").contains("token-1"));
    }
}
