//! The processes that a tool started and left behind. A process that makes a group of its own is no part of the group
//! that is ended with the tool. It can't get away from its parent, though: while a tool runs, orphans fall to this
//! process (`PR_SET_CHILD_SUBREAPER`), and those of them that are confined as only tools are get ended.
//!
//! If the kernel has no seccomp, or `/proc` is missing, only the process group is ended.

#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::backoff::Backoff;

/// The longest time until ended processes are gone.
const GOING: Duration = Duration::from_secs(2);
const PAUSES: Backoff = Backoff::between(Duration::from_millis(1), Duration::from_millis(20));

/// The tools that run now.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tool that runs. Dropped after the wait for it, by a thread that is not confined, it ends the tool's leftover
/// processes.
#[derive(Debug)]
pub(super) struct RunningTool(u32);

impl RunningTool {
    /// Starts a tool.
    pub(super) fn start(command: &mut Command) -> io::Result<(Child, RunningTool)> {
        let mut running = running();
        if running.is_empty() {
            take_orphans(true);
        }
        let child = command.spawn()?;
        running.insert(child.id());
        let tool = RunningTool(child.id());
        Ok((child, tool))
    }
}

impl Drop for RunningTool {
    fn drop(&mut self) {
        let mut running = running();
        running.remove(&self.0);
        end_orphans(&running);
        if running.is_empty() {
            take_orphans(false);
        }
    }
}

/// Sets if processes without a parent, of those that this process started, become its children. Others must wait for
/// them, so this holds only while a tool runs.
#[cfg(target_os = "linux")]
fn take_orphans(take: bool) {
    use rustix::process::{getpid, set_child_subreaper};
    // If the kernel refuses, they stay with its first process.
    let _ = set_child_subreaper(take.then(getpid));
}

#[cfg(not(target_os = "linux"))]
fn take_orphans(_: bool) {}

/// Ends the confined children of this process that are no tools, and the orphans that fall to it when they are gone.
fn end_orphans(tools: &BTreeSet<u32>) {
    let deadline = Instant::now() + GOING;
    loop {
        let orphans = orphans(tools);
        for orphan in &orphans {
            // It may have ended by itself.
            let _ = kill_process(*orphan, Signal::KILL);
        }
        let gone = orphans.iter().all(|orphan| is_gone(*orphan, deadline));
        if orphans.is_empty() || !gone {
            return;
        }
    }
}

/// Waits for a child that has been killed. It has handed on its own children once it is gone.
fn is_gone(child: Pid, deadline: Instant) -> bool {
    let mut pauses = PAUSES;
    while matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None)) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(pauses.wait());
    }
    true
}

fn orphans(tools: &BTreeSet<u32>) -> Vec<Pid> {
    let Some(own) = filters("self") else { return Vec::new() };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let children = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = children.flat_map(|ids| ids.split(' ').flat_map(str::parse).collect::<Vec<_>>()).collect();
    let orphans = children.into_iter().filter(|id| !tools.contains(id));
    let confined = orphans.filter(|id| filters(&id.to_string()).is_some_and(|filters| filters > own));
    confined.filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?)).collect()
}

/// Returns how many seccomp filters a process has. Other programs that belay starts have as many as belay.
fn filters(process: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"))?.trim().parse().ok()
}
