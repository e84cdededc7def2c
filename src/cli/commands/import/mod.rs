//! `belay import FILE …`

mod argo;
mod field;
mod flux;
mod found;
mod jq;
mod written;

use std::io::{self, Read};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::cli::exit::Exit;
use crate::cli::output::answer::ImportAnswer;
use crate::cli::output::{Format, counted, plain, progress, say, say_value};
use crate::config::Config;
use crate::git::Location;
use belay_core::manifest::yaml::{At, Placed, YamlComplaint, decode, documents};
use belay_core::manifest::{Complaint, Place};
use field::Field;
use found::Found;

/// The most that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// The arguments of `belay import`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  belay import clusters/production/shop.yaml >> belay.toml
  belay import clusters/production/*.yaml >> belay.toml
  kubectl get applications -n argocd -o yaml | belay import -")]
pub struct Args {
    /// The files with Kustomization and GitRepository, HelmRelease or Application, read as one; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Set the repository of objects whose GitRepository is not in the files
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// Select the output format; without it the text of a configuration is printed
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.files.iter().filter(|file| *file == "-").count() > 1 {
        bail!("standard input can be read only once");
    }
    let read = args.files.iter().map(|file| anyhow::Ok((file.as_str().into(), contents(file)?)));
    let files: Vec<(Arc<str>, Vec<u8>)> = read.collect::<Result<_, _>>()?;
    if let Some(repository) = &args.repository {
        repository.parse::<Location>().with_context(|| format!("--repository {repository}"))?;
    }
    let found = import(&files, args.repository.as_deref());
    let text = written::text(&found.sources);
    if matches!(args.output, Format::Json | Format::Yaml) {
        let Found { warnings, errors, .. } = found;
        let failed = !errors.is_empty();
        say_value(&ImportAnswer { sources: sources(&text)?, warnings, errors }, args.output)?;
        return Ok(if failed { Exit::Error } else { Exit::Done });
    }
    match args.output {
        Format::Name => found.sources.iter().for_each(|source| say(plain(&source.name))),
        _ => text.lines().for_each(|line| say(plain(line))),
    }
    found.warnings.iter().for_each(|warning| progress(plain(&format!("warning: {warning}"))));
    found.errors.iter().for_each(|error| progress(plain(&format!("error: {error}"))));
    if !found.sources.is_empty() {
        // The output is a configuration, or an error says why not.
        Config::parse(&text, "the printed configuration")?;
    }
    if found.errors.is_empty() {
        return Ok(Exit::Done);
    }
    progress(counted(found.errors.len(), "error"));
    Ok(Exit::Error)
}

/// Returns the sources of a configuration, as they are written there.
fn sources(text: &str) -> anyhow::Result<Vec<Value>> {
    if !text.is_empty() {
        Config::parse(text, "the printed configuration")?;
    }
    let mut written: Value = toml::from_str(text).context("the configuration to print is no TOML")?;
    Ok(match written.get_mut("source").map(Value::take) {
        Some(Value::Array(sources)) => sources,
        _ => Vec::new(),
    })
}

fn contents(file: &str) -> anyhow::Result<Vec<u8>> {
    if file == "-" {
        return read(std::io::stdin()).context("failed to read standard input");
    }
    std::fs::File::open(file).and_then(read).with_context(|| format!("failed to read {file}"))
}

fn read(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// Returns the result for the objects of these files. An object may name one of another file.
fn import(files: &[(Arc<str>, Vec<u8>)], repository: Option<&str>) -> Found {
    let mut found = Found::reading(repository);
    let mut texts = Vec::new();
    for (file, bytes) in files {
        match decode(bytes) {
            Ok(text) => texts.push((file, text)),
            Err(complaint) => found.errors.push(of_text(file, &complaint)),
        }
    }
    let mut all = Vec::new();
    for (file, text) in &texts {
        let (documents, complaints) = documents(text);
        found.errors.extend(complaints.iter().map(|complaint| of_text(file, complaint)));
        all.extend(documents.into_iter().map(|document| (*file, document)));
    }
    let mut read: Vec<(&Arc<str>, Placed)> = Vec::new();
    for (file, document) in &all {
        let (placed, complaints) = document.read();
        found.errors.extend(complaints.iter().map(|complaint| of_text(file, complaint)));
        read.extend(placed.map(|placed| (*file, placed)));
    }
    let mut objects: Vec<Field<'_>> = Vec::new();
    for (file, placed) in &read {
        objects.extend(items(placed.root()).into_iter().map(|at| Field::root(file, at)));
    }
    let is_repository =
        |object: &&Field<'_>| matches!(group_and_kind(object), ("source.toolkit.fluxcd.io", "GitRepository"));
    let repositories: Vec<Field<'_>> = objects.iter().filter(is_repository).cloned().collect();
    objects.iter().for_each(|object| take(&mut found, object, &repositories));
    found.order();
    if let Some((file, _)) = files.first().filter(|_| found.sources.is_empty() && found.errors.is_empty()) {
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
        // An object that another one names is reported there.
        ("source.toolkit.fluxcd.io", _) => {}
        _ => found.warn(object, "this object is left out", "no object of Flux or Argo CD that says what is rolled out"),
    }
}

/// Returns the objects of a document: one, or the items of a list.
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
