//! Keys that a text has twice.

use super::super::words::quote;
use super::node::Node;

/// Keys that are written twice: `duplicate field "spec.replicas"`.
pub fn duplicates(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect_duplicates(node, &mut String::new(), &mut found);
    found
}

fn collect_duplicates(node: &Node, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match node {
        Node::Map(entries) => {
            let mut seen = std::collections::BTreeSet::new();
            for (key, value) in entries {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                if !seen.insert(key) {
                    let objection = format!("duplicate field {}", quote(path));
                    if !found.contains(&objection) {
                        found.push(objection);
                    }
                }
                collect_duplicates(value, path, found);
                path.truncate(length);
            }
        }
        Node::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect_duplicates(item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
