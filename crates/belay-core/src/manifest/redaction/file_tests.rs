//! Tests of files whose values a program repeats.

use super::files::FileContent;
use super::*;

const SECRET: &str = "hunter2-Geheim";

/// Returns the message of a program that repeats all that it reads.
fn repeated(content: FileContent, text: &str) -> String {
    let mut redaction = Redaction::of(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    redaction.hide_file(content, text.as_bytes());
    redaction.finish(|_| false)
}

/// Files, and what of each is still shown.
const EVERY_FILE: &[(FileContent, &str, &str)] = {
    use FileContent::{Chart, Environment, Kustomization, Manifests, Patch, Schema, Template, Values};
    &[
        (
            Manifests,
            "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: hunter2-Geheim}\n",
            "Secret db password",
        ),
        (
            Manifests,
            "kind: Secret\nmetadata: {name: db}\ndata: {password: aHVudGVyMi1HZWhlaW0=, hunter2-Geheim-hunter2-Geheim-hunter2: YQ==}\n",
            "Secret db",
        ),
        (Manifests, "kind: Secret\nmetadata:\n  name: db\nstringData:\n  password: \"hunter2-Geheim\n", "Secret"),
        (Manifests, "kind: Secret\nstringData:\n  hunter2-Geheim\n  more\n", "Secret"),
        (
            Patch,
            "- op: replace\n  path: /stringData/password\n  value: hunter2-Geheim\n",
            "replace /stringData/password",
        ),
        (Patch, "kind: Deployment\nmetadata: {name: web}\nspec: {env: hunter2-Geheim}\n", "Deployment web env"),
        (Patch, "password hunter2-Geheim", ""),
        (Kustomization, "secretGenerator:\n- name: db\n  literals: [password=hunter2-Geheim, oops]\n", "db password"),
        (Kustomization, "secretGenerator:\n- name: db\n  literals: [hunter2-Geheim]\n", "db"),
        (Kustomization, "secretGenerator:\n- name: db\n  literals: password=hunter2-Geheim\n", "db"),
        (Kustomization, "secretGenerator:\n- name: db\n  literals: {password: hunter2-Geheim}\n", "db"),
        (Kustomization, "secretGenerator:\n- name: db\n  files: [password=hunter2-Geheim, a=b.txt]\n", "db b.txt"),
        (Kustomization, "secretGenerator: {name: db, literal: hunter2-Geheim}\n", "db"),
        (Kustomization, "secretGenerator: [{name: db, envs: [password=aHVudGVyMi1H/ZWhlaW0=]}]\n", "db password"),
        (Kustomization, "secretGenerator: [{name: db, env: a.hunter2-Geheim, files: [x/a.env]}]\n", "db x/a.env"),
        (
            Kustomization,
            "patches:\n- path: |-\n    kind: Secret\n    stringData: {a: hunter2-Geheim}\n- path: p.yaml\n",
            "p.yaml",
        ),
        (
            Kustomization,
            "transformers:\n- |-\n  kind: PatchTransformer\n  patch: hunter2-Geheim\n- ../t.yaml\n",
            "../t.yaml",
        ),
        (Kustomization, "secretGenerator: [{literals: [a=hunter2-Geheim], literals: []}]\n", ""),
        (Manifests, "kind: Secret\nstringData:\n  a: *hunter2-Geheim\n", "Secret"),
        (
            Manifests,
            "kind: Template\nobjects: [{kind: Secret, data: {a: aHVudGVyMi1HZWhlaW0=}, stringData: {b: hunter2-Geheim}}]\n",
            "Template",
        ),
        (
            Template,
            "kind: Secret\nstringData:\n  a: {{ printf \"x://%s:hunter2-Geheim@%s\" .a .b }} {{ fail (printf \"no size %s\" .c) }}\n",
            "no size",
        ),
        (Template, "{{ define \"dsn\" }}postgres://ada:hunter2-Geheim@db:{{ .Values.port }}/x{{ end }}", "dsn"),
        (
            Kustomization,
            "resources: [web.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n    stringData:\n      password: hunter2-Geheim\n",
            "web.yaml Secret password",
        ),
        (Kustomization, "patches:\n- patch: \"[{op: add, path: /a, value: hunter2-Geheim}\"\n", ""),
        (
            Kustomization,
            "patchesStrategicMerge:\n- |\n  kind: Secret\n  stringData: {a: hunter2-Geheim}\n- p.yaml\n",
            "p.yaml",
        ),
        (Kustomization, "replacements: [{sourceValue: hunter2-Geheim, targets: [{select: {name: web}}]}]\n", "web"),
        (Kustomization, "secretGenerator:\n  - literals: [a=hunter2-Geheim\n", ""),
        (Environment, "# note\npassword=hunter2-Geheim\nuser='ada lovelace'\n", "password user"),
        (Environment, "password: hunter2-Geheim\n", ""),
        (Environment, "-----BEGIN KEY-----\nhunter2-Geheim\n-----END KEY-----\n", ""),
        (Values, "db: {password: hunter2-Geheim, port: 80}\n", "password port: 80"),
        (Values, "db: {password: hunter2-Geheim\n", ""),
        (
            Schema,
            "{properties: {db: {properties: {password: {enum: [hunter2-Geheim]}}}, type: {enum: [ClusterIP, NodePort]}, name: {pattern: '^[a-z0-9.]+$'}}}\n",
            "properties db password ClusterIP, NodePort '^[a-z0-9.]+$'",
        ),
        (Schema, "properties: {a: {allOf: [{const: hunter2-Geheim}], title: a longer title}}\n", "a longer title"),
        (Schema, "$defs: {token: {pattern: ^hunter2-Geheim$, examples: [x]}}\n", "token"),
        (Schema, "{const: {a: [hunter2-Geheim]}, default: hunter2-Geheim\n", ""),
        (Chart, "name: web\ndependencies: [{name: db, repository: 'https://ada:hunter2-Geheim@c'}]\n", "web db"),
        (
            Template,
            "kind: Secret\nstringData:\n  a: hunter2-Geheim\n  b: {{ include \"web.name\" . }}\n",
            "web.name Secret",
        ),
        (
            Template,
            "kind: Secret\nstringData:\n  a: {{ b64enc \"hunter2-Geheim\" | quote }} {{ fail \"no size\" }}\n",
            "b64enc no size",
        ),
    ]
};

#[test]
fn values_of_every_file_are_hidden_and_names_are_not() {
    for (content, text, shown) in EVERY_FILE {
        let said = repeated(*content, text);
        assert!(!said.contains(SECRET) && !said.contains("aHVudGVyMi1H"), "{text}: {said}");
        assert!(shown.split(' ').all(|word| said.contains(word)), "{text}: {said}");
    }
}

/// Programs print bytes that are no text, an alias, and a number in their own form.
#[test]
fn values_are_hidden_in_the_words_of_programs() {
    use FileContent::{Environment, Manifests, Values};
    for (content, bytes, said, shown) in [
        (
            Environment,
            &b"password=Gr\xfcn-hun\n"[..],
            "line [112 97 115 115 61 71 114 252 110 45] has invalid utf8 bytes : \"Gr\\xfcn-hun\"",
            "line [***] has invalid utf8 bytes : \"***\\xfc***\"",
        ),
        (
            Manifests,
            b"kind: Secret\nstringData:\n  password: *gEh3im\n",
            "unknown anchor 'gEh3im' referenced",
            "unknown anchor '***' referenced",
        ),
        (Manifests, b"kind: Secret\nstringData: [*ab, x]\n", "unknown anchor 'ab'", "unknown anchor '***'"),
        (
            Values,
            b"pin: 87654321\n",
            "got 8.7654321×10⁰⁷, 8.7654321e+07, 87,654,321, want 9,999",
            "got ***×10⁰⁷, ***, ***, want 9,999",
        ),
    ] {
        let mut redaction = Redaction::of(said);
        redaction.hide_file(content, bytes);
        assert_eq!(redaction.finish(|_| false), shown);
    }
}

/// A name of a chart, in Helm's words about it, beside a file that has the same word as a value.
#[test]
fn names_of_charts_are_shown_where_no_secret_is_the_same() {
    let said = "found in Chart.yaml, but missing in charts/ directory: postgresql";
    for (content, text, shown) in [
        (FileContent::Values, "image: docker.io/bitnami/postgresql\ndb: postgresql\n", true),
        (FileContent::Values, "auth: {password: postgresql}\n", false),
        (FileContent::Values, "db: {apiKey: postgresql}\n", false),
        (FileContent::Environment, "name=postgresql\n", false),
        (FileContent::Manifests, "kind: Secret\nstringData: {user: postgresql}\n", false),
        (FileContent::Kustomization, "secretGenerator: [{name: a, literals: [user=postgresql]}]\n", false),
    ] {
        let chart = "name: web\nversion: 1.0.0\ndependencies: [{name: postgresql, version: 1.x.x}]\n";
        for order in [[(FileContent::Chart, chart), (content, text)], [(content, text), (FileContent::Chart, chart)]] {
            let mut redaction = Redaction::of(said);
            order.iter().for_each(|(content, text)| redaction.hide_file(*content, text.as_bytes()));
            assert_eq!(redaction.finish(|_| false).contains("postgresql"), shown, "{text}");
        }
    }
}

#[test]
fn what_is_no_secret_is_shown() {
    for (content, text) in [
        (FileContent::Manifests, "kind: ConfigMap\ndata: {color: dark-blue-green}\n"),
        (FileContent::Template, "kind: Deployment\nspec: {image: {{ .Values.image }}, note: \"a longer text\"}\n"),
        (FileContent::Kustomization, "resources: [../base/app]\nimages: [{name: registry/web, newTag: 1.2.3-alpha}]\n"),
    ] {
        assert_eq!(repeated(content, text), text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn what_a_server_says_of_a_secret_quotes_no_value() {
    let sent = serde_json::json!({"kind": "Secret", "metadata": {"name": "db"}, "data": {"password": "aHVudGVyMi1HZWhlaW0="},
        "stringData": {"hunter2-Geheim hunter2-Geheim": "a"}});
    for text in [
        "denied: \"hunter2-Geheim\" is weak",
        "illegal base64 aHVudGVyMi1HZWhlaW0=",
        "key hunter2-Geheim hunter2-Geheim",
    ] {
        let said = without_values(&sent, text);
        assert!(!said.contains(SECRET) && !said.contains("aHVudGVy") && said.contains("***"), "{said}");
    }
    let map = serde_json::json!({"kind": "ConfigMap", "data": {"color": "dark-blue"}});
    assert_eq!(without_values(&map, "dark-blue"), "dark-blue");
    for (field, short) in [
        ("data[tls.crt]", "data[tls.crt]"),
        ("data[a b]", "data[***]"),
        ("metadata.name", "metadata.name"),
        ("data[a].b", "data[a].b"),
        ("stringData.hunter2 x", "***"),
        ("", ""),
    ] {
        assert_eq!(short_keys(field), short);
    }
}

#[test]
fn a_kustomization_names_its_files() {
    let named = files_of_kustomization(
        "over",
        b"secretGenerator: [{envs: [s.env], files: [k=../f.pem]}]\npatches: [{path: p.yaml}]\npatchesStrategicMerge: [s.yaml]\n",
    );
    let named: Vec<(&str, FileContent)> = named.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    use FileContent::{Environment, Patch};
    assert_eq!(
        named,
        [("f.pem", Environment), ("over/p.yaml", Patch), ("over/s.env", Environment), ("over/s.yaml", Patch)]
    );
}
