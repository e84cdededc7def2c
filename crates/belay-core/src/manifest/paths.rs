//! Which files of a folder are manifests.

/// Whether a file counts, by its path below the folder that is followed.
///
/// Every `.yaml`, `.yml` and `.json` file does, at any depth, but for those whose name, or one of whose folders, begins with
/// `.` or `_`: that is how a file is kept out (`_values/production.yaml`, `.github/workflows/ci.yaml`).
#[must_use]
pub fn is_manifest(path: &str) -> bool {
    let hidden = path.split('/').any(|part| part.starts_with(['.', '_']));
    !hidden && [".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending))
}

/// What is said of a kustomization, and what to do.
pub(super) const KUSTOMIZATION: (&str, &str) = (
    "this is a kustomization, and belay does not render it yet",
    "commit what `kubectl kustomize` prints; keep the rest out as _kustomize/",
);

/// What a file is instead of manifests, where its name says so: a sentence, and what to do.
pub(super) fn other_tool(path: &str) -> Option<(&'static str, &'static str)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "kustomization.yaml" | "kustomization.yml" => Some((KUSTOMIZATION.0, KUSTOMIZATION.1)),
        "Chart.yaml" | "values.yaml" | "values.schema.json" => {
            Some(("belay does not run Helm", "commit what `helm template` prints; keep the chart out as _chart/"))
        }
        "skaffold.yaml" | "devspace.yaml" | "docker-compose.yaml" | "docker-compose.yml" | "compose.yaml" => {
            Some(("this file is another tool's", "keep it out: begin its name or its folder's with _ or ."))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_manifest;

    #[test]
    fn hidden_files_do_not_count() {
        assert!(is_manifest("a.yaml") && is_manifest("a/b/c.yml") && is_manifest("x.json"));
        for path in ["a.txt", ".a.yaml", "a/_b/c.yaml", "_c.yaml", ".github/workflows/ci.yaml", "yaml", "a.yaml.bak"] {
            assert!(!is_manifest(path), "{path}");
        }
    }
}
