//! `belay set serviceaccount WORKLOAD ACCOUNT`

use anyhow::bail;
use serde_json::{Value, json};

use super::pods::{PodEdit, Pods};
use super::{Place, change};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set serviceaccount`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads (KIND/NAME …, KIND NAME …, or NAME …), and last the ServiceAccount that their pods run as
    #[arg(value_name = "WORKLOAD|ACCOUNT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    place: Place,
}

struct Account(String);

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let mut words = args.words;
    let account = words.pop().unwrap_or_default();
    if account.contains('/') {
        bail!("which ServiceAccount? say its name last: belay set serviceaccount {account} ACCOUNT");
    }
    change(globals, &args.place, &words, &Pods(Account(account))).await
}

impl PodEdit for Account {
    fn make(&self, _object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        spec["serviceAccountName"] = json!(self.0);
        // The field's old name: both must have the same value.
        if spec.get("serviceAccount").is_some() {
            spec["serviceAccount"] = json!(self.0);
        }
        Ok(())
    }

    fn done(&self) -> &'static str {
        "serviceaccount updated"
    }

    fn did(&self) -> String {
        format!("Set serviceaccount {}", self.0)
    }
}
