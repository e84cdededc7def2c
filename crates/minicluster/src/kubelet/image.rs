//! Names of images, by the grammar of image references.

use sha2::{Digest, Sha256};

/// No name is longer, without tag and digest.
const LONGEST_NAME: usize = 255;
/// No tag is longer.
const LONGEST_TAG: usize = 128;

/// An image by its full name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// With registry and tag or digest: `docker.io/library/nginx:1.27`.
    pub full: String,
    /// The length of the part before tag and digest.
    repository: usize,
}

impl Image {
    /// Reads a reference as it stands in a pod.
    ///
    /// # Errors
    /// Fails with its fault, in the words of container runtimes.
    pub fn parse(text: &str) -> Result<Image, String> {
        let wrong = || "invalid reference format".to_owned();
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(wrong());
        }
        // A colon before a slash belongs to the registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()) {
            return Err(format!("invalid repository name ({name}), cannot specify 64-byte hexadecimal strings"));
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if is_registry(first) => (first, path.to_owned()),
            _ if name.contains('/') => ("docker.io", name.to_owned()),
            _ => ("docker.io", format!("library/{name}")),
        };
        if path.to_lowercase() != path {
            return Err(format!("invalid reference format: repository name ({path}) must be lowercase"));
        }
        let domain_fine = registry.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b));
        if !domain_fine || !path.split('/').all(is_component) || tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong());
        }
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        let repository = format!("{registry}/{path}");
        if repository.len() > LONGEST_NAME {
            return Err(format!("repository name must not be more than {LONGEST_NAME} characters"));
        }
        let full = match (tag, digest) {
            (_, Some(digest)) => format!("{repository}@{digest}"),
            (Some(tag), None) => format!("{repository}:{tag}"),
            (None, None) => format!("{repository}:latest"),
        };
        Ok(Image { full, repository: repository.len() })
    }

    /// Returns the name with the digest of its image; made up from the name, so always the same.
    pub fn id(&self) -> String {
        match self.full.split_once('@') {
            Some(_) => self.full.clone(),
            None => format!("{}@sha256:{}", &self.full[..self.repository], hex(&Sha256::digest(self.full.as_bytes()))),
        }
    }

    /// Returns the size that it would have in bytes; made up from the name.
    pub fn size(&self) -> u64 {
        let digest = Sha256::digest(self.full.as_bytes());
        20_000_000 + u64::from(digest[0]) * 500_000 + u64::from(digest[1]) * 997
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).map(|digit| DIGITS[usize::from(digit)]).collect()
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
}

/// Letters and digits, parted by one dot, one or two underscores, or any number of dashes.
fn is_component(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    let parts = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|part| !part.is_empty());
    ends.into_iter().all(|end| end.is_some_and(alphanumeric))
        && parts.into_iter().all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=LONGEST_TAG).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let algorithm = algorithm.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte));
    algorithm && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn names_are_completed() {
        for (text, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("me/app:v1", "docker.io/me/app:v1"),
            ("localhost/app", "localhost/app:latest"),
            ("registry.example.com:5000/team/app_x/y--z:V1.2-3", "registry.example.com:5000/team/app_x/y--z:V1.2-3"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ] {
            assert_eq!(Image::parse(text).unwrap().full, full);
        }
        let digest = format!("nginx:1.27@sha256:{}", "0".repeat(64));
        assert_eq!(Image::parse(&digest).unwrap().id(), format!("docker.io/library/nginx@sha256:{}", "0".repeat(64)));
        let id = Image::parse("nginx").unwrap().id();
        assert!(id.starts_with("docker.io/library/nginx@sha256:") && id.len() == 31 + 64, "{id}");
    }

    #[test]
    fn wrong_names_are_refused() {
        for text in [
            "",
            ":tag",
            "a//b",
            "nginx:",
            "nginx:a b",
            "-a",
            "a-",
            "a..b",
            "a___b",
            "a@b",
            "a@sha256:00",
            "a b",
            "ä",
            "a/",
        ] {
            assert!(Image::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            Image::parse("Nginx:1").unwrap_err(),
            "invalid reference format: repository name (library/Nginx) must be lowercase"
        );
        assert!(Image::parse(&"a".repeat(64)).is_err());
        assert!(Image::parse(&"ab/".repeat(100)).is_err());
    }
}
