//! `belay set security WORKLOAD --run-as-user 1000 --run-as-non-root --read-only-root-filesystem --drop-capability ALL`

use anyhow::bail;
use serde_json::{Value, json};

use super::pods::{PodEdit, Pods, each_container, list, without_empty};
use super::{Place, change};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set security`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD")]
    words: Vec<String>,
    /// Set the number of the user that the containers run as
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(i64).range(0..=2_147_483_647))]
    run_as_user: Option<i64>,
    /// Set the number of the group that the containers run as
    #[arg(long, value_name = "GID", value_parser = clap::value_parser!(i64).range(0..=2_147_483_647))]
    run_as_group: Option<i64>,
    /// Refuse an image that would run as root
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    run_as_non_root: Option<bool>,
    /// Forbid the containers to write into their images
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    read_only_root_filesystem: Option<bool>,
    /// Allow a process to gain more rights than its parent
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_privilege_escalation: Option<bool>,
    /// Add capabilities: NET_BIND_SERVICE
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    add_capability: Vec<String>,
    /// Drop capabilities: ALL
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    drop_capability: Vec<String>,
    /// Select containers; `*` stands for anything
    #[arg(short, long, value_name = "NAME", default_value = "*")]
    containers: String,
    #[command(flatten)]
    place: Place,
}

struct Security {
    fields: Vec<(&'static str, Value)>,
    add: Vec<String>,
    drop: Vec<String>,
    containers: String,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let fields = [
        ("runAsUser", args.run_as_user.map(Value::from)),
        ("runAsGroup", args.run_as_group.map(Value::from)),
        ("runAsNonRoot", args.run_as_non_root.map(Value::from)),
        ("readOnlyRootFilesystem", args.read_only_root_filesystem.map(Value::from)),
        ("allowPrivilegeEscalation", args.allow_privilege_escalation.map(Value::from)),
    ];
    let fields: Vec<_> = fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let (add, drop) = (args.add_capability, args.drop_capability);
    if fields.is_empty() && add.is_empty() && drop.is_empty() {
        bail!(
            "no setting: say --run-as-user UID, --run-as-non-root, --read-only-root-filesystem, --drop-capability ALL …"
        );
    }
    if let Some(both) = add.iter().find(|name| drop.contains(name)) {
        bail!("{both} can't be both given and taken");
    }
    change(globals, &args.place, &args.words, &Pods(Security { fields, add, drop, containers: args.containers })).await
}

impl PodEdit for Security {
    fn make(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        each_container(object, spec, &self.containers, |container| {
            for (name, value) in &self.fields {
                container["securityContext"][name] = value.clone();
            }
            for (wanted, field, other) in [(&self.add, "add", "drop"), (&self.drop, "drop", "add")] {
                for capability in wanted {
                    let capabilities = &mut container["securityContext"]["capabilities"];
                    let all = list(capabilities, field);
                    if !all.iter().any(|there| there == capability) {
                        all.push(json!(capability));
                    }
                    if capabilities.get(other).is_some() {
                        list(capabilities, other).retain(|there| there != capability);
                        without_empty(capabilities, other);
                    }
                }
            }
            Ok(())
        })
    }

    fn done(&self) -> &'static str {
        "security context updated"
    }

    fn did(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!("{name}={value}"));
        let add = self.add.iter().map(|name| format!("+{name}"));
        let drop = self.drop.iter().map(|name| format!("-{name}"));
        format!("Set security {}", fields.chain(add).chain(drop).collect::<Vec<_>>().join(", "))
    }
}
