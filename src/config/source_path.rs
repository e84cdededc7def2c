//! The folders of a repository that are followed, as people write them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A folder of a repository, or several; in each, `*` stands for any characters of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SourcePath {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl SourcePath {
    /// Returns each of the folders.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let all = match self {
            SourcePath::One(path) => std::slice::from_ref(path),
            SourcePath::Several(paths) => paths,
        };
        all.iter().map(String::as_str)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.iter().next().is_none() {
            return Err("path names no folder: leave it out to follow all of the repository".to_owned());
        }
        for path in self.iter() {
            let names = || path.trim_matches('/').split('/');
            if names().any(|name| name == "..") {
                return Err(format!("path {path:?} leaves the repository"));
            }
            if names().any(|name| name.contains("**")) {
                let instead =
                    "path can't hold `**`: a folder is followed with all that is in it, `*` stands for one name";
                return Err(format!("{instead} ({path:?})"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().collect::<Vec<_>>().join(", "))
    }
}

impl Default for SourcePath {
    fn default() -> SourcePath {
        SourcePath::One(String::new())
    }
}

impl From<String> for SourcePath {
    fn from(path: String) -> SourcePath {
        SourcePath::One(path)
    }
}

impl From<&str> for SourcePath {
    fn from(path: &str) -> SourcePath {
        SourcePath::One(path.to_owned())
    }
}

impl From<Vec<String>> for SourcePath {
    fn from(paths: Vec<String>) -> SourcePath {
        SourcePath::Several(paths)
    }
}

impl<'de> Deserialize<'de> for SourcePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SourcePath, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = SourcePath;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a folder, or a list of folders")
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<SourcePath, E> {
                Ok(path.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SourcePath, A::Error> {
                let mut paths = Vec::new();
                while let Some(path) = list.next_element()? {
                    paths.push(path);
                }
                Ok(SourcePath::Several(paths))
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SourcePath, String> {
        #[derive(Deserialize)]
        struct Only {
            path: SourcePath,
        }
        let only: Only = toml::from_str(&format!("path = {text}")).map_err(|error| error.message().to_owned())?;
        only.path.check().map(|()| only.path)
    }

    #[test]
    fn it_is_one_folder_or_a_list() {
        assert_eq!(read("\"a/b\""), Ok("a/b".into()));
        assert_eq!(read("[\"a\", \"b/*/c\"]"), Ok(vec!["a".to_owned(), "b/*/c".to_owned()].into()));
        assert!(read("7").unwrap_err().contains("a folder, or a list of folders"));
        assert!(read("[7]").is_err());
        for wrong in ["[]", "\"a/../b\"", "[\"a\", \"..\"]", "\"a/**\""] {
            assert!(read(wrong).unwrap_err().starts_with("path "), "{wrong}");
        }
    }
}
