//! Redirects of Git servers: only within the scheme, host and port that a session is with.

use super::location::{Location, Origin};

/// Returns the address of the repository after a redirect to `location`, from its address with `service` behind it.
///
/// # Errors
/// Fails when it leads to another server, or to something else than a repository; says so without the address.
pub fn redirected(origin: Option<&Origin>, location: &str, service: &str) -> Result<String, String> {
    let refused = |why: &str| Err(format!("it redirects {why}"));
    let Some(origin) = origin else { return refused("to another address") };
    let whole = if location.starts_with('/') { format!("{origin}{location}") } else { location.to_owned() };
    let path = service.split('?').next().unwrap_or_default();
    let repository = whole.strip_suffix(service).or_else(|| whole.strip_suffix(path));
    let Some(repository) = repository.filter(|repository| !path.is_empty() && !repository.contains(['?', '#'])) else {
        return refused("to something else than a repository");
    };
    match repository.parse::<Location>() {
        Ok(repository) if repository.origin() == Some(origin) => Ok(repository.to_string()),
        _ => refused("to another server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "/info/refs?service=git-upload-pack";

    fn after(location: &str) -> Result<String, String> {
        let repository: Location = "https://git.example.com/shop/deploy".parse().unwrap();
        redirected(repository.origin(), location, SERVICE)
    }

    #[test]
    fn a_redirect_stays_with_its_server() {
        for location in [
            format!("https://git.example.com/shop/deploy.git{SERVICE}"),
            format!("https://git.example.com:443/shop/deploy.git{SERVICE}"),
            format!("HTTPS://Git.Example.com/shop/deploy.git{SERVICE}"),
            format!("/shop/deploy.git{SERVICE}"),
            "/shop/deploy.git/info/refs".to_owned(),
        ] {
            assert!(after(&location).unwrap().ends_with("/shop/deploy.git"), "{location}");
        }
        for location in [
            "https://git.example.com:8443/shop/deploy.git",
            "http://git.example.com/shop/deploy.git",
            "http://git.example.com:443/shop/deploy.git",
            "https://git.example.com.evil.org/deploy.git",
            "https://git.example.com@evil.org/deploy.git",
            "https://evil.org\\@git.example.com/deploy.git",
            "https://evil.org/https://git.example.com",
            "ssh://git.example.com/deploy.git",
            "file:///srv",
            "git.example.com/deploy.git",
            "",
        ] {
            assert_eq!(
                after(&format!("{location}{SERVICE}")).unwrap_err(),
                "it redirects to another server",
                "{location}"
            );
        }
        assert_eq!(after("//evil.org/info/refs"), Ok("https://git.example.com//evil.org".to_owned()), "a path");
        for location in ["/login", "/login?to=/info/refs", "/a?b/info/refs", "/login#/info/refs"] {
            assert!(after(location).unwrap_err().contains("something else than a repository"), "{location}");
        }
        assert!(redirected(None, "/a/info/refs", SERVICE).is_err());
    }
}
