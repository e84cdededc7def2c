//! The input of the page's clients and of receivers of notices.

use belay::notices::Secrets;
use belay::web::host_of_authority;

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
