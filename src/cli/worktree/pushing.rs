//! The credentials for the server that a commit is pushed to: those in the configuration of that repository.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::cli::session::service::CONFIG;
use crate::config::Config;
use crate::daemon::credentials;
use crate::git::{Credentials, Location};

/// Returns the credentials of the source that follows `destination`, else of one on the same server; none where the
/// configuration knows neither: `ssh` has those of the user. Without `config` the usual file is read, if it is there and can be.
///
/// # Errors
/// Fails when a file that was named can't be read.
pub(in crate::cli) fn credentials_for(config: Option<&Path>, destination: &Location) -> anyhow::Result<Credentials> {
    let path = config.map_or_else(|| PathBuf::from(CONFIG), Path::to_owned);
    let known = match (std::fs::read_to_string(&path), config) {
        (Ok(text), _) => Config::parse(&text, &path.display().to_string())?,
        (Err(_), None) => return Ok(Credentials::new(destination)),
        (Err(error), Some(_)) => bail!("failed to read {}: {error}", path.display()),
    };
    let mut of_server = None;
    for source in &known.source {
        let Ok(location) = source.repository.parse::<Location>() else { continue };
        if location == *destination {
            return Ok(credentials(source, destination));
        }
        if location.origin().is_some() && location.origin() == destination.origin() {
            of_server = of_server.or(Some(source));
        }
    }
    Ok(of_server.map_or_else(|| Credentials::new(destination), |source| credentials(source, destination)))
}
