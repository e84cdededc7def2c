//! `belay import FILE`

mod argo;
mod field;
mod flux;
mod found;
mod written;

use std::io::{self, Read};
use std::sync::Arc;

use anyhow::Context as _;

use super::exit::Exit;
use super::output::{counted, plain, progress, say};
use crate::config::Config;
use belay_core::manifest::yaml::{At, Placed, YamlComplaint, decode, documents};
use belay_core::manifest::{Complaint, Place};
use field::Field;
use found::Found;

/// The most that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// What `belay import` understands.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay import clusters/production/shop.yaml >> belay.toml
  kubectl get applications -n argocd -o yaml | belay import -")]
pub struct Args {
    /// The file with the Kustomization and GitRepository, HelmRelease or Application; - for standard input
    #[arg(value_name = "FILE")]
    file: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let shown = &args.file;
    let bytes = if shown == "-" {
        read(std::io::stdin()).context("failed to read standard input")?
    } else {
        std::fs::File::open(shown).and_then(read).with_context(|| format!("failed to read {shown}"))?
    };
    let found = import(&shown.as_str().into(), &bytes);
    let text = written::text(&found.sources);
    text.lines().for_each(|line| say(plain(line)));
    found.warnings.iter().for_each(|warning| progress(plain(&format!("warning: {warning}"))));
    found.errors.iter().for_each(|error| progress(plain(&format!("error: {error}"))));
    if !found.sources.is_empty() {
        // What is printed is a configuration, or it is said why not.
        Config::parse(&text, "what is printed")?;
    }
    if found.errors.is_empty() {
        return Ok(Exit::Done);
    }
    progress(counted(found.errors.len(), "error"));
    Ok(Exit::Error)
}

fn read(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// What the objects of a file come to.
fn import(file: &Arc<str>, bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let text = match decode(bytes) {
        Ok(text) => text,
        Err(complaint) => {
            found.errors.push(of_text(file, &complaint));
            return found;
        }
    };
    let (documents, complaints) = documents(&text);
    found.errors.extend(complaints.iter().map(|complaint| of_text(file, complaint)));
    let mut read: Vec<Placed> = Vec::new();
    for document in &documents {
        let (placed, complaints) = document.read();
        found.errors.extend(complaints.iter().map(|complaint| of_text(file, complaint)));
        read.extend(placed);
    }
    let objects: Vec<Field<'_>> =
        read.iter().flat_map(|placed| items(placed.root())).map(|at| Field::root(file, at)).collect();
    let is_repository =
        |object: &&Field<'_>| matches!(group_and_kind(object), ("source.toolkit.fluxcd.io", "GitRepository"));
    let repositories: Vec<Field<'_>> = objects.iter().filter(is_repository).cloned().collect();
    objects.iter().for_each(|object| take(&mut found, object, &repositories));
    found.order();
    if found.sources.is_empty() && found.errors.is_empty() {
        let place = Place { path: Arc::clone(file), line: 1, column: 1 };
        let message = "no Kustomization or HelmRelease of Flux, and no Application of Argo CD".to_owned();
        found.errors.push(Complaint::of_file(place, message, None));
    }
    found
}

fn take(found: &mut Found, object: &Field<'_>, repositories: &[Field<'_>]) {
    match group_and_kind(object) {
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => flux::kustomization(found, object, repositories),
        ("helm.toolkit.fluxcd.io", "HelmRelease") => flux::release(found, object, repositories),
        ("argoproj.io", "Application") => argo::application(found, object),
        ("argoproj.io", "ApplicationSet") => {
            let instead = "import what it made: kubectl get applications -n argocd -o yaml | belay import -";
            found.refuse(object, "an ApplicationSet has no counterpart", instead);
        }
        // What another object names is told of there.
        ("source.toolkit.fluxcd.io", _) => {}
        _ => found.warn(object, "this object is left out", "no object of Flux or Argo CD that says what is rolled out"),
    }
}

/// The objects of a document: one, or the items of a list.
fn items(document: At<'_>) -> Vec<At<'_>> {
    match document.get("items") {
        Some(items) if document.text("kind").is_some_and(|kind| kind.ends_with("List")) => {
            items.children().map(|child| child.at).collect()
        }
        _ => vec![document],
    }
}

fn group_and_kind<'p>(object: &Field<'p>) -> (&'p str, &'p str) {
    let group = object.text_of("apiVersion").and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    (group, object.text_of("kind").unwrap_or_default())
}

fn of_text(file: &Arc<str>, complaint: &YamlComplaint) -> Complaint {
    let at = complaint.span.start;
    let place = Place { path: Arc::clone(file), line: at.line.max(1), column: at.column.max(1) };
    Complaint::of_file(place, complaint.message.clone(), complaint.hint.clone())
}
