//! Limits of size.

/// The limits of one file and of one document. A larger text is a complaint, never a slow or an empty answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a file: 8 MiB. Bundles of definitions that projects publish reach 5.
    pub file_bytes: usize,
    /// Documents in a file: 10,000.
    pub documents: usize,
    /// The number of bytes in a document, with its aliases expanded: 3 MiB, as an API server takes in one request.
    pub document_bytes: usize,
    /// Keys, values and items in a document, aliases expanded: 200,000.
    pub nodes: usize,
    /// The depth to which mappings and lists may be nested, aliases expanded: 100 levels.
    pub depth: usize,
    /// Complaints about one file: 100. One more says how many were left out.
    pub complaints: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 8 << 20,
            documents: 10_000,
            document_bytes: 3 << 20,
            nodes: 200_000,
            depth: 100,
            complaints: 100,
        }
    }
}

/// Returns a size for people: `3 MiB`.
pub(in crate::manifest) fn size(bytes: usize) -> String {
    const MIB: usize = 1 << 20;
    if bytes >= MIB && bytes.is_multiple_of(MIB) { format!("{} MiB", bytes / MIB) } else { format!("{bytes} bytes") }
}
