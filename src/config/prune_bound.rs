//! The meaning of `prune_limit`.

/// The most objects that one commit may delete.
pub(super) enum PruneBound {
    /// A share in percent.
    Part(usize),
    /// As many.
    Number(usize),
}

impl PruneBound {
    /// Reads `10%` or `3`.
    pub(super) fn parse(text: &str) -> Option<PruneBound> {
        let text = text.trim();
        match text.strip_suffix('%') {
            Some(part) => part.trim_end().parse().ok().filter(|part| *part <= 100).map(PruneBound::Part),
            None => text.parse().ok().map(PruneBound::Number),
        }
    }

    /// Returns the most of so many objects. A part is rounded up, so that a small source may lose one.
    pub(super) fn of(&self, objects: usize) -> usize {
        match self {
            PruneBound::Part(part) => (objects * part).div_ceil(100),
            PruneBound::Number(number) => *number,
        }
    }
}
