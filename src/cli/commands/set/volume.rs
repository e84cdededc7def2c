//! `belay set volume WORKLOAD --add --name N --configmap C --mount-path P`, `--remove --name N`

use anyhow::bail;
use serde_json::{Value, json};

use super::pods::{PodEdit, Pods, each_container, list, without_empty};
use super::{Place, change};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set volume`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("doing").required(true))]
#[command(group = clap::ArgGroup::new("source"))]
pub struct Args {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD")]
    words: Vec<String>,
    /// Add a volume, and mount it; one that is there gets another source or one more mount
    #[arg(long, group = "doing")]
    add: bool,
    /// Remove a volume and everything that mounts it
    #[arg(long, group = "doing")]
    remove: bool,
    /// Name the volume
    #[arg(long, value_name = "NAME", required = true)]
    name: String,
    /// Take the keys of this ConfigMap as its content
    #[arg(long, value_name = "NAME", group = "source", conflicts_with = "remove")]
    configmap: Option<String>,
    /// Take the keys of this Secret as its content
    #[arg(long, value_name = "NAME", group = "source", conflicts_with = "remove")]
    secret: Option<String>,
    /// Take the volume of this PersistentVolumeClaim
    #[arg(long, value_name = "NAME", group = "source", conflicts_with = "remove")]
    claim: Option<String>,
    /// Take an empty volume that lasts as long as the pod
    #[arg(long, group = "source", conflicts_with = "remove")]
    empty_dir: bool,
    /// Mount it at this path
    #[arg(long, value_name = "PATH", conflicts_with = "remove")]
    mount_path: Option<String>,
    /// Mount only this file or folder of it
    #[arg(long, value_name = "PATH", requires = "mount_path")]
    sub_path: Option<String>,
    /// Mount it read-only
    #[arg(long, requires = "mount_path")]
    read_only: bool,
    /// Select containers; `*` stands for anything
    #[arg(short, long, value_name = "NAME", default_value = "*", requires = "mount_path")]
    containers: String,
    #[command(flatten)]
    place: Place,
}

struct Volume {
    name: String,
    wanted: Option<Added>,
}

struct Added {
    /// `{configMap: {name: c}}`
    source: Option<(&'static str, Value)>,
    mount: Option<Value>,
    containers: String,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let source = match (&args.configmap, &args.secret, &args.claim, args.empty_dir) {
        (Some(name), ..) => Some(("configMap", json!({ "name": name }))),
        (_, Some(name), ..) => Some(("secret", json!({ "secretName": name }))),
        (_, _, Some(name), _) => Some(("persistentVolumeClaim", json!({ "claimName": name }))),
        (.., true) => Some(("emptyDir", json!({}))),
        _ => None,
    };
    if args.add && source.is_none() && args.mount_path.is_none() {
        bail!("no content, or no place: say --configmap, --secret, --claim or --empty-dir, and --mount-path PATH");
    }
    let mount = args.mount_path.as_ref().map(|path| {
        let mut mount = json!({"name": args.name, "mountPath": path});
        if let Some(sub_path) = &args.sub_path {
            mount["subPath"] = json!(sub_path);
        }
        if args.read_only {
            mount["readOnly"] = json!(true);
        }
        mount
    });
    let wanted = args.add.then_some(Added { source, mount, containers: args.containers });
    change(globals, &args.place, &args.words, &Pods(Volume { name: args.name, wanted })).await
}

impl PodEdit for Volume {
    fn make(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        let there = spec["volumes"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == *self.name));
        let Some(wanted) = &self.wanted else {
            if !there {
                bail!("{object} has no volume {:?}", self.name);
            }
            return self.remove(object, spec);
        };
        if let Some((field, source)) = &wanted.source {
            let volume = json!({"name": self.name, *field: source});
            let all = list(spec, "volumes");
            match all.iter_mut().find(|one| one["name"] == *self.name) {
                Some(one) if one.get(field).is_some_and(|is| contains(is, source)) => {}
                Some(one) => *one = volume,
                None => all.push(volume),
            }
        } else if !there {
            bail!(
                "{object} has no volume {:?}; say what is in it: --configmap, --secret, --claim or --empty-dir",
                self.name
            );
        }
        let Some(mount) = &wanted.mount else { return Ok(()) };
        each_container(object, spec, &wanted.containers, |container| {
            let mounts = list(container, "volumeMounts");
            match mounts.iter_mut().find(|one| one["mountPath"] == mount["mountPath"]) {
                Some(one) if one["name"] != *self.name => {
                    bail!("{object} mounts {} at {} already; remove that first", one["name"], mount["mountPath"])
                }
                Some(one) => *one = mount.clone(),
                None => mounts.push(mount.clone()),
            }
            Ok(())
        })
    }

    fn done(&self) -> &'static str {
        "volume updated"
    }

    fn did(&self) -> String {
        format!("{} volume {}", if self.wanted.is_some() { "Set" } else { "Remove" }, self.name)
    }
}

impl Volume {
    fn remove(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        list(spec, "volumes").retain(|one| one["name"] != *self.name);
        without_empty(spec, "volumes");
        each_container(object, spec, "*", |container| {
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.retain(|one| one["name"] != *self.name);
            }
            without_empty(container, "volumeMounts");
            Ok(())
        })
    }
}

/// Returns true when all of this is so there, whatever else is.
fn contains(there: &Value, wanted: &Value) -> bool {
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(name, value)| there.get(name) == Some(value)))
}
