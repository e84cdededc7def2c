//! The use of this process, as Linux counts it, and that of others.
#![allow(dead_code, reason = "several programs share this file")]

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Returns the processor time of this process, in milliseconds.
pub fn cpu() -> f64 {
    cpu_of("self")
}

/// Returns the processor time of a process, in milliseconds.
fn cpu_of(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    // Linux counts in hundredths of a second everywhere where belay runs.
    ticks * 10.0
}

/// Lets a process, with all its threads, run on these processors only: `0-2`.
pub fn pin(process: u32, processors: &str) {
    let mut taskset = std::process::Command::new("taskset");
    let output = taskset.args(["--all-tasks", "--cpu-list", "--pid", processors, &process.to_string()]).output();
    let output = output.expect("taskset, of util-linux");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Looks at what processes use while something else is measured.
pub struct Meter {
    stop: mpsc::Sender<()>,
    looks: std::thread::JoinHandle<Vec<(Instant, Vec<f64>)>>,
}

impl Meter {
    /// Looks at this process, and at those with these numbers.
    pub fn start(others: &[u32]) -> Meter {
        let (stop, stopped) = mpsc::channel();
        let processes: Vec<String> =
            std::iter::once("self".to_owned()).chain(others.iter().map(u32::to_string)).collect();
        let looks = std::thread::spawn(move || {
            let mut looks = Vec::new();
            loop {
                looks.push((Instant::now(), processes.iter().map(|process| cpu_of(process)).collect()));
                if stopped.recv_timeout(Duration::from_millis(20)) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return looks;
                }
            }
        });
        Meter { stop, looks }
    }

    /// Returns the use of each between two moments, in milliseconds.
    pub fn between(self, begin: Instant, end: Instant) -> Vec<f64> {
        self.stop.send(()).unwrap();
        let looks = self.looks.join().unwrap();
        let at = |moment: Instant| &looks.iter().rfind(|(at, _)| *at <= moment).unwrap_or(&looks[0]).1;
        at(end).iter().zip(at(begin)).map(|(end, begin)| end - begin).collect()
    }
}

/// Returns the most memory so far, in MiB.
pub fn most_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
