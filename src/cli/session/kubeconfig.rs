//! Kubeconfig files: written so that only their owner may read them, merged as kubectl merges.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use belay_core::manifest::yaml::to_text;
use serde_yaml::{Mapping, Value};

/// Writes a kubeconfig of belay's own.
pub(in crate::cli) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text).with_context(|| format!("failed to write {}", path.display()))
}

/// Puts the clusters, users and contexts of one kubeconfig into a file, in the place of those of the same names, and makes
/// its current context the current one. The rest of the file stays; a file that is no kubeconfig is left alone.
pub(in crate::cli) fn merge(path: &Path, text: &str) -> anyhow::Result<()> {
    let present = match std::fs::read_to_string(path) {
        Ok(present) => present,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
    };
    if present.trim().is_empty() {
        return write(path, text);
    }
    let merged = merged(&present, text).with_context(|| format!("failed to merge into {}", path.display()))?;
    write(path, &merged)
}

fn merged(present: &str, text: &str) -> anyhow::Result<String> {
    let mut present: Value = serde_yaml::from_str(present).context("it is not YAML")?;
    let ours: Value = serde_yaml::from_str(text)?;
    let (Value::Mapping(into), Value::Mapping(from)) = (&mut present, ours) else { bail!("it is no kubeconfig") };
    if into.get("kind").and_then(Value::as_str).is_some_and(|kind| kind != "Config") {
        bail!("it is no kubeconfig");
    }
    for list in ["clusters", "users", "contexts"] {
        let Some(Value::Sequence(ours)) = from.get(list) else { continue };
        let theirs = into.entry(list.into()).or_insert(Value::Null);
        if theirs.is_null() {
            *theirs = Value::Sequence(Vec::new());
        }
        let Value::Sequence(theirs) = theirs else { bail!("its {list} are no list") };
        for entry in ours {
            let same = theirs.iter().position(|known| known.get("name") == entry.get("name"));
            match same {
                Some(index) => theirs[index] = entry.clone(),
                None => theirs.push(entry.clone()),
            }
        }
    }
    copy("current-context", &from, into);
    for missing in ["apiVersion", "kind"] {
        if !into.contains_key(missing) {
            copy(missing, &from, into);
        }
    }
    Ok(to_text(&present)?)
}

fn copy(key: &str, from: &Mapping, into: &mut Mapping) {
    if let Some(value) = from.get(key) {
        into.insert(key.into(), value.clone());
    }
}

/// Replaces a file in one step: it is the old one or the new one, never half of one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    // A link stays a link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    let private = std::fs::Permissions::from_mode(0o600);
    let mut file = tempfile::Builder::new().prefix(".kubeconfig-").permissions(private).tempfile_in(&folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "apiVersion: v1\nkind: Config\ncurrent-context: belay\nclusters:\n- {name: belay, cluster: {server: \"https://127.0.0.1:1\"}}\nusers:\n- {name: belay, user: {token: new}}\ncontexts:\n- {name: belay, context: {cluster: belay, user: belay}}\n";

    #[test]
    fn others_stay_and_ours_is_replaced() {
        let present = "apiVersion: v1\nkind: Config\npreferences: {colors: true}\ncurrent-context: work\nclusters:\n- {name: work, cluster: {server: x, extra: 1}}\n- {name: belay, cluster: {server: old}}\nusers: null\n";
        let merged: Value = serde_yaml::from_str(&merged(present, OURS).unwrap()).unwrap();
        assert_eq!(merged["preferences"]["colors"], Value::from(true));
        assert_eq!(merged["current-context"], Value::from("belay"));
        assert_eq!(merged["clusters"][0]["cluster"]["extra"], Value::from(1));
        assert_eq!(merged["clusters"][1]["cluster"]["server"], Value::from("https://127.0.0.1:1"));
        assert_eq!(merged["clusters"].as_sequence().unwrap().len(), 2);
        assert_eq!(merged["users"][0]["user"]["token"], Value::from("new"));
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        for text in ["just text", "kind: Pod\n", "a: [", "kind: Config\nclusters: 3\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(merge(&path, OURS).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_new_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config");
        merge(&path, OURS).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), OURS);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
