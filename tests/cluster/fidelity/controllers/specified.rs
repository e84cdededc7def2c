//! Every case of the specification has its script.

use std::collections::BTreeMap;

use super::cases;

/// The cases of the specification: a letter, and the last of its numbers, which begin at 1. Letters of scripts beyond it
/// (B budgets, E endpoints, J Jobs, L roles, Q quotas, Y deletion) are not listed.
const SPECIFIED: [(&str, usize); 12] = [
    ("D", 16),
    ("R", 22),
    ("C", 6),
    ("S", 19),
    ("P", 7),
    ("G", 11),
    ("H", 16),
    ("V", 9),
    ("X", 11),
    ("T", 13),
    ("K", 10),
    ("A", 12),
];

#[test]
fn every_case_of_the_specification_has_its_script() {
    let mut scripts = BTreeMap::<&str, usize>::new();
    for case in cases::all() {
        *scripts.entry(case.id).or_default() += 1;
    }
    let twice: Vec<_> = scripts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "more than one script: {twice:?}");
    let specified =
        SPECIFIED.iter().flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number:02}")));
    let missing: Vec<String> = specified.filter(|id| !scripts.contains_key(id.as_str())).collect();
    assert!(missing.is_empty(), "no script: {missing:?}");
}
