//! Runs a tool: confined, bounded, and ended with all that it started.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use tokio_util::sync::CancellationToken;

use super::confine::{AllowedPaths, Confinement, confine};
use super::orphans::RunningTool;
use super::program::ProgramKind;
use crate::backoff::Backoff;

/// The limits of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// The longest run, and the longest time on a processor.
    pub time: Duration,
    /// The memory of its own, in bytes.
    pub memory: u64,
    /// The size of its output, in bytes; also of the largest file that it writes.
    pub output: u64,
}

impl Default for ChildLimits {
    fn default() -> ChildLimits {
        ChildLimits { time: Duration::from_mins(1), memory: 512 << 20, output: 64 << 20 }
    }
}

/// The reason for which a tool did not render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildFailure {
    /// It says so, in these words.
    Said(String),
    /// It took more than its limits.
    Bounds(String),
    /// The machine did not let it run.
    Machine(String),
    /// It was ended, for nobody waits for it any more.
    GivenUp,
}

impl ChildFailure {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            ChildFailure::Said(message) | ChildFailure::Bounds(message) | ChildFailure::Machine(message) => message,
            ChildFailure::GivenUp => "was given up",
        }
    }

    /// Returns true when the same inputs may render another time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !matches!(self, ChildFailure::Said(_))
    }
}

/// The run of a tool.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// The folder that it may write to; its home.
    pub private: &'a Path,
}

/// The most of a tool's error output that is kept, in bytes.
const SAID: u64 = 64 << 10;
/// The starts of the line with which Go's runtime begins to report its own failure. Without memory, it fails in many
/// ways.
const GO_CRASHES: [&str; 4] = ["fatal error: ", "SIGSEGV: ", "SIGBUS: ", "SIGABRT: "];
/// The memory limit for Go programs: below the hard limit, so that they collect garbage rather than fail.
const GO_MEMORY: &str = "GOMEMLIMIT";
/// The waits between two checks that a tool has ended.
const PAUSES: Backoff = Backoff::between(Duration::from_millis(1), Duration::from_millis(20));
/// The time after which a running tool is reported.
const SLOW: Duration = Duration::from_secs(2);
/// The longest time until ended processes close their output.
const LETTING_GO: Duration = Duration::from_secs(2);

/// Returns the kernel's limits of tools on this machine.
#[must_use]
pub fn confinement() -> Confinement {
    let nothing = Confinement { files: false, network: false };
    let nowhere = Path::new("/nonexistent");
    let probe = || confine(&AllowedPaths { private: nowhere, program: nowhere, kind: &ProgramKind::Static });
    thread::Builder::new().spawn(probe).map_or(nothing, |thread| thread.join().unwrap_or(nothing))
}

/// Runs a tool to its end. Returns its output. `slow` is called once where it takes long.
pub(super) fn run(
    run: &Run<'_>,
    limits: &ChildLimits,
    given_up: &CancellationToken,
    slow: &(dyn Fn() + Sync),
) -> Result<Vec<u8>, ChildFailure> {
    let kind = ProgramKind::of(run.program);
    let (_running, rendered) = thread::scope(|scope| {
        // The tool ends with the thread that started it.
        let confined = || {
            confine(&AllowedPaths { private: run.private, program: run.program, kind: &kind });
            match start(run, &kind, limits) {
                Ok((child, running)) => (Some(running), attend(child, limits, given_up, slow)),
                Err(failure) => (None, Err(failure)),
            }
        };
        let thread = thread::Builder::new().spawn_scoped(scope, confined);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => (None, Err(ChildFailure::Machine(format!("failed to start a thread: {error}")))),
        }
    });
    rendered
}

fn start(run: &Run<'_>, kind: &ProgramKind, limits: &ChildLimits) -> Result<(Child, RunningTool), ChildFailure> {
    let home = run.private.join("home");
    let mut command = Command::new(run.program);
    command
        .args(&run.arguments)
        .current_dir(&run.folder)
        .env_clear()
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env(GO_MEMORY, (limits.memory / 4 * 3).to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let failed =
        |error: &io::Error| ChildFailure::Machine(format!("failed to start {}: {error}", run.program.display()));
    bound(&mut command, kind, limits).map_err(|error| failed(&error))?;
    RunningTool::start(&mut command).map_err(|error| failed(&error))
}

fn group(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Has a program begin within its limits, end with belay, and make no processes unless it is a script.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "what a child does before its program")]
fn bound(command: &mut Command, kind: &ProgramKind, limits: &ChildLimits) -> io::Result<()> {
    use super::refused_calls::{before_program, no_pairs, no_processes};
    // Memory that is mapped and not written counts for nothing here: Go programs map much more than they use.
    let bounds = [
        (libc::RLIMIT_DATA, limits.memory),
        (libc::RLIMIT_CPU, limits.time.as_secs().max(1)),
        (libc::RLIMIT_FSIZE, limits.output),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, 1024),
    ];
    // Without seccomp, `confine` has said so.
    let mut filters: Vec<_> = no_pairs().into_iter().collect();
    match kind {
        ProgramKind::Script => {}
        ProgramKind::Static | ProgramKind::Dynamic(_) => filters.extend(no_processes().into_iter().flatten()),
    }
    let belay = std::process::id();
    // SAFETY: it makes system calls alone, and takes no lock and no memory.
    unsafe { command.pre_exec(move || before_program(belay, &bounds, &filters)) };
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn bound(_: &mut Command, _: &ProgramKind, _: &ChildLimits) -> io::Result<()> {
    Ok(())
}

/// Ends a child and all of its process group. It must not have been waited for, or its number may be another's.
fn end(child: &Child) {
    if let Some(group) = group(child) {
        // There may be nobody left.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A part of a tool's output, read to its end, or until it exceeds the bound.
enum Heard {
    All(Vec<u8>),
    TooMuch,
}

fn hear(pipe: Option<impl Read + Send + 'static>, limit: u64, rest: Rest) -> Receiver<Heard> {
    let (tell, heard) = mpsc::channel();
    let read = move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = Vec::new();
        let complete = (&mut pipe).take(limit).read_to_end(&mut bytes).is_ok();
        let more = match rest {
            Rest::Refused => pipe.read(&mut [0]).is_ok_and(|read| read > 0),
            // Output that is not read would stop the tool.
            Rest::PassedOver => io::copy(&mut pipe, &mut io::sink()).is_err(),
        };
        // The asker may have given up.
        let _ = tell.send(if complete && !more { Heard::All(bytes) } else { Heard::TooMuch });
    };
    // If no thread can be had, nothing is ever heard, and the tool is ended at its limit of time.
    let _ = thread::Builder::new().spawn(read);
    heard
}

/// The treatment of output beyond the limit.
enum Rest {
    Refused,
    PassedOver,
}

/// Waits for a child to end, and ends it when it takes more than it may.
fn attend(
    mut child: Child,
    limits: &ChildLimits,
    given_up: &CancellationToken,
    slow: &(dyn Fn() + Sync),
) -> Result<Vec<u8>, ChildFailure> {
    let began = Instant::now();
    let deadline = began + limits.time;
    let mut told = false;
    let output = hear(child.stdout.take(), limits.output, Rest::Refused);
    let said = hear(child.stderr.take(), SAID, Rest::PassedOver);
    let mut printed = None;
    let mut pauses = PAUSES;
    let stopped = loop {
        if has_ended(&child) {
            break None;
        }
        if Instant::now() >= deadline {
            break Some(ChildFailure::Bounds(format!("ran for more than {} s, and was ended", limits.time.as_secs())));
        }
        if given_up.is_cancelled() {
            break Some(ChildFailure::GivenUp);
        }
        if !told && began.elapsed() >= SLOW {
            told = true;
            slow();
        }
        let pause = pauses.wait();
        match output.recv_timeout(pause) {
            Ok(Heard::TooMuch) => {
                let message = format!("printed more than {} MiB, and was ended", limits.output >> 20);
                break Some(ChildFailure::Bounds(message));
            }
            Ok(heard) => printed = Some(heard),
            Err(RecvTimeoutError::Timeout) => {}
            // It prints no more, and is about to end.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(pause),
        }
    };
    end(&child);
    let status = child.wait().map_err(|error| ChildFailure::Machine(format!("failed to wait for it: {error}")))?;
    if let Some(why) = stopped {
        return Err(why);
    }
    let said = match said.recv_timeout(LETTING_GO) {
        Ok(Heard::All(bytes)) => bytes,
        _ => Vec::new(),
    };
    if !status.success() {
        return Err(failure(&status, &said, limits));
    }
    match printed.or_else(|| output.recv_timeout(LETTING_GO).ok()) {
        Some(Heard::All(bytes)) => Ok(bytes),
        Some(Heard::TooMuch) => Err(ChildFailure::Bounds(format!("printed more than {} MiB", limits.output >> 20))),
        None => Err(ChildFailure::Machine("its output could not be read".to_owned())),
    }
}

/// Returns true when a child has ended. It is not waited for yet: its process group keeps its number.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    group(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Returns the message of a tool that has failed, in its own words.
fn failure(status: &std::process::ExitStatus, said: &[u8], limits: &ChildLimits) -> ChildFailure {
    let said = String::from_utf8_lossy(said);
    let memory = limits.memory >> 20;
    if said.contains("out of memory") || said.contains("cannot allocate memory") {
        return ChildFailure::Bounds(format!("needs more than {memory} MiB of memory"));
    }
    if let Some(crash) = said.lines().find(|line| GO_CRASHES.iter().any(|start| line.starts_with(start))) {
        return ChildFailure::Bounds(format!("crashed ({crash}); it may need more than {memory} MiB of memory"));
    }
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    // Helm and kubectl warn of other things before.
    let words: Vec<&str> =
        lines.filter(|line| !line.starts_with("# Warning") && !line.starts_with("WARNING")).collect();
    let words = words.join(" ");
    let words = words.trim_start_matches("Error: ").trim_start_matches("error: ");
    if words.is_empty() {
        return ChildFailure::Bounds(format!("ended with {status} and said nothing"));
    }
    ChildFailure::Said(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_failure_is_told_in_a_line() {
        use std::os::unix::process::ExitStatusExt as _;
        let dump = "m=3 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x9799f932c0 m=3:\n\nrax 0x0\n";
        for (said, expected) in [
            (
                format!("SIGSEGV: segmentation violation\nPC=0x43783d {dump}"),
                "crashed (SIGSEGV: segmentation violation); it may need more than 256 MiB of memory",
            ),
            (
                format!("runtime: mmap failed\nfatal error: failed to reserve page summary memory\n{dump}"),
                "crashed (fatal error: failed to reserve page summary memory); it may need more than 256 MiB of memory",
            ),
            (
                format!(
                    "runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory\n{dump}"
                ),
                "needs more than 256 MiB of memory",
            ),
            ("# Warning: old\nError: no fatal error: here\n".to_owned(), "no fatal error: here"),
            (String::new(), "ended with exit status: 2 and said nothing"),
        ] {
            let limits = ChildLimits { memory: 256 << 20, ..ChildLimits::default() };
            let failure = failure(&std::process::ExitStatus::from_raw(2 << 8), said.as_bytes(), &limits);
            assert_eq!(failure.message(), expected);
            assert_eq!(failure.may_pass(), !said.contains("Error: "), "{said}");
        }
    }

    #[test]
    fn a_tool_inherits_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inherited");
        let file = std::fs::File::create(&path).unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let open_in_tool = |bounded: bool| {
            let mut command = Command::new("readlink");
            command.arg(format!("/proc/self/fd/{}", file.as_raw_fd()));
            if bounded {
                bound(&mut command, &ProgramKind::Script, &ChildLimits::default()).unwrap();
            }
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert_eq!(open_in_tool(false).trim(), path.to_str().unwrap());
        assert_eq!(open_in_tool(true), "");
    }
}
