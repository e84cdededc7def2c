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
}

impl NotRead {
    /// Returns the complaint about it.
    #[must_use]
    pub fn complaint(self, path: &str) -> Complaint {
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
        };
        let place = Place { path: path.into(), line: 1, column: 1 };
        Complaint::of_file(place, message.to_owned(), Some(hint.to_owned()))
    }
}
