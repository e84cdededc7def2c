//! Runs the program in an environment of its own.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::Duration;

use tokio::time::Instant;

/// What a run printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// belay, with nothing of this machine's configuration.
pub fn belay(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belay"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").current_dir(home);
    command
}

/// Runs it to its end.
pub fn run(home: &Path, args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } = belay(home).args(args).output().expect("belay runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let ran = Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) };
    crate::schema::check(args, &ran.out);
    ran
}

/// A process that does not outlive its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    pub fn signal(&self, signal: &str) {
        let status = Command::new("/bin/kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub async fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < within {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }
}
