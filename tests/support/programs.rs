//! Programs that a test puts into a folder and starts.
//!
//! Another process writes them. A file that this process has open for writing is, for a moment, open in each process that another
//! of its threads starts, and meanwhile nobody can start it: "Text file busy".

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that everybody may start.
pub fn write_program(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("/bin/sh");
    let mut input = writer.stdin.take().expect("its standard input");
    input.write_all(text.as_bytes()).expect("the shell reads its input");
    drop(input);
    assert!(writer.wait().expect("the shell ends").success(), "{} is not written", path.display());
}

/// Copies a program to a place where everybody may start it.
pub fn copy_program(from: &Path, to: &Path) {
    let copied =
        Command::new("/bin/sh").args(["-c", "cp \"$1\" \"$2\" && chmod 755 \"$2\"", "sh"]).arg(from).arg(to).status();
    assert!(copied.expect("/bin/sh").success(), "{} is not copied to {}", from.display(), to.display());
}
