//! Random YAML: mostly odd, sometimes wrong.

use proptest::prelude::*;
use proptest::sample::select;

/// Returns how many cases are tried: this many, or as `PROPTEST_CASES` says.
pub fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    if asked { ProptestConfig::default() } else { ProptestConfig { cases: usual, ..ProptestConfig::default() } }
}

/// Pieces of YAML in a row: mostly nonsense, which is where readers differ.
pub fn soup() -> impl Strategy<Value = String> {
    const ATOMS: &[&str] = &[
        "a",
        "b",
        "c d",
        "1",
        "~",
        "yes",
        "'q'",
        "\"d\"",
        "x:y",
        "#h",
        " # c",
        "-",
        "- ",
        "? ",
        ": ",
        ":",
        "[",
        "]",
        "{",
        "}",
        ",",
        ", ",
        "&a ",
        "*a",
        "!t ",
        "!!str ",
        "|",
        "> ",
        "|-",
        "|2",
        ">+",
        "\n",
        "\n  ",
        "\n    ",
        "\n      ",
        "\t",
        " ",
        "  ",
        "...",
        "%",
        "@",
        "`",
        "'",
        "\"",
        "\\n",
        "é",
        "<<: ",
        "http://a/b?c=d",
        "=",
        "&",
        "*",
        "!",
        "\\",
        "\r\n    ",
        "\u{2028}",
        "\u{85}",
        "0755",
        "1_0",
        ".5",
        "0x1F",
        "12:30",
        "null",
    ];
    prop::collection::vec(select(ATOMS), 1..10).prop_map(|atoms| {
        let text = format!("  v: {}", atoms.concat());
        // Every line stays inside the data.
        let lines =
            text.split('\n').map(|line| if line.starts_with("  ") { line.to_owned() } else { format!("  {line}") });
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Returns a scalar that looks like a number, a word, a time.
pub fn scalar() -> impl Strategy<Value = String> {
    let number = "[-+.]?[0-9_oxbOXB]{0,3}[0-9a-fA-F_.]{0,4}([eE][-+]?[0-9]{1,3})?";
    let word = "(yes|no|on|off|y|n|true|false|null|~|inf|nan|\\.inf|-\\.inf|\\.nan|<<|=){1}";
    let case = select(&["", "upper", "title"][..]);
    let tag = select(&["", "!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "!!binary ", "!t ", "! "][..]);
    let any =
        prop_oneof![5 => number.boxed(), 2 => word.boxed(), 1 => "[0-9]{1,4}[-:][0-9]{1,2}([-:][0-9]{1,2})?".boxed()];
    (any, case, tag).prop_map(|(text, case, tag)| {
        let text = match case {
            "upper" => text.to_uppercase(),
            "title" => text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect(),
            _ => text,
        };
        format!("{tag}{text}")
    })
}

/// Data whose only value, or only key, is a scalar.
pub fn scalar_data() -> impl Strategy<Value = String> {
    (scalar(), any::<bool>())
        .prop_map(|(scalar, key)| if key { format!("  {scalar}: x") } else { format!("  v: {scalar}") })
}

/// Brackets in brackets.
pub fn flow_data() -> impl Strategy<Value = String> {
    const LEAVES: &[&str] = &[
        "a",
        "b c",
        "x:y",
        "1",
        "~",
        "'q'",
        "\"d\"",
        "é",
        "a#b",
        "-a",
        "-",
        "?a",
        "a?",
        "a:",
        "::a",
        ":",
        "*k",
        "&k a",
        "!t a",
        "!!str 1",
        "yes",
        "",
        " ",
        "http://x/y",
        "a\n   b",
        "=",
        "%a",
        "a'b",
        "'it''s'",
        "\"\\u00e9\"",
        "<<",
        "|",
        "a!b",
        "#a",
        " #a\n  ",
        "a&b",
        "{x: 1}",
        "- a",
    ];
    let leaf = select(LEAVES).prop_map(str::to_owned);
    let flow = leaf.prop_recursive(4, 16, 3, |inner| {
        let item =
            (select(&["", " "][..]), inner, select(&["", " "][..])).prop_map(|(a, item, b)| format!("{a}{item}{b}"));
        let entry = (item.clone(), select(&[": ", ":", " : ", ": ", ""][..]), item.clone())
            .prop_map(|(key, colon, value)| format!("{key}{colon}{value}"));
        let end = select(&["", ",", " "][..]);
        prop_oneof![
            (prop::collection::vec(item, 0..3), end.clone())
                .prop_map(|(items, end)| format!("[{}{end}]", items.join(","))),
            (prop::collection::vec(entry, 0..3), end)
                .prop_map(|(entries, end)| format!("{{{}{end}}}", entries.join(","))),
        ]
    });
    flow.prop_map(|flow| format!("  v: {flow}"))
}

/// Lines in lines, valid for the most part.
pub fn block_data() -> impl Strategy<Value = String> {
    block(3).prop_map(|lines| lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

fn block(depth: u32) -> BoxedStrategy<Vec<String>> {
    const KEYS: &[&str] = &[
        "a", "b", "c d", "'q'", "\"d\"", "1", "yes", "x:y", "a-b", "&n k", "!t k", "k k", "é", "a#b", ".", "a'b", "<<",
    ];
    const VALUES: &[&str] = &[
        "a",
        "b c",
        "0755",
        "~",
        "",
        "'q'",
        "\"d\"",
        "\"a\\\n    b\"",
        "'a\n    b'",
        "|\n    x\n     y",
        "|-\n    x\n\n    y",
        "|+\n    x\n",
        ">\n    x\n    y\n\n     z\n    w",
        ">-\n\n    x",
        "|2\n    x",
        "a\n    b",
        "a\n\n    b\n    c",
        "a # c",
        "&k z",
        "!t z",
        "!!str 1",
        "[a, b]",
        "{a: b}",
        "[a,\n  b]",
        "1.0",
        "yes",
        "a\tb",
        "\"\\x41\\u00e9\\t\\\\\"",
        "'a\n\n    b'",
        "|\n    x\n      y",
        "| # c\n    y",
        "=",
    ];
    let value = select(VALUES).prop_map(|value| value.split('\n').map(str::to_owned).collect::<Vec<_>>());
    let leaf = value.clone().prop_map(|mut lines| {
        lines[0] = format!("v: {}", lines[0]);
        lines
    });
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = block(depth - 1);
    let indented = |lines: Vec<String>, by: usize| {
        lines.into_iter().map(move |line| if line.is_empty() { line } else { format!("{}{line}", " ".repeat(by)) })
    };
    let entry = (select(KEYS), any::<bool>(), value.clone(), inner.clone(), 1..4usize).prop_map(
        move |(key, deep, value, inner, by)| {
            if deep {
                let comment = if by == 3 { vec!["# comment".to_owned()] } else { Vec::new() };
                return std::iter::once(format!("{key}:")).chain(comment).chain(indented(inner, by)).collect();
            }
            let mut lines = value;
            lines[0] = format!("{key}: {}", lines[0]);
            lines
        },
    );
    let item = (any::<bool>(), value, inner).prop_map(move |(deep, value, inner)| {
        let mut lines: Vec<String> = if deep { indented(inner, 2).collect() } else { value };
        lines[0] = format!("- {}", lines[0].trim_start());
        lines
    });
    prop_oneof![
        prop::collection::vec(entry, 1..4).prop_map(|entries: Vec<Vec<String>>| entries.concat()),
        prop::collection::vec(item, 1..4).prop_map(|items| items.concat()),
    ]
    .boxed()
}

/// Whole files: documents of every form in a row, between separators of every form. Each `NAME` is to become another name.
pub fn files() -> impl Strategy<Value = String> {
    const DOCUMENTS: &[&str] = &[
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\ndata: {k: v}\n",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}\n",
        "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"NAME\"}, \"data\": {\"a\": \"1\"}}",
        "\n  {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n  \"metadata\": {\"name\": \"NAME\"}}\n",
        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\n\t\t\"name\": \"NAME\"\n\t}\n} # c\n",
        "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"NAME\"}, \"data\": {\"a\": \"\\/\u{85}\"}}\n",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}\n- apiVersion: v1\n  kind: \
         ConfigMap\n  metadata: {name: NAME}\n",
        "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: NAME}\n- {kind: ConfigMap, metadata: {name: NAME}}\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata:\n  k: |\n    a\n     b\n\n    c: d # no comment\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {k: \"a\n\n  b\"}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  labels: &l {a: \"1\"}\n  annotations: *l\ndata: {<<: *l, b: \"2\"}\n",
        "# nothing\n",
        "",
        "null\n",
        "~\n",
        "\t\n",
        "a: [\n",
        "- a\n",
    ];
    const BETWEEN: &[&str] = &[
        "---\n",
        "---\n",
        "---\n",
        "--- # c\n",
        "---   \n",
        "...\n---\n",
        "\n---\n\n",
        "---\n---\n",
        "\n",
        "--- x\n",
        "----\n",
        " ---\n",
    ];
    let document = prop_oneof![9 => select(&DOCUMENTS[..12]), 1 => select(&DOCUMENTS[12..])];
    let more = prop::collection::vec((select(BETWEEN), document.clone()), 0..4);
    let begin = select(&["", "", "", "---\n", "# c\n", "\u{FEFF}", "\n\n", "%YAML 1.1\n---\n", "\u{FEFF}---\n"][..]);
    let end = select(&["", "", "", "---\n", "...\n", "---", "# c", "\u{FEFF}"][..]);
    let ends = select(&["\n", "\n", "\n", "\r\n"][..]);
    (begin, document, more, end, ends).prop_map(|(begin, first, more, end, ends)| {
        let more: String = more.into_iter().map(|(between, document)| format!("{between}{document}")).collect();
        format!("{begin}{first}{more}{end}").replace('\n', ends)
    })
}
