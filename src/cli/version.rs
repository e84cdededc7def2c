//! `belay version`

use super::answer::VersionAnswer;
use super::exit::Exit;
use super::output::{Format, say, say_value};
use kube_facts::facts;

/// What `belay version` understands.
#[derive(clap::Args)]
pub struct Args {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Args { output } = *args;
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Format::Json | Format::Yaml => {
            let (version, embedded_kubernetes) = (version.to_owned(), facts().kubernetes.clone());
            say_value(&VersionAnswer { version, embedded_kubernetes }, output)?;
        }
        Format::Table | Format::Wide | Format::Name => say(format!("belay {version}")),
    }
    Ok(Exit::Done)
}
