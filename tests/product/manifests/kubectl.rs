//! The real kubectl as a reader of files, without a server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// The objects that kubectl reads from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The objects that it read, up to the first error.
    pub objects: Vec<Value>,
    /// True when there was an error.
    pub refused: bool,
}

impl Answer {
    /// As one line.
    pub fn to_line(&self) -> String {
        json!({"objects": self.objects, "refused": self.refused}).to_string()
    }

    pub fn from_line(line: &str) -> Answer {
        let value: Value = serde_json::from_str(line).unwrap();
        let objects = value["objects"].as_array().unwrap().iter().cloned().map(as_sent);
        Answer { objects: objects.collect(), refused: value["refused"].as_bool().unwrap() }
    }
}

/// Reads files with kubectl, all in one run. A change that changes nothing makes it print each object as it read it.
pub fn read(assets: &Path, files: &[PathBuf]) -> Answer {
    let mut kubectl = Command::new(assets.join("kubectl"));
    kubectl.env("KUBECONFIG", "/dev/null").args(["patch", "--local", "--type=merge", "-p", "{}", "-o", "json"]);
    for file in files {
        kubectl.arg("-f").arg(file);
    }
    let output = kubectl.output().expect("kubectl runs");
    let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    // A file without objects is not refused by what reads it, but by what would patch.
    let empty = String::from_utf8_lossy(&output.stderr).trim() == "error: no objects passed to patch";
    let refused = !output.status.success() && !empty;
    Answer { objects: objects.map(|object| as_sent(object.unwrap())).collect(), refused }
}

/// kubectl keeps what is beyond 64 bits as a float, and prints it without its point.
fn as_sent(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(as_sent).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, as_sent(value))).collect(),
        other => other,
    }
}

/// Returns the same for one text.
pub fn read_text(assets: &Path, text: &[u8]) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.yaml");
    std::fs::write(&file, text).unwrap();
    read(assets, &[file])
}
