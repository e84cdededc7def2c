//! The reason for which belay did nothing about a commit: other folder, skipped, not there yet, another branch, too
//! old.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::session::repositories::Repositories;
use crate::cli::source_histories::SourceHistories;
use crate::clock::Clock;
use crate::daemon::ask_daemon;
use crate::git::{Mirror, Relation};
use crate::history::{Followed, History};
use crate::render::SourcePaths;
use belay_core::manifest::is_manifest;
use belay_core::rollout::CommitId;

/// The number of paths that are named.
const PATHS: usize = 3;

/// The sources of which nothing is read, applied or written down, each with the reason.
pub(in crate::cli) type BlockedSources = BTreeMap<String, String>;

/// Returns the blocked sources, as their daemon says; where none answers, as the history says.
pub(in crate::cli) async fn blocked(folder: &Path, history: &History) -> BlockedSources {
    let now = Clock::system().now();
    let known = match ask_daemon(folder).await {
        Some(published) => SourceHistories::published(published, None, now),
        None => SourceHistories::read(history, now).unwrap_or_default(),
    };
    known.source_answers().into_iter().filter_map(|answer| Some((answer.source, answer.blocked?))).collect()
}

/// Returns why there is no record of a commit, in a sentence or two.
pub(in crate::cli) fn nothing(
    history: &History,
    git: &Repositories,
    id: &CommitId,
    blocked: &BlockedSources,
) -> anyhow::Result<String> {
    let followed = history.followed()?;
    let mut reasons = Vec::new();
    for arrival in history.arrivals(id)? {
        let folder = followed.iter().find(|followed| followed.source == arrival.source);
        let source = &arrival.source;
        reasons.push(match touched(git, id, folder)? {
            Some(Touched::Elsewhere(paths)) => format!(
                "It changes nothing in {}, which is what {source} follows: it touches {paths}.",
                folder.map_or_else(String::new, |followed| followed.folders.join(", "))
            ),
            Some(Touched::NoManifest(paths)) => {
                format!("It changes no manifest that {source} follows: it touches {paths}.")
            }
            Some(Touched::Nothing) => "It changes no file.".to_owned(),
            _ if arrival.head != *id => format!(
                "It came to {source} together with {}, which was planned in its place: it changed no manifest that \
                 {source} follows, or only such as a newer commit changed again.",
                arrival.head.short()
            ),
            Some(Touched::Manifests) | None => format!("It changed no manifest that {source} follows."),
        });
    }
    if !reasons.is_empty() {
        return Ok(reasons.join("\n"));
    }
    for (source, mirror) in &git.mirrors {
        reasons.push(by_place(
            history,
            followed.iter().find(|followed| followed.source == *source),
            source,
            mirror,
            id,
            blocked.get(source),
        )?);
    }
    if reasons.is_empty() {
        reasons.push(
            "It is in the repository here, but no revision in the cluster names it, and the daemon's history, which would \
             say why, is not here."
                .to_owned(),
        );
    }
    Ok(reasons.join("\n"))
}

/// The changes of a commit in a source's paths.
enum Touched {
    Nothing,
    /// Only files outside of the folder.
    Elsewhere(String),
    /// Files in the folder, of which none is a manifest.
    NoManifest(String),
    Manifests,
}

/// Returns the changes of a commit; `None` if no repository here has it.
fn touched(git: &Repositories, id: &CommitId, followed: Option<&Followed>) -> anyhow::Result<Option<Touched>> {
    let Some(commit) = git.commit(id) else { return Ok(None) };
    if git.mirrors.is_empty() {
        return Ok(None);
    }
    let paths = git.paths(&commit)?;
    let folders = SourcePaths::of(followed.map(|followed| &followed.folders[..]).unwrap_or_default());
    let within: Vec<&String> = paths.iter().filter(|path| folders.has(path)).collect();
    Ok(Some(if paths.is_empty() {
        Touched::Nothing
    } else if within.is_empty() {
        Touched::Elsewhere(listed(&paths))
    } else if within.iter().any(|path| is_manifest(path)) {
        Touched::Manifests
    } else {
        Touched::NoManifest(listed(&within))
    }))
}

fn listed<P: AsRef<str>>(paths: &[P]) -> String {
    let named: Vec<&str> = paths.iter().take(PATHS).map(AsRef::as_ref).collect();
    match paths.len().saturating_sub(PATHS) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns why a commit never came to a source, by its relation to the head that the source had last, and by what blocks
/// the source.
fn by_place(
    history: &History,
    followed: Option<&Followed>,
    source: &str,
    mirror: &Mirror,
    id: &CommitId,
    blocked: Option<&String>,
) -> anyhow::Result<String> {
    let follow = followed.map_or_else(|| "its branch".to_owned(), |followed| followed.follow.clone());
    let or_blocked = |otherwise: &str| match blocked {
        Some(why) => format!(". It is blocked: {why}"),
        None => otherwise.to_owned(),
    };
    let Some(head) = history.heads(source)?.recorded else {
        return Ok(format!("{source} has planned nothing yet{}", or_blocked(", as far as is known here.")));
    };
    if !mirror.contains(id)? {
        return Ok(format!(
            "{source} has not fetched it: it follows {follow} and is at {}{}",
            head.short(),
            or_blocked(". Is it pushed?")
        ));
    }
    // The head may have been taken away by a force-push.
    let Ok(relation) = mirror.relation(id, &head) else {
        return Ok(format!("It has not come to {source}, which is at {}{}", head.short(), or_blocked(".")));
    };
    Ok(match relation {
        Relation::Back => {
            format!("Not yet: {source} is at {}, from which it comes; belay status tells when.", head.short())
        }
        Relation::Forward | Relation::Same => {
            format!("It is older than what the history of {source} tells: {} comes from it.", head.short())
        }
        Relation::Rewritten(_) => {
            format!("It is not in {follow}, which {source} follows: {} does not come from it.", head.short())
        }
    })
}
