//! `belay new KIND NAME --image I`: a manifest as a careful person would have written it, committed.

use std::fmt::Write as _;

use anyhow::bail;

use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::Format;
use crate::cli::worktree::kustomization;
use crate::cli::worktree::{Finish, Where, Worktree};
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::New;

/// The arguments of `belay new`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The kind of the new workload
    #[arg(value_enum)]
    kind: NewKind,
    /// Its name
    #[arg(value_parser = name)]
    name: String,
    /// Set the image of the container
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: String,
    /// Set the number of pods [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    replicas: Option<u32>,
    /// Set the port on which the container listens
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Set an environment variable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Write this file of the folder [default: NAME.yaml]
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Show the manifest, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    to: Where,
    /// Select the output format for the new objects
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

/// The kinds of new workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum NewKind {
    /// Pods that are alike, as many as are wanted
    Deployment,
    /// A pod on every node
    Daemonset,
    /// Pods with names and volumes of their own
    Statefulset,
}

impl NewKind {
    fn name(self) -> &'static str {
        match self {
            NewKind::Deployment => "Deployment",
            NewKind::Daemonset => "DaemonSet",
            NewKind::Statefulset => "StatefulSet",
        }
    }
}

/// The default number of pods: one could not be replaced without a gap.
const REPLICAS: u32 = 2;

fn name(text: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    // The container is called the same, and that may have 63 characters; pods' names are longer than their workload's.
    if (1..=52).contains(&text.len()) && text.chars().all(inner) && ends {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 52 small letters, digits and -, and begins and ends with no -".to_owned())
    }
}

fn image(text: &str) -> Result<String, String> {
    let odd = text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control());
    if odd {
        Err("an image is a name without blanks, registry.example.com/web:1.0".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("say NAME=VALUE".to_owned()),
    }
}

pub(in crate::cli) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    if args.kind == NewKind::Daemonset && args.replicas.is_some() {
        bail!("a DaemonSet has a pod on every node, and no --replicas");
    }
    let namespace = globals.namespace.as_deref();
    let mut worktree = Worktree::open(&args.to.dir, namespace.unwrap_or("default"))?;
    let key = ObjectKey {
        group: "apps".to_owned(),
        kind: args.kind.name().to_owned(),
        namespace: Some(namespace.unwrap_or("default").to_owned()),
        name: args.name.clone(),
    };
    if let Some((_, there)) = worktree.manifests().find(|(_, manifest)| manifest.key == key) {
        bail!("{key} is there already ({})", there.place);
    }
    let file = args.file.clone().unwrap_or_else(|| format!("{}.yaml", args.name));
    if !belay_core::manifest::is_manifest(&file) {
        bail!(
            "{file} would not be read as a manifest; its name must end with .yaml, .yml or .json, and begin with neither . nor _"
        );
    }
    let path = worktree.path_of(&file);
    if worktree.files.contains_key(&path) || args.to.dir.join(&file).exists() {
        bail!("{path} is there already; say --file FILE");
    }
    worktree.check(&path)?;
    let text = manifest(&args, namespace);
    let listed = {
        let reading = args.to.reading()?;
        let rendered_as = (namespace.unwrap_or("default"), &reading);
        kustomization::with_resource(&mut worktree, &args.to.dir, rendered_as, (&path, &text))?
    };
    let finish = Finish {
        to: &args.to,
        subject: format!("Add {} {}", key.kind.to_lowercase(), key.name),
        objects: vec![key],
        dry_run: args.dry_run,
        output: args.output,
    };
    worktree.finish(std::iter::once((path, text)).chain(listed).collect(), &finish).await?;
    Ok(Exit::Done)
}

/// Returns the text of the manifest.
fn manifest(args: &Args, namespace: Option<&str>) -> String {
    let name = New::Text(args.name.clone()).on_one_line();
    let mut text = String::new();
    if args.kind == NewKind::Statefulset {
        text.push_str(&service(args, &name, namespace));
    }
    // Writing to a String can't fail.
    let _ = write!(text, "apiVersion: apps/v1\nkind: {}\n{}spec:\n", args.kind.name(), metadata(&name, namespace));
    match args.kind {
        NewKind::Deployment => {
            let _ = writeln!(text, "  replicas: {}", args.replicas.unwrap_or(REPLICAS));
            // Half of Kubernetes' default: a bad commit is rolled back sooner.
            text.push_str("  # How long a rollout may make no progress before it has failed, and is taken back.\n");
            text.push_str("  progressDeadlineSeconds: 300\n");
        }
        NewKind::Daemonset => {
            text.push_str("  updateStrategy:\n    type: RollingUpdate\n    rollingUpdate:\n      maxUnavailable: 1\n");
        }
        NewKind::Statefulset => {
            let _ = writeln!(text, "  replicas: {}\n  serviceName: {name}", args.replicas.unwrap_or(REPLICAS));
        }
    }
    let _ = write!(
        text,
        "  selector:\n    matchLabels:\n      app.kubernetes.io/name: {name}\n  template:\n    metadata:\n      labels:\n        \
         app.kubernetes.io/name: {name}\n    spec:\n      containers:\n      - name: {name}\n        image: {}\n",
        New::Text(args.image.clone()).on_one_line()
    );
    container(args, &mut text);
    text
}

fn metadata(name: &str, namespace: Option<&str>) -> String {
    let namespace =
        namespace.map(|namespace| format!("  namespace: {}\n", New::Text(namespace.to_owned()).on_one_line()));
    format!(
        "metadata:\n  name: {name}\n{}  labels:\n    app.kubernetes.io/name: {name}\n",
        namespace.unwrap_or_default()
    )
}

/// Returns the Service that gives the pods of a StatefulSet their names in DNS.
fn service(args: &Args, name: &str, namespace: Option<&str>) -> String {
    let ports = args.port.map(|port| format!("  ports:\n  - name: main\n    port: {port}\n    targetPort: main\n"));
    format!(
        "# Gives each pod a name in DNS: {name}-0.{name}\napiVersion: v1\nkind: Service\n{}spec:\n  clusterIP: None\n  \
         selector:\n    app.kubernetes.io/name: {name}\n{}---\n",
        metadata(name, namespace),
        ports.unwrap_or_default()
    )
}

fn container(args: &Args, text: &mut String) {
    if let Some(port) = args.port {
        let _ = write!(text, "        ports:\n        - name: main\n          containerPort: {port}\n");
    }
    if !args.env.is_empty() {
        text.push_str("        env:\n");
        for (name, value) in &args.env {
            let (name, value) = (New::Text(name.clone()).on_one_line(), New::Text(value.clone()).on_one_line());
            let _ = write!(text, "        - name: {name}\n          value: {value}\n");
        }
    }
    text.push_str(
        "        resources:\n          # Fill in: what it needs, and what it may never exceed.\n          requests:\n            \
         cpu: 50m\n            memory: 64Mi\n          limits:\n            memory: 128Mi\n",
    );
    match args.port {
        Some(_) => text.push_str(
            "        # Fill in: better a request that only a pod that is ready answers (httpGet).\n        readinessProbe:\n          \
             tcpSocket:\n            port: main\n          periodSeconds: 5\n",
        ),
        None => text.push_str(
            "        # Fill in: without it a pod counts as ready as soon as it runs, and a bad commit as good.\n        # \
             readinessProbe:\n        #   exec:\n        #     command: [\"/bin/true\"]\n        #   periodSeconds: 5\n",
        ),
    }
    text.push_str("        securityContext:\n          allowPrivilegeEscalation: false\n");
    match args.kind {
        NewKind::Statefulset => text.push_str(
            "        # Fill in, where the pods keep data:\n        # volumeMounts:\n        # - name: data\n        #   mountPath: \
             /data\n  # volumeClaimTemplates:\n  # - metadata:\n  #     name: data\n  #   spec:\n  #     accessModes: \
             [ReadWriteOnce]\n  #     resources:\n  #       requests:\n  #         storage: 1Gi\n",
        ),
        NewKind::Daemonset => text.push_str(
            "      # Fill in, where it must run on nodes that others are kept from:\n      # tolerations:\n      # - operator: \
             Exists\n",
        ),
        NewKind::Deployment => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;

    use belay_core::manifest::{Scopes, read_file};

    #[derive(Parser)]
    struct ManifestLine {
        #[command(flatten)]
        args: Args,
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_passes_the_check(
            kind in prop::sample::select(&["deployment", "daemonset", "statefulset"][..]),
            name in "[a-z]([a-z0-9-]{0,20}[a-z0-9])?|on|null|1|0x1f",
            image in "[a-z0-9]{1,8}(:[a-z0-9.]{1,5})?",
            port in prop::option::of(1..=65535_u16),
            value in "\\PC{0,20}",
            namespace in prop::option::of("[a-z]{1,5}"),
        ) {
            let mut line = vec!["new".to_owned(), kind.to_owned(), name.clone(), "--image".to_owned(), image.clone()];
            line.extend(port.map(|port| format!("--port={port}")));
            line.push(format!("--env=A={value}"));
            let args = ManifestLine::try_parse_from(line).unwrap().args;
            let text = manifest(&args, namespace.as_deref());
            let file = read_file("new.yaml", text.as_bytes(), &Scopes::new("default"));
            prop_assert!(file.complaints.is_empty(), "{:?}\n{text}", file.complaints);
            let made = file.manifests.last().unwrap();
            prop_assert_eq!(&made.key.name, &name);
            let made = made.value();
            let container = &made["spec"]["template"]["spec"]["containers"][0];
            prop_assert_eq!(&container["image"], &image);
            prop_assert_eq!(&container["env"][0]["value"], &value);
        }
    }
}
