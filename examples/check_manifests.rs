//! Manifests read as strictly as a compiler reads a program: every mistake with its place, and the nearest right name.
//!
//! `cargo run --example check_manifests -- FILE…`, or without a file for one that is wrong in three ways.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use belay_core::manifest::{Colour, Scopes, read_file, render};

const WRONG: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replica: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:1.0
        ports: [{containerPort: eighty}]
        image: registry.example.com/web:1.1
";

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        check("web.yaml", WRONG.as_bytes());
    }
    for file in files {
        check(&file, &std::fs::read(&file)?);
    }
    Ok(())
}

/// Prints what is wrong with a file, and says how much that is.
fn check(path: &str, text: &[u8]) -> usize {
    let read = read_file(path, text, &Scopes::new("default"));
    for complaint in &read.complaints {
        println!("{}", render(complaint, Colour::Off, 100));
    }
    for manifest in &read.manifests {
        println!("{} at {}", manifest.key, manifest.place);
    }
    read.complaints.len()
}

#[test]
fn it_runs() {
    assert_eq!(check("web.yaml", WRONG.as_bytes()), 3);
}
