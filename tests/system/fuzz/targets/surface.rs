//! The input of the page's clients and of receivers of notices.

use belay::notices::shown_host;
use belay::secrets::Secrets;
use belay::web::{host_of_authority, is_proven};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::text::sections;

/// A Host header names one host, or is refused; what names one is read as the same host again.
pub fn host(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(host) = host_of_authority(text) else { return };
    assert!(!host.is_empty() && host.is_ascii() && !host.contains(['@', '/', '[', ']', ' ', '%']), "{text:?}: {host}");
    let again = if host.contains(':') { format!("[{host}]:80") } else { format!("{host}:80") };
    assert_eq!(host_of_authority(&again).as_ref(), Some(&host), "{text:?}");
    // Nothing stands behind it but a port.
    let lower = text.to_ascii_lowercase();
    let rest = lower.trim_start_matches('[').strip_prefix(&host).unwrap_or_else(|| panic!("{text:?}: {host}"));
    let rest = rest.trim_start_matches(['.', ']']);
    assert!(rest.is_empty() || rest.starts_with(':') && rest[1..].bytes().all(|c| c.is_ascii_digit()), "{text:?}");
}

/// The first line is a secret, the rest an answer: no part of the secret is shown, and what is no part of one stays as it is.
pub fn answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (secret, answer) = text.split_once('\n').unwrap_or(("", &text));
    let mut secrets = Secrets::default();
    secrets.add_path(secret);
    secrets.add_password("belay", secret);
    let shown = secrets.hide(answer);
    assert!(shown.len() <= 3 * answer.len(), "{answer:?}");
    let secret: Vec<char> = secret.trim().chars().collect();
    for part in secret.windows(8).filter(|part| part.iter().all(char::is_ascii_alphanumeric)) {
        let part: String = part.iter().collect();
        assert!(!shown.contains(&part), "{part:?} is in {shown:?}");
    }
    if !answer.contains(|c: char| secret.contains(&c.to_ascii_lowercase()) || secret.contains(&c.to_ascii_uppercase()))
    {
        let escapes =
            answer.contains(['%', '\\', '&']) || answer.chars().any(|c| c.is_ascii_alphanumeric() || "=+/".contains(c));
        assert!(escapes || shown == answer, "{shown:?} instead of {answer:?}");
    }
    let nothing = Secrets::default();
    assert_eq!(nothing.hide(answer), answer);
}

/// A receiver's address shows its host and port, and nothing that may be a secret.
fn receiver(text: &str) {
    let Ok((host, port)) = shown_host(text) else { return };
    assert!(!host.is_empty() && port > 0 && !host.contains(['/', '@', '?', '#', ' ', '[', ']']), "{text:?}: {host}");
    assert!(text.contains(&host), "{text:?}: {host}");
}

/// A hook is a forge's only if its headers prove it: another body, or another secret, is no proof. The first section are
/// secrets, `headers` the headers, `body` the body.
pub fn hook(data: &[u8]) {
    let sections = sections(data);
    let text = |wanted: &str| {
        let section = sections.iter().find(|(heading, _)| *heading == wanted.as_bytes());
        section.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    text("").lines().for_each(receiver);
    let known = text("");
    let secrets: Vec<&str> = known.lines().filter(|line| !line.trim().is_empty()).take(8).collect();
    let mut headers = HeaderMap::new();
    for line in text("headers").lines().take(32) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    let body = text("body");
    if !is_proven(&secrets, &headers, body.as_bytes()) {
        return;
    }
    assert!(!secrets.is_empty() && !is_proven(&[], &headers, body.as_bytes()), "nobody knows no secret");
    let others: Vec<String> = secrets.iter().map(|secret| format!("{secret}x")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let token = headers.remove("x-gitlab-token");
    let is_token = token.is_some_and(|token| secrets.iter().any(|secret| token.as_bytes() == secret.as_bytes()));
    assert!(!is_proven(&others, &headers, body.as_bytes()), "another secret: {others:?}");
    assert!(is_token || !is_proven(&secrets, &headers, format!("{body}x").as_bytes()), "another body");
}
