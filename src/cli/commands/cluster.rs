//! `belay cluster`

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail};

use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{progress, say};
use crate::cli::session::embedded::{self, CertificateIdentity};
use crate::cli::session::kubeconfig;
use crate::cli::session::signals;
use crate::telemetry::{self, LogFormat};
use minicluster::{Authorization, MiniCluster, Part, Script};

/// The arguments of `belay cluster`.
///
/// A pod behaves as its annotation kubelet.belay.dev/fate says, else as the rules of --fates say, else by its image's
/// name (`:404` can't be pulled, `:crash` crashes …); else it is ready after a second. Nothing really runs.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Set the number of nodes
    #[arg(long, value_name = "N", default_value = "3")]
    nodes: NonZeroUsize,
    /// Listen on this address; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Add the kubeconfig to this file, and do not print it
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep the objects in this folder, and start with those that are there
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Speed up time: `10x`
    #[arg(long, value_name = "N", default_value = "1x", conflicts_with = "data_dir")]
    speed: Speed,
    /// Read rules for the behaviour of pods, by image, namespace and pod, from this file
    #[arg(long, value_name = "FILE")]
    fates: Option<PathBuf>,
    /// Leave out a part, for another in its place
    #[arg(long, value_enum, value_name = "PART")]
    without: Vec<Left>,
    /// Set the seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Set the rights of users; the kubeconfig's own may do everything
    #[arg(long, value_enum, value_name = "MODE", default_value_t = AuthorizationMode::AlwaysAllow, ignore_case = true)]
    authorization_mode: AuthorizationMode,
}

/// The rights of users, in kube-apiserver's words.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AuthorizationMode {
    /// Everything
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// Rights of the roles that are bound to them
    #[value(name = "RBAC")]
    Rbac,
}

/// The speed of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed(f64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
        let speed = number.filter(|speed| (0.01..=1000.0).contains(speed));
        speed.map(Speed).ok_or_else(|| format!("{text:?} is not a speed from 0.01x to 1000x"))
    }
}

/// A part that can be left out.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Left {
    /// The controllers, which make status follow spec
    Controllers,
    /// The scheduler and the nodes
    Kubelet,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    telemetry::start_logging(globals.verbose, LogFormat::Text);
    let Args { nodes, listen, kubeconfig_out, data_dir, speed: Speed(speed), fates, without, seed, authorization_mode } =
        args;
    let mut builder = MiniCluster::builder().nodes(nodes.get()).seed(seed);
    for part in without {
        builder = builder.without(match part {
            Left::Controllers => Part::Controllers,
            Left::Kubelet => Part::Kubelet,
        });
    }
    if let Some(path) = &fates {
        let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        builder = builder.script(Script::parse(&text).with_context(|| path.display().to_string())?);
    }
    let identity = match &data_dir {
        Some(folder) => {
            builder = builder.persist_in(folder);
            CertificateIdentity::kept_in(folder)?
        }
        None => CertificateIdentity::new()?,
    };
    let authorization = match authorization_mode {
        AuthorizationMode::AlwaysAllow => Authorization::AllowAll,
        AuthorizationMode::Rbac => Authorization::Rbac,
    };
    let embedded = embedded::start_as(builder, listen, identity.authorizing(authorization), speed).await?;
    match &kubeconfig_out {
        Some(path) => {
            kubeconfig::merge(path, &embedded.kubeconfig)?;
            progress(format!("kubeconfig: {}", path.display()));
        }
        None => say(embedded.kubeconfig.trim_end()),
    }
    if let Some(warning) = exposure(embedded.server.address()) {
        progress(warning);
    }
    progress(format!("serving Kubernetes at {} until Ctrl-C; it runs no containers", embedded.server.url()));
    let lost = tokio::select! {
        biased;
        () = signals::asked_to_stop() => false,
        () = embedded.cluster.state_is_lost() => true,
    };
    embedded.stop().await;
    if lost {
        bail!("failed to keep the cluster's state: what was written last is lost; is the disk full?");
    }
    Ok(Exit::Done)
}

/// Returns a warning for an address that other machines may reach.
fn exposure(address: SocketAddr) -> Option<String> {
    (!address.ip().is_loopback()).then(|| {
        format!(
            "warning: {address} can be reached from other machines; who has the kubeconfig's token may do everything. \
             Listen on 127.0.0.1 unless that is wanted"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Speed, exposure};

    #[test]
    fn only_addresses_that_others_reach_are_warned_of() {
        for (address, warned) in [
            ("127.0.0.1:6443", false),
            ("[::1]:0", false),
            ("0.0.0.0:6443", true),
            ("[::]:1", true),
            ("10.0.0.1:1", true),
        ] {
            assert_eq!(exposure(address.parse().unwrap()).is_some(), warned, "{address}");
        }
    }

    #[test]
    fn speeds() {
        assert_eq!("10x".parse(), Ok(Speed(10.0)));
        assert_eq!("0.5".parse(), Ok(Speed(0.5)));
        for text in ["", "x", "0", "-1x", "1e9", "NaN", "inf"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
