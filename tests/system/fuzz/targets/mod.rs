//! The rules for any bytes at all: one function each, which panics if they are broken.
//!
//! `cargo test` runs them over `fuzz/corpus` and over some mutations of it; `fuzz/` runs them for hours.

mod cluster;
mod configuration;
mod history;
mod live_object;
mod manifests;
mod rendering;
mod request;
mod surface;
mod text;
mod transport;

pub use cluster::api_answer;
pub use configuration::configuration;
pub use history::{commit, tree};
pub use live_object::live_object;
pub use manifests::{manifest_set, yaml};
pub use rendering::{patterns, redaction, rendered, units};
pub use request::request;
pub use surface::{answer, hook, host};
pub use transport::address;

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by the names of their corpora.
pub const ALL: [(&str, Target); 16] = [
    ("yaml", yaml),
    ("manifest_set", manifest_set),
    ("configuration", configuration),
    ("live_object", live_object),
    ("tree", tree),
    ("commit", commit),
    ("request", request),
    ("host", host),
    ("answer", answer),
    ("patterns", patterns),
    ("redaction", redaction),
    ("address", address),
    ("hook", hook),
    ("api_answer", api_answer),
    ("units", units),
    ("rendered", rendered),
];
