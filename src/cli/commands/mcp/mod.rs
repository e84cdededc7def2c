//! `belay mcp`: a server of the Model Context Protocol on standard input and output, which only reads.
//!
//! `protocol` reads and writes its messages, `session` answers them, `tools` turns the arguments of a tool into a command
//! line, and `call` runs that as a process of its own: a tool is the command, with the same code and the same limits.
//!
//! The protocol is written here: of it belay speaks four methods over lines of JSON. The crate `rmcp` (3.11) would add
//! seven crates to the lock file, among them chrono and uuid, and has had three major versions within a year.

mod call;
mod line;
mod protocol;
mod session;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use self::call::ToolRunner;
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::session::server::ServerArgs;

/// The arguments of `belay mcp`.
///
/// An assistant starts it, and asks by lines of JSON on its standard input. The tools are status, history, show, stats,
/// plan, check and simulate; none of them changes anything, or shows values of Secrets.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Read manifests of this folder only [default: the present one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { dir, server } = args;
    // A wrong option is an error at once, and not at each call.
    server.api(globals)?;
    let runner = ToolRunner::new(globals, dir, &server)?;
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    session::serve(input, tokio::io::stdout(), Arc::new(runner)).await?;
    Ok(Exit::Done)
}
