//! The forms of names, labels and the like, and the errors for other forms.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                             for validation is \
                             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                        regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                         is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                           and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                           '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                        consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
                        (e.g. '*.example.com', regex used for validation is \
                        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const ENV_VAR: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                          or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                           used for validation is '[-A-Za-z0-9]+')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";

/// The result of a check: nothing, if all is well.
pub type NameProblem = Vec<String>;

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn fits_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(is_lower)
        && bytes.last().copied().is_some_and(is_lower)
        && bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-')
}

fn fits_subdomain(text: &str) -> bool {
    text.split('.').all(fits_label)
}

fn characters(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Returns the name of a namespace, a container, a port on a service.
pub fn dns_1123_label(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 63 {
        said.push(bytes(63));
    }
    if !fits_label(text) {
        said.push(if fits_subdomain(text) { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    said
}

/// Returns the name of most objects.
pub fn dns_1123_subdomain(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 253 {
        said.push(bytes(253));
    }
    if !fits_subdomain(text) {
        said.push(SUBDOMAIN.to_owned());
    }
    said
}

/// Checks a domain of at least two parts; a dot at its end says that it is whole.
pub fn full_domain(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        return errors.required(at, "");
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let said = dns_1123_subdomain(name);
    if !said.is_empty() {
        return errors.invalid(at, name, &said.join(","));
    }
    if !name.contains('.') {
        errors.invalid(at, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.').filter(|label| label.len() > 63) {
        errors.invalid(at, label, &characters(63));
    }
}

/// Returns a domain to search in, if underscores are let through.
pub fn search_domain(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 253 {
        said.push(bytes(253));
    }
    let label = |label: &str| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        let end = |byte: Option<&u8>| byte.copied().is_some_and(is_lower);
        end(bytes.first()) && end(bytes.last()) && bytes.iter().all(|byte| is_lower(*byte) || b"-_".contains(byte))
    };
    if !text.split('.').all(label) {
        said.push(SEARCH_DOMAIN.to_owned());
    }
    said
}

/// Returns the name of most objects, as the generic checks of objects word it.
pub fn object_name(text: &str) -> NameProblem {
    dns_1123_subdomain(text)
        .into_iter()
        .map(|words| if words == bytes(253) { characters(253) } else { words })
        .collect()
}

/// Returns the name of a service.
pub fn dns_1035_label(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 63 {
        said.push(bytes(63));
    }
    if !fits_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        said.push(DNS_1035.to_owned());
    }
    said
}

/// Returns a subdomain whose first part is a star.
pub fn wildcard_subdomain(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 253 {
        said.push(bytes(253));
    }
    if !text.strip_prefix("*.").is_some_and(fits_subdomain) {
        said.push(WILDCARD.to_owned());
    }
    said
}

fn fits_qualified(name: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inner)
}

/// Returns the key of a label or annotation: a name, perhaps with a domain in front.
pub fn qualified_name(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            let key = QUALIFIED;
            return vec![format!(
                "a valid label key {key} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    match prefix {
        Some("") => said.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => said.extend(dns_1123_subdomain(prefix).into_iter().map(|words| format!("prefix part {words}"))),
        None => {}
    }
    if name.is_empty() {
        said.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        said.push(format!("name part {}", bytes(63)));
    }
    if !fits_qualified(name) {
        said.push(format!("name part {QUALIFIED}"));
    }
    said
}

/// Returns the value of a label.
pub fn label_value(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 63 {
        said.push(bytes(63));
    }
    if !text.is_empty() && !fits_qualified(text) {
        said.push(LABEL_VALUE.to_owned());
    }
    said
}

/// Returns the name of an environment variable.
pub fn env_var_name(text: &str) -> NameProblem {
    let fits = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    if fits { NameProblem::new() } else { vec![ENV_VAR.to_owned()] }
}

/// Returns the key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 253 {
        said.push(bytes(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        said.push(CONFIG_KEY.to_owned());
    }
    if text == "." {
        said.push("must not be '.'".to_owned());
    } else if text == ".." {
        said.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        said.push("must not start with '..'".to_owned());
    }
    said
}

/// Returns the name of an HTTP header.
pub fn http_header(text: &str) -> NameProblem {
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits { NameProblem::new() } else { vec![HTTP_HEADER.to_owned()] }
}

/// `25%`
pub fn percent(text: &str) -> NameProblem {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let fits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { NameProblem::new() } else { vec![PERCENT.to_owned()] }
}

/// Returns a port's number.
pub fn port_number(number: i64) -> NameProblem {
    if (1..=65_535).contains(&number) {
        NameProblem::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// Returns a port's name.
pub fn port_name(text: &str) -> NameProblem {
    let mut said = NameProblem::new();
    if text.len() > 15 {
        said.push(characters(15));
    }
    if !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        said.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        said.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        said.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        said.push("must not begin or end with a hyphen".to_owned());
    }
    said
}

/// Returns a user's or group's number.
pub fn user_id(number: i64) -> NameProblem {
    if (0..=i64::from(i32::MAX)).contains(&number) {
        NameProblem::new()
    } else {
        vec![format!("must be between 0 and {}, inclusive", i32::MAX)]
    }
}

/// Returns the part of an object's name that is not generated.
pub fn generated(text: &str) -> &str {
    // The last dash may stay: letters follow it.
    text.strip_suffix('-').unwrap_or(text)
}

/// Returns the name of an address: the address itself, in its own form.
pub fn ip_address(text: &str) -> NameProblem {
    match text.parse::<std::net::IpAddr>() {
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
        Ok(address) if address.to_string() != text => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        Ok(_) => NameProblem::new(),
    }
}

/// Names another object: kind and name must both be there, and may be parts of a path.
pub fn kind_and_name(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["kind", "name"] {
        let text = object.text(name);
        if text.is_empty() {
            errors.required(&at.field(name), "");
        } else {
            errors.each_invalid(&at.field(name), text, &path_segment(text));
        }
    }
}

/// Returns a name that stands in a path.
pub fn path_segment(text: &str) -> NameProblem {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        text => ["/", "%"]
            .iter()
            .filter(|part| text.contains(**part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

/// Checks a path with a domain in front, `acme.io/foo`.
pub fn domain_prefixed_path(text: &str, at: &Path<'_>, errors: &mut Errors) {
    const WHOLE: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    if text.is_empty() {
        errors.required(at, "");
        return;
    }
    match text.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            errors.each_invalid(at, domain, &dns_1123_subdomain(domain));
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:@/".contains(&byte);
            if !path.bytes().all(fits) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.invalid(at, path, detail);
            }
        }
        _ => errors.invalid(at, text, WHOLE),
    }
}
