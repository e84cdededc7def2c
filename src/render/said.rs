//! What a tool says that has failed, as complaints say it.

use std::fs;
use std::path::Path;

use super::child::ChildFailure;
use belay_core::manifest::{Place, join};

/// A tool's words without the folder that it was shown the repository in, which is there no more.
pub(super) fn without_folder(failure: ChildFailure, exported: &Path) -> ChildFailure {
    let real = fs::canonicalize(exported).unwrap_or_else(|_| exported.to_owned());
    let shorten = |message: String| {
        let mut message = message;
        for folder in [real.as_path(), exported] {
            let folder = folder.display().to_string();
            message = message.replace(&format!("{folder}/"), "").replace(&folder, "/");
        }
        message
    };
    match failure {
        ChildFailure::Said(message) => ChildFailure::Said(shorten(message)),
        ChildFailure::Bounds(message) => ChildFailure::Bounds(shorten(message)),
        ChildFailure::Machine(message) => ChildFailure::Machine(shorten(message)),
    }
}

/// The place in a chart that Helm names: `web/templates/a.yaml:3:14`, where `web` is the chart's name.
pub(super) fn place_in(message: &str, folder: &str) -> Option<Place> {
    let words = message.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '<' | '>'));
    words.filter(|word| word.contains("/templates/") || word.contains("/charts/")).find_map(|word| {
        let mut parts = word.split(':');
        let (_, path) = parts.next()?.split_once('/')?;
        let line = parts.next()?.parse().ok()?;
        let column = parts.next().and_then(|column| column.parse().ok()).unwrap_or(1);
        Some(Place { path: join(folder, path)?.into(), line, column })
    })
}
