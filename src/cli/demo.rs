//! x
use super::{Exit, Globals};
/// x
#[derive(clap::Args)]
pub struct Args {}
pub(super) async fn run(_g: &Globals, _a: Args) -> anyhow::Result<Exit> {
    Ok(Exit::Done)
}
