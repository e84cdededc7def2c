//! The templates of a chart that its Secrets are made with: those that they include, and those that these include. And the
//! files that its templates read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::report::Showing;
use super::super::secrecy;
use super::template::end_of_literal;
use super::{Certainty, Redaction};

/// Functions that take the name of a template.
const INCLUDING: [&str; 3] = ["include", "template", "block"];
/// Actions that have an end, other than definitions.
const WITH_END: [&str; 3] = ["if", "range", "with"];
/// The number of bytes of a template's name that count: two that are the same until there count as one.
const LONGEST_NAME: usize = 256;
/// The most paths that are told apart. With more, each file counts as read.
const MOST_PATHS: usize = 1000;
/// Functions of `.Files` that take a path or a pattern.
const READING: [&str; 6] = [".Get", ".GetBytes", ".Lines", ".Glob", ".AsConfig", ".AsSecrets"];

/// The templates of a chart.
#[derive(Debug, Default)]
pub struct ChartTemplates {
    texts: Vec<String>,
    /// The named templates (`define`). The same name may be defined again.
    defined: BTreeMap<String, NamedTemplate>,
    /// The templates that Secrets include, and values that are templates.
    included: IncludedTemplates,
    /// The beginnings of the paths that templates read.
    read: BTreeSet<String>,
    /// True when a template reads a path that is not written in it.
    reads_any: bool,
}

#[derive(Debug, Default)]
struct NamedTemplate {
    /// The text, and the part of it.
    places: Vec<(usize, Range<usize>)>,
    included: IncludedTemplates,
}

#[derive(Debug, Default)]
struct IncludedTemplates {
    names: BTreeSet<String>,
    /// True when the name of one is not written, but made.
    any: bool,
}

impl ChartTemplates {
    /// Takes a template.
    pub fn note(&mut self, text: &str) {
        let is_secret = secrecy::of_text(text) != Showing::Everything;
        let number = self.texts.len();
        // The open actions, true for definitions; and of these the name and the beginning.
        let (mut open, mut definitions): (Vec<bool>, Vec<(&str, usize)>) = (Vec::new(), Vec::new());
        for (range, behind) in actions(text) {
            let action = text[range.clone()].trim_start_matches('-').trim();
            self.note_reads(action);
            match definitions.last() {
                Some((name, _)) => self.defined.entry((*name).to_owned()).or_default().included.note(action),
                None if is_secret => self.included.note(action),
                None => {}
            }
            match action.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default() {
                "define" | "block" => {
                    open.push(true);
                    definitions.push((literals(action).next().map_or("", short), behind));
                }
                keyword if WITH_END.contains(&keyword) => open.push(false),
                "end" if open.pop() == Some(true) => {
                    if let Some((name, from)) = definitions.pop() {
                        self.define(name, number, from..range.start);
                    }
                }
                _ => {}
            }
        }
        for (name, from) in definitions {
            self.define(name, number, from..text.len());
        }
        self.texts.push(text.to_owned());
    }

    fn define(&mut self, name: &str, text: usize, part: Range<usize>) {
        self.defined.entry(name.to_owned()).or_default().places.push((text, part));
    }

    /// Takes a chart's values: a template may render a text of them as a template.
    pub fn note_values(&mut self, text: &str) {
        for (range, _) in actions(text) {
            self.included.note(&text[range]);
        }
    }

    fn note_reads(&mut self, action: &str) {
        for (at, found) in action.match_indices(".Files") {
            let behind = &action[at + found.len()..];
            let argument = READING.iter().find_map(|function| behind.strip_prefix(function));
            match argument.map(str::trim_start).filter(|argument| argument.starts_with(['"', '`'])) {
                Some(quoted) if self.read.len() < MOST_PATHS => {
                    let path = unquoted(&quoted[..end_of_literal(quoted)]);
                    let plain = path.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
                    self.read.insert(plain.trim_start_matches("./").to_owned());
                }
                _ => self.reads_any = true,
            }
        }
    }

    /// Returns true when a template may read a file, by its path in its chart.
    #[must_use]
    pub fn may_read(&self, path: &str) -> bool {
        self.reads_any || self.read.iter().any(|beginning| path.starts_with(beginning.as_str()))
    }

    /// Returns the parts of the texts that Secrets include, each once.
    fn parts(&self) -> Vec<(usize, Range<usize>)> {
        let mut any = self.included.any;
        let mut next: Vec<&str> = self.included.names.iter().map(String::as_str).collect();
        let mut reached: BTreeSet<&str> = next.iter().copied().collect();
        while let Some(name) = next.pop() {
            let Some(defined) = self.defined.get(name) else { continue };
            any |= defined.included.any;
            next.extend(defined.included.names.iter().map(String::as_str).filter(|name| reached.insert(name)));
        }
        let found = self.defined.iter().filter(|(name, _)| any || reached.contains(name.as_str()));
        let mut places: Vec<_> = found.flat_map(|(_, defined)| defined.places.iter().cloned()).collect();
        places.sort_by_key(|(text, part)| (*text, part.start, part.end));
        let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
        for (text, part) in places {
            match parts.last_mut().filter(|(last, before)| *last == text && part.start <= before.end) {
                Some((_, before)) => before.end = before.end.max(part.end),
                None => parts.push((text, part)),
            }
        }
        parts
    }
}

impl IncludedTemplates {
    /// Takes the names of an action.
    fn note(&mut self, action: &str) {
        let mut rest = action;
        loop {
            let (before, quoted) = rest.split_at(rest.find(['"', '`']).unwrap_or(rest.len()));
            let end = if quoted.is_empty() { 0 } else { end_of_literal(quoted) };
            let mut words =
                before.split(|c: char| c.is_whitespace() || "()|-".contains(c)).filter(|word| !word.is_empty());
            let last = words.next_back().filter(|word| INCLUDING.contains(word));
            match last {
                Some(_) if !quoted.is_empty() => drop(self.names.insert(short(unquoted(&quoted[..end])).to_owned())),
                last => self.any |= last.is_some(),
            }
            self.any |= words.any(|word| INCLUDING.contains(&word));
            if quoted.is_empty() {
                return;
            }
            rest = &quoted[end..];
        }
    }
}

impl Redaction {
    /// Hides the texts, however short they are, in the templates that a chart's Secrets include.
    pub fn hide_included(&mut self, templates: &ChartTemplates) {
        for (text, part) in templates.parts() {
            let text = templates.texts.get(text).and_then(|text| text.get(part)).unwrap_or_default();
            self.hide_template(text, Certainty::Likely);
        }
    }
}

/// Returns the actions of a template, without their braces, and the places behind them.
fn actions(text: &str) -> impl Iterator<Item = (Range<usize>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at + text[at..].find("{{")? + 2;
        let to = text[from..].find("}}").map_or(text.len(), |end| from + end);
        at = (to + 2).min(text.len());
        Some((from..to, at))
    })
}

/// Returns the quoted texts of an action.
fn literals(action: &str) -> impl Iterator<Item = &str> {
    let mut rest = action;
    std::iter::from_fn(move || {
        let quoted = &rest[rest.find(['"', '`'])?..];
        let end = end_of_literal(quoted);
        rest = &quoted[end..];
        Some(unquoted(&quoted[..end]))
    })
}

/// Returns the beginning of a name that is compared.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

fn unquoted(literal: &str) -> &str {
    literal[1..].trim_end_matches(['"', '`'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELPERS: &str = r#"
{{- define "web.pin" -}}{{ if .a }}{{ default "gEh3" .Values.pin }}{{ else }}4711{{ end }}{{- end }}
{{ define "web.made" }}{{ include "web.pin" . }} {{ printf "%s-%s" "ab" .x | replace "+" "_" }}{{ end }}
{{ define `web.labels` -}}
app: {{ .Chart.Name | trunc 63 | trimSuffix "-" }}
tier: back
{{- end }}
{{ define "web.values" }}zz9{{ end }}
"#;

    /// Returns what is left of the words of a program.
    fn shown(templates: &[&str], values: &str) -> String {
        let mut redaction = Redaction::of("gEh3 4711 ab back zz9 web.pin _ missing");
        let mut noted = ChartTemplates::default();
        templates.iter().for_each(|text| noted.note(text));
        noted.note_values(values);
        redaction.hide_included(&noted);
        redaction.finish(|_| false)
    }

    #[test]
    fn what_secrets_include_is_hidden_however_short_it_is() {
        for (template, values, left) in [
            (
                "kind: Secret\nstringData: {a: {{ include \"web.made\" . }}}\n",
                "",
                "*** *** *** back zz9 web.pin _ missing",
            ),
            (
                "kind: Secret\nstringData: {a: {{- template \"web.pin\" . -}}}\n",
                "",
                "*** *** ab back zz9 web.pin _ missing",
            ),
            // Any of them, where the name is made.
            (
                "kind: Secret\nstringData: {a: {{ include (printf \"web.%s\" .x) . }}}\n",
                "",
                "*** *** *** *** *** web.pin _ missing",
            ),
            (
                "kind: Secret\nstringData: {a: {{ tpl .Values.a . }}}\n",
                "a: '{{ include \"web.values\" . }}'",
                "gEh3 4711 ab back *** web.pin _ missing",
            ),
            (
                "kind: ConfigMap\ndata: {a: {{ include \"web.made\" . }}}\n",
                "",
                "gEh3 4711 ab back zz9 web.pin _ missing",
            ),
        ] {
            for templates in [[template, HELPERS], [HELPERS, template]] {
                assert_eq!(shown(&templates, values), left, "{template}");
            }
        }
    }

    #[test]
    fn a_file_counts_if_a_template_may_read_it() {
        for (template, read) in [
            ("{{ .Files.Get \"notes.md\" }}", true),
            ("{{ (.Files.Glob \"*.md\").AsSecrets }}", true),
            ("{{ .Files.Get .Values.file }}", true),
            ("{{ $files := .Files }}{{ $files.Get \"x\" }}", true),
            ("{{ .Files.Get \"files/a.txt\" }}{{ range .Files.Lines \"b.md\" }}{{ end }}", false),
            ("{{ .Values.Files }}", true),
            ("notes.md", false),
        ] {
            let mut noted = ChartTemplates::default();
            noted.note(template);
            assert_eq!(noted.may_read("notes.md"), read, "{template}");
        }
    }

    /// Definitions within each other, without an end, and that include themselves.
    #[test]
    fn each_part_is_searched_once() {
        let text = "kind: Secret\n".to_owned() + &"{{ block \"a\" . }}{{ include \"a\" . }} word ".repeat(2000);
        let mut noted = ChartTemplates::default();
        noted.note(&text);
        let parts = noted.parts();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].1.end, text.len());
        for text in ["{{", "}}", "{{ define", "{{ define \"", "{{ end }}{{ end }}", "{{ include \"", "{{ .Files.Get `"]
        {
            ChartTemplates::default().note(text);
        }
    }
}
