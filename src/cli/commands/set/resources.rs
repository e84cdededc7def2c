//! `belay set resources WORKLOAD --limits cpu=1,memory=512Mi --requests …`

use anyhow::bail;
use serde_json::{Value, json};

use super::pods::{PodEdit, Pods, each_container, without_empty};
use super::{Place, change};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set resources`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD")]
    words: Vec<String>,
    /// Set the limits of a container: cpu=500m,memory=512Mi; NAME- removes one
    #[arg(long, value_name = "NAME=AMOUNT,…", value_delimiter = ',')]
    limits: Vec<String>,
    /// Set the requests of a container, written as for --limits
    #[arg(long, value_name = "NAME=AMOUNT,…", value_delimiter = ',')]
    requests: Vec<String>,
    /// Select containers; `*` stands for anything
    #[arg(short, long, value_name = "NAME", default_value = "*")]
    containers: String,
    #[command(flatten)]
    place: Place,
}

struct Resources {
    /// `limits` or `requests`, which resource, how much; nothing to take it away.
    amounts: Vec<(&'static str, String, Option<String>)>,
    containers: String,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let mut amounts = Vec::new();
    for (field, words) in [("limits", &args.limits), ("requests", &args.requests)] {
        for word in words {
            amounts.push(match (word.split_once('='), word.strip_suffix('-')) {
                (Some((name, amount)), _) if !name.is_empty() && !amount.is_empty() => {
                    (field, name.to_owned(), Some(amount.to_owned()))
                }
                (None, Some(name)) if !name.is_empty() => (field, name.to_owned(), None),
                _ => bail!("{word:?} is not NAME=AMOUNT, as cpu=500m, nor NAME- to take one away"),
            });
        }
    }
    if amounts.is_empty() {
        bail!("no limit and no request: say --limits cpu=500m,memory=512Mi, --requests …, or both");
    }
    change(globals, &args.place, &args.words, &Pods(Resources { amounts, containers: args.containers })).await
}

impl PodEdit for Resources {
    fn make(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        each_container(object, spec, &self.containers, |container| {
            for (field, name, amount) in &self.amounts {
                match amount {
                    Some(amount) if container["resources"][field][name] == amount.as_str() => {}
                    Some(amount) => container["resources"][field][name] = json!(amount),
                    None => {
                        if let Some(there) = container["resources"][field].as_object_mut() {
                            there.remove(name);
                        }
                    }
                }
                if let Some(resources) = container.get_mut("resources") {
                    without_empty(resources, field);
                }
            }
            without_empty(container, "resources");
            Ok(())
        })
    }

    fn done(&self) -> &'static str {
        "resource requirements updated"
    }

    fn did(&self) -> String {
        let one = |(field, name, amount): &(&str, String, Option<String>)| match amount {
            Some(amount) => format!("{name} {field} {amount}"),
            None => format!("no {name} {field}"),
        };
        format!("Set {}", self.amounts.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}
