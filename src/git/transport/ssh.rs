//! Git over ssh, by the user's own `ssh`: its configuration, keys, agents and certificates are those that the user has.

use std::io::{self, Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::session::{ServerSession, SessionRuntime};
use super::ssh_command::{self, SshKeys};
use super::ssh_errors::judge;
use crate::git::error::GitError;
use crate::parent_death_signal;

/// The part of the error output of `ssh` that is kept: its end, in bytes.
const COMPLAINT: usize = 8 << 10;
/// The longest time that `ssh` may take to end, once it has closed its output.
const END: Duration = Duration::from_secs(5);

/// Speaks with one server.
pub(super) struct SshTransport(Arc<ServerSession>);

impl SshTransport {
    pub(super) fn new(session: Arc<ServerSession>) -> SshTransport {
        SshTransport(session)
    }
}

impl SmartSubtransport for SshTransport {
    fn action(&self, _: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let program = match service {
            Service::UploadPackLs | Service::UploadPack => "git-upload-pack",
            Service::ReceivePackLs | Service::ReceivePack => "git-receive-pack",
        };
        let stream = SshStream::start(&self.0, program).map_err(|error| self.0.refuse(error))?;
        Ok(Box::new(stream))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A running `ssh`. It ends, with all that it started, when this is dropped.
struct SshStream {
    session: Arc<ServerSession>,
    keys: SshKeys,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    complaint: Arc<Mutex<Vec<u8>>>,
    complains: JoinHandle<()>,
    heard: bool,
    /// The last field: it outlives the child.
    runtime: SessionRuntime,
}

impl SshStream {
    fn start(session: &Arc<ServerSession>, program: &str) -> Result<SshStream, GitError> {
        let keys = SshKeys::of(&session.credentials)?;
        let line = ssh_command::line(
            &session.location,
            &session.credentials,
            &keys,
            program,
            session.settings.ssh_command.as_deref(),
        );
        let mut command = Command::new(&line.program);
        command.args(&line.arguments).envs(line.environment.iter().map(|(name, value)| (name, value)));
        // In a group of its own it asks nobody at the terminal, and ends with all that it started.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        set_parent_death_signal(&mut command, line.end);
        let runtime = SessionRuntime::new(session)?;
        let inside = runtime.enter();
        let mut child = command.spawn().map_err(|error| no_ssh(session, &line.program, &error))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(session.unreachable("ssh has no pipes"));
        };
        let complaint = Arc::default();
        let complains = runtime.spawn(keep_end(errors, Arc::clone(&complaint)));
        let session = Arc::clone(session);
        drop(inside);
        Ok(SshStream { session, keys, child, input, output, complaint, complains, heard: false, runtime })
    }

    /// Returns why `ssh` ended: before the server said anything of Git, or in the middle.
    fn why_it_ended(&mut self) -> GitError {
        let (child, complains) = (&mut self.child, &mut self.complains);
        self.runtime.block_on(async {
            // All of it is there once ssh has closed it.
            let ended = tokio::time::timeout(END, async { tokio::join!(child.wait(), complains) });
            drop(ended.await);
        });
        let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        judge(&self.session.location, &self.keys, &String::from_utf8_lossy(&complaint))
    }
}

/// Has a program end when belay is killed: some `ssh` heed neither the end of their input nor a hangup. The present thread waits
/// for it, and outlives it.
#[expect(unsafe_code, reason = "what a child does before its program")]
fn set_parent_death_signal(command: &mut Command, signal: Signal) {
    let belay = std::process::id();
    // SAFETY: it makes system calls alone, and takes no lock and no memory.
    unsafe { command.pre_exec(move || parent_death_signal::set(belay, signal.as_raw())) };
}

fn no_ssh(session: &ServerSession, program: &str, error: &io::Error) -> GitError {
    match error.kind() {
        io::ErrorKind::NotFound => session.unreachable(format!(
            "{program} is not installed, and belay reaches ssh servers by it: install openssh-client, or take an https address"
        )),
        _ => session.unreachable(format!("failed to start {program}: {error}")),
    }
}

/// Keeps the end of what `ssh` complains of.
async fn keep_end(mut errors: ChildStderr, complaint: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(COMPLAINT);
        kept.drain(..surplus);
    }
}

impl Read for SshStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let output = &mut self.output;
        let read = self.session.wait(&self.runtime, async { Ok(output.read(buffer).await) });
        match read {
            Ok(Ok(0)) if !self.heard => {
                let error = self.why_it_ended();
                Err(self.session.fail(error))
            }
            // More may have been to come.
            Ok(Ok(0)) if !buffer.is_empty() => {
                let error = self.why_it_ended();
                self.session.note_end(error);
                Ok(0)
            }
            Ok(Ok(read)) => {
                self.heard = true;
                self.session.received(read);
                Ok(read)
            }
            Ok(Err(error)) => Err(error),
            Err(error) => Err(self.session.fail(error)),
        }
    }
}

impl Write for SshStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let input = &mut self.input;
        let written = self.session.wait(&self.runtime, async { Ok(input.write(buffer).await) });
        written.map_err(|error| self.session.fail(error))?
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SshStream {
    fn drop(&mut self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            // It may have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Takes the child away, which has been killed.
        drop(self.runtime.block_on(async { tokio::time::timeout(END, self.child.wait()).await }));
    }
}
