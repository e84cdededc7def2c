//! `belay scale WORKLOAD --replicas N`

use anyhow::bail;
use serde_json::{Value, json};

use super::set::{Change, Place, change, of};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::worktree::edit_op::{Op, key};
use crate::cli::worktree::kustomization::KustomizationField;
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::New;

/// The arguments of `belay scale`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD")]
    words: Vec<String>,
    /// Set the number of pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=2_147_483_647))]
    replicas: i64,
    /// Scale only if the present number is this
    #[arg(long, value_name = "N")]
    current_replicas: Option<i64>,
    #[command(flatten)]
    place: Place,
}

/// The kinds that have replicas.
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "ReplicationController"),
];

/// The wanted number of pods.
struct ScaleTo {
    replicas: i64,
    current: Option<i64>,
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let size = ScaleTo { replicas: args.replicas, current: args.current_replicas };
    change(globals, &args.place, &args.words, &size).await
}

impl ScaleTo {
    fn check(&self, value: &Value) -> anyhow::Result<()> {
        // Left out, it is one.
        let is = value["spec"]["replicas"].as_i64().unwrap_or(1);
        match self.current {
            Some(wanted) if wanted != is => bail!("Expected replicas to be {wanted}, was {is}"),
            _ => Ok(()),
        }
    }
}

impl Change for ScaleTo {
    fn ops(&self, _object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        self.check(value)?;
        let new = New::Integer(self.replicas);
        Ok(match value["spec"].get("replicas") {
            Some(before) if before.as_i64() == Some(self.replicas) => Vec::new(),
            Some(_) => vec![Op::Set(vec![key("spec"), key("replicas")], new)],
            None => vec![Op::AddEntry(vec![key("spec")], "replicas".to_owned(), new)],
        })
    }

    fn patch(&self, _object: &ObjectKey, value: &Value) -> anyhow::Result<Option<(Part, Patch)>> {
        self.check(value)?;
        Ok(Some((Part::Scale, Patch::Merge(json!({"spec": {"replicas": self.replicas}})))))
    }

    fn field(&self) -> Option<KustomizationField> {
        Some(KustomizationField::Replicas)
    }

    fn done(&self) -> &'static str {
        "scaled"
    }

    fn subject(&self, objects: &[ObjectKey]) -> String {
        format!("Scale {} to {}", of(objects), self.replicas)
    }

    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        KINDS
    }

    fn otherwise(&self) -> &'static str {
        "has no replicas to set"
    }
}
