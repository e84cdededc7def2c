//! A call of a tool: its command as a process of its own, with bounded time and output.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::tools::{ALL_NAMESPACES, McpTool};
use crate::cli::Globals;
use crate::cli::output::plain;
use crate::cli::session::server::ServerArgs;

/// The longest time of a call.
const CALL: Duration = Duration::from_secs(120);
/// The largest result, in bytes.
const RESULT: usize = 1 << 20;
/// The bytes of notes and errors that are passed on.
const NOTES: usize = 16 << 10;

/// Runs the commands of tools.
#[derive(Debug)]
pub(super) struct ToolRunner {
    program: PathBuf,
    /// The folder that may be read.
    folder: PathBuf,
    /// The namespace of calls that name none.
    namespace: Option<String>,
    /// The options of every command, and those of commands that can ask a daemon.
    globals: Vec<OsString>,
    server: Vec<OsString>,
}

impl ToolRunner {
    pub(super) fn new(globals: &Globals, folder: Option<PathBuf>, server: &ServerArgs) -> anyhow::Result<ToolRunner> {
        let program = std::env::current_exe().context("failed to find the program of belay")?;
        let folder = folder.unwrap_or_else(|| PathBuf::from("."));
        let folder = folder.canonicalize().with_context(|| format!("--dir {}", folder.display()))?;
        anyhow::ensure!(folder.is_dir(), "--dir {}: it is no folder", folder.display());
        let namespace = globals.namespace.clone();
        Ok(ToolRunner { program, folder, namespace, globals: words_of(globals)?, server: server.words()? })
    }

    /// Calls a tool. Returns its result; a fault is a result, too.
    pub(super) async fn call(&self, tool: &'static McpTool, arguments: &Map<String, Value>) -> Value {
        let words = match tool.command_line(arguments, &self.folder) {
            Ok(words) => words,
            Err(why) => return failed(&why),
        };
        let namespace = self.namespace.as_ref().filter(|_| !arguments.contains_key("namespace"));
        let mut command = self.command(tool, &words, namespace);
        match timeout(CALL, finish(&mut command)).await {
            Ok(Ok(ended)) => ended.result(),
            Ok(Err(error)) => failed(&format!("failed to run belay {}: {error}", tool.name)),
            Err(_) => failed(&format!("belay {} took longer than {} s, and was ended", tool.name, CALL.as_secs())),
        }
    }

    fn command(&self, tool: &McpTool, words: &[String], namespace: Option<&String>) -> Command {
        let mut command = Command::new(&self.program);
        let (name, rest) = words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
        command.arg(name).args(&self.globals);
        if tool.takes_server {
            command.args(&self.server);
        }
        command.args(namespace.map(|namespace| format!("--namespace={namespace}")));
        let rest = rest.iter().filter(|word| namespace.is_none() || *word != ALL_NAMESPACES);
        command.args(rest).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Returns the options of every command as words. Paths are those of the folder in which belay was started.
fn words_of(globals: &Globals) -> anyhow::Result<Vec<OsString>> {
    let Globals { kubeconfig, context, namespace: _, state_dir, as_user, as_group, request_timeout, verbose: _ } =
        globals;
    let mut words = Vec::new();
    for (option, path) in [("--kubeconfig", kubeconfig), ("--state-dir", state_dir)] {
        if let Some(path) = path {
            words.extend([OsString::from(option), absolute_path(path)?]);
        }
    }
    let texts = context.iter().map(|name| ("--context", name.clone()));
    let texts = texts.chain(as_user.iter().map(|user| ("--as", user.clone())));
    let texts = texts.chain(as_group.iter().map(|group| ("--as-group", group.clone())));
    let limit = request_timeout.map(|limit| ("--request-timeout", crate::config::Span(limit).to_string()));
    words.extend(texts.chain(limit).map(|(option, value)| OsString::from(format!("{option}={value}"))));
    Ok(words)
}

fn absolute_path(path: &Path) -> anyhow::Result<OsString> {
    Ok(absolute(path).with_context(|| path.display().to_string())?.into_os_string())
}

/// The end of a command.
struct EndedCall {
    code: Option<i32>,
    out: Vec<u8>,
    notes: Vec<u8>,
}

async fn finish(command: &mut Command) -> io::Result<EndedCall> {
    let mut child = command.spawn()?;
    let (out, notes) = (child.stdout.take(), child.stderr.take());
    let (out, notes) = tokio::try_join!(up_to(out, RESULT), up_to(notes, NOTES))?;
    // Nobody reads the rest of its output: it would wait for a reader.
    if out.len() > RESULT {
        child.start_kill()?;
    }
    let code = child.wait().await?.code();
    Ok(EndedCall { code, out, notes })
}

/// Reads to the end; of more than the limit, one byte more than that.
async fn up_to(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let Some(stream) = stream else { return Ok(text) };
    stream.take(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut text).await?;
    Ok(text)
}

impl EndedCall {
    fn result(self) -> Value {
        let EndedCall { code, out, notes } = self;
        if out.len() > RESULT {
            return failed(&format!(
                "the answer is larger than {} MiB: ask for less, with a limit, a workload, a namespace or a time",
                RESULT >> 20
            ));
        }
        let out = String::from_utf8_lossy(&out).trim_end().to_owned();
        let notes = String::from_utf8_lossy(&notes).lines().map(plain).collect::<Vec<_>>().join("\n");
        let meaning = match code {
            Some(0) => None,
            Some(3) => Some("exit code 3: the answer is \"failed\" or \"differs\""),
            Some(4) => Some("exit code 4: it took too long"),
            // Complaints are an answer, too.
            Some(1) if !out.is_empty() => Some("exit code 1: there are complaints, or not all could be read"),
            _ => return result([out, notes].into_iter(), true),
        };
        result([out, notes, meaning.unwrap_or_default().to_owned()].into_iter(), false)
    }
}

/// Returns the result of a call that failed.
fn failed(why: &str) -> Value {
    result(std::iter::once(plain(why)), true)
}

fn result(texts: impl Iterator<Item = String>, is_error: bool) -> Value {
    let content: Vec<Value> =
        texts.filter(|text| !text.is_empty()).map(|text| json!({"type": "text", "text": text})).collect();
    json!({"content": content, "isError": is_error})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, out: &str, notes: &str) -> Value {
        EndedCall { code: Some(code), out: out.as_bytes().to_vec(), notes: notes.as_bytes().to_vec() }.result()
    }

    #[test]
    fn an_end_is_a_result() {
        let texts = |result: &Value| -> Vec<String> {
            let content = result["content"].as_array().unwrap().iter();
            content.map(|one| one["text"].as_str().unwrap().to_owned()).collect()
        };
        let done = ended(0, "{}\n", "");
        assert_eq!((texts(&done), &done["isError"]), (vec!["{}".to_owned()], &json!(false)));
        let failed = ended(3, "{}", "note: \u{1b}[2J\n");
        assert_eq!(texts(&failed)[1..], ["note: \u{fffd}[2J", "exit code 3: the answer is \"failed\" or \"differs\""]);
        assert_eq!(failed["isError"], false);
        let wrong = ended(1, "", "error: no history\n");
        assert_eq!((texts(&wrong), &wrong["isError"]), (vec!["error: no history".to_owned()], &json!(true)));
        assert_eq!(ended(1, "{}", "")["isError"], false);
        assert_eq!(ended(2, "", "usage")["isError"], true);
        let large = ended(0, &"x".repeat(RESULT + 1), "");
        assert!(large["isError"] == true && texts(&large)[0].contains("larger than 1 MiB"));
    }
}
