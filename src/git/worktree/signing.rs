//! Commits signed as Git's configuration asks for, by the program that Git itself would start.
//!
//! The only programs that this room starts, and only for a person's own working copy: `gpg`, or `ssh-keygen`, with the
//! key of that person, never through a shell. The daemon never comes here.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use git2::{Oid, Repository, Signature};

use crate::git::error::{GitError, while_doing, with_file, wrong};
use crate::git::read::user_config;

/// The choice if a commit is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// If `commit.gpgSign` of Git's configuration says so, with `gpg.format`, `gpg.program` and `user.signingKey`.
    #[default]
    AsConfigured,
    /// Not, whatever the configuration says.
    Never,
}

/// Writes a commit whose text is there, signed if need be.
pub(in crate::git) fn write(
    repository: &Repository,
    text: &[u8],
    committer: &Signature<'_>,
    signing: Signing,
) -> Result<Oid, GitError> {
    let utf8 =
        std::str::from_utf8(text).map_err(|_| wrong("the commit is not UTF-8, which can't be signed".to_owned()));
    let writing = || while_doing("write the commit");
    if signing == Signing::Never || !is_wanted(repository) {
        let odb = repository.odb().map_err(writing())?;
        return odb.write(git2::ObjectType::Commit, text).map_err(writing());
    }
    let signature = match user_config::get(repository, "gpg.format").as_deref() {
        None | Some("openpgp") => openpgp(repository, text, committer)?,
        Some("ssh") => ssh(repository, text)?,
        Some(other) => {
            return Err(wrong(format!(
                "Git is set to sign commits with {other} (gpg.format), which belay can't do; commit with git"
            )));
        }
    };
    repository.commit_signed(utf8?, &signature, None).map_err(writing())
}

fn openpgp(repository: &Repository, text: &[u8], committer: &Signature<'_>) -> Result<String, GitError> {
    let program =
        user_config::get(repository, "gpg.openpgp.program").or_else(|| user_config::get(repository, "gpg.program"));
    let mut command = Command::new(program.unwrap_or_else(|| "gpg".to_owned()));
    command.args(["--status-fd=2", "--detach-sign", "--armor"]);
    // Without a key of its own, the one of who commits.
    let key = user_config::get(repository, "user.signingkey").unwrap_or_else(|| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{} <{}>", text(committer.name_bytes()), text(committer.email_bytes()))
    });
    command.arg("--local-user").arg(key);
    run(command, text, "-----BEGIN PGP SIGNATURE-----")
}

fn ssh(repository: &Repository, text: &[u8]) -> Result<String, GitError> {
    let key = user_config::get(repository, "user.signingkey").ok_or_else(|| {
        wrong("Git is set to sign commits with ssh, but user.signingKey does not say with which key".to_owned())
    })?;
    let folder = tempfile::tempdir().map_err(with_file("make a folder in", std::env::temp_dir()))?;
    let program = user_config::get(repository, "gpg.ssh.program").unwrap_or_else(|| "ssh-keygen".to_owned());
    let mut command = Command::new(program);
    command.args(["-Y", "sign", "-n", "git", "-f"]);
    let literal = key.strip_prefix("key::").map(str::to_owned).or_else(|| key.starts_with("ssh-").then(|| key.clone()));
    match literal {
        // A key that is written out: the agent has the other half.
        Some(public) => {
            let file = folder.path().join("key.pub");
            std::fs::write(&file, public).map_err(with_file("write", &file))?;
            command.arg(&file).arg("-U");
        }
        None => {
            command.arg(at_home(&key));
        }
    }
    run(command, text, "-----BEGIN SSH SIGNATURE-----")
}

/// Gives a program the text to sign and returns the signature that it answers, which has this beginning.
fn run(mut command: Command, text: &[u8], beginning: &str) -> Result<String, GitError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| wrong(format!("failed to sign the commit with {name}: {why}"));
    // The terminal stays the person's, who may be asked for a passphrase.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(error.to_string()))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: String =
            said.trim().chars().map(|c| if belay_core::manifest::is_hidden(c) { ' ' } else { c }).take(300).collect();
        return Err(failed(said));
    }
    let signature = String::from_utf8(output.stdout).unwrap_or_default();
    if !signature.starts_with(beginning) {
        return Err(failed("it answered with something else than a signature".to_owned()));
    }
    // A program that ends without reading has an answer more often than not, which says more than its closed input.
    written.map_err(|error| failed(error.to_string()))?;
    Ok(signature)
}

fn is_wanted(repository: &Repository) -> bool {
    let said = user_config::get(repository, "commit.gpgsign");
    said.is_some_and(|said| git2::Config::parse_bool(said).unwrap_or(false))
}

/// Returns a path with the home folder, which Git's configuration writes as `~/`.
fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
