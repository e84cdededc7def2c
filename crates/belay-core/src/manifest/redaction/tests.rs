//! Tests of what is hidden of a text.

use proptest::prelude::*;

use super::*;

fn without(text: &str, values: &[&str], certainty: Certainty) -> String {
    let mut redaction = Redaction::of(text);
    values.iter().for_each(|value| redaction.hide(value, certainty));
    redaction.finish(|_| false)
}

#[test]
fn values_are_taken_out_in_every_form() {
    for (text, values, shown) in [
        ("literals: [password=correct-horse, oops]", &["correct-horse"][..], "literals: [password=***, oops]"),
        ("given Y29ycmVjdC1ob3JzZQ==", &["correct-horse"], "given ***"),
        ("a \"two\\nlines \\u0026 more\"", &["two\nlines & more"], "a \"***\""),
        ("one: first line second line", &["first line\n  second line"], "one: ***"),
        ("at <b64enc \"hunt...>", &["hunter2"], "at <b64enc \"***...>"),
        ("pw=abc, pin 4711", &["abc", "4711"], "pw=***, pin ***"),
        ("yaml: line 3: web/a.yaml:3:3", &["3"], "yaml: line 3: web/a.yaml:3:3"),
        ("{\"pin\":3}", &["3"], "{\"pin\":***}"),
        ("abcd", &["abc"], "abcd"),
        ("line [112 97 115 252] of 3 4 5, 112 97 115 300", &[], "line [***] of 3 4 5, 112 97 115 300"),
        ("110 45 104 117 at 7", &[], "*** at 7"),
    ] {
        assert_eq!(without(text, values, Certainty::Certain), shown);
    }
    assert_eq!(
        without("port 80, mode abc, defaults", &["80", "abc", "default"], Certainty::Possible),
        "port 80, mode ***, defaults"
    );
}

#[test]
fn names_are_shown_where_they_are_no_secret() {
    let text = "missing in charts/ directory: common, redis-cluster, postgresql (password=postgresql-7)";
    let shown = |values: &[(&str, Certainty)], names: &[&str]| {
        let mut redaction = Redaction::of(text);
        values.iter().for_each(|(value, certainty)| redaction.hide(value, *certainty));
        names.iter().for_each(|name| redaction.show_name(name));
        redaction.finish(|_| false)
    };
    let possible = |value| (value, Certainty::Possible);
    let names = ["common", "redis-cluster", "postgresql"];
    assert_eq!(
        shown(&[possible("common"), possible("redis-cluster"), possible("r.example.com/postgresql")], &names),
        "missing in charts/ directory: common, redis-cluster, postgresql (password=***-7)"
    );
    assert_eq!(shown(&[possible("directory"), possible("Missing")], &[]), text, "the tool's own words");
    let secret = [possible("common"), ("common", Certainty::Certain), ("postgresql-7", Certainty::Certain)];
    assert_eq!(
        shown(&secret, &names),
        "missing in charts/ directory: ***, redis-cluster, *** (password=***)",
        "a Secret's value is hidden, whatever else it is"
    );
}

#[test]
fn a_value_within_another_in_base64_is_taken_out() {
    for before in ["", "a", "ab", "abc"] {
        let encoded = STANDARD.encode(format!("{before}correct-horse-battery!"));
        let shown = without(&encoded, &["correct-horse-battery"], Certainty::Certain);
        assert!(shown.contains(MASK) && shown.len() < 12, "{shown}");
    }
}

#[test]
fn places_are_shown() {
    let mut redaction = Redaction::of("error in web/templates/a.yaml:3: web/templates/b.yaml");
    redaction.hide("web/templates", Certainty::Certain);
    let shown = redaction.finish(|word| word == "web/templates/a.yaml");
    assert_eq!(shown, "error in web/templates/a.yaml:3: ***/b.yaml");
}

/// The time is that of the values, however often a piece stands in the text, and however often a value comes.
#[test]
fn repeated_pieces_are_found_once() {
    let text = "a".repeat(1 << 20);
    let mut redaction = Redaction::of(&text);
    assert!(redaction.text.len() <= KEPT);
    for _ in 0..100 {
        redaction.hide(&text[..10_000], Certainty::Certain);
    }
    assert!(redaction.steps() < 100 * 10_000 * 7, "{}", redaction.steps());
    assert_eq!(redaction.finish(|_| false), MASK);
}

proptest! {
    #[test]
    fn no_piece_is_left(value in "\\PC{8,40}", before in "\\PC{0,20}", from in 0usize..30, after in "\\PC{0,20}") {
        let value = value.trim();
        let from = value.floor_char_boundary(from.min(value.len()));
        let shown = without(&format!("{before}{}{after}", &value[from..]), &[value], Certainty::Certain);
        for piece in value.as_bytes().windows(PIECE) {
            prop_assert!(!shown.as_bytes().windows(PIECE).any(|window| window == piece), "{shown}");
        }
    }
}
