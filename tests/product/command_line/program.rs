//! Runs the program in an environment of its own.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use tokio::time::Instant;

/// The output of a run, and its end.
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
    let mut command = belay(home);
    command.args(args);
    let ran = finish(command, "");
    crate::schema::check(args, &ran.out);
    ran
}

/// Runs a command with this on its standard input.
pub fn finish(mut command: Command, input: &str) -> Ran {
    use std::io::Write as _;

    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // A program that does not read its input may close it.
    drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

/// Types a line on a terminal of so many columns, and answers what it asks; `None`, and a line that says so, if there
/// is no program that makes a terminal.
pub fn on_a_terminal(folder: &Path, home: &Path, columns: usize, line: &str, answer: &str) -> Option<Ran> {
    let script = "/usr/bin/script";
    if !Path::new(script).exists() {
        eprintln!("not tried on a terminal: {script} is not there: {line}");
        return None;
    }
    let typed = format!("stty cols {columns} rows 24; '{}' {line}", env!("CARGO_BIN_EXE_belay"));
    let mut command = Command::new(script);
    command.args(["-qec", &typed, "/dev/null"]).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    command.env("TERM", "xterm-256color").current_dir(folder);
    Some(finish(command, answer))
}

/// Returns the output without its colours, lines as in a pipe.
pub fn uncoloured(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n")
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

    /// Waits for its end. A program that is told to end does so at once, but on a busy machine that may take a while.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        self.ended_within(Duration::from_secs(60)).await
    }

    pub async fn ended_within(&mut self, within: Duration) -> Option<ExitStatus> {
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

/// Returns true when these tests run as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("a process").uid() == 0
}

/// Returns true when all of these programs are there, and this is root; else says what is not tried.
pub fn can_try(what: &str, programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_there(program)).collect();
    if !is_root() || !missing.is_empty() {
        eprintln!("not tried: {what}: it needs root and {}", programs.join(", "));
    }
    is_root() && missing.is_empty()
}

fn is_there(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Runs a program, which does it.
pub fn does(program: &str, args: &[&Path]) {
    let mut command = Command::new(program);
    command.args(args);
    let ran = finish(command, "");
    assert_eq!(ran.code, 0, "{program}: {ran:?}");
}
