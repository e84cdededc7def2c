//! Edits touch only the lines that they must, and say what was wanted.

use belay_core::manifest::edit::{EditError, New, Step, add_entry, add_item, remove_entry, remove_item, set};
use belay_core::manifest::{Scopes, read_file, yaml};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

fn path(path: &str) -> Vec<Step> {
    let parts = path.split('.').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_or_else(|_| Step::Key(part.to_owned()), Step::Item)).collect()
}

fn text(text: &str) -> New {
    New::Text(text.to_owned())
}

fn set_text(before: &str, at: &str, new: &str) -> Result<String, EditError> {
    set(before, 0, &path(at), &text(new))
}

#[test]
fn a_value_keeps_its_comment_and_its_quotes() {
    let check = |before: &str, after: &str| assert_eq!(set_text(before, "a", "nginx:1.27").unwrap(), after);
    check("a: nginx:1.25 # why\nb: c\n", "a: nginx:1.27 # why\nb: c\n");
    check("a: 'nginx:1.25'  # why\n", "a: 'nginx:1.27'  # why\n");
    check("a: \"nginx\\x3a1.25\"\r\nb: c\r\n", "a: \"nginx:1.27\"\r\nb: c\r\n");
    check("{a: nginx:1.25, b: c}\n", "{a: nginx:1.27, b: c}\n");
    check("{\"a\": \"nginx\", \"b\": 1}\n", "{\"a\": \"nginx:1.27\", \"b\": 1}\n");
    check("a: >-\n  nginx:1.25\n\n# about b\nb: c\n", "a: nginx:1.27\n\n# about b\nb: c\n");
    check("a:\nb: c", "a: nginx:1.27\nb: c");
    check("a: # none yet\nb: c", "a: nginx:1.27 # none yet\nb: c");
    check("a: &anchor nginx:1.25\n", "a: &anchor nginx:1.27\n");
    check("a: !!str 1\n", "a: !!str nginx:1.27\n");
    check("? a\n: nginx:1.25\n", "? a\n: nginx:1.27\n");
    check("a:\n  nginx:1.25\nb: c\n", "a:\n  nginx:1.27\nb: c\n");
}

#[test]
fn what_would_be_read_as_something_else_is_quoted() {
    for (new, written) in [
        ("yes", "\"yes\""),
        ("1.0", "\"1.0\""),
        ("0755", "\"0755\""),
        ("12:30", "\"12:30\""),
        ("", "\"\""),
        ("a: b", "\"a: b\""),
        ("a #b", "\"a #b\""),
        ("-a", "\"-a\""),
        ("*a", "\"*a\""),
        ("a\nb", "\"a\\nb\""),
        ("it's", "\"it's\""),
        ("~", "\"~\""),
        ("null", "\"null\""),
        ("plain text, with a comma", "plain text, with a comma"),
        ("registry:5000/a/b@sha256:0123", "registry:5000/a/b@sha256:0123"),
        ("/bin/sh", "/bin/sh"),
    ] {
        assert_eq!(set_text("a: b\n", "a", new).unwrap(), format!("a: {written}\n"), "{new:?}");
    }
    assert_eq!(set("a: '3'\n", 0, &path("a"), &New::Integer(5)).unwrap(), "a: 5\n");
    assert_eq!(set("{a: b}", 0, &path("a"), &text("x, y")).unwrap(), "{a: \"x, y\"}");
}

#[test]
fn an_item_is_written_like_the_others() {
    let item = New::Mapping(vec![("name".to_owned(), text("B")), ("value".to_owned(), text("2"))]);
    let check = |before: &str, after: &str| assert_eq!(add_item(before, 0, &path("env"), &item).unwrap(), after);
    check(
        "env:\n- name: A\n  value: x # why\nz: 1\n",
        "env:\n- name: A\n  value: x # why\n- name: B\n  value: \"2\"\nz: 1\n",
    );
    check(
        "env:\n  - name: A\n    value: |\n      x\n\nz: 1\n",
        "env:\n  - name: A\n    value: |\n      x\n  - name: B\n    value: \"2\"\n\nz: 1\n",
    );
    check("env:\n- {name: A, value: x}\n", "env:\n- {name: A, value: x}\n- {name: B, value: \"2\"}\n");
    check("env: [{name: A}]\n", "env: [{name: A}, {name: B, value: \"2\"}]\n");
    check("env: []\n", "env: [{name: B, value: \"2\"}]\n");
    check("env: # none\nz: 1\n", "env: # none\n- name: B\n  value: \"2\"\nz: 1\n");
    check("env:\r\n-   name: A", "env:\r\n-   name: A\r\n- name: B\r\n  value: \"2\"");
    check(
        "{\n  \"env\": [\n    {\"name\": \"A\"}\n  ]\n}\n",
        "{\n  \"env\": [\n    {\"name\": \"A\"},\n    {\"name\": \"B\", \"value\": \"2\"}\n  ]\n}\n",
    );
    check("env:\n- # why\n  name: A\n", "env:\n- # why\n  name: A\n- name: B\n  value: \"2\"\n");
    check(
        "env:\n- name: A\n  value: |+\n    x\n\nz: 1\n",
        "env:\n- name: A\n  value: |+\n    x\n\n- name: B\n  value: \"2\"\nz: 1\n",
    );
}

#[test]
fn an_entry_is_written_behind_the_others() {
    let check = |before: &str, at: &str, after: &str| {
        assert_eq!(add_entry(before, 0, &path(at), "replicas", &New::Integer(3)).unwrap(), after);
    };
    check("spec:\n  a: b # why\nz: 1\n", "spec", "spec:\n  a: b # why\n  replicas: 3\nz: 1\n");
    check(
        "spec:\n    a:\n      b: c\n    # about nothing\nz: 1\n",
        "spec",
        "spec:\n    a:\n      b: c\n    replicas: 3\n    # about nothing\nz: 1\n",
    );
    check("spec: {a: b}\n", "spec", "spec: {a: b, replicas: 3}\n");
    check("spec: {}\n", "spec", "spec: {replicas: 3}\n");
    check("spec:\nz: 1\n", "spec", "spec:\n  replicas: 3\nz: 1\n");
    check("a: b", "", "a: b\nreplicas: 3");
    check("- a: b\n- c\n", "0", "- a: b\n  replicas: 3\n- c\n");
    let list = New::List(vec![New::Mapping(vec![("name".to_owned(), text("A"))]), text("x")]);
    assert_eq!(add_entry("- a: b\n", 0, &path("0"), "env", &list).unwrap(), "- a: b\n  env:\n  - name: A\n  - x\n");
    let labels = New::Mapping(vec![("a/b".to_owned(), text("on"))]);
    assert_eq!(
        add_entry("m:\n  n: x\n", 0, &path("m"), "labels", &labels).unwrap(),
        "m:\n  n: x\n  labels:\n    a/b: \"on\"\n"
    );
}

#[test]
fn what_stands_for_several_places_is_not_changed() {
    let shared = |text: &str, at: &str| matches!(set_text(text, at, "x"), Err(EditError::Shared { line: 1, .. }));
    assert!(shared("a: &x 1\nb: *x\n", "a"));
    assert!(shared("a: &x 1\nb: *x\n", "b"));
    assert!(shared("a: &x {c: 1}\nb: *x\n", "b.c"));
    assert!(shared("a: &x {c: 1}\nb: *x\n", "a.c"));
    assert!(shared("a: &x {c: 1}\nb: {<<: *x}\n", "b.c"));
    assert!(matches!(set_text("a: b\n", "c", "x"), Err(EditError::NotThere(_))));
    assert!(matches!(set_text("a: {b: c}\n", "a", "x"), Err(EditError::WrongKind { found: "a mapping", .. })));
    assert!(matches!(set("a: b\n", 1, &path("a"), &text("x")), Err(EditError::NotThere(_))));
    assert!(matches!(add_entry("a: b\n", 0, &[], "a", &text("x")), Err(EditError::WrongKind { .. })));
}

#[test]
fn other_documents_stay() {
    let before = "a: 1\n---\n# second\na: b\n---\na: c\n";
    assert_eq!(set(before, 1, &path("a"), &text("x")).unwrap(), "a: 1\n---\n# second\na: x\n---\na: c\n");
    // A manifest knows which document it is, and which item of a list.
    let list = "# none\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: v}}\n";
    let file = read_file("a.yaml", list.as_bytes(), &Scopes::new("default"));
    assert_eq!((file.manifests[1].document, file.manifests[1].item), (0, Some(1)));
    assert_eq!(set(list, 0, &path("items.1.data.k"), &text("w")).unwrap(), list.replace("{k: v}", "{k: w}"));
}

/// Returns a Deployment as people write them: anything that doesn't change what it says may be anywhere.
fn deployment() -> impl Strategy<Value = String> {
    let image = select(
        &[
            "nginx:1.25",
            "'nginx:1.25'",
            "\"nginx:1.25\"",
            ">-\n          nginx:1.25",
            "&img nginx:1.25",
            "!!str nginx:1.25",
            "|-\n          nginx:1.25",
        ][..],
    );
    let comment = select(&["", " # why", "   # image: x", " #"][..]);
    let line = select(&["", "\n", "# comment\n", "      # replicas: 5\n", "\n\n"][..]);
    let env = select(
        &[
            "",
            "        env:\n        - name: A\n          value: \"1\"\n",
            "        env:\n          - {name: A, value: x} # c\n",
            "        env: [{name: A, value: x}]\n",
            "        env: []\n",
            "        env:\n        - name: A\n          value: |\n            two\n            lines\n\n",
        ][..],
    );
    let before = select(&["", "---\n", "# first\n---\nkind: Other\n---\n", "%s"][..]);
    let replicas = select(&["", "  replicas: 1\n", "  replicas: 1 # one\n", "  replicas: 0x1\n"][..]);
    let end = select(&["", "\n", "\n---\na: b\n", "\n# end"][..]);
    (image, comment, line.clone(), line, env, before, replicas, end, any::<bool>(), any::<bool>()).prop_map(
        |(image, comment, line, other, env, before, replicas, end, crlf, second)| {
            let comment = if image.contains('\n') { "" } else { comment };
            let side = if second { "      - name: side\n        image: side:1\n" } else { "" };
            let before = if before == "%s" { "a: b\n---\n" } else { before };
            let text = format!(
                "{before}kind: Deployment\nmetadata: {{name: web}}\n{line}spec:\n{replicas}  template:\n    spec:\n      containers:\n      - name: web\n{other}        image: {image}{comment}\n{env}{side}  z: last{end}"
            );
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

fn values(text: &str) -> Vec<Value> {
    yaml::documents(text).0.iter().map(|document| document.read().0.unwrap().into_value()).collect()
}

/// Lines of `after` that are not in `before`, and the other way round, in their order.
fn changed(before: &str, after: &str) -> (usize, usize) {
    let diff = similar::TextDiff::from_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (count(similar::ChangeTag::Delete), count(similar::ChangeTag::Insert))
}

proptest! {
    #![proptest_config(crate::generate::cases(1000))]

    #[test]
    fn only_the_wanted_lines_change(before in deployment(), new in "[a-z0-9]{1,8}(:[a-z0-9.]{1,5})?|\\PC{0,12}", count in 0..50i64) {
        let values_before = values(&before);
        let document = values_before.iter().position(|value| value["kind"] == "Deployment").unwrap();
        let container = "spec.template.spec.containers.0";
        let replace = |values: &[Value], change: &dyn Fn(&mut Value)| {
            let mut values = values.to_vec();
            change(&mut values[document]);
            values
        };

        let after = set(&before, document, &path(&format!("{container}.image")), &text(&new)).unwrap();
        prop_assert_eq!(values(&after), replace(&values_before, &|value| value["spec"]["template"]["spec"]["containers"][0]["image"] = new.clone().into()));
        let (gone, came) = changed(&before, &after);
        prop_assert!(gone <= 2 && came <= 1, "{gone} lines gone, {came} came:\n{before}\n=====\n{after}");
        prop_assert_eq!(before.contains("\r\n"), after.contains("\r\n"));

        let has = before.contains("replicas: 1") || before.contains("replicas: 0x1");
        let scaled = if has {
            set(&before, document, &path("spec.replicas"), &New::Integer(count)).unwrap()
        } else {
            add_entry(&before, document, &path("spec"), "replicas", &New::Integer(count)).unwrap()
        };
        prop_assert_eq!(values(&scaled), replace(&values_before, &|value| value["spec"]["replicas"] = count.into()));
        let (gone, came) = changed(&before, &scaled);
        prop_assert!(gone <= 1 && came <= 2, "{gone} lines gone, {came} came:\n{before}\n=====\n{scaled}");

        let item = New::Mapping(vec![("name".to_owned(), text("NEW")), ("value".to_owned(), text(&new))]);
        let has = before.contains(" env:");
        let added = if has {
            add_item(&before, document, &path(&format!("{container}.env")), &item)
        } else {
            add_entry(&before, document, &path(container), "env", &New::List(vec![item.clone()]))
        };
        let added = added.unwrap();
        prop_assert_eq!(values(&added), replace(&values_before, &|value| {
            let env = &mut value["spec"]["template"]["spec"]["containers"][0]["env"];
            let mut items = env.as_array().cloned().unwrap_or_default();
            items.push(item.to_value());
            *env = items.into();
        }));
        let (gone, came) = changed(&before, &added);
        prop_assert!(gone <= 1 && came <= 4, "{gone} lines gone, {came} came:\n{before}\n=====\n{added}");

        // And away again: as it was, to the letter, unless an empty list stood there.
        let count = values(&added)[document]["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().len();
        let removed = remove_item(&added, document, &path(&format!("{container}.env")), count - 1).unwrap();
        if !before.contains("env: []") {
            prop_assert_eq!(removed.trim_end(), before.trim_end());
        }
    }

    /// On any text an edit says what was wanted, or refuses.
    #[test]
    fn edits_of_anything_are_right_or_refused(data in prop_oneof![crate::generate::soup(), crate::generate::block_data(), crate::generate::flow_data()], new in "\\PC{0,6}") {
        let before = format!("data:\n{data}\n");
        let wanted = |value: &Value, step: &str| {
            let value = &value["data"];
            step.strip_prefix("data.").and_then(|key| key.parse::<usize>().map_or_else(|_| value.get(key), |index| value.get(index))).cloned()
        };
        for step in ["data.v", "data.a", "data.0"] {
            if let Ok(after) = set_text(&before, step, &new) {
                prop_assert_eq!(wanted(&values(&after)[0], step), Some(Value::from(new.as_str())));
            }
            if let Ok(after) = add_item(&before, 0, &path(step), &text(&new)) {
                let list = wanted(&values(&after)[0], step).unwrap();
                prop_assert_eq!(list.as_array().unwrap().last(), Some(&Value::from(new.as_str())));
            }
            if let Ok(after) = add_entry(&before, 0, &path(step), "k", &text(&new)) {
                prop_assert_eq!(&wanted(&values(&after)[0], step).unwrap()["k"], &Value::from(new.as_str()));
            }
        }
    }
}

#[test]
fn an_item_goes_with_its_lines_and_no_others() {
    let check = |before: &str, at: usize, after: &str| {
        assert_eq!(remove_item(before, 0, &path("env"), at).unwrap(), after, "{before}");
    };
    let both = "env:\n- name: A # a\n  value: |\n    x\n# about B\n- name: B\n  value: y # b\nz: 1\n";
    check(both, 0, "env:\n# about B\n- name: B\n  value: y # b\nz: 1\n");
    check(both, 1, "env:\n- name: A # a\n  value: |\n    x\n# about B\nz: 1\n");
    check("env:\r\n  - {name: A}\r\n  - {name: B}", 1, "env:\r\n  - {name: A}");
    check("env: [{name: A}, {name: B}] # c\n", 0, "env: [{name: B}] # c\n");
    check("env: [{name: A}, {name: B}] # c\n", 1, "env: [{name: A}] # c\n");
    check(
        "{\n  \"env\": [\n    {\"name\": \"A\"},\n    {\"name\": \"B\"}\n  ]\n}\n",
        0,
        "{\n  \"env\": [\n    {\"name\": \"B\"}\n  ]\n}\n",
    );
    check("a: 1\nenv:\n- name: A\nz: 1\n", 0, "a: 1\nz: 1\n");
    check("env:\n- v: |\n    x\n\n- v: y\n", 0, "env:\n\n- v: y\n");
    check("a: 1\nenv:\n- name: A\n", 0, "a: 1\n");
    check("env: [{name: A}]\nz: 1\n", 0, "z: 1\n");
}

#[test]
fn an_entry_goes_with_its_lines_and_no_others() {
    let check = |before: &str, key: &str, after: &str| {
        assert_eq!(remove_entry(before, 0, &path("e.0"), key).unwrap(), after, "{before}");
    };
    let one = "e:\n- name: A\n  valueFrom:\n    secretKeyRef:\n      name: s\n  # last\n  x: y\n";
    check(one, "valueFrom", "e:\n- name: A\n  # last\n  x: y\n");
    check(one, "name", "e:\n- valueFrom:\n    secretKeyRef:\n      name: s\n  # last\n  x: y\n");
    check("e:\n- {name: A, value: x}\n", "value", "e:\n- {name: A}\n");
    assert!(remove_entry("a: b\n", 0, &[], "a").is_err());
    assert!(remove_entry("a: &x 1\nb: {<<: *x}\n", 0, &path("b"), "a").is_err());
}
