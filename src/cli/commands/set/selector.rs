//! `belay set selector service/web app=web,tier=front`: where Kubernetes lets a selector change.

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::{Value, json};

use super::difference::{difference, json_patch};
use super::{Change, Place, change, of};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::worktree::edit_op::{Op, key};
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set selector`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The Services or ReplicationControllers (KIND/NAME …, KIND NAME …, or NAME …), and all the labels: app=web,tier=front
    #[arg(value_name = "OBJECT|LABEL=VALUE,…", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// The kinds whose selector may change. Kubernetes keeps that of all others for good.
const KINDS: &[(&str, &str)] = &[("v1", "Service"), ("v1", "ReplicationController")];

struct Labels(BTreeMap<String, String>);

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (labels, words): (Vec<String>, Vec<String>) = args.words.into_iter().partition(|word| word.contains('='));
    let mut all = BTreeMap::new();
    for label in labels.iter().flat_map(|word| word.split(',')) {
        match label.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.contains('=') => {
                all.insert(name.to_owned(), value.to_owned());
            }
            _ => bail!("{label:?} is not LABEL=VALUE"),
        }
    }
    if all.is_empty() {
        bail!("no labels: say LABEL=VALUE,…: all that the pods must have");
    }
    change(globals, &args.place, &words, &Labels(all)).await
}

impl Labels {
    fn of(&self, value: &Value) -> Vec<Op> {
        let mut after = value["spec"].clone();
        after["selector"] = json!(self.0);
        difference(&value["spec"], &after, &[key("spec")])
    }
}

impl Change for Labels {
    fn ops(&self, _object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        Ok(self.of(value))
    }

    fn patch(&self, _object: &ObjectKey, value: &Value) -> anyhow::Result<Option<(Part, Patch)>> {
        let ops = self.of(value);
        let guard = [key("spec")];
        Ok((!ops.is_empty()).then(|| (Part::Whole, Patch::Json(json_patch(&ops, (&guard, &value["spec"]))))))
    }

    fn done(&self) -> &'static str {
        "selector updated"
    }

    fn subject(&self, objects: &[ObjectKey]) -> String {
        let labels: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("Set selector {} of {}", labels.join(","), of(objects))
    }

    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        KINDS
    }

    fn otherwise(&self) -> &'static str {
        "keeps its selector for good: only Services and ReplicationControllers may get another; write a new manifest with another name"
    }
}
