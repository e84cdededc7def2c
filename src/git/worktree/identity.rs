//! The author of a commit, found as Git finds it (git-commit(1), "Commit Information"): its environment, then its
//! configuration.

use git2::{Repository, Signature};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::git::error::{GitError, wrong};
use crate::git::read::user_config;

/// Returns the author, as of now where the environment says no other time.
///
/// # Errors
///
/// When nobody is named, or the time can't be read.
pub(in crate::git) fn author(repository: &Repository, now: Timestamp) -> Result<Signature<'static>, GitError> {
    signature(repository, "author", now, Repository::author_from_env)
}

/// Returns the committer, as of now where the environment says no other time.
///
/// # Errors
///
/// When nobody is named, or the time can't be read.
pub(in crate::git) fn committer(repository: &Repository, now: Timestamp) -> Result<Signature<'static>, GitError> {
    signature(repository, "committer", now, Repository::committer_from_env)
}

fn signature(
    repository: &Repository,
    role: &str,
    now: Timestamp,
    from_environment: fn(&Repository) -> Result<Signature<'static>, git2::Error>,
) -> Result<Signature<'static>, GitError> {
    let nobody = || {
        wrong(
            "Git does not know who you are; tell it with: git config --global user.name 'Your Name' and git config --global \
             user.email you@example.com"
                .to_owned(),
        )
    };
    let variable = |what: &str| format!("GIT_{}_{what}", role.to_uppercase());
    let said = |what: &str| std::env::var(variable(what)).ok().filter(|value| !value.trim().is_empty());
    let find = |what: &str| {
        said(&what.to_uppercase())
            .or_else(|| user_config::get(repository, &format!("{role}.{what}")))
            .or_else(|| user_config::get(repository, &format!("user.{what}")))
    };
    let name = find("name").ok_or_else(nobody)?;
    let by_mail = || std::env::var("EMAIL").ok().filter(|value| !value.is_empty());
    let email = find("email").or_else(by_mail).ok_or_else(nobody)?;
    let when = match said("DATE") {
        // libgit2 reads the same variables as Git there, and has no other way to ask for it.
        Some(date) => from_environment(repository)
            .map_err(|error| wrong(format!("failed to read {} {date:?}: {}", variable("DATE"), error.message())))?
            .when(),
        None => git2::Time::new(now.as_second(), TimeZone::system().to_offset(now).seconds() / 60),
    };
    Signature::new(&name, &email, &when).map_err(|_| nobody())
}
