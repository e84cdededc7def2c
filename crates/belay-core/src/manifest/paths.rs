//! The files of a folder that are manifests.

/// Returns true when a file counts, by its path below the folder that is followed.
///
/// Every `.yaml`, `.yml` and `.json` file does, at any depth, but for those whose name, or one of whose folders, begins with
/// `.` or `_`: that is how a file is kept out (`_values/production.yaml`, `.github/workflows/ci.yaml`).
#[must_use]
pub fn is_manifest(path: &str) -> bool {
    !is_passed_over(path) && [".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending))
}

/// Returns true when a file or folder is kept out by a name that begins with `.` or `_`, by its path below the folder
/// that is followed.
#[must_use]
pub fn is_passed_over(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with(['.', '_']))
}

/// Returns true when the name of a file says that a tool renders from it: it is no manifest, and not a fault.
pub(super) fn is_rendered_from(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "kustomization.yaml" | "kustomization.yml" | "Chart.yaml" | "values.yaml" | "values.schema.json")
}

/// Returns the kind of a file that is no manifest, if its name says so: a sentence, and advice.
pub(super) fn other_tool(path: &str) -> Option<(&'static str, &'static str)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "skaffold.yaml" | "devspace.yaml" | "docker-compose.yaml" | "docker-compose.yml" | "compose.yaml" => {
            Some(("this file is another tool's", "keep it out: begin its name or its folder's with _ or ."))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_manifest;
    use crate::manifest::{Scopes, read_file};

    #[test]
    fn what_a_tool_renders_from_is_no_manifest_and_nothing_is_wrong_with_it() {
        let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n";
        for (path, text) in [
            ("a/kustomization.yaml", kustomization),
            ("kustomize.yaml", kustomization),
            ("a/kustomization.yml", "resources: [a.yaml]\n"),
            ("a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
            ("values.yaml", "size: 1\n"),
        ] {
            let file = read_file(path, text.as_bytes(), &Scopes::new("default"));
            assert_eq!(
                (file.complaints.len(), file.manifests.len(), file.unreadable),
                (0, 0, false),
                "{path}: {file:?}"
            );
        }
        assert_eq!(read_file("a.yaml", b"size: 1\n", &Scopes::new("default")).complaints.len(), 1);
    }

    #[test]
    fn hidden_files_do_not_count() {
        assert!(is_manifest("a.yaml") && is_manifest("a/b/c.yml") && is_manifest("x.json"));
        for path in ["a.txt", ".a.yaml", "a/_b/c.yaml", "_c.yaml", ".github/workflows/ci.yaml", "yaml", "a.yaml.bak"] {
            assert!(!is_manifest(path), "{path}");
        }
    }
}
