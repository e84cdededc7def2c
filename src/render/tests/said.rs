//! Tests of complaints about units whose tool repeats its input.

use super::*;

/// The secret that nobody may see, in the forms that tools print it in.
const SECRET: &str = "hunter2-Geheim";
const FORMS: [&str; 5] = [SECRET, "hunter2-", "-Geheim", "aHVudGVyMi", "MIIEvQIBADANBgkqhkiG9w0"];

/// Returns the complaints about a tree, and that none of them has a value.
fn complaints(tools: Tools, options: Options, tree: &MemoryTree) -> Vec<String> {
    let files = rendered(&Renderer::new(options, tools, None), tree);
    let said: Vec<String> =
        files.iter().flat_map(|file| &file.complaints).map(|complaint| format!("{complaint} {complaint:?}")).collect();
    assert!(!said.is_empty(), "{files:?}");
    for complaint in &said {
        assert!(FORMS.iter().all(|form| !complaint.contains(form)), "{complaint}");
    }
    said
}

fn kustomization(text: &str, files: &[(&str, &str)]) -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.file("over/kustomization.yaml", text);
    files.iter().for_each(|(path, text)| tree.file(format!("over/{path}"), *text));
    tree
}

const SECRET_FILE: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData:\n  url: hunter2-Geheim\n";

/// A file of a unit: its path and its text.
type UnitFile = (&'static str, &'static str);

/// Broken kustomizations, their files, and what is still said of each.
const BROKEN: &[(&str, &[UnitFile], &str)] = &[
    ("secretGenerator:\n- name: db\n  literals: [password=hunter2-Geheim, oops]\n", &[], "expected key=value"),
    ("secretGenerator:\n- name: db\n  literals: [hunter2-Geheim]\n", &[], "literal"),
    ("secretGenerator:\n- name: db\n  literals: password=hunter2-Geheim\n", &[], ""),
    ("secretGenerator:\n- name: db\n  literal: [password=hunter2-Geheim]\n", &[], "literal"),
    ("secretGenerator:\n- name: db\n  files: [hunter2-Geheim]\n", &[], ""),
    ("secretGenerator:\n- name: db\n  envs: [db.env]\n", &[("db.env", "a=hunter2-Geheim\na=b\n")], ""),
    (
        "secretGenerator:\n- {name: db, literals: [a=hunter2-Geheim]}\n- {name: db, literals: [a=hunter2-Geheim]}\n",
        &[],
        "",
    ),
    (
        "resources: [db.yaml]\npatches:\n- patch: |-\n    kind: Secret\n    stringData: [hunter2-Geheim\n",
        &[("db.yaml", SECRET_FILE)],
        "",
    ),
    ("resources: [db.yaml]\npatches:\n- path: p.yaml\n", &[("db.yaml", SECRET_FILE), ("p.yaml", "hunter2-Geheim")], ""),
    (
        "resources: [db.yaml]\npatches:\n- path: p.yaml\n",
        &[("db.yaml", SECRET_FILE), ("p.yaml", "kind: Secret\nstringData: {url: hunter2-Geheim}\n")],
        "",
    ),
    (
        "resources: [db.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n    - {op: replace, path: /stringData/nothing/x, value: hunter2-Geheim}\n",
        &[("db.yaml", SECRET_FILE)],
        "",
    ),
    (
        "resources: [db.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n    - {op: test, path: /stringData/url, value: hunter2-Geheim-2}\n",
        &[("db.yaml", SECRET_FILE)],
        "",
    ),
    (
        "resources: [db.yaml]\nreplacements:\n- source: {kind: Secret, fieldPath: stringData.url, options: {delimiter: '-', index: 7}}\n  targets: [{select: {kind: Secret}, fieldPaths: [metadata.name]}]\n",
        &[("db.yaml", SECRET_FILE)],
        "out of bounds",
    ),
    (
        "resources: [db.yaml]\nreplacements:\n- source: {kind: Secret, fieldPath: stringData.url}\n  targets: [{select: {kind: Secret}, fieldPaths: [spec.x.y]}]\n",
        &[("db.yaml", SECRET_FILE)],
        "",
    ),
    ("resources: [db.yaml]\n", &[("db.yaml", "kind: Secret\nstringData:\n  a: hunter2-Geheim\n b: x\n")], ""),
    ("resources: [db.yaml]\n", &[("db.yaml", "kind: Secret\nstringData:\n  hunter2-Geheim\n")], ""),
    (
        "resources: [db.yaml]\npatches:\n- path: |-\n    kind: Secret\n    metadata: {name: db}\n    stringData: {password: hunter2-Geheim}\n",
        &[("db.yaml", SECRET_FILE)],
        "no such file",
    ),
    ("secretGenerator:\n- name: db\n  envs: [\"password=aHVudGVyMi/1HZWhlaW0=\"]\n", &[], "no such file"),
    ("secretGenerator:\n- name: db\n  envs: [missing.env]\n", &[], "missing.env"),
    (
        "resources: [db.secret]\n",
        &[(
            "db.secret",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  annotations: {last: \"{data: {p: hunter2-Geheim}}\"}\n",
        )],
        "db.secret",
    ),
    ("resources: [db.yaml]\n", &[("db.yaml", "kind: Secret\nstringData:\n  password: *hunter2-\n")], "unknown anchor"),
    (
        "resources: [db.yaml]\n",
        &[("db.yaml", "apiVersion: v1\nkind: Secret\ndata: {hunter2-Geheim-hunter2-Geheim-hunter2: x}\n")],
        "",
    ),
];

/// Broken kustomizations of every kind, by the real tool.
#[test]
fn kustomize_shows_no_value() {
    let Some(tools) = real_tools() else { return };
    for (text, files, wanted) in BROKEN {
        let said = complaints(tools.clone(), Options::default(), &kustomization(text, files));
        assert!(said[0].starts_with("over/") && said[0].contains(wanted), "{text}: {}", said[0]);
        assert!(
            said[0].contains("kubectl in over: ") || said[0].contains("as rendered from over"),
            "{text}: {}",
            said[0]
        );
    }
}

/// Broken charts, by the real tool: values that templates print in their errors, and literals of templates.
#[test]
fn helm_shows_no_value() {
    let Some(tools) = real_tools() else { return };
    for (template, wanted) in [
        ("a: {{ fail (printf \"bad %s\" .Values.db.password) }}\n", "bad"),
        ("a: {{ tpl .Values.broken . }}\n", ""),
        ("a: {{ .Values.db.password | int | required \"no size\" | fail }}\n", ""),
        ("a: {{ fromYaml .Values.db.password | toYaml }}{{ fail (.Values.db.password | b64enc) }}\n", ""),
        ("kind: Secret\nstringData:\n  a: {{ fail \"no size\" }}\n", "no size"),
        ("kind: Secret\nstringData:\n  a: {{ b64enc \"hunter2-Geheim\" \"x\" }}\n", "b64enc"),
        ("kind: Secret\nstringData:\n  a: {{ fail (quote (.Files.Get \"files/key.txt\")) }}\n", ""),
        ("kind: Secret\nstringData:\n  a: {{ .Values.db.password }}\n b: x\n", ""),
        ("a: {{ fail (toJson .Values) }}\n", ""),
        ("a: {{ fail .Values.set }}\n", ""),
        ("a: {{ fail .Values.more }}\n", ""),
        ("kind: Secret\nstringData:\n  a: {{ (urlParse (include \"dsn\" .)).host }}\n", "urlParse"),
        (
            "kind: Secret\nstringData:\n  a: {{ (urlParse (printf \"x://%s:hunter2-Geheim@h:x\" .Chart.Name)).host }}\n",
            "urlParse",
        ),
    ] {
        let mut tree = MemoryTree::default();
        tree.file("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        tree.file("web/values.yaml", "db: {password: hunter2-Geheim}\nbroken: '{{ .hunter2-Geheim'\n");
        tree.file("web/files/key.txt", "hunter2-Geheim\n");
        tree.file("values/more.yaml", "more: hunter2-Geheim\n");
        tree.file(
            "web/templates/_h.tpl",
            "{{ define \"dsn\" }}postgres://ada:hunter2-Geheim@db:x/{{ .Chart.Name }}{{ end }}",
        );
        tree.file("web/templates/a.yaml", template);
        let set = [("set".to_owned(), json!(SECRET))].into();
        let values = vec!["/values/more.yaml".to_owned()];
        let chart = HelmOptions { chart: "web".to_owned(), values, set, ..HelmOptions::default() };
        let options = Options { helm: vec![chart], ..Options::default() };
        let said = complaints(tools.clone(), options, &tree);
        assert!(
            said[0].starts_with("web/templates/a.yaml:") || said[0].starts_with("web/Chart.yaml:1:1"),
            "{}",
            said[0]
        );
        assert!(said[0].contains("helm in web: ") && said[0].contains(wanted), "{template}: {}", said[0]);
    }
}

/// Short values of the templates that Secrets include, values of files for people and of schemas, by the real tool.
#[test]
fn helm_shows_no_short_literal_of_helpers_no_prose_and_no_schema() {
    let Some(tools) = real_tools() else { return };
    const TEMPLATES: &str = "{{ define \"pin\" }}{{ mustToDate \"2006\" \"gEh3\" }}{{ end }}\
        {{ define \"pw\" }}gEh3{{ end }}{{ define \"outer\" }}{{ include \"pw\" . }}{{ end }}\
        {{ define \"name\" }}{{ default \"web\" .Values.name | trunc 63 | trimSuffix \"-\" }}{{ end }}";
    let secret = |text: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {{{{ include \"name\" . }}}}}}\nstringData:\n  a: {text}\n"
        )
    };
    for (path, text, file, wanted) in [
        ("a.yaml", secret("{{ include \"pin\" . }}"), "", "executing \"pin\" at <mustToDate"),
        ("a.yaml", secret("{{ fail (include \"outer\" .) }}"), "", "execution error at (web/templates/a.yaml:5:8)"),
        ("a.yaml", secret("{{ atoi (include \"pw\" .) | required \"no size\" }}{{ fail \"no size\" }}"), "", "no size"),
        (
            "a.yaml",
            secret("{{ fail (.Files.Get \"notes.md\") }}"),
            "notes.md",
            "execution error at (web/templates/a.yaml:5:8)",
        ),
        (
            "a.yaml",
            secret("{{ range $path, $_ := .Files.Glob \"*\" }}{{ $.Files.Get $path | fail }}{{ end }}"),
            "LICENSE",
            "",
        ),
        ("a.md", secret("{{ fail \"no size\" }}{{ mustToDate \"2006\" \"gEh3\" }}"), "", "no size"),
        ("a.md", secret("{{ mustToDate \"2006\" \"gEh3\" }}"), "", "mustToDate"),
        ("a.yaml", secret("b"), "values.schema.json", "password"),
    ] {
        let mut tree = MemoryTree::default();
        tree.file("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        tree.file("web/values.yaml", "db: {password: x}\n");
        tree.file("web/templates/_h.tpl", TEMPLATES);
        tree.file(format!("web/templates/{path}"), text.clone());
        let content = match file {
            "values.schema.json" => {
                "{\"properties\": {\"db\": {\"properties\": {\"password\": {\"const\": \"gEh3\"}}}}}"
            }
            _ => "gEh3\n",
        };
        if !file.is_empty() {
            tree.file(format!("web/{file}"), content);
        }
        let chart = HelmOptions { chart: "web".to_owned(), ..HelmOptions::default() };
        let options = Options { helm: vec![chart], ..Options::default() };
        let said = complaints(tools.clone(), options, &tree);
        assert!(!said[0].contains("gEh3"), "{text} {file}: {}", said[0]);
        assert!(said[0].contains("helm in web: ") && said[0].contains(wanted), "{text} {file}: {}", said[0]);
    }
}

/// A value with a byte that is no text, which kustomize prints as a list of numbers, too.
#[test]
fn kustomize_shows_no_bytes_of_a_value() {
    let Some(tools) = real_tools() else { return };
    let mut tree = kustomization("secretGenerator:\n- name: db\n  envs: [db.env]\n", &[]);
    tree.file("over/db.env", b"password=Gr\xfcn-hunter2-Geheim\n".to_vec());
    let said = complaints(tools, Options::default(), &tree);
    assert!(said[0].contains("invalid utf8 bytes") && !said[0].contains("104 117"), "{}", said[0]);
}

/// The name of a dependency that is missing, by the real tool: it is shown where a setting has the same word, and not where a
/// password has.
#[test]
fn helm_shows_the_names_of_dependencies() {
    let Some(tools) = real_tools() else { return };
    for (values, shown) in [
        ("image: docker.io/bitnami/postgresql\ndb: {host: postgresql}\n", true),
        ("db: {password: postgresql}\n", false),
    ] {
        let mut tree = MemoryTree::default();
        tree.file("web/Chart.yaml", "apiVersion: v1\nname: web\nversion: 1.0.0\n");
        let dependency =
            "dependencies: [{name: postgresql, version: 1.0.0, repository: 'https://charts.example.com'}]\n";
        tree.file("web/requirements.yaml", dependency);
        tree.file("web/values.yaml", values);
        tree.file("web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        let chart = HelmOptions { chart: "web".to_owned(), ..HelmOptions::default() };
        let options = Options { helm: vec![chart], ..Options::default() };
        let said = complaints(tools.clone(), options, &tree);
        assert!(said[0].contains("missing in charts/ directory: "), "{}", said[0]);
        assert_eq!(said[0].contains("postgresql"), shown, "{}", said[0]);
    }
}

/// Whatever a tool prints of what it was given: nothing of it is a value.
#[test]
fn a_tool_that_repeats_its_files_shows_no_value() {
    for command in ["cat", "base64 -w0", "tr '\\n' ' ' <"] {
        let (_folder, tools) = script(&format!("for f in over/*; do {command} $f >&2; done; exit 1"));
        let tree = kustomization(
            "secretGenerator: [{name: db, literals: [password=hunter2-Geheim], envs: [a.env]}]\nresources: [db.yaml]\n",
            &[("a.env", "user=hunter2-Geheim\n"), ("db.yaml", SECRET_FILE)],
        );
        let said = complaints(tools, Options::default(), &tree);
        assert!(said[0].contains("kustomize in over: "), "{}", said[0]);
    }
}

/// The output exceeds the search limit: then none of it is shown, and the place still is.
#[test]
fn beyond_the_limit_the_tools_words_are_not_shown() {
    let (_folder, tools) = script("echo hunter2-Geheim >&2; exit 1");
    let mut tree = kustomization("resources: [large.yaml, db.yaml]\n", &[("db.yaml", SECRET_FILE)]);
    tree.file("over/large.yaml", "# a comment of some length\n".repeat(400_000));
    let said = complaints(tools, Options::default(), &tree);
    assert!(said[0].starts_with("over/kustomization.yaml:1:1") && said[0].contains("are not shown"), "{}", said[0]);
}

/// A patch on one line is none that would be fetched, whatever addresses it has.
#[test]
fn a_patch_on_one_line_is_no_address() {
    let mut tree = MemoryTree::default();
    let patch = "{\"kind\": \"Secret\", \"stringData\": {\"url\": \"https://ada:hunter2-Geheim@db\"}}";
    tree.file("kustomization.yaml", format!("patchesStrategicMerge: ['{patch}']\n"));
    let Ok(plan) = find(&tree, "", &Options::default());
    assert_eq!(plan.units["kustomization.yaml"].refusal, None);
}
