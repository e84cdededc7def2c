//! Templates that ask the cluster: `lookup` finds nothing if a chart is rendered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::tree::{Node, Tree, below};
use super::unit::{RenderId, Unit};
use belay_core::manifest::Place;
use belay_core::manifest::yaml::decode;

/// The largest template that is searched, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most files and folders of a chart's templates that are searched.
const ENTRIES: usize = 1000;
const FUNCTION: &str = "lookup";
/// The number of charts for which it is kept.
const KEPT: usize = 1000;

/// The places at which charts call `lookup`, by their inputs.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<BTreeMap<RenderId, Option<Place>>>);

impl Lookups {
    /// Returns the first place where a chart does.
    pub(super) fn of<T: Tree>(&self, tree: &T, chart: &Unit) -> Result<Option<Place>, T::Error> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(&chart.id) {
            return Ok(known.clone());
        }
        let found = called(tree, &chart.folder)?;
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.pop_first();
        }
        kept.insert(chart.id, found.clone());
        Ok(found)
    }
}

/// Returns the first place where a chart's own templates call `lookup`.
fn called<T: Tree>(tree: &T, chart: &str) -> Result<Option<Place>, T::Error> {
    let mut next = vec![below(chart, "templates")];
    let mut left = ENTRIES;
    while let Some(folder) = next.pop() {
        for (name, node) in tree.list(&folder)? {
            let Some(fewer) = left.checked_sub(1) else { return Ok(None) };
            left = fewer;
            let path = below(&folder, &name);
            match node {
                Node::Folder(_) => next.push(path),
                Node::File(_) => {
                    let bytes = tree.read(&path, LARGEST)?.unwrap_or_default();
                    if let Some((line, column)) = decode(&bytes).ok().and_then(|text| call_in(&text)) {
                        return Ok(Some(Place { path: path.into(), line, column }));
                    }
                }
                Node::Link | Node::Submodule => {}
            }
        }
    }
    Ok(None)
}

/// Returns the line and the column of the first call in a template.
fn call_in(text: &str) -> Option<(u32, u32)> {
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at + 2) {
        let end = text[start..].find("}}").map_or(text.len(), |length| start + length);
        let action = &text[start..end];
        let is_comment = action.trim_start_matches('-').trim_start().starts_with("/*");
        if let Some(at) = call_in_action(action).filter(|_| !is_comment) {
            let before = &text[..start + at];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let line = before.matches('\n').count() + 1;
            let column = before[line_start..].chars().count() + 1;
            return Some((u32::try_from(line).ok()?, u32::try_from(column).ok()?));
        }
        from = end;
    }
    None
}

/// Returns the place at which the function stands as a word of its own, with an argument.
fn call_in_action(action: &str) -> Option<usize> {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '"' | '-');
    action.match_indices(FUNCTION).map(|(at, _)| at).find(|at| {
        let alone = action[..*at].chars().next_back().is_none_or(|c| !joins(c));
        alone && action[at + FUNCTION.len()..].starts_with(|c: char| c.is_whitespace() || c == '(')
    })
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::*;

    #[test]
    fn a_call_has_its_place() {
        for (text, place) in [
            ("a: 1\nb: {{ (lookup \"v1\" \"Secret\" \"\" \"a\").data }}", Some((2, 8))),
            ("{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace \"ü\" }}", Some((1, 13))),
            ("{{/* lookup \"a\" */}}lookup \"b\"", None),
            ("{{ .Values.lookup }}{{ \"lookup \" }}{{ include \"my-lookup \" . }}{{ relookup 1 }}", None),
            ("{{ .a }}\n{{ lookup", None),
        ] {
            assert_eq!(call_in(text), place, "{text}");
        }
    }

    #[test]
    fn only_the_templates_of_the_chart_itself_count() {
        let mut tree = MemoryTree::default();
        let call = "{{ lookup \"v1\" \"Secret\" \"a\" \"b\" }}";
        tree.file("web/charts/db/templates/a.yaml", call);
        tree.file("web/files/a.yaml", call);
        tree.file("web/templates/a.yaml", "a: 1");
        let Ok(none) = called(&tree, "web");
        assert_eq!(none, None);
        tree.file("web/templates/deep/b.tpl", format!("\n{call}"));
        let Ok(found) = called(&tree, "web");
        assert_eq!(found.unwrap().to_string(), "web/templates/deep/b.tpl:2:4");
    }
}
