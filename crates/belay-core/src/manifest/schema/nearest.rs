//! The known name that is nearest to a written one.

/// Returns the candidate that was most likely meant: the same but for case, or at most a third of the letters away (and
/// at most three). For several equally near ones, returns the first.
#[must_use]
pub fn nearest<'c>(written: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 100;
    if written.len() > LONGEST {
        return None;
    }
    let lower: Vec<char> = written.to_lowercase().chars().collect();
    let limit = (lower.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &'c str)> = None;
    for candidate in candidates.filter(|candidate| *candidate != written && candidate.len() <= LONGEST) {
        let other: Vec<char> = candidate.to_lowercase().chars().collect();
        if other.len().abs_diff(lower.len()) > limit {
            continue;
        }
        let distance = distance(&lower, &other);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns how many letters must be changed, added, dropped, or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_what_was_meant() {
        let fields = ["image", "imagePullPolicy", "name", "ports", "env", "envFrom"];
        let near = |written| nearest(written, fields.into_iter());
        assert_eq!(near("imagee"), Some("image"));
        assert_eq!(near("Image"), Some("image"));
        assert_eq!(near("iamge"), Some("image"));
        assert_eq!(near("imagepullpolicy"), Some("imagePullPolicy"));
        assert_eq!(near("enviroment"), None);
        assert_eq!(near("port"), Some("ports"));
        assert_eq!(near("x"), None);
    }
}
