//! The hint for a folder that a chart or kustomization is in, and of which nothing is read.

use std::path::Path;

use crate::render::KUSTOMIZATIONS;

/// Says why nothing is read of a folder that could be rendered; `None` where it holds no chart and no kustomization.
/// `is_followed_only` says whether a configuration names the folders that are read.
pub(super) fn hint(folder: &Path, is_followed_only: bool) -> Option<String> {
    let kustomizations = KUSTOMIZATIONS.map(|file| (file, "kustomization"));
    let mut rendered = std::iter::once(("Chart.yaml", "Helm chart")).chain(kustomizations);
    let (file, kind) = rendered.find(|(file, _)| folder.join(file).is_file())?;
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let is_library = text.lines().any(|line| {
        line.split_once(':')
            .is_some_and(|(key, value)| key == "type" && value.trim().trim_matches(['"', '\'']) == "library")
    });
    let name = if folder == Path::new(".") { "the folder".to_owned() } else { folder.display().to_string() };
    let why = match (is_library, is_followed_only) {
        (true, _) => "which is a library and renders no objects: check the charts that use it".to_owned(),
        (false, true) => {
            "which the source does not follow: name its folder in `path`, or in [[source.helm]]".to_owned()
        }
        (false, false) => {
            "of which nothing is rendered: a chart that makes objects needs templates/, and .belayignore may leave \
                           it out"
                .to_owned()
        }
    };
    Some(format!("hint: {name} holds a {kind} ({file}), {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_could_be_rendered_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let name = path.display();
        assert_eq!(hint(path, false), None);
        std::fs::write(path.join("kustomization.yaml"), "resources: []\n").unwrap();
        let said = hint(path, true).unwrap();
        let wanted =
            format!("hint: {name} holds a kustomization (kustomization.yaml), which the source does not follow: ");
        assert!(said.starts_with(&wanted), "{said}");
        std::fs::write(path.join("Chart.yaml"), "name: web\nversion: 1.0.0\n").unwrap();
        assert!(
            hint(path, true).unwrap().contains("holds a Helm chart (Chart.yaml), which the source does not follow")
        );
        assert!(hint(path, false).unwrap().contains("of which nothing is rendered"));
        std::fs::write(path.join("Chart.yaml"), "name: web\ntype: \"library\"\n").unwrap();
        assert!(hint(path, false).unwrap().contains("which is a library and renders no objects"));
    }
}
