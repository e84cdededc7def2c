//! Redirects of Git servers: only within the scheme, host and port that a talk is with, at its first and at every later
//! request.
//!
//! libgit2 compares the host alone, and offers no way to refuse another port, or `http` that becomes `https`. So the linker
//! puts a function of ours into the place of libgit2's own (`build.rs`).

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::location::{Location, Origin};

thread_local! {
    /// The server that this thread talks with.
    static TALK: RefCell<Option<Origin>> = const { RefCell::new(None) };
}

/// Redirects of the talks of this thread stay with one server, until this is dropped.
pub(in crate::git) struct RedirectGuard(());

impl RedirectGuard {
    pub(in crate::git) fn new(origin: Option<&Origin>) -> RedirectGuard {
        // Named, so that the linker finds it before it comes to libgit2.
        std::hint::black_box(__wrap_git_net_url_apply_redirect as *const ());
        TALK.set(origin.cloned());
        RedirectGuard(())
    }
}

impl Drop for RedirectGuard {
    fn drop(&mut self) {
        TALK.set(None);
    }
}

/// Returns the address of the repository after a redirect to `location`, from its address with `service` behind it.
fn redirected(origin: Option<&Origin>, location: &str, service: &str) -> Result<String, String> {
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

#[expect(unsafe_code, reason = "functions of libgit2, as its `net.h` declares them")]
unsafe extern "C" {
    fn git_net_url_parse(url: *mut c_void, given: *const c_char) -> c_int;
    fn git_net_url_dispose(url: *mut c_void);
}

/// Called by libgit2 where a server redirects it: changes `url`, which it talks with, or refuses.
#[expect(unsafe_code, reason = "called by libgit2")]
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_git_net_url_apply_redirect(
    url: *mut c_void,
    location: *const c_char,
    _allow_offsite: bool,
    service: *const c_char,
) -> c_int {
    let text = |text: *const c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: libgit2 hands over texts that end with a NUL, or nothing.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    let answer = TALK.with_borrow(|origin| redirected(origin.as_ref(), &text(location), &text(service)));
    let address = answer.and_then(|address| CString::new(address).map_err(|error| error.to_string()));
    match address {
        // SAFETY: the address is libgit2's own; it is emptied before it is filled again, and the text is copied.
        Ok(address) => unsafe {
            git_net_url_dispose(url);
            git_net_url_parse(url, address.as_ptr())
        },
        Err(why) => {
            let why = CString::new(why).unwrap_or_default();
            // SAFETY: the text is copied.
            unsafe { libgit2_sys::git_error_set_str(libgit2_sys::GIT_ERROR_NET as c_int, why.as_ptr()) };
            -1
        }
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
