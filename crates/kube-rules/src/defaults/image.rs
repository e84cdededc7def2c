//! Names of images, as far as a cluster reads them.

/// The parts of an image's name that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// The tag; `latest` where neither a tag nor a digest is given.
    pub tag: String,
}

/// Reads an image's name; `None` for an invalid name.
#[must_use]
pub fn parse_image(image: &str) -> Option<ImageName> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    if !digest.is_none_or(is_digest) {
        return None;
    }
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    if !tag.is_none_or(is_tag) || !is_repository(name) {
        return None;
    }
    let tag = match (tag, digest) {
        (Some(tag), _) => tag,
        (None, None) => "latest",
        (None, Some(_)) => "",
    };
    Some(ImageName { tag: tag.to_owned() })
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let length = if algorithm == "sha512" {
        128
    } else if algorithm == "sha384" {
        96
    } else {
        64
    };
    algorithm.split(['-', '_', '+', '.']).all(part)
        && hex.len() == length
        && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

fn is_repository(name: &str) -> bool {
    let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if is_id || name.len() > 255 {
        return false;
    }
    let path = match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) => {
            if !is_host(domain) {
                return false;
            }
            path
        }
        _ => name,
    };
    !path.is_empty() && path.split('/').all(is_component)
}

/// Returns true when the first part of a name is a registry rather than a part of the path.
fn is_domain(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => (host, Some(port)),
        _ => (domain, None),
    };
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    let v6 = host.starts_with('[') && host.ends_with(']');
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
        && (v6 || host.split('.').all(label))
}

/// Lower-case letters and digits, with `.`, `_`, `__` or dashes between.
fn is_component(component: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !alphanumeric(*first) || !alphanumeric(*last) {
        return false;
    }
    let separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    separators
        .filter(|part| !part.is_empty())
        .all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::parse_image;

    #[test]
    fn tags_are_read() {
        let digest = "a".repeat(64);
        let cases = [
            ("nginx", Some("latest")),
            ("nginx:1.27", Some("1.27")),
            ("a.b/c/d:x", Some("x")),
            ("localhost:5000/web", Some("latest")),
            (&format!("web@sha256:{digest}"), Some("")),
            (&format!("web:v1@sha256:{digest}"), Some("v1")),
            ("", None),
            ("UPPER", None),
            ("UPPER/x", Some("latest")),
            ("a b", None),
            ("web:", None),
            ("a..b", None),
            ("a__b-----c.d_e", Some("latest")),
            (digest.as_str(), None),
        ];
        for (image, tag) in cases {
            assert_eq!(parse_image(image).map(|name| name.tag).as_deref(), tag, "{image}");
        }
    }
}
