//! Warnings about objects that nothing is wrong with.

use serde_json::Value;

use super::ObjectKey;
use super::report::{Report, Showing, Subject, Words};
use super::yaml::{At, Span};

/// Fields whose text programs read: a `${VAR}` there is theirs.
const OF_PROGRAMS: [&str; 10] = [
    "args",
    "binaryData",
    "command",
    "description",
    "expression",
    "message",
    "messageExpression",
    "rule",
    "script",
    "x-kubernetes-validations",
];

/// Fields with settings of programs, among them scripts and templates: a `${VAR}` inside a text is theirs. A value that is
/// nothing but a variable is meant for a tool that fills it in before it is applied.
const OF_SETTINGS: [&str; 4] = ["annotations", "data", "env", "stringData"];

/// Kinds that hold texts of other languages.
const OF_TEXTS: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "CustomResourceDefinition"), ("template.openshift.io", "Template")];

/// The most variables that a warning names.
const NAMED: usize = 3;

/// Warns of a namespace that is ignored, of an object that another tool acts on, and of variables that another tool would fill
/// in.
pub(super) fn warn(report: &mut Report<'_>, subject: &Subject, key: &ObjectKey, object: At<'_>) {
    let (group, kind) = (key.group.as_str(), key.kind.as_str());
    let namespace = object.get("metadata").and_then(|metadata| metadata.get("namespace"));
    let ignored =
        namespace.filter(|namespace| key.namespace.is_none() && !matches!(namespace.value().as_str(), None | Some("")));
    if let Some(ignored) = ignored {
        let words = Words::at_value(ignored.span(), format!("a {kind} lives in no namespace, and this one is ignored"));
        report.warn(subject, words.hint("leave metadata.namespace out"));
    }
    if let Some(tool) = other_tool(group, kind) {
        let span = object.get("kind").map_or_else(|| object.span(), At::span);
        let words = Words::at_value(span, left_to_other_tool(kind, tool));
        report.warn(subject, words.hint("`belay import` writes the source that does the same"));
    }
    if OF_TEXTS.contains(&(group, kind)) {
        return;
    }
    let mut found = Vec::new();
    variables(object, false, &mut found);
    let Some((span, _)) = found.first() else { return };
    let mut names: Vec<&str> = Vec::new();
    for (_, name) in &found {
        if names.len() <= NAMED && !names.contains(name) {
            names.push(name);
        }
    }
    let shown = match subject.showing {
        Showing::Everything => {
            let listed: Vec<String> = names.iter().take(NAMED).map(|name| format!("${{{name}}}")).collect();
            let more = if names.len() > NAMED { ", …" } else { "" };
            format!("{}{more}", listed.join(", "))
        }
        Showing::Keys | Showing::Nothing => "variables".to_owned(),
    };
    let words = Words::at_value(*span, format!("belay puts nothing in the place of {shown}"));
    report.warn(subject, words.hint("write the value, or let `replacements` of a kustomization put it in"));
}

/// Returns the warning about an object of this kind, which is another tool's.
#[must_use]
pub fn left_to_other_tool(kind: &str, tool: &str) -> String {
    format!("this {kind} is {tool}'s, and belay does not act on it")
}

/// Returns the tool whose controllers act on objects of a kind.
#[must_use]
pub fn other_tool(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("argoproj.io", "Application" | "ApplicationSet" | "AppProject") => Some("Argo CD"),
        _ if group.ends_with(".toolkit.fluxcd.io") => Some("Flux"),
        _ => None,
    }
}

/// Collects the variables in the texts of a value, each with its place. `whole` says that only texts count that are
/// nothing but a variable.
fn variables<'p>(at: At<'p>, whole: bool, found: &mut Vec<(Span, &'p str)>) {
    match at.value() {
        Value::String(text) if whole => found.extend(only_variable(text).map(|name| (at.span(), name))),
        Value::String(text) if !text.contains('\n') && !text.starts_with(['{', '[']) => {
            found.extend(variables_in(text).map(|name| (at.span(), name)));
        }
        Value::Object(_) | Value::Array(_) => {
            for child in at.children().filter(|child| !OF_PROGRAMS.contains(&child.name)) {
                variables(child.at, whole || OF_SETTINGS.contains(&child.name), found);
            }
        }
        _ => {}
    }
}

/// Returns the name of the variable that is all of a text.
fn only_variable(text: &str) -> Option<&str> {
    let text = text.trim();
    let inner = text.strip_prefix("${")?.strip_suffix('}')?;
    let name = variables_in(text).next()?;
    (!inner.contains(['$', '{', '}', '\n'])).then_some(name)
}

/// Returns the names of `${NAME}`, `${NAME:=default}` and the like in a text. `$${NAME}` stands for itself.
fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    let last_end = text.rfind('}').unwrap_or_default();
    text.match_indices("${").filter(|(at, _)| !text[..*at].ends_with('$')).filter_map(move |(at, _)| {
        let rest = &text[at + 2..];
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?];
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let ends = rest[name.len()..].starts_with(['}', ':', '-', '=']) && at < last_end;
        (begins && ends).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use crate::manifest::thread_time;
    use crate::manifest::{Scopes, read_file};

    fn warnings(text: &str) -> Vec<String> {
        let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("default"));
        assert_eq!(file.complaints, [], "{text}");
        file.warnings.iter().map(ToString::to_string).collect()
    }

    /// To look for the end of each of them, and for each name among the others, took minutes.
    #[test]
    fn a_text_full_of_variables_is_read_once() {
        let before = thread_time::of_this_thread();
        let object =
            |text: &str| format!("apiVersion: example.com/v1\nkind: A\nmetadata: {{name: a}}\nspec: {{a: '{text}'}}\n");
        assert_eq!(warnings(&object(&"${a:".repeat(700_000))), [""; 0]);
        let many: String = (0..250_000).map(|at| format!("${{V{at}}}")).collect();
        let said = warnings(&object(&many));
        assert!(said.len() == 1 && said[0].contains("${V0}, ${V1}, ${V2}, … ("), "{said:?}");
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }

    #[test]
    fn variables_that_nobody_fills_in_are_told_once() {
        let deployment = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {zone: \"$${KEPT}\"}
      containers:
      - name: web
        image: web:${TAG:=1}
        command: [sh, -c, '${RUN}']
        env: [{name: A, value: 'of ${B}'}]
        workingDir: /${DIR}/${TAG}
";
        let said = warnings(deployment);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("a.yaml:12:16: belay puts nothing in the place of ${TAG}, ${DIR} ("), "{said:?}");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: ExternalName, externalName: '${HOST}.example.com'}\n";
        assert_eq!(warnings(service).len(), 1);
        for fine in ["a$", "${", "${}", "${1}", "${a", "${{ a }}", "$(A)", "$A", "${a b}"] {
            assert_eq!(warnings(&service.replace("${HOST}", fine)), [""; 0], "{fine}");
        }
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: '${hunter2}'\nstringData: {a: '${B}'}\n";
        let said = warnings(secret);
        assert!(said.len() == 1 && !said[0].contains("hunter2"), "{said:?}");
    }

    /// Scripts, configurations of nginx and templates are full of variables of their own.
    #[test]
    fn settings_that_are_nothing_but_a_variable_are_told() {
        let map =
            |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  key: {value}\n");
        for value in ["${HOST}", "'${HOST}'", "${HOST:=example.com}", "${HOST:-}", "|\n    ${HOST}"] {
            let said = warnings(&map(value));
            assert!(
                said.len() == 1 && said[0].contains("a.yaml:5:8: belay puts nothing in the place of ${HOST} ("),
                "{said:?}"
            );
        }
        for fine in [
            "echo ${HOST}",
            "${HOST}/bin",
            "${HOST}${PORT}",
            "$${HOST}",
            "$HOST",
            "$(HOST)",
            "'{{ ${HOST} }}'",
            "|\n    #!/bin/sh\n    ${HOST}",
            "|\n    server { listen ${PORT}; return 301 https://$host$request_uri; }",
        ] {
            assert_eq!(warnings(&map(fine)), [""; 0], "{fine}");
        }
        let annotated = map("x").replace("{name: a}", "{name: a, annotations: {b: '${C}', c: 'a ${D}'}}");
        assert!(warnings(&annotated)[0].contains("the place of ${C} ("), "{:?}", warnings(&annotated));
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: 'a:1', args: ['${B}'], env: [{name: A, value: '${B}'}]}]}\n";
        let said = warnings(pod);
        assert!(said.len() == 1 && said[0].contains("a.yaml:4:84: "), "{said:?}");
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: '${hunter2}', b: 'of ${B}'}\n";
        let said = warnings(secret);
        assert!(said.len() == 1 && !said[0].contains("hunter2"), "{said:?}");
    }

    #[test]
    fn objects_of_other_tools_are_recognized() {
        for (kind, tool) in [
            ("kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization", "Flux"),
            ("helm.toolkit.fluxcd.io/v2\nkind: HelmRelease", "Flux"),
            ("source.toolkit.fluxcd.io/v1\nkind: GitRepository", "Flux"),
            ("argoproj.io/v1alpha1\nkind: Application", "Argo CD"),
        ] {
            let said = warnings(&format!("apiVersion: {kind}\nmetadata: {{name: a}}\n"));
            let wanted = format!("is {tool}'s, and belay does not act on it (`belay import`");
            assert!(said.len() == 1 && said[0].contains(&wanted), "{said:?}");
        }
        assert_eq!(warnings("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a}\n"), [""; 0]);
    }

    #[test]
    fn a_cluster_wide_object_lives_in_no_namespace() {
        let text = "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {a: b}, name: x, namespace: shop}\nspec: {}\n";
        let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("default"));
        let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
        let said =
            "a.yaml:3:48: a Namespace lives in no namespace, and this one is ignored (leave metadata.namespace out)";
        assert_eq!((file.complaints, warnings), (vec![], vec![said.to_owned()]));
        let [manifest] = &file.manifests[..] else { panic!("one manifest") };
        let plain = text.replace(", namespace: shop", "");
        let plain = read_file("a.yaml", plain.as_bytes(), &Scopes::new("default"));
        assert_eq!(manifest.key.namespace, None);
        assert_eq!((manifest.value(), manifest.hash), (plain.manifests[0].value(), plain.manifests[0].hash));
        assert_eq!(manifest.place_of("spec").to_string(), "a.yaml:4:1");
        assert_eq!(manifest.place_of("metadata.name").to_string(), "a.yaml:3:28");
    }
}
