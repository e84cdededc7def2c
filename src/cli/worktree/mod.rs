//! The working copy that a person edits manifests in: found, changed line by line, shown, committed, pushed.

pub(in crate::cli) mod cause;
pub(in crate::cli) mod disk_tree;
pub(in crate::cli) mod edit_op;
pub(in crate::cli) mod folder;
pub(in crate::cli) mod kustomization;
mod lost_folders;
pub(in crate::cli) mod pick;
pub(in crate::cli) mod pushing;
pub(in crate::cli) mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::cause::Cause;
use self::pushing::credentials_for;
use super::output::{Format, progress, say, say_value};
use crate::cli::output::unified;
use crate::cli::session::configured::Reading;
use crate::clock::Clock;
use crate::git::{Credentials, Edit, Signing, WorkingCopy};
use belay_core::manifest::{File, Manifest, ObjectKey, Scopes, read_file};

/// The place of the manifests, and the use of the change.
#[derive(clap::Args, Debug)]
pub struct Where {
    /// Change manifests in this folder of a Git working copy
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub cause: Cause,
    /// Push the commit
    #[arg(long)]
    pub push: bool,
    /// Read the folder as a source of the daemon's configuration does, and with --push take its credentials [default for
    /// --push: /etc/belay/belay.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Select the source of the configuration; not needed if there is only one
    #[arg(long = "source", id = "configured_source", value_name = "NAME", requires = "config")]
    pub source: Option<String>,
}

impl Where {
    /// Returns how the folder is read: by the source of the configuration, if one is meant.
    pub(super) fn reading(&self) -> anyhow::Result<Reading> {
        let Some(file) = &self.config else { return Ok(Reading::default()) };
        Reading::of_file(file, self.source.as_deref())
    }
}

/// A folder of a working copy with the manifests in it.
pub(super) struct Worktree {
    copy: WorkingCopy,
    /// The files, by their paths from the root of the working copy.
    pub files: BTreeMap<String, WorktreeFile>,
    prefix: PathBuf,
}

/// One file.
#[derive(Clone, Debug)]
pub(super) struct WorktreeFile {
    bytes: Vec<u8>,
    /// Its content.
    pub file: File,
}

impl Worktree {
    /// Opens the working copy that a folder lies in, and reads the manifests of the folder.
    pub(super) fn open(folder: &Path, namespace: &str) -> anyhow::Result<Worktree> {
        let copy = WorkingCopy::open(folder)?;
        let root = copy.root().canonicalize().context("failed to find the working copy")?;
        let inside = folder.canonicalize().with_context(|| format!("failed to find {}", folder.display()))?;
        let prefix = inside.strip_prefix(&root).map(Path::to_owned).unwrap_or_default();
        let mut files = BTreeMap::new();
        for (path, bytes) in self::folder::contents(folder, "")?.files {
            let file = read_file(&path, &bytes, &Scopes::new(namespace));
            files.insert(prefix.join(&*path).to_string_lossy().into_owned(), WorktreeFile { bytes, file });
        }
        Ok(Worktree { copy, files, prefix })
    }

    /// Returns the path from the root of the working copy of a path from its folder.
    pub(super) fn path_of(&self, path: &str) -> String {
        self.prefix.join(path).to_string_lossy().into_owned()
    }

    /// Reads a file that is no manifest.
    pub(super) fn load(&mut self, path: &str) -> anyhow::Result<()> {
        if !self.files.contains_key(path) {
            let bytes = std::fs::read(self.copy.root().join(path)).with_context(|| format!("failed to read {path}"))?;
            let file = read_file(path, &bytes, &Scopes::new("default"));
            self.files.insert(path.to_owned(), WorktreeFile { bytes, file });
        }
        Ok(())
    }

    /// Returns all manifests that nothing is wrong with, with the paths of their files.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&String, &Manifest)> {
        self.files.iter().flat_map(|(path, page)| page.file.manifests.iter().map(move |manifest| (path, manifest)))
    }

    /// Objects that are written here, and that something is wrong with, with the paths of their files.
    pub(super) fn rejected(&self) -> impl Iterator<Item = (&String, &ObjectKey)> {
        self.files.iter().flat_map(|(path, page)| page.file.rejected.iter().map(move |key| (path, key)))
    }

    /// Refuses a file in which something is not committed.
    pub(super) fn check(&self, path: &str) -> anyhow::Result<()> {
        Ok(self.copy.check(path)?)
    }

    /// Returns the text of a file. UTF-16 is not edited.
    pub(super) fn text(&self, path: &str) -> anyhow::Result<&str> {
        let bytes = self.files.get(path).map(|page| page.bytes.as_slice()).unwrap_or_default();
        text_of(bytes).with_context(|| format!("{path} is not UTF-8; save it so, and try again"))
    }

    /// Shows new texts of files, commits and pushes them, as far as that is wanted. `what` is the subject if no other
    /// was given.
    pub(super) async fn finish(self, new: Vec<(String, String)>, wanted: &Finish<'_>) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for (path, text) in &new {
            let old = self.files.get(path);
            let before = old.map(|_| self.text(path)).transpose()?.unwrap_or_default();
            check_result(path, old.map(|page| &page.file), text)?;
            lines.extend(unified::lines(path, before, text, old.is_none()));
        }
        let to = wanted.to;
        let message = to.cause.message(&wanted.subject);
        let edit = |(path, text): (String, String)| {
            let mark = self.files.get(&path).is_some_and(|page| page.bytes.starts_with(MARK));
            let content = if mark { [MARK, text.as_bytes()].concat() } else { text.into_bytes() };
            Edit { path, content: Some(content) }
        };
        let edits: Vec<Edit> = new.into_iter().map(edit).collect();
        let paths: Vec<String> = edits.iter().map(|edit| edit.path.clone()).collect();
        if matches!(wanted.output, Format::Table | Format::Wide) {
            lines.iter().for_each(say);
        }
        let mut commit = None;
        let mut pushed = None;
        if !wanted.dry_run {
            // A change that can't be pushed anyhow is not committed.
            let credentials = match to.push {
                true => Some(credentials_for(to.config.as_deref(), &self.copy.destination()?)?),
                false => None,
            };
            let id = self.copy.commit(&edits, &message, Signing::AsConfigured, Clock::system().now())?;
            let branch = self.copy.branch()?;
            progress(format!("committed {} on {branch}: {}", id.short(), message.lines().next().unwrap_or_default()));
            commit = Some(id);
            if let Some(credentials) = credentials {
                pushed = Some(self.push(credentials).await?);
            }
        }
        match wanted.output {
            Format::Json | Format::Yaml => say_value(
                &json!({"commit": commit, "message": message, "files": paths, "objects": wanted.objects, "pushedTo": pushed}),
                wanted.output,
            )?,
            Format::Name => wanted.objects.iter().for_each(|key| say(crate::cli::args::target::named(key))),
            Format::Table | Format::Wide => {}
        }
        Ok(())
    }

    async fn push(self, credentials: Credentials) -> anyhow::Result<String> {
        // The other side may take its time; it must not keep the rest of the program.
        let pushed = tokio::task::spawn_blocking(move || self.copy.push(&credentials, &CancellationToken::new()));
        let location =
            pushed.await?.context("the commit is made, but it could not be pushed; `git push` does that, too")?;
        progress(format!("pushed to {location}"));
        Ok(location.to_string())
    }
}

/// The end of an edit.
pub(super) struct Finish<'a> {
    pub to: &'a Where,
    /// The subject, if none was given.
    pub subject: String,
    pub objects: Vec<ObjectKey>,
    pub dry_run: bool,
    pub output: Format,
}

const MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

fn text_of(bytes: &[u8]) -> Result<&str, std::str::Utf8Error> {
    std::str::from_utf8(bytes.strip_prefix(MARK).unwrap_or(bytes))
}

/// Refuses a change after which a file says something that is wrong, and was not before.
fn check_result(path: &str, before: Option<&File>, text: &str) -> anyhow::Result<()> {
    let after = read_file(path, text.as_bytes(), &Scopes::new("default"));
    let known: BTreeSet<&str> =
        before.into_iter().flat_map(|file| &file.complaints).map(|complaint| complaint.message.as_str()).collect();
    match after.complaints.iter().find(|complaint| !known.contains(complaint.message.as_str())) {
        Some(complaint) => bail!("{}: {}", complaint.place, complaint.message),
        None => Ok(()),
    }
}
