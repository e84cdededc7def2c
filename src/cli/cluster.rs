//! `belay cluster`

use std::net::SocketAddr;
use std::path::PathBuf;

use super::embedded::{self, new_token, write_kubeconfig};
use super::exit::Exit;
use super::output::{progress, say};
use super::{Globals, signals};
use crate::minicluster::{MiniCluster, Part};

/// What `belay cluster` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Where to listen; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Write the kubeconfig here instead of printing it
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Leave a part out, for another in its place
    #[arg(long, value_enum, value_name = "PART")]
    without: Vec<Left>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// A part that can be left out.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Left {
    /// What makes status follow spec
    Controllers,
    /// The scheduler and the nodes
    Kubelet,
}

pub(super) async fn run(_globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { nodes, listen, kubeconfig_out, without, seed } = args;
    let mut builder = MiniCluster::builder().nodes(nodes).seed(seed);
    for part in without {
        builder = builder.without(match part {
            Left::Controllers => Part::Controllers,
            Left::Kubelet => Part::Kubelet,
        });
    }
    let embedded = embedded::start(builder, listen, new_token()?).await?;
    match &kubeconfig_out {
        Some(path) => {
            write_kubeconfig(path, &embedded.kubeconfig)?;
            progress(format!("kubeconfig: {}", path.display()));
        }
        None => say(embedded.kubeconfig.trim_end()),
    }
    progress(format!("serving Kubernetes at {} until Ctrl-C", embedded.door.url()));
    signals::asked_to_stop().await;
    embedded.stop().await;
    Ok(Exit::Done)
}
