//! Keys that a text has twice.

use super::super::value_ext::repeats;
use super::super::words::quote;
use super::node::Node;

/// Keys that are written twice: `duplicate field "spec.replicas"`.
pub fn duplicates(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    // Hardly a text has any, and to name places costs more than to search.
    if has_duplicates(node) {
        collect_duplicates(node, &mut String::new(), &mut found);
    }
    let repeated = repeats(found.iter().cloned());
    found.into_iter().zip(repeated).filter(|(_, repeated)| !repeated).map(|(objection, _)| objection).collect()
}

/// About how many bytes are told of all of them.
const TOLD: usize = 4 << 20;

/// Maps of more keys are not compared key by key.
const FEW: usize = 16;

fn has_duplicates(node: &Node) -> bool {
    match node {
        Node::Map(entries) => {
            let twice = if entries.len() > FEW {
                let mut seen = std::collections::HashSet::new();
                !entries.iter().all(|(key, _)| seen.insert(key))
            } else {
                entries
                    .iter()
                    .enumerate()
                    .any(|(index, (key, _))| entries[..index].iter().any(|(other, _)| other == key))
            };
            twice || entries.iter().any(|(_, value)| has_duplicates(value))
        }
        Node::List(items) => items.iter().any(has_duplicates),
        _ => false,
    }
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
                // A long path above many keys would be told with each.
                if !seen.insert(key) && found.len().saturating_mul(path.len()) <= TOLD {
                    found.push(format!("duplicate field {}", quote(path)));
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

#[cfg(test)]
mod tests {
    use super::super::parse_json;
    use super::duplicates;
    use crate::thread_time;

    #[test]
    fn very_many_keys_are_looked_at_once_and_told_in_few_bytes() {
        let before = thread_time::of_this_thread();
        let keys: Vec<String> = (0..150_000).map(|index| format!("\"k{index}\":0,\"k{index}\":0")).collect();
        for above in ["a".to_owned(), "a".repeat(1 << 20)] {
            let text = format!("{{\"{above}\":{{{}}}}}", keys.join(","));
            let bytes: usize = duplicates(&parse_json(text.as_bytes()).unwrap()).iter().map(String::len).sum();
            assert!((1 << 20..64 << 20).contains(&bytes), "{bytes} bytes");
        }
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }

    #[test]
    fn keys_written_twice_are_found_in_maps_of_few_and_of_many() {
        assert!(duplicates(&parse_json(br#"{"a":{"b":1},"c":[{"b":1},{"b":1}]}"#).unwrap()).is_empty());
        let twice = parse_json(br#"{"a":[{"b":1},{"b":1,"c":2,"b":3,"b":4}]}"#).unwrap();
        assert_eq!(duplicates(&twice), ["duplicate field \"a[1].b\""]);
        let many: Vec<String> = (0..40).map(|index| format!("\"k{index}\":0")).collect();
        let text = |more: &str| format!("{{{}{more}}}", many.join(","));
        assert!(duplicates(&parse_json(text("").as_bytes()).unwrap()).is_empty());
        assert_eq!(duplicates(&parse_json(text(",\"k7\":1").as_bytes()).unwrap()), ["duplicate field \"k7\""]);
    }
}
