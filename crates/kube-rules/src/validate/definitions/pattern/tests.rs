use super::error;

/// Each as Go says it.
#[test]
fn patterns_are_read_as_go_reads_them() {
    let broken = [
        ("(", "missing closing ): `(`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1,2}*", "invalid nested repetition operator: `{1,2}*`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[b-a-z]", "invalid character class range: `b-a`"),
        ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?-)", "invalid or unsupported Perl syntax: `(?-)`"),
        ("(?", "invalid or unsupported Perl syntax: `(?`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P<1a>x)(?P<>x)", "invalid named capture: `(?P<>`"),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\x1", r"invalid escape sequence: `\x1`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("x{5,3}", "invalid repeat count: `{5,3}`"),
        ("(a{1000}){1000}", "invalid repeat count: `{1000}`"),
        ("a|)", "unexpected ): `a|)`"),
        ("|*", "missing argument to repetition operator: `*`"),
        ("(*)", "missing argument to repetition operator: `*`"),
        ("[", "missing closing ]: `[`"),
        ("[^]", "missing closing ]: `[^]`"),
        ("[a-", "missing closing ]: `[a-`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"\pN\pX", r"invalid character class range: `\pX`"),
    ];
    for (pattern, said) in broken {
        assert_eq!(error(pattern).as_deref(), Some(said), "{pattern}");
    }
    let sound = [
        "",
        "x{,5}",
        "x{",
        "^*",
        "a*?",
        "(?i)a",
        "[]a]",
        "(?P<n>x)(?P<n>y)",
        "(?<name>x)",
        r"\Qab",
        "[[.a.]]",
        r"\z\A\b\B",
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        r"^\d+(\.\d+)?$",
        r"[\w-]+",
        "é+",
        r"\x{1F600}",
        "(?i-s:a)",
        "a{0}{",
    ];
    for pattern in sound {
        assert_eq!(error(pattern), None, "{pattern}");
    }
}
