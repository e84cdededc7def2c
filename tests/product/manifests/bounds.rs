//! Nothing panics, nothing grows without bound: hostile texts give one complaint each.

use belay_core::manifest::yaml::{self, Limits};
use belay_core::manifest::{Scopes, read_file};
use proptest::prelude::*;

fn repeat(part: &str) -> String {
    part.repeat((3 << 20) / part.len() - 10)
}

/// Texts that break readers: each must be refused, or read within the limits.
fn hostile() -> Vec<(&'static str, String)> {
    let aliases: String = ('b'..'z')
        .map(|c| format!("{c}: &{c} [{}]\n", vec![format!("*{}", (c as u8 - 1) as char); 9].join(",")))
        .collect();
    let chain: String = (1..100_000).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let merges = format!("a: &a {{{}}}\n", (0..50_000).map(|n| format!("k{n}: v")).collect::<Vec<_>>().join(","));
    vec![
        ("deep lists", "[".repeat(100_000)),
        ("deep mappings", "{a: ".repeat(100_000)),
        ("deep dashes", "- ".repeat(100_000)),
        ("deep keys", "? ".repeat(100_000)),
        ("deep lines", (0..3_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
        ("nested lists", format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000))),
        ("many lists", format!("a: [{}]", vec!["[]"; 250_000].join(","))),
        (
            "a million anchors",
            (0..1_000_000).map(|n| format!("- &{n:x} x\n")).collect::<String>()[..3 << 20].to_owned(),
        ),
        ("a million aliases", format!("- &a x\n{}", "- *a\n".repeat(500_000))),
        ("an alias bomb", format!("a: &a [x,x,x,x,x,x,x,x,x]\n{aliases}")),
        ("a chain of aliases", format!("a0: &a0 [x]\n{chain}")),
        (
            "one large merge many times",
            format!("{merges}{}", (0..100).map(|n| format!("b{n}: {{<<: *a}}\n")).collect::<String>()),
        ),
        ("many merges", format!("a: &a {{x: 1}}\n{}", "<<: *a\n".repeat(100_000))),
        ("the same key", "k: v\n".repeat(150_000)),
        ("deep JSON", "{\"a\":".repeat(100_000)),
        ("long JSON", format!("{{\"a\":[{}1]}}", "1,".repeat(1_000_000))),
        ("many JSON objects", "{\"a\":1}".repeat(400_000)),
        ("many documents", "a: b\n---\n".repeat(300_000)),
        ("many wrong separators", repeat("---x\n")),
        ("an open quote", format!("a: \"{}", repeat("x\n  "))),
        ("an open bracket", format!("a: [{}", repeat("x, "))),
    ]
}

#[test]
fn hostile_texts_are_refused() {
    let limits = Limits::default();
    for (name, text) in hostile() {
        let (documents, complaints) = yaml::documents(&text);
        assert!(documents.len() <= limits.documents, "{name}");
        let mut wrong = complaints.len();
        for document in documents.iter().take(3) {
            let (value, complaints) = document.read();
            wrong += complaints.len();
            let counted = value.map_or(0, |value| values_in(value.value()));
            assert!(counted <= limits.nodes, "{name}: {counted} values");
        }
        assert!(wrong > 0, "{name}: nothing is wrong with it?");
        let file = read_file("hostile.yaml", text.as_bytes(), &Scopes::new("default"));
        assert!(file.complaints.len() <= limits.complaints + 1, "{name}: {} complaints", file.complaints.len());
        assert!(file.manifests.is_empty() && file.unreadable, "{name}");
    }
}

fn values_in(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        serde_json::Value::Object(members) => 1 + members.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

/// Counted, not timed: of an alias bomb, no more is expanded than the limit allows.
#[test]
fn aliases_cost_what_they_expand_to() {
    let within = |copies: usize| {
        let text = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 100].join(","), vec!["*a"; copies].join(","));
        let (documents, complaints) = yaml::documents(&text);
        documents.first().map(|document| values_in(document.read().0.unwrap().value())).ok_or(complaints.len())
    };
    assert_eq!(within(10), Ok(1 + 101 + 1 + 10 * 101));
    assert_eq!(within(1_900), Ok(1 + 101 + 1 + 1_900 * 101));
    assert_eq!(within(2_000), Err(1));
}

/// Files with more wrong things than anybody reads. Each took minutes where the work grew with the square of the size.
#[test]
fn many_wrong_things_cost_no_more_than_their_text() {
    let head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n";
    let many = |part: &dyn Fn(usize) -> String, count: usize| (0..count).map(part).collect::<Vec<_>>().join(", ");
    let labels = |value: &str| many(&|n| format!("k{n}: {value}{n}"), 40_000);
    let template = format!(
        "template: {{metadata: {{labels: {{{}}}}}, spec: {{containers: [{{name: a, image: a}}]}}}}",
        labels("x")
    );
    let texts = [
        format!("{head}  {{{}}}", many(&|n| format!("unknown{n}: {n}"), 90_000)),
        format!("{head}  selector: {{matchLabels: {{{}}}}}\n  {template}\n", labels("y")),
        format!(
            "{head}  template: {{spec: {{containers: [{{name: a, image: a, volumeMounts: [{}]}}]}}}}",
            many(&|n| format!("{{name: v{n}, mountPath: /{n}}}"), 30_000)
        ),
        format!(
            "apiVersion: v1\nkind: List\nitems: [{}]",
            many(&|_| "{apiVersion: v1, metadata: {name: a}}".to_owned(), 20_000)
        ),
        format!(
            "apiVersion: v1\nkind: List\nitems: [{}]",
            many(&|_| "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}".to_owned(), 20_000)
        ),
        "a: [\n---\n".repeat(9_000),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n---\n".repeat(9_000),
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{{}}}",
            many(&|n| format!("k{n}: {n}"), 90_000)
        ),
    ];
    for text in texts {
        let file = read_file("many.yaml", text.as_bytes(), &Scopes::new("default"));
        let (last, shown) = file.complaints.split_last().unwrap();
        assert_eq!(shown.len(), Limits::default().complaints, "{}", &text[..100]);
        assert!(last.message.ends_with("more complaints about this file"), "{last}");
        assert!(file.manifests.is_empty());
    }
    let merges = format!("a: {{<<: [{}]}}", many(&|_| "{k: 1}".to_owned(), 50_000));
    let (documents, _) = yaml::documents(&merges);
    assert_eq!(documents[0].read().0.unwrap().into_value(), serde_json::json!({"a": {"k": 1}}));
}

#[test]
fn sizes_have_limits_that_are_said() {
    let scopes = Scopes::new("default");
    let said = |text: &str| read_file("x.yaml", text.as_bytes(), &scopes).complaints[0].to_string();
    let file = said(&"# x\n".repeat((8 << 20) / 4 + 1));
    assert_eq!(file, "x.yaml:1:1: the file is larger than 8 MiB (split it)");
    let document = said(&format!("a: \"{}\"", "x".repeat(3 << 20)));
    assert!(document.contains("larger than 3 MiB"), "{document}");
    let deep = said(&format!("a: {}{}", "[".repeat(100), "]".repeat(100)));
    assert_eq!(deep, "x.yaml:1:103: nested deeper than 100 levels");
    let fine =
        format!("apiVersion: example.com/v1\nkind: T\nmetadata: {{name: t}}\na: {}{}", "[".repeat(99), "]".repeat(99));
    assert_eq!(read_file("x.yaml", fine.as_bytes(), &scopes).complaints, []);
}

/// Returns a manifest with some of its bytes exchanged.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let files: Vec<Vec<u8>> = crate::cases::files(&crate::cases::folder().join("valid"))
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    (prop::sample::select(files), prop::collection::vec(change, 1..12)).prop_map(|(mut bytes, changes)| {
        for (at, to, byte, how) in changes {
            let (at, to) = (at.index(bytes.len()), to.index(bytes.len()));
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] = b" \t\n:-[]{}\"'|>&*!#%,?\\"[usize::from(byte) % 21],
                2 => bytes.swap(at, to),
                _ => drop(bytes.drain(at.min(to)..(at.min(to) + usize::from(byte) / 8).min(bytes.len() - 1))),
            }
            if bytes.len() < 2 {
                return b"a: b".to_vec();
            }
        }
        bytes
    })
}

/// Checks the rules for every file.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let scopes = crate::cases::scopes();
    let file = read_file("any.yaml", bytes, &scopes);
    prop_assert_eq!(&file, &read_file("any.yaml", bytes, &scopes), "the same file, the same answer");
    for complaint in &file.complaints {
        let ends = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        prop_assert!(complaint.place.line as usize <= ends + 1, "{complaint}: there are {} lines", ends + 1);
        // A message ends without a full stop, unless it ends with a word of the file's that has one.
        let word = complaint.message.rsplit(' ').next().unwrap_or_default();
        let of_the_file = bytes.windows(word.len().max(1)).any(|part| part == word.as_bytes());
        prop_assert!(!word.is_empty() && (!word.ends_with('.') || of_the_file), "{complaint}");
        let shown = belay_core::manifest::render(complaint, belay_core::manifest::Colour::Off, 80);
        prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
    for manifest in &file.manifests {
        prop_assert!(!file.rejected.contains(&manifest.key));
        let place = manifest.place_of("spec.template.spec.containers[0].image");
        prop_assert!(place.line >= manifest.place.line || bytes.contains(&b'*'), "{place} is in {}", manifest.place);
    }
    prop_assert!(file.complaints.is_empty() || file.unreadable || !file.rejected.is_empty(), "{:?}", file.complaints);
    Ok(())
}

proptest! {
    #![proptest_config(crate::generate::cases(400))]

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes)?;
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,200}") {
        check(text.as_bytes())?;
    }

    #[test]
    fn any_soup_is_read(data in crate::generate::soup()) {
        check(format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{data}\n").as_bytes())?;
    }

    #[test]
    fn mutated_manifests_are_read(bytes in mutated()) {
        check(&bytes)?;
    }
}
