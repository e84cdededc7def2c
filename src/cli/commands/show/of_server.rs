//! `belay show COMMIT --server URL`: the commit of a daemon elsewhere.

use anyhow::{Context as _, bail};

use crate::cli::output::answer::ShowAnswer;
use crate::cli::session::repositories::working_copy_commit;
use crate::cli::session::server::{ServerApi, ServerError};
use belay_core::rollout::CommitId;

/// Returns the named commit, as the daemon knows it. `HEAD` and names of branches mean a commit of the working copy here.
pub(super) async fn shown(api: &ServerApi, name: &str) -> anyhow::Result<(CommitId, ShowAnswer)> {
    let named = working_copy_commit(name)?;
    let digits = named.as_ref().map_or(name, CommitId::as_str);
    let answer = match api.commit(digits).await {
        Ok(answer) => answer,
        Err(ServerError::Nothing(why)) => bail!("{why}; `belay history --server {}` lists its commits", api.url()),
        Err(error) => return Err(error.into()),
    };
    let of_records = answer.records.first().map(|shown| &shown.answer.record.commit);
    let id = answer.commit.as_ref().map(|commit| &commit.id).or(of_records).or(named.as_ref());
    let id = id.with_context(|| format!("{} does not name the commit", api.url()))?.clone();
    Ok((id, answer))
}
