//! No value of a Secret is ever shown, whatever is wrong with it.

use belay_core::manifest::{Colour, Scopes, read_file, render};
use proptest::prelude::*;

const VALUE: &str = "hunter2";

/// Secrets with the value in them, right and wrong in every way.
fn secrets() -> Vec<String> {
    let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    let mut texts: Vec<String> = [
        "data: {a: hunter2!}",
        "data: {a: hunter2!, a: hunter2?}",
        "data:\n  a: hunter2\n  a: hunter2",
        "data: hunter2",
        "data: [hunter2]",
        "data: {a: [hunter2]}",
        "stringData: {a: 5, b: hunter2, c: yes, d: 0755}",
        "stringData:\n  a: hunter2\n b: hunter2",
        "stringData:\n  a: 'hunter2\n",
        "stringData:\n  a: \"hunter2\\q\"",
        "stringData: {a: hunter2",
        "stringData:\n  a: |\n    hunter2\n   hunter2\n",
        "stringData:\n  a: !!int hunter2",
        "stringData:\n  a: !!binary hunter2!",
        "stringData: {a: @hunter2}",
        "stringData: {a: hunter2: hunter2}",
        "stringDatta: {a: hunter2}",
        "password: hunter2",
        "type: [hunter2]",
        "immutable: hunter2",
        "stringData: {a: hunter2}\n...\nhunter2",
        "stringData: {a: hunter2}\n--- hunter2",
        "stringData: {a: *hunter2}",
        "stringData: {a: &hunter2.x b}",
        "stringData: {a: \"hunter2\u{1}\"}",
        "stringData: {a: hunter2}\nspec: {a: hunter2}",
        "stringData: {<<: hunter2}",
        "sops: {mac: hunter2}\nstringData: {a: hunter2}",
    ]
    .iter()
    .map(|body| format!("{head}{body}\n"))
    .collect();
    texts.extend([
        "apiVersion: v1\nkind: secret\nmetadata: {name: s}\nstringData: {a: hunter2}\nx: hunter2\n".to_owned(),
        "apiVersion: v1\nkind: Secrett\nmetadata: {name: s}\nstringData: {a: hunter2}\ndata: {a: hunter2}\n".to_owned(),
        "apiVersion: v2\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n".to_owned(),
        "apiVersion: v1\nkind: Secret\nstringData: {a: hunter2}\ndata: {b: hunter2!}\n".to_owned(),
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {a: [hunter2], a: hunter2}, labels: {a: hunter2 x}}\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: hunter2!, a: hunter2?}}\n".to_owned(),
        "apiVersion: v1\nkind: SecretList\nitems:\n- {metadata: {name: s}, data: {a: hunter2!}}\n- hunter2\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: hunter2, a: hunter2}}\nitems: []\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems: {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: hunter2, a: hunter2}}\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems:\n  a: {apiVersion: v1, kind: Secret, data: {a: hunter2, a: hunter2}}\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [{kind: Secret, data: {a: hunter2, a: hunter2}}]}]\n".to_owned(),
        "apiVersion: v1\nkind: Template\nobjects: [{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: hunter2, a: hunter2}}]\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, metadata: {name: s}, stringDatas: {a: hunter2, a: hunter2}}]\n".to_owned(),
        "apiVersion: v1\nkind: Secret\nkind: ConfigMap\nmetadata: {name: s}\ndata: {a: hunter2, a: [hunter2]}\n".to_owned(),
        "kind: Kustomization\nsecretGenerator: [{name: s, literals: [a=hunter2], literals: [b=hunter2]}]\n".to_owned(),
        "stringData: {a: hunter2}\n".to_owned(),
        "db:\n  password: hunter2\n".to_owned(),
        "hunter2".to_owned(),
        "- hunter2".to_owned(),
        "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"s\"},\"data\":{\"a\":\"hunter2!\",\"a\":hunter2}}".to_owned(),
        "{\"kind\":\"Secret\",\"data\":{\"a\":\"hunter2\n\"}}".to_owned(),
    ]);
    texts
}

fn leaks(bytes: &[u8]) -> Option<String> {
    let file = read_file("s.yaml", bytes, &Scopes::new("default"));
    file.complaints.iter().find_map(|complaint| {
        let said = [
            render(complaint, Colour::Off, 80),
            complaint.to_string(),
            format!("{complaint:?}"),
            serde_json::to_string(complaint).unwrap(),
        ];
        said.into_iter().find(|said| said.contains(VALUE))
    })
}

#[test]
fn complaints_never_show_a_value_of_a_secret() {
    let mut complaints = 0;
    for text in secrets() {
        assert_eq!(leaks(text.as_bytes()), None, "{text}");
        complaints += read_file("s.yaml", text.as_bytes(), &Scopes::new("default")).complaints.len();
    }
    assert!(complaints > 40, "{complaints}: something is wrong with nearly all of them");
}

/// Other values than secret ones are shown: the test above would hold for complaints that say nothing.
#[test]
fn other_values_are_shown() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {a: [hunter2]}\n";
    assert!(leaks(text.as_bytes()).is_some());
}

proptest! {
    #![proptest_config(crate::generate::cases(600))]

    /// Secrets that are broken anywhere but in the word that says so.
    #[test]
    fn broken_secrets_show_no_value(
        which in prop::sample::select(secrets()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b" \t\n:-[]{}\"'|>&*!#%,?\\x".to_vec())), 1..5),
    ) {
        let mut bytes = which.into_bytes();
        let marks: Vec<_> = [&b"Secret"[..], b"stringData", VALUE.as_bytes()]
            .iter()
            .flat_map(|word| (0..bytes.len()).filter(|at| bytes[*at..].starts_with(word)).map(|at| at..at + word.len()).collect::<Vec<_>>())
            .collect();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            if !marks.iter().any(|mark| mark.contains(&at)) {
                bytes[at] = byte;
            }
        }
        let says_so = bytes.windows(6).any(|word| word == b"Secret") || bytes.windows(10).any(|word| word == b"stringData");
        // A key is shown, if it looks like one; that the value became one is what the change did.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let key = text.match_indices(VALUE).any(|(at, _)| {
            let rest = text[at + VALUE.len()..].trim_start_matches(|c: char| !c.is_whitespace() && c != ':' && c != ',');
            rest.trim_start().starts_with(':') || text[..at].trim_end().ends_with('?')
        });
        if says_so && !key {
            prop_assert_eq!(leaks(&bytes), None, "{}", text);
        }
    }
}
