//! A daemon's JSON under `/api/v1/`, for commands on machines that have neither its history nor its cluster.
//!
//! `address` reads the URL, `api` sends a request and reads the answer, `refusal` says what an answer without a result
//! means, `questions` has the questions of the commands.

mod address;
mod api;
mod questions;
mod refusal;

use std::ffi::OsString;
use std::io;
use std::path::{PathBuf, absolute};

pub(in crate::cli) use address::ServerUrl;
pub(in crate::cli) use api::ServerApi;
pub(in crate::cli) use refusal::ServerError;

/// The options of the commands that can ask a daemon.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServerArgs {
    /// Ask the daemon whose pages are at this URL, not the history file and the cluster
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<ServerUrl>,
    /// Send the bearer token in this file, for the proxy in front of the daemon
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(super) token_file: Option<PathBuf>,
    /// Trust the certificate authorities in this file, too
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(super) ca_file: Option<PathBuf>,
}

impl ServerArgs {
    /// Returns the same options as words, for a command in another folder.
    pub(in crate::cli) fn words(&self) -> io::Result<Vec<OsString>> {
        let ServerArgs { server, token_file, ca_file } = self;
        let mut words: Vec<OsString> = server.iter().map(|url| OsString::from(format!("--server={url}"))).collect();
        for (option, file) in [("--token-file", token_file), ("--ca-file", ca_file)] {
            if let Some(file) = file {
                words.extend([OsString::from(option), absolute(file)?.into_os_string()]);
            }
        }
        Ok(words)
    }
}
