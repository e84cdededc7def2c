//! The order of sources.

use super::SourceConfig;
use super::nearest::nearest;

/// Returns the fault of the source that `source` waits for, if there is any: it is not there, or waits for this one.
pub(super) fn wrong_order(source: &SourceConfig, all: &[SourceConfig]) -> Option<String> {
    let named = |name: &str| all.iter().find(|other| other.name == name);
    let after = source.after.as_deref()?;
    if named(after).is_none() {
        let known = all.iter().map(|other| other.name.as_str()).filter(|name| *name != source.name);
        let hint = nearest(after, known).map(|known| format!("; did you mean {known:?}?")).unwrap_or_default();
        return Some(format!("after {after:?} names no source of this file{hint}"));
    }
    let mut way = vec![source.name.as_str()];
    let mut at = source;
    while let Some(next) = at.after.as_deref().and_then(named) {
        way.push(&next.name);
        if next.name == source.name {
            // The circle is said once, of its first member in the file.
            let first = all.iter().find(|member| way.contains(&member.name.as_str()));
            let is_first = first.is_some_and(|first| first.name == source.name);
            return is_first.then(|| format!("it would wait for itself: {}", way.join(" → ")));
        }
        if way.len() > all.len() {
            // It leads into a circle that this source is no part of: that is said of its members.
            return None;
        }
        at = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn read(sources: &[(&str, &str)]) -> Result<(), String> {
        let text: String = sources
            .iter()
            .map(|(name, after)| {
                let after = if after.is_empty() { String::new() } else { format!("after = {after:?}\n") };
                format!("[[source]]\nname = {name:?}\nrepository = \"/srv\"\n{after}")
            })
            .collect();
        Config::parse(&text, "belay.toml").map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_source_waits_for_another_of_the_file() {
        assert_eq!(read(&[("shop", "infra"), ("infra", ""), ("tools", "infra")]), Ok(()));
        let error = read(&[("shop", "infar"), ("infra", "")]).unwrap_err();
        assert_eq!(
            error,
            "belay.toml: source \"shop\": after \"infar\" names no source of this file; did you mean \"infra\"?"
        );
    }

    #[test]
    fn no_source_waits_for_itself() {
        assert!(read(&[("shop", "shop")]).unwrap_err().contains("shop → shop"));
        let error = read(&[("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]).unwrap_err();
        assert_eq!(error, "belay.toml: source \"a\": it would wait for itself: a → b → c → a");
    }
}
