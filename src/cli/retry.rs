//! `belay retry WORKLOAD`

use anyhow::bail;

use super::Globals;
use super::exit::Exit;
use super::output::say;
use super::workload::{self, Named};
use crate::rollout::{Hold, marks};

/// What `belay retry` understands.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workload: NAME or KIND/NAME
    workload: Named,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let Args { workload: named } = args;
    let cluster = globals.cluster("").await?;
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let all = workload::live(&cluster, Some(&namespace), marks::SOURCE).await?;
    let meant: Vec<_> = all.iter().filter(|(key, _)| named.means(key, Some(&namespace))).collect();
    let (key, live) = match meant.as_slice() {
        [one] => one,
        [] => bail!(
            "belay has applied no workload {:?} in namespace {namespace}; `belay status -A` lists those it has",
            named.name
        ),
        several => {
            let names: Vec<String> =
                several.iter().map(|(key, _)| format!("{}/{}", key.kind.to_lowercase(), key.name)).collect();
            bail!("there are several: say {}", names.join(" or "));
        }
    };
    let Some(hold) = Hold::on(live) else {
        bail!("{key} is not held; there is nothing to try again");
    };
    let api_version = live["apiVersion"].as_str().unwrap_or("apps/v1");
    let served = cluster.served(api_version, &key.kind).await?;
    cluster.annotate(key, &served, Some(marks::uid(live)), &[(marks::HOLD, None)]).await?;
    say(format!("{key}: let go of commit {}, which was held because {}", hold.commit.short(), hold.reason));
    say("belay applies it again.");
    Ok(Exit::Done)
}
