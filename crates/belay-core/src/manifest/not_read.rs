//! Links and submodules in the place of manifests, which are not read.

use super::{Complaint, Place};

/// Something in the place of manifests that belay does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotRead {
    /// A symbolic link with the name of a manifest.
    Link,
    /// A symbolic link to a folder that holds manifests.
    LinkedFolder,
    /// Another repository.
    Submodule,
    /// Something else in the place of a folder that held manifests.
    LostFolder(FolderReplacement),
}

/// The thing that stands in the place of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderReplacement {
    /// A symbolic link.
    Link,
    /// Another repository.
    Submodule,
    /// A file that is no manifest.
    File,
}

impl FolderReplacement {
    /// Returns the predicate of a sentence about the folder.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            FolderReplacement::Link => "has become a symbolic link, and belay does not follow links",
            FolderReplacement::Submodule => "has become a submodule, and belay does not enter other repositories",
            FolderReplacement::File => "has become a file without the ending of a manifest",
        }
    }
}

impl NotRead {
    /// Returns the complaint about it.
    #[must_use]
    pub fn complaint(self, path: &str) -> Complaint {
        let lost;
        let (message, hint) = match self {
            NotRead::Link => {
                ("the file is a symbolic link, and belay does not follow links", "put the manifest itself here")
            }
            NotRead::LinkedFolder => (
                "the folder is a symbolic link, and belay does not follow links",
                "put the manifests themselves here, or follow the folder that it leads to",
            ),
            NotRead::Submodule => (
                "the file is a submodule, and belay does not enter other repositories",
                "follow that repository as a source of its own",
            ),
            NotRead::LostFolder(now) => {
                lost = format!("the folder {}; nothing that was in it is deleted", now.words());
                (lost.as_str(), "put the folder with its manifests back, or delete what is there")
            }
        };
        let place = Place { path: path.into(), line: 1, column: 1 };
        Complaint::of_file(place, message.to_owned(), Some(hint.to_owned()))
    }
}
