//! `belay notify test NAME`

use std::path::PathBuf;

use anyhow::bail;

use super::run::read_file;
use crate::cli::exit::Exit;
use crate::cli::output::answer::NotifyTestAnswer;
use crate::cli::output::{Format, plain, say, say_value};
use crate::clock::Clock;
use crate::notices::{Http, Links, Receiver};

/// The arguments of `belay notify`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Send a test notice to a receiver of the configuration, and show its answer: 0 if it took the notice
    Test(TestArgs),
}

/// The arguments of `belay notify test`.
#[derive(clap::Args, Debug)]
pub struct TestArgs {
    /// The receiver's name, as in [[notify]]
    name: String,
    /// Read this configuration file [default: /etc/belay/belay.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) async fn run(args: Args) -> anyhow::Result<Exit> {
    let What::Test(TestArgs { name, config, output }) = args.what;
    let config = read_file(config.as_deref())?;
    let Some(receiver) = config.notify.iter().find(|receiver| receiver.name == name) else {
        if config.notify.is_empty() {
            bail!("the configuration has no [[notify]]: there is nobody to tell");
        }
        let known: Vec<&str> = config.notify.iter().map(|receiver| receiver.name.as_str()).collect();
        bail!("there is no receiver {name:?}; there is {}", known.join(", "));
    };
    let receiver = Receiver::new(receiver.clone());
    let answer = receiver.try_out(Clock::system().now(), &Links::default(), &Http::new()).await;
    if matches!(output, Format::Json | Format::Yaml) {
        let taken = answer.as_ref().is_ok_and(|answer| answer.is_taken());
        let error = answer.as_ref().err().map(ToString::to_string);
        let answer = answer.ok().map(|answer| plain(&answer.to_string()));
        say_value(&NotifyTestAnswer { receiver: name, taken, answer, error }, output)?;
        return Ok(if taken { Exit::Done } else { Exit::Error });
    }
    match answer {
        Ok(answer) if answer.is_taken() && output == Format::Name => {
            say(name);
            Ok(Exit::Done)
        }
        Ok(answer) if answer.is_taken() && receiver.is_forge() => {
            say(format!("{name} shows the repository to the token: {answer}; no status was written"));
            Ok(Exit::Done)
        }
        Ok(answer) if answer.is_taken() => {
            say(format!("{name} took the message: {answer}"));
            Ok(Exit::Done)
        }
        Ok(answer) => bail!("{name} did not take the message: {answer}"),
        Err(error) => bail!("{name} could not be told: {error}"),
    }
}
