//! A thousand manifests as people write them, changed: only the wanted lines differ, and they have the wanted values.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::Change;
use super::containers::containers;
use super::env_variables::{EnvSource, Variables};
use super::image::Images;
use crate::cli::worktree::pick;
use belay_core::manifest::{File, Scopes, read_file};

/// A manifest in the midst of others, and where it is.
#[derive(Clone, Debug)]
struct EditedFile {
    text: String,
    name: &'static str,
}

const KINDS: [(&str, &str); 8] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
];

/// Returns the lines above the containers of a kind, and how far the containers are indented.
fn above(version: &str, kind: &str) -> (String, usize) {
    let head = format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: web # its name\n  labels: {{app: web}}\nspec:\n"
    );
    let labels = "metadata: {labels: {app: web}}";
    let more = match kind {
        "Pod" => return (head, 2),
        "CronJob" => {
            let lines = "  schedule: \"0 3 * * *\"\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          restartPolicy: Never\n";
            return (head + lines, 10);
        }
        "Job" => "  template:\n    spec:\n      restartPolicy: 'Never'\n".to_owned(),
        "ReplicationController" => format!("  selector: {{app: web}}\n  template:\n    {labels}\n    spec:\n"),
        "StatefulSet" => format!(
            "  serviceName: x\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    {labels}\n    spec:\n"
        ),
        _ => format!("  selector: {{matchLabels: {{app: web}}}}\n  template:\n    {labels}\n    spec:\n"),
    };
    (head + &more, 6)
}

fn written() -> impl Strategy<Value = EditedFile> {
    let image =
        select(&["web:1", "'web:1'", "\"web:1\"", ">-\n    web:1", "&img web:1", "!!str web:1", "|-\n    web:1"][..]);
    let comment = select(&["", " # why", "   # image: x"][..]);
    let line = select(&["", "# comment\n", "\n", "#- name: A\n"][..]);
    let env = select(
        &[
            "",
            "  env:\n  - name: A\n    value: '1' # one\n  # about B\n  - name: B\n    valueFrom:\n      secretKeyRef: {name: s, key: k}\n",
            "  env:\n    - {name: A, value: x} # c\n    - {name: B, value: two}\n",
            "  env: [{name: A, value: x}, {name: B, value: two}] # both\n",
            "  env:\n  - name: B\n    value: |\n      two\n      lines\n\n  - value: z\n    name: A\n",
            "  env: []\n",
            "  env:\n  - name: A\n    valueFrom: {configMapKeyRef: {name: c, key: k}}\n",
        ][..],
    );
    let before = select(
        &[
            "",
            "---\n",
            "# first\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: &x 'b', c: *x}\n---\n",
        ][..],
    );
    let after =
        select(&["", "\n", "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"][..]);
    let shape = (select(&KINDS[..]), any::<bool>(), any::<bool>());
    (image, comment, line.clone(), line, env, before, after, shape).prop_map(
        |(image, comment, line, other, env, before, after, ((version, kind), crlf, list))| {
            let comment = if image.contains('\n') { "" } else { comment };
            let container =
                format!("- name: app\n{line}  image: {image}{comment}\n{env}{other}- name: side\n  image: side:1\n");
            let (head, indent) = above(version, kind);
            let mut text = head + &" ".repeat(indent) + "containers:\n" + &indented(&container, indent);
            if list {
                let first = "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: d}\n";
                text = format!("apiVersion: v1\nkind: List\nitems:\n{first}- {}", indented(&text, 2).trim_start());
            }
            let text = format!("{before}{text}{after}");
            let text = if crlf { text.replace('\n', "\r\n") } else { text };
            EditedFile { text, name: "web" }
        },
    )
}

fn indented(text: &str, by: usize) -> String {
    text.split_inclusive('\n')
        .map(|line| if line.trim().is_empty() { line.to_owned() } else { " ".repeat(by) + line })
        .collect()
}

fn read(text: &str) -> File {
    read_file("a.yaml", text.as_bytes(), &Scopes::new("default"))
}

/// Returns the text after a change, and the objects before and after it: that with the name, and all others.
fn changed(written: &EditedFile, change: &impl Change) -> Result<(String, Value, Value), TestCaseError> {
    let file = read(&written.text);
    prop_assert!(file.complaints.is_empty(), "{:?}\n{}", file.complaints, written.text);
    let manifest = file.manifests.iter().find(|manifest| manifest.key.name == written.name).unwrap();
    let ops = change.ops(&manifest.key, &manifest.value()).unwrap();
    let text = pick::write(&written.text, manifest, &ops)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{}", written.text)))?;
    let again = read(&text);
    prop_assert_eq!(again.complaints, vec![], "{}", &text);
    for (before, after) in file.manifests.iter().zip(&again.manifests) {
        prop_assert!(before.key == manifest.key || before.value() == after.value());
    }
    let after = again.manifests.iter().find(|manifest| manifest.key.name == written.name).unwrap();
    Ok((text, manifest.value(), after.value()))
}

fn app(value: &Value) -> Value {
    let file = read(&value.to_string());
    let key = &file.manifests[0].key;
    containers(key, value)[0].value.clone()
}

/// Returns how many lines are gone, and how many came.
fn lines(before: &str, after: &str) -> (usize, usize) {
    let diff = similar::TextDiff::from_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (count(similar::ChangeTag::Delete), count(similar::ChangeTag::Insert))
}

/// Returns the variables afterwards, in the way that kubectl computes them.
fn expected(env: Option<&Value>, new: &str) -> Value {
    let mut items = env.and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, value) in [("A", new), ("NEW", "n")] {
        let item = json!({"name": name, "value": value});
        match items.iter_mut().find(|there| there["name"] == name) {
            Some(there) => *there = item,
            None => items.push(item),
        }
    }
    items.retain(|there| there["name"] != "B");
    items.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_image_is_one_line(written in written(), new in "[a-z0-9]{1,8}(:[a-z0-9.]{1,5})?|[0-9.]{1,4}|on") {
        let images = Images::read(&[format!("app={new}")]).unwrap();
        let (text, before, after) = changed(&written, &images)?;
        let mut wanted = app(&before);
        wanted["image"] = json!(new);
        prop_assert_eq!(app(&after), wanted);
        let (gone, came) = lines(&written.text, &text);
        prop_assert!(gone <= 2 && came <= 1, "{gone} gone, {came} came:\n{}\n=====\n{text}", written.text);
        prop_assert_eq!(written.text.contains("\r\n"), text.contains("\r\n"));
        prop_assert_eq!(written.text.matches('#').count(), text.matches('#').count(), "comments stay");
        let (again, _, _) = changed(&EditedFile { text: text.clone(), ..written }, &images)?;
        prop_assert_eq!(again, text, "a second time nothing changes");
    }

    #[test]
    fn variables_are_their_lines(written in written(), new in "[a-z0-9 ]{0,8}|\\PC{1,6}") {
        let mut variables = Variables {
            set: Default::default(), order: Vec::new(), remove: vec!["B".to_owned()], overwrite: true, containers: "app".to_owned(),
        };
        variables.set("A", EnvSource::Text(new.clone())).unwrap();
        variables.set("NEW", EnvSource::Text("n".to_owned())).unwrap();
        let (text, before, after) = changed(&written, &variables)?;
        let mut wanted = app(&before);
        wanted["env"] = expected(wanted.get("env"), &new);
        prop_assert_eq!(app(&after), wanted);
        let (gone, came) = lines(&written.text, &text);
        // The former lines of B and A; and A's and NEW's two lines each, below a line for `env:`.
        prop_assert!(gone <= 6 && came <= 5, "{gone} gone, {came} came:\n{}\n=====\n{text}", written.text);
        let kept = written.text.lines().filter(|line| line.trim_start().starts_with('#'));
        for comment in kept {
            prop_assert!(text.contains(comment.trim_end()), "{comment:?} is gone:\n{text}");
        }
        let (again, _, _) = changed(&EditedFile { text: text.clone(), ..written }, &variables)?;
        prop_assert_eq!(again, text, "a second time nothing changes");
    }
}
