//! The differences from the reference that are known and accepted, each with its reason.

/// The file that lists them.
pub const DEVIATIONS: &str = "tests/cluster/fidelity/controllers/deviations.txt";
/// The file that lists those that come and go.
pub const SOMETIMES: &str = "tests/cluster/fidelity/controllers/sometimes.txt";

/// One line of the file: `case | combination | part of the difference | reason`. `*` stands for every case or combination.
struct Deviation {
    case: String,
    combination: String,
    part: String,
}

/// All of them.
pub struct Deviations(Vec<Deviation>);

impl Deviations {
    /// Reads the file. A line without a reason is refused.
    pub fn read() -> Deviations {
        Deviations::of(DEVIATIONS, include_str!("deviations.txt"))
    }

    /// Reads those that come and go.
    pub fn sometimes() -> Deviations {
        Deviations::of(SOMETIMES, include_str!("sometimes.txt"))
    }

    fn of(file: &str, text: &str) -> Deviations {
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let read = |line: &str| {
            let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let [case, combination, part, reason] = parts[..] else { panic!("{file}: four parts: {line}") };
            assert!(!reason.is_empty() && !part.is_empty(), "{file}: a difference and a reason: {line}");
            Deviation { case: case.to_owned(), combination: combination.to_owned(), part: part.to_owned() }
        };
        Deviations(lines.map(read).collect())
    }

    /// Returns true when a difference is listed.
    pub fn allow(&self, case: &str, combination: &str, line: &str) -> bool {
        let is = |wanted: &str, there: &str| wanted == "*" || wanted == there;
        self.0
            .iter()
            .any(|one| is(&one.case, case) && is(&one.combination, combination) && line.contains(one.part.as_str()))
    }
}
